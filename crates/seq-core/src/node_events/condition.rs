//! A condition of a process that may be lost and regained.

use super::NANOS_PER_MS;

/// State of a condition. Only the loss of a condition that held is a change, because a process that starts has neither
/// a lease nor a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The condition has not held since the start of the process.
    Unknown,
    /// The condition holds.
    Holds,
    /// The condition was lost.
    Lost {
        /// The boot clock at the loss, in nanoseconds.
        since: u64,
    },
}

/// A change of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The condition was lost.
    Lost,
    /// The condition holds again.
    Regained {
        /// Time for which the condition was lost, in milliseconds.
        lasted_ms: u64,
    },
}

impl Condition {
    /// Adopts whether the condition holds at the time `boottime`. Returns the change, if there is any.
    pub(super) fn note(&mut self, holds: bool, boottime: u64) -> Option<Change> {
        let (next, change) = match (*self, holds) {
            (Condition::Unknown, true) => (Condition::Holds, None),
            (Condition::Holds, false) => (Condition::Lost { since: boottime }, Some(Change::Lost)),
            (Condition::Lost { since }, true) => {
                let lasted_ms = boottime.saturating_sub(since) / NANOS_PER_MS;
                (Condition::Holds, Some(Change::Regained { lasted_ms }))
            }
            (same, _) => (same, None),
        };
        *self = next;
        change
    }
}
