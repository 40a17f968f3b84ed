//! Violations of the order of numbers that a process finds. Each of them is counted in a metric and in the event log of
//! the node, so that an operator finds it in the list of events as well.

use metrics::Counter;
use seq_core::node_events::Occurrences;

use crate::metrics::ORDER_VIOLATION_TOTAL;
use crate::node_events::NodeEvents;

/// A violation of the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderViolation {
    /// The counter of a uid is lower than at an earlier reading, so numbers may be allocated again.
    Fell,
    /// A number is above the ceiling of its section. The next owner may allocate it again.
    AboveCeiling,
    /// The owner of a section responded with a number that is not above the number before it.
    Response,
}

impl OrderViolation {
    /// All violations, which an AllocSvr looks for.
    pub const ALL: &[OrderViolation] = &[OrderViolation::Fell, OrderViolation::AboveCeiling, OrderViolation::Response];

    /// Returns the value of the metric's label `cause`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OrderViolation::Fell => "fell",
            OrderViolation::AboveCeiling => "above_ceiling",
            OrderViolation::Response => "response",
        }
    }

    /// Returns the occurrences in the event log that count this violation.
    fn occurrences(self) -> Occurrences {
        match self {
            OrderViolation::Fell => Occurrences::CountersFell,
            OrderViolation::AboveCeiling => Occurrences::NumbersAboveCeiling,
            OrderViolation::Response => Occurrences::ResponsesOutOfOrder,
        }
    }
}

/// Counters of the violations that a node finds. Clones share them.
#[derive(Clone)]
pub struct OrderViolations(Vec<(OrderViolation, Counter)>);

impl OrderViolations {
    /// Creates the counters of a node, which are also counted in its `events`. `looked_for` has the violations that the
    /// node looks for: a metric of another one would always be 0, as if there were none.
    #[must_use]
    pub fn new(node: &str, events: &NodeEvents, looked_for: &[OrderViolation]) -> OrderViolations {
        let counter = |violation: &OrderViolation| {
            let metric =
                metrics::counter!(ORDER_VIOLATION_TOTAL, "node" => node.to_owned(), "cause" => violation.name());
            (*violation, events.counted(violation.occurrences(), metric))
        };
        OrderViolations(looked_for.iter().map(counter).collect())
    }

    /// Counts a violation.
    pub fn found(&self, violation: OrderViolation) {
        let counter = self.0.iter().find(|(of, _)| *of == violation);
        debug_assert!(counter.is_some(), "{violation:?} is not looked for");
        counter.into_iter().for_each(|(_, counter)| counter.increment(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_events_of_the_node_with_their_causes() {
        let events = NodeEvents::default();
        let violations = OrderViolations::new("a1", &events, OrderViolation::ALL);
        for violation in [OrderViolation::Fell, OrderViolation::Response, OrderViolation::Response] {
            violations.clone().found(violation);
        }
        let page = events.page(0, 0);
        let found: Vec<_> =
            page.events.iter().map(|event| (event.kind.name(), event.count, event.detail.as_str())).collect();
        assert_eq!(
            found,
            [
                ("order_violated", 1, "the counter of a user fell in the memory of this process"),
                (
                    "order_violated",
                    2,
                    "the owner of a section responded with a number that is not above the one before it"
                ),
            ]
        );
    }
}
