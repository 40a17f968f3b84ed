//! The event log of a node, as the parts of its process share it.
//!
//! Reporting a refusal only increments a counter, because strangers cause refusals at any rate. The counts are added to
//! the log by [`NodeEvents::tick`], and before the log is read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, CounterFn};
use seq_core::node_events::{Fact, NodeEventKind, NodeEventLog, Page, Refusals};
use seq_kit::refusal_log::RefusalLog;

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
    /// Refusals that the log does not count yet, in the order of [`Refusals::ALL`].
    refused: [AtomicU64; Refusals::ALL.len()],
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
        NodeEvents(Arc::new(Inner { clock, log, refused: Default::default() }))
    }

    /// Reports a fact about the node. If the fact is an event, returns the name of its kind, for the field `event` of
    /// the log line about the fact.
    pub fn note(&self, fact: Fact<'_>) -> Option<&'static str> {
        self.with(|log, now| log.note(now, fact)).map(NodeEventKind::name)
    }

    /// Reports a refusal. It takes no lock.
    pub fn refused(&self, refusals: Refusals) {
        self.0.refused[refusals.place()].fetch_add(1, Relaxed);
    }

    /// Returns a counter that increments the metric `metric` and reports each increment as a refusal.
    pub fn counted(&self, refusals: Refusals, metric: Counter) -> Counter {
        Counter::from_arc(Arc::new(Counted { events: self.clone(), refusals, metric }))
    }

    /// Returns a log whose log lines have the kind of event of these refusals. It increments the metric `metric` and
    /// reports each increment as a refusal.
    #[must_use]
    pub fn logged(&self, refusals: Refusals, metric: Counter) -> RefusalLog {
        RefusalLog::new(self.counted(refusals, metric), refusals.kind().name())
    }

    /// Reads the clocks, and adds the refusals that were reported since the last call. To be called once a second.
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
        let Inner { clock, log, refused } = &*self.0;
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // The clocks are read under the lock, so that the log sees them in order.
        let now = clock.now();
        log.note(now, Fact::Time);
        for refusals in Refusals::ALL {
            let count = refused[refusals.place()].swap(0, Relaxed);
            log.note(now, Fact::Refused { refusals, count });
        }
        run(&mut log, now)
    }
}

/// A metric whose increments are refusals.
struct Counted {
    events: NodeEvents,
    refusals: Refusals,
    metric: Counter,
}

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.metric.increment(value);
        self.events.0.refused[self.refusals.place()].fetch_add(value, Relaxed);
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
        let denied = events.counted(Refusals::Denied, Counter::noop());
        denied.increment(1);
        denied.clone().increment(2);
        let counts =
            |events: &NodeEvents| -> Vec<u64> { events.page(0, 0).events.iter().map(|event| event.count).collect() };
        assert_eq!(counts(&events), [3], "a reader gets the refusals that no tick has added yet");
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
