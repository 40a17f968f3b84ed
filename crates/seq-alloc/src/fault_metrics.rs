//! Metrics about faults of one allocator: violations of the order of numbers, and times for which sections were served
//! by no node.

use std::time::Duration;

use metrics::Histogram;
use seq_api::metrics::section_unserved;
use seq_api::node_events::NodeEvents;
use seq_api::order_violations::{OrderViolation, OrderViolations};

pub(crate) struct FaultMetrics {
    /// Violations of the order that this node finds.
    pub(crate) order: OrderViolations,
    unserved_in_handover: Histogram,
    unserved_without_lease: Histogram,
}

impl FaultMetrics {
    pub(crate) fn new(set: &str, node: &str, events: &NodeEvents) -> FaultMetrics {
        FaultMetrics {
            order: OrderViolations::new(node, events, OrderViolation::ALL),
            unserved_in_handover: section_unserved(set, "handover"),
            unserved_without_lease: section_unserved(set, "lease"),
        }
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
