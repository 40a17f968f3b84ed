//! Errors of calls, and errors of connecting a client. They state what a caller needs to know to decide about a retry.

use std::sync::Arc;
use std::time::Duration;

use seq_core::limits::MAX_COUNT;
use seq_proto::{Reason, status};
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
    /// A server refused the request. The client's retries were refused too, or a retry would have been useless.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// No node of the section's set could be reached, either by this client or by a node that forwarded the request.
    /// Calls for sections of other sets are unaffected.
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
    /// A server sent a response that does not match the request, because the server implements another protocol or has
    /// a bug.
    #[error("{addr} sent an invalid response: {what}")]
    BadAnswer {
        /// The server's address.
        addr: Arc<str>,
        /// Description of the mismatch.
        what: &'static str,
    },
}

/// A server's refusal of a request or an item. The refused request or item changed no counter, unless
/// [`CallError::may_have_applied`] returns `true`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", of(*.uid))]
pub struct Refused {
    /// The requested uid; `None` for a request for ids.
    pub uid: Option<u64>,
    /// The gRPC code.
    pub code: Code,
    /// The reason of the refusal in capitals, e.g. `UNSERVED`; empty if the refusal does not come from the sequence
    /// service itself.
    pub reason: String,
    /// Description of the refusal for humans. If a request for ids was refused, the description names the series.
    pub message: String,
    /// Time after which the server expects a retry to succeed; `None` if the refusal is permanent, or if the deadline
    /// has passed.
    pub retry_after: Option<Duration>,
    /// Highest number to which an advance may raise the uid at present, if the reason is `ADVANCE_TOO_FAR`; otherwise
    /// `None`.
    pub bound: Option<u64>,
    /// Number of times that the item was sent.
    pub attempts: u32,
    /// Whether the refused attempt or an earlier attempt of the call may have consumed numbers.
    pub may_have_applied: bool,
}

/// Returns the beginning of a message about a uid.
fn of(uid: Option<u64>) -> String {
    uid.map(|uid| format!("uid {uid}: ")).unwrap_or_default()
}

/// Failure to reach any node of a section's set. The failure occurred in this client or in a node that forwarded the
/// request. The cluster has other sets.
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
    /// itself could not connect to the set.
    pub retry_after: Option<Duration>,
    /// Number of attempts to send the item, including attempts that failed because no connection was made.
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
    /// Number of attempts to send the request, including attempts that failed because no connection was made.
    pub attempts: u32,
    /// Whether numbers may have been consumed.
    pub may_have_applied: bool,
    /// Error of the connection.
    pub source: Status,
}

/// Descriptions of responses whose numbers or ids are not in order.
pub(crate) const NUMBERS_OUT_OF_ORDER: &str = "numbers that do not follow each other";
pub(crate) const IDS_OUT_OF_ORDER: &str = "runs that are no ascending ids";

impl CallError {
    /// Returns whether a server responded with numbers or ids that are not above the numbers or ids before them. A
    /// sound server never does.
    #[must_use]
    pub fn is_out_of_order(&self) -> bool {
        matches!(self, CallError::BadAnswer { what: NUMBERS_OUT_OF_ORDER | IDS_OUT_OF_ORDER, .. })
    }

    /// Returns whether the same call may succeed later. A retry never returns a number that was returned before. If
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

    /// Returns this error, marked so that [`CallError::may_have_applied`] returns `true`, because of an earlier
    /// attempt.
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

    /// Returns the time after which the server expects a retry to succeed; `None` if the server stated no such time.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Refused(refused) => refused.retry_after,
            CallError::SetUnavailable(unavailable) => unavailable.retry_after,
            _ => None,
        }
    }

    /// Returns whether the call got no valid response, that is, neither numbers nor a refusal.
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
    /// There are more seeds than a client can have.
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
    /// Seeds responded, but none of them had routes before the deadline, because the seeds' sets were still starting.
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
    /// Returns whether connecting can succeed later with the same seeds. It cannot if a seed refused the client for a
    /// permanent reason, e.g. because no tenant has its token.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            ConnectError::Unreachable { source, .. } => {
                let refused = status::reason(source).and_then(|reason| Reason::parse(&reason));
                refused.is_none_or(|reason| reason.retry().after().is_some())
            }
            ConnectError::NoRoutes { .. } => true,
            ConnectError::NoSeeds
            | ConnectError::BadUrl { .. }
            | ConnectError::TooManySeeds { .. }
            | ConnectError::BadRoutes { .. } => false,
        }
    }
}
