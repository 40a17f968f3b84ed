//! Why a call or a connection did not work, with what is needed to decide what to do next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seq_core::limits::MAX_COUNT;
use tonic::{Code, Status};

/// Why a call, or one item of a batch, was not answered. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No set that the seeds know holds the uid. Nothing was sent.
    #[error("uid {uid} is outside every known set")]
    UidOutside {
        /// The uid asked for.
        uid: u64,
    },
    /// A count of nothing, or of more than one item may take. Nothing was sent.
    #[error("uid {uid}: count {count} is not in 1..={MAX_COUNT}")]
    CountOutOfRange {
        /// The uid asked for.
        uid: u64,
        /// The count asked for.
        count: u32,
    },
    /// A server refused, and repeating did not help or would not.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// No connection carried the call to an answer.
    #[error(transparent)]
    Unreachable(Arc<Unreachable>),
    /// The deadline passed before an answer came.
    #[error("no answer before the deadline, after {attempts} attempts")]
    DeadlineExceeded {
        /// How often the call was sent.
        attempts: u32,
        /// Whether numbers may have been consumed.
        may_have_applied: bool,
    },
    /// A server answered something that is not an answer to this call; it speaks another protocol or is broken.
    #[error("{addr} sent a bad answer: {what}")]
    BadAnswer {
        /// Who answered.
        addr: Arc<str>,
        /// What was wrong with it.
        what: &'static str,
    },
}

/// A server's refusal. It moved no counter, unless [`CallError::may_have_applied`] says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("uid {uid}: {message}")]
pub struct Refused {
    /// The uid asked for.
    pub uid: u64,
    /// The gRPC code.
    pub code: Code,
    /// The reason in capitals, as `UNSERVED`; empty when the refusal is not the sequence service's own.
    pub reason: String,
    /// What was wrong, for people.
    pub message: String,
    /// When the server expects that calling again can succeed; `None` where it says that it cannot.
    pub retry_after: Option<Duration>,
    /// How often the item was sent.
    pub attempts: u32,
    /// Whether numbers may have been consumed, by this attempt or an earlier one.
    pub may_have_applied: bool,
}

/// The connection failed under the call, the last time it was tried.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the call to {addr} failed after {attempts} attempts")]
pub struct Unreachable {
    /// The address tried last.
    pub addr: Arc<str>,
    /// How often the call was sent, or a dial for it failed.
    pub attempts: u32,
    /// Whether numbers may have been consumed.
    pub may_have_applied: bool,
    /// What the connection said.
    pub source: Status,
}

impl CallError {
    /// Whether the same call can succeed later. Repeating it never yields a duplicate; where
    /// [`CallError::may_have_applied`], it can leave a gap.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } | CallError::BadAnswer { .. } => false,
            CallError::Refused(refused) => refused.is_retryable(),
            CallError::Unreachable(_) | CallError::DeadlineExceeded { .. } => true,
        }
    }

    /// Whether numbers may have been consumed although none was answered.
    #[must_use]
    pub fn may_have_applied(&self) -> bool {
        match self {
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } => false,
            CallError::Refused(refused) => refused.may_have_applied,
            CallError::Unreachable(unreachable) => unreachable.may_have_applied,
            CallError::DeadlineExceeded { may_have_applied, .. } => *may_have_applied,
            CallError::BadAnswer { .. } => true,
        }
    }

    /// The same error after an earlier attempt that may have consumed numbers.
    pub(crate) fn having_applied(mut self) -> CallError {
        match &mut self {
            CallError::Refused(refused) => refused.may_have_applied = true,
            CallError::Unreachable(unreachable) => Arc::make_mut(unreachable).may_have_applied = true,
            CallError::DeadlineExceeded { may_have_applied, .. } => *may_have_applied = true,
            CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } | CallError::BadAnswer { .. } => {}
        }
        self
    }

    /// Whether nobody answered: neither numbers nor a refusal.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, CallError::Unreachable(_) | CallError::DeadlineExceeded { .. } | CallError::BadAnswer { .. })
    }
}

impl Refused {
    /// Whether the same call can succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retry_after.is_some() || self.code == Code::Unavailable
    }
}

/// Why a client could not be made.
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
        /// How many were given.
        seeds: usize,
    },
    /// No seed could be asked.
    #[error("no seed answered; {addr} failed last")]
    Unreachable {
        /// One of the seeds.
        addr: Arc<str>,
        /// Why it could not be asked.
        source: Status,
    },
    /// Seeds answered, but before the deadline none had routes: their set is starting.
    #[error("{addr} answers, but has no routes yet")]
    NoRoutes {
        /// One of the seeds.
        addr: Arc<str>,
    },
    /// A seed's routes make no sense.
    #[error("the routes of {addr} are bad")]
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

/// Why a route table was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutesError {
    /// The message is not a route table.
    #[error(transparent)]
    Bad(#[from] seq_proto::convert::RoutesError),
    /// It is the newer part of a table of which the older part is not known here.
    #[error("the routes of set {set:?} build on a version that is not known here")]
    Mismatch {
        /// The set it names.
        set: String,
    },
    /// Two sets claim the same uids.
    #[error("set {set:?} with uids {}..{} overlaps set {other:?} with uids {}..{}", uids.start, uids.end, other_uids.start, other_uids.end)]
    Overlap {
        /// The set it names.
        set: String,
        /// That set's uids.
        uids: Range<u64>,
        /// The set known before.
        other: String,
        /// The known set's uids.
        other_uids: Range<u64>,
    },
    /// More sets than a client holds.
    #[error("set {set:?} is one more than the {} a client holds", crate::directory::MAX_SETS)]
    TooManySets {
        /// The set it names.
        set: String,
    },
}
