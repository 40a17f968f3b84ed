//! What is held against a world: the order checker of `seq-order`, and an outside look that no real cluster allows.
//!
//! **Invariant:** a number is compared with the committed ceiling and with all numbers ever taken at the moment it is taken,
//! whether or not its answer arrives anywhere.

use std::collections::BTreeMap;
use std::time::Duration;

use seq_order::{CallId, Checker, Outcome, Reading, User};

use crate::faults::Weather;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub promise: &'static str,
    /// How.
    pub text: String,
    /// When, in the world's time.
    pub at: Duration,
}

/// The history of a world.
#[derive(Debug)]
pub(crate) struct Check {
    weather: Weather,
    checker: Checker,
    /// Runs of numbers taken, for each uid: first to last.
    taken: Vec<BTreeMap<u64, u64>>,
    /// The first promise that was broken.
    pub(crate) violation: Option<Violation>,
}

impl Check {
    pub(crate) fn new(weather: Weather, uids: usize) -> Check {
        let mut checker = Checker::new(uids);
        if weather == Weather::Calm {
            checker.seamless();
        }
        Check { weather, checker, taken: vec![BTreeMap::new(); uids], violation: None }
    }

    /// Notes a broken promise; the first one counts.
    pub(crate) fn broken(&mut self, now: u64, promise: &'static str, text: String) {
        self.violation.get_or_insert(Violation { promise, text, at: Duration::from_nanos(now) });
    }

    /// Numbers were taken from a section in some process' memory.
    pub(crate) fn taken(&mut self, now: u64, uid: u64, first: u64, last: u64, ceiling: u64) {
        if last > ceiling {
            self.broken(now, "ceiling", format!("uid {uid} was given {first}..={last} above the ceiling {ceiling}"));
        }
        let runs = &mut self.taken[uid as usize];
        // Of disjoint runs the last one that begins at or before `last` is the only one that may reach `first`.
        if let Some((from, to)) = runs.range(..=last).next_back()
            && *to >= first
        {
            let text = format!("uid {uid} was given {first}..={last}, and {from}..={to} before");
            return self.broken(now, "unique", text);
        }
        // Joined with the run before, so that a quiet history stays short.
        match runs.range_mut(..first).next_back().filter(|(_, to)| **to + 1 == first) {
            Some((_, to)) => *to = last,
            None => {
                runs.insert(first, last);
            }
        }
    }

    pub(crate) fn start(&mut self, now: u64, uid: u64) -> CallId {
        self.checker.start(Duration::from_nanos(now), [User(uid as u32)])
    }

    pub(crate) fn end(&mut self, id: CallId, now: u64, outcome: Outcome) {
        if self.weather == Weather::Calm && !matches!(outcome, Outcome::Given { .. }) {
            self.broken(now, "nobody is refused", format!("a call ended with {outcome:?}"));
        }
        self.checker.end(id, Duration::from_nanos(now), [outcome]);
        self.judge(now);
    }

    pub(crate) fn end_read(&mut self, id: CallId, now: u64, reading: Reading) {
        if self.weather == Weather::Calm && reading == Reading::Failed {
            self.broken(now, "nobody is refused", "a read failed".to_owned());
        }
        self.checker.end_read(id, Duration::from_nanos(now), [reading]);
        self.judge(now);
    }

    fn judge(&mut self, now: u64) {
        // What the order promises rests on clocks; what does not is watched where the numbers are taken.
        if self.weather != Weather::Wild
            && let Some(fault) = self.checker.details().first().copied()
        {
            self.broken(now, "order", format!("{fault:?}"));
        }
    }
}
