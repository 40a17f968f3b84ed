//! Errors of calls and of connecting, with the facts that a caller needs to decide about a retry.

use std::sync::Arc;
use std::time::Duration;

use seq_core::limits::MAX_COUNT;
use tonic::{Code, Status};

use crate::directory::RoutesError;

/// Error of a call, or of one item of a batch. It is cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The uid is in no set that the seeds know, so no request was sent.
    #[error("uid {uid} is outside every known set")]
    UidOutside {
        /// The requested uid.
        uid: u64,
    },
    /// The count is 0 or above the limit of an item. No request was sent.
    #[error("{}count {count} is not in 1..={MAX_COUNT}", of(*.uid))]
    CountOutOfRange {
        /// The requested uid; `None` for a request for ids.
        uid: Option<u64>,
        /// The requested count.
        count: u32,
    },
    /// A server refused the request. Retries failed too, or would have been useless.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// No node of the section's set could be reached by this client, or by a node that forwarded the request. Calls for
    /// sections of other sets are unaffected.
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
    /// A server sent a response that does not match the request, because it implements another protocol or has a bug.
    #[error("{addr} sent an invalid response: {what}")]
    BadAnswer {
        /// The server's address.
        addr: Arc<str>,
        /// Description of the mismatch.
        what: &'static str,
    },
}

/// A server's refusal. It changed no counter, unless [`CallError::may_have_applied`] returns `true`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", of(*.uid))]
pub struct Refused {
    /// The requested uid; `None` for a request for ids.
    pub uid: Option<u64>,
    /// The gRPC code.
    pub code: Code,
    /// The reason in capitals, e.g. `UNSERVED`; empty if the refusal does not come from the sequence service itself.
    pub reason: String,
    /// Description for humans. If a request for ids was refused, it names the series.
    pub message: String,
    /// Time after which the server expects a retry to succeed; `None` if the refusal is permanent, or if the deadline
    /// has passed.
    pub retry_after: Option<Duration>,
    /// Highest number to which an advance may raise the uid at present; `None` unless the reason is `ADVANCE_TOO_FAR`.
    pub bound: Option<u64>,
    /// Number of times that the item was sent.
    pub attempts: u32,
    /// Whether this attempt or an earlier one may have consumed numbers.
    pub may_have_applied: bool,
}

/// Returns the beginning of a message about a uid.
fn of(uid: Option<u64>) -> String {
    uid.map(|uid| format!("uid {uid}: ")).unwrap_or_default()
}

/// Failure to reach any node of a set, by this client or by a node that forwarded the request. The cluster has other
/// sets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}the section is in set {}, of which no node can be reached", of(*.uid), self.shown())]
pub struct SetUnavailable {
    /// The requested uid; `None` for a request for ids.
    pub uid: Option<u64>,
    /// Id of the set; 0 if the server did not state it.
    pub set: u64,
    /// Name of the set; empty if unknown.
    pub name: String,
    /// Time after which a retry may succeed, as stated by the node that forwarded the request; `None` if this client
    /// itself could not connect.
    pub retry_after: Option<Duration>,
    /// Number of times that the item was sent, or that connecting to send it failed.
    pub attempts: u32,
    /// Whether numbers may have been consumed.
    pub may_have_applied: bool,
}

/// Failure of the connection of a call's last attempt.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call to {addr} failed after {attempts} attempts")]
pub struct Unreachable {
    /// Address of the last attempt.
    pub addr: Arc<str>,
    /// Number of times that the request was sent, or that connecting to send it failed.
    pub attempts: u32,
    /// Whether numbers may have been consumed.
    pub may_have_applied: bool,
    /// Error of the connection.
    pub source: Status,
}

impl CallError {
    /// Returns whether the same call may succeed later. A retry never yields a duplicate. If
    /// [`CallError::may_have_applied`] returns `true`, a retry can skip numbers.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } | CallError::BadAnswer { .. } => false,
            CallError::Refused(refused) => refused.is_retryable(),
            CallError::SetUnavailable(_) | CallError::Unreachable(_) | CallError::DeadlineExceeded { .. } => true,
        }
    }

    /// Returns whether numbers may have been consumed although none was returned.
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

    /// Returns the same error, marked so that it also reports an earlier attempt that may have consumed numbers.
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

    /// Returns the time after which the server expects a retry to succeed; `None` if the server stated none.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Refused(refused) => refused.retry_after,
            CallError::SetUnavailable(unavailable) => unavailable.retry_after,
            _ => None,
        }
    }

    /// Returns whether there was no valid response, that is, neither numbers nor a refusal.
    pub(crate) fn is_unanswered(&self) -> bool {
        let is_refusal = matches!(self, CallError::SetUnavailable(unavailable) if unavailable.retry_after.is_some());
        let is_unreachable = matches!(self, CallError::Unreachable(_) | CallError::SetUnavailable(_)) && !is_refusal;
        is_unreachable || matches!(self, CallError::DeadlineExceeded { .. } | CallError::BadAnswer { .. })
    }
}

impl SetUnavailable {
    /// Returns the set's name, or its id if the name is unknown.
    fn shown(&self) -> String {
        if self.name.is_empty() { self.set.to_string() } else { format!("{:?}", self.name) }
    }
}

impl Refused {
    /// Returns whether the same call can succeed later.
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
    /// A seed is not a node's URL.
    #[error("{url:?} is not the URL of a node: {what}")]
    BadUrl {
        /// The seed as given.
        url: String,
        /// Description of the fault.
        what: &'static str,
    },
    /// There are more seeds than the client can hold connections for.
    #[error("{seeds} seeds are more than a client can hold")]
    TooManySeeds {
        /// Number of seeds given.
        seeds: usize,
    },
    /// No seed could be reached.
    #[error("no seed answered; {addr} failed last")]
    Unreachable {
        /// Address of one of the seeds.
        addr: Arc<str>,
        /// Error of the request to that seed.
        source: Status,
    },
    /// Seeds responded, but none of them had routes before the deadline, because their set is still starting.
    #[error("{addr} responds, but has no routes yet")]
    NoRoutes {
        /// Address of one of the seeds.
        addr: Arc<str>,
    },
    /// A seed sent invalid routes.
    #[error("the routes of {addr} are invalid")]
    BadRoutes {
        /// Address of the seed.
        addr: Arc<str>,
        /// Error of the routes.
        source: RoutesError,
    },
}

impl ConnectError {
    /// Returns whether connecting can succeed later with the same seeds.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, ConnectError::Unreachable { .. } | ConnectError::NoRoutes { .. })
    }
}
