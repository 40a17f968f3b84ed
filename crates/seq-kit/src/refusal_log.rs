//! Counter of refusals of one kind, with a rate limit on the log lines about them.

use std::sync::Arc;

use metrics::Counter;
use parking_lot::Mutex;

use crate::repeats::Repeats;

/// Counter and rate limit of the log lines about refusals of one kind. Clones share both.
#[derive(Clone)]
pub struct RefusalLog(Arc<Inner>);

struct Inner {
    counter: Counter,
    event: &'static str,
    logged: Mutex<Repeats>,
}

impl RefusalLog {
    /// Creates a log that increments `counter`. `event` is the name of the kind of event that counts these refusals in
    /// the event log of the node.
    #[must_use]
    pub fn new(counter: Counter, event: &'static str) -> RefusalLog {
        RefusalLog(Arc::new(Inner { counter, event, logged: Mutex::default() }))
    }

    /// Creates a log that records nothing.
    #[must_use]
    pub fn none() -> RefusalLog {
        RefusalLog::new(Counter::noop(), "")
    }

    /// Counts a refusal. If it has to be logged, returns the values of the fields `event` and `suppressed` of the log
    /// line: the kind of event, and the number of refusals that were not logged since the last log line.
    #[must_use]
    pub fn count(&self) -> Option<(&'static str, u64)> {
        self.0.counter.increment(1);
        let suppressed = self.0.logged.lock().admit()?;
        Some((self.0.event, suppressed))
    }
}
