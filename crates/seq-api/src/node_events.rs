//! The event log of a node, as the parts of its process share it.
//!
//! Reporting an occurrence only increments a counter, because strangers cause some occurrences at any rate. The counts
//! are added to the log by [`NodeEvents::tick`], and before the log is read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, CounterFn};
use seq_core::node_events::{Fact, NodeEventLog, Occurrences, Page};

use crate::clock::Clock;

/// Maximum number of events in one page. With this number, a response has at most 128 KiB.
pub const PAGE: usize = 200;

/// The event log of a node. Clones share it. A process with several nodes has a log for each of them.
#[derive(Clone, Debug)]
pub struct NodeEvents(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    log: Mutex<NodeEventLog>,
    /// Occurrences that the log does not count yet, in the order of [`Occurrences::ALL`].
    occurred: [AtomicU64; Occurrences::ALL.len()],
}

impl Default for NodeEvents {
    fn default() -> NodeEvents {
        NodeEvents::new(Clock::System)
    }
}

impl NodeEvents {
    /// Creates an empty log, whose times are those of `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> NodeEvents {
        let log = Mutex::new(NodeEventLog::new(clock.now()));
        NodeEvents(Arc::new(Inner { clock, log, occurred: Default::default() }))
    }

    /// Reports a fact about the node.
    pub fn note(&self, fact: Fact<'_>) {
        self.with(|log, now| log.note(now, fact));
    }

    /// Reports an occurrence. It takes no lock.
    pub fn occurred(&self, what: Occurrences) {
        self.0.occurred[what.place()].fetch_add(1, Relaxed);
    }

    /// Returns a counter that increments the metric `metric` and reports each increment as an occurrence.
    pub fn counted(&self, what: Occurrences, metric: Counter) -> Counter {
        Counter::from_arc(Arc::new(Counted { events: self.clone(), what, metric }))
    }

    /// Reads the clocks, and adds the occurrences that were reported since the last call. To be called once a second.
    pub fn tick(&self) {
        self.note(Fact::Time);
    }

    /// Returns at most `limit` events whose change number is above `after`, and at most [`PAGE`]; with a `limit` of 0,
    /// at most [`PAGE`].
    #[must_use]
    pub fn page(&self, after: u64, limit: u32) -> Page {
        let limit = if limit == 0 { PAGE } else { PAGE.min(limit as usize) };
        self.with(|log, _| log.page(after, limit))
    }

    fn with<T>(&self, run: impl FnOnce(&mut NodeEventLog, seq_core::lease::Clocks) -> T) -> T {
        let Inner { clock, log, occurred } = &*self.0;
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // The clocks are read under the lock, so that the log sees them in order.
        let now = clock.now();
        log.note(now, Fact::Time);
        for what in Occurrences::ALL {
            let count = occurred[what.place()].swap(0, Relaxed);
            log.note(now, Fact::Occurred { what, count });
        }
        run(&mut log, now)
    }
}

/// A metric whose increments are occurrences.
struct Counted {
    events: NodeEvents,
    what: Occurrences,
    metric: Counter,
}

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.metric.increment(value);
        self.events.0.occurred[self.what.place()].fetch_add(value, Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.metric.absolute(value);
    }
}

#[cfg(test)]
mod tests {
    use seq_core::lease::Clocks;

    use super::*;

    /// Returns an event log whose clocks read the seconds in the returned number.
    fn events() -> (NodeEvents, Arc<AtomicU64>) {
        let seconds = Arc::new(AtomicU64::new(1_000));
        let read = seconds.clone();
        let clock = Clock::Other(Arc::new(move || {
            let now = read.load(Relaxed) * 1_000_000_000;
            Clocks { boottime: now, raw: now, realtime: now }
        }));
        (NodeEvents::new(clock), seconds)
    }

    #[test]
    fn increments_of_a_metric_are_counted_in_one_event_a_minute() {
        let (events, seconds) = events();
        let denied = events.counted(Occurrences::Denied, Counter::noop());
        denied.increment(1);
        denied.clone().increment(2);
        let counts =
            |events: &NodeEvents| -> Vec<u64> { events.page(0, 0).events.iter().map(|event| event.count).collect() };
        assert_eq!(counts(&events), [3], "a reader gets the occurrences that no tick has added yet");
        for _ in 0..70 {
            seconds.fetch_add(1, Relaxed);
            denied.increment(1);
            events.tick();
        }
        assert_eq!(counts(&events), [62, 11]);
    }

    #[test]
    fn pages_are_bounded() {
        let (events, _) = events();
        for _ in 0..300 {
            events.clone().note(Fact::Reloaded { changes: "log.filter" });
        }
        let sizes = [0, 7, 1_000].map(|limit| events.page(0, limit).events.len());
        assert_eq!(sizes, [PAGE, 7, PAGE]);
        assert!(events.page(0, 0).more);
    }
}
