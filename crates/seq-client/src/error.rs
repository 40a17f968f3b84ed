//! Errors of calls and of connecting, with what a caller needs to decide on a retry.

use std::sync::Arc;
use std::time::Duration;

use seq_core::limits::MAX_COUNT;
use tonic::{Code, Status};

use crate::directory::RoutesError;

/// Error of a call, or of one item of a batch. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The uid is in no set that the seeds know. Nothing was sent.
    #[error("uid {uid} is outside every known set")]
    UidOutside {
        /// The requested uid.
        uid: u64,
    },
    /// The count is 0 or above the limit of an item. Nothing was sent.
    #[error("uid {uid}: count {count} is not in 1..={MAX_COUNT}")]
    CountOutOfRange {
        /// The requested uid.
        uid: u64,
        /// The requested count.
        count: u32,
    },
    /// A server refused the request, and retries failed or would fail as well.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// No node of the set that the section is in could be reached, by this client or by a node that forwarded the
    /// request. Calls for sections of other sets are unaffected.
    #[error(transparent)]
    SetUnavailable(Box<SetUnavailable>),
    /// Every connection failed before a response arrived.
    #[error(transparent)]
    Unreachable(Arc<Unreachable>),
    /// The deadline passed before a response arrived.
    #[error("no response before the deadline, after {attempts} attempts")]
    DeadlineExceeded {
        /// Number of times that the request was sent.
        attempts: u32,
        /// Whether numbers may have been consumed.
        may_have_applied: bool,
    },
    /// A server sent a response that does not match the request; it implements another protocol or has a bug.
    #[error("{addr} sent an invalid response: {what}")]
    BadAnswer {
        /// The server's address.
        addr: Arc<str>,
        /// What is wrong with the response.
        what: &'static str,
    },
}

/// A server's refusal. It moved no counter, unless [`CallError::may_have_applied`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("uid {uid}: {message}")]
pub struct Refused {
    /// The requested uid.
    pub uid: u64,
    /// The gRPC code.
    pub code: Code,
    /// The reason in capitals, as `UNSERVED`; empty when the refusal is not the sequence service's own.
    pub reason: String,
    /// Human-readable description.
    pub message: String,
    /// When the server expects a retry to succeed; `None` for a permanent refusal, and where the deadline is over.
    pub retry_after: Option<Duration>,
    /// Highest number that an advance is accepted to now; `None` unless the reason is `ADVANCE_TOO_FAR`.
    pub bound: Option<u64>,
    /// Number of times that the item was sent.
    pub attempts: u32,
    /// Whether numbers may have been consumed, by this attempt or an earlier one.
    pub may_have_applied: bool,
}

/// No node of one of several sets could be reached, by this client or by a node that forwarded the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("uid {uid}: its section is in set {}, of which no node can be reached", self.shown())]
pub struct SetUnavailable {
    /// The requested uid.
    pub uid: u64,
    /// Id of the set; 0 if the server stated none.
    pub set: u64,
    /// Name of the set; empty if it is not known.
    pub name: String,
    /// When the node that forwarded the request expects a retry to succeed; `None` if this client could not connect.
    pub retry_after: Option<Duration>,
    /// Number of times that the item was sent, or a dial for it failed.
    pub attempts: u32,
    /// Whether numbers may have been consumed.
    pub may_have_applied: bool,
}

/// The last attempt of a call failed in its connection.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call to {addr} failed after {attempts} attempts")]
pub struct Unreachable {
    /// The address tried last.
    pub addr: Arc<str>,
    /// Number of times that the request was sent, or a dial for it failed.
    pub attempts: u32,
    /// Whether numbers may have been consumed.
    pub may_have_applied: bool,
    /// The error of the connection.
    pub source: Status,
}

impl CallError {
    /// Whether the same call can succeed later. A retry never yields a duplicate; with [`CallError::may_have_applied`]
    /// it can leave a gap.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } | CallError::BadAnswer { .. } => false,
            CallError::Refused(refused) => refused.is_retryable(),
            CallError::SetUnavailable(_) | CallError::Unreachable(_) | CallError::DeadlineExceeded { .. } => true,
        }
    }

    /// Whether numbers may have been consumed although none was returned.
    #[must_use]
    pub fn may_have_applied(&self) -> bool {
        match self {
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } => false,
            CallError::Refused(refused) => refused.may_have_applied,
            CallError::SetUnavailable(unavailable) => unavailable.may_have_applied,
            CallError::Unreachable(unreachable) => unreachable.may_have_applied,
            CallError::DeadlineExceeded { may_have_applied, .. } => *may_have_applied,
            CallError::BadAnswer { .. } => true,
        }
    }

    /// The same error after an earlier attempt that may have consumed numbers.
    pub(crate) fn having_applied(mut self) -> CallError {
        match &mut self {
            CallError::Refused(refused) => refused.may_have_applied = true,
            CallError::SetUnavailable(unavailable) => unavailable.may_have_applied = true,
            CallError::Unreachable(unreachable) => Arc::make_mut(unreachable).may_have_applied = true,
            CallError::DeadlineExceeded { may_have_applied, .. } => *may_have_applied = true,
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } | CallError::BadAnswer { .. } => {}
        }
        self
    }

    /// Whether there was no valid response: neither numbers nor a refusal.
    pub(crate) fn is_unanswered(&self) -> bool {
        let is_refusal = matches!(self, CallError::SetUnavailable(unavailable) if unavailable.retry_after.is_some());
        let is_unreachable = matches!(self, CallError::Unreachable(_) | CallError::SetUnavailable(_)) && !is_refusal;
        is_unreachable || matches!(self, CallError::DeadlineExceeded { .. } | CallError::BadAnswer { .. })
    }
}

impl SetUnavailable {
    /// The set's name, or its id where that is all that is known.
    fn shown(&self) -> String {
        if self.name.is_empty() { self.set.to_string() } else { format!("{:?}", self.name) }
    }
}

impl Refused {
    /// Whether the same call can succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retry_after.is_some() || matches!(self.code, Code::Unavailable | Code::DeadlineExceeded)
    }
}

/// Error of connecting a client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No seed was given.
    #[error("no seed was given; name at least one node as http://host:port")]
    NoSeeds,
    /// A seed is not the URL of a node.
    #[error("{url:?} is not the URL of a node: {what}")]
    BadUrl {
        /// The seed as it was given.
        url: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// More seeds than a client has connections for.
    #[error("{seeds} seeds are more than a client can hold")]
    TooManySeeds {
        /// Number of seeds given.
        seeds: usize,
    },
    /// No seed could be reached.
    #[error("no seed answered; {addr} failed last")]
    Unreachable {
        /// One of the seeds.
        addr: Arc<str>,
        /// The error of its request.
        source: Status,
    },
    /// Seeds responded, but none had routes before the deadline: their set is starting.
    #[error("{addr} responds, but has no routes yet")]
    NoRoutes {
        /// One of the seeds.
        addr: Arc<str>,
    },
    /// The routes of a seed are invalid.
    #[error("the routes of {addr} are invalid")]
    BadRoutes {
        /// The seed.
        addr: Arc<str>,
        /// What is wrong with them.
        source: RoutesError,
    },
}

impl ConnectError {
    /// Whether connecting can succeed later with the same seeds.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, ConnectError::Unreachable { .. } | ConnectError::NoRoutes { .. })
    }
}
