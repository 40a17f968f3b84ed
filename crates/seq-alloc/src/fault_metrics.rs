//! Metrics about faults of one allocator: violations of the order of numbers, and times for which sections were served
//! by no node.

use std::time::Duration;

use metrics::{Counter, Histogram};
use seq_api::metrics::{order_violations, section_unserved};

/// Violation of the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// The counter of a uid is lower than at an earlier reading, so numbers may be allocated again.
    Fell,
    /// A number is above the ceiling of its section. The next owner may allocate it again.
    AboveCeiling,
    /// The owner of a section responded with a number that is not above the number before it.
    Response,
}

impl Violation {
    const ALL: [Violation; 3] = [Violation::Fell, Violation::AboveCeiling, Violation::Response];

    /// Returns the value of the label `cause`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Violation::Fell => "fell",
            Violation::AboveCeiling => "above_ceiling",
            Violation::Response => "response",
        }
    }
}

pub(crate) struct FaultMetrics {
    /// In the order of [`Violation::ALL`].
    violations: [Counter; 3],
    unserved_in_handover: Histogram,
    unserved_without_lease: Histogram,
}

impl FaultMetrics {
    pub(crate) fn new(set: &str, node: &str) -> FaultMetrics {
        FaultMetrics {
            violations: Violation::ALL.map(|violation| order_violations(node, violation.name())),
            unserved_in_handover: section_unserved(set, "handover"),
            unserved_without_lease: section_unserved(set, "lease"),
        }
    }

    /// Counts a violation of the order.
    pub(crate) fn violated(&self, violation: Violation) {
        self.violations[violation as usize].increment(1);
    }

    /// Records that a handover inside the set paused its section for `time`.
    pub(crate) fn handed_over(&self, time: Duration) {
        self.unserved_in_handover.record(time);
    }

    /// Records that `sections` owned sections were not served for `time`, because the lease had expired.
    pub(crate) fn without_lease(&self, time: Duration, sections: usize) {
        self.unserved_without_lease.record_many(time, sections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_violation_has_its_own_counter() {
        for (place, violation) in Violation::ALL.into_iter().enumerate() {
            assert_eq!(violation as usize, place, "{violation:?}");
        }
    }
}
