//! The reply of an endpoint for one uid. It is either a number, or a failure with its reason and with the count of
//! attempts that may have consumed numbers.

use std::collections::BTreeMap;
use std::rc::Rc;

use seq_core::Seq;
use seq_order::Outcome;

/// The reply for one uid.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A number was allocated.
    Given {
        /// The number.
        value: Seq,
        /// The number allocated for the uid before this number; 0 if the owner does not know it.
        prev: Seq,
        /// Number of earlier attempts of the same call that may have advanced the counter.
        lost: u32,
    },
    /// No number was allocated, or a number was allocated and its response was lost.
    Failed(Rc<Failure>),
}

/// The reason why a reply has no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason in capitals, from the server or the SDK.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Whether a retry can succeed.
    pub retryable: bool,
    /// Number of attempts without a response that may have advanced the counter.
    pub lost: u32,
}

impl Reply {
    /// Returns the outcome for the order checker.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Reply::Given { value, prev, lost } => {
                Outcome::Given { value: value.0, prev: prev.0, count: 1, lost: *lost }
            }
            Reply::Failed(failure) if failure.lost == 0 => Outcome::Refused,
            Reply::Failed(failure) => Outcome::Maybe { lost: failure.lost },
        }
    }
}

/// Failed items by reason.
pub type Reasons = BTreeMap<String, u64>;

/// Counts the failed items among `replies` by reason.
pub fn count_failures(reasons: &mut Reasons, replies: &[Reply]) {
    for reply in replies {
        if let Reply::Failed(failure) = reply {
            match reasons.get_mut(&failure.reason) {
                Some(count) => *count += 1,
                None => _ = reasons.insert(failure.reason.clone(), 1),
            }
        }
    }
}
