//! The report of a run: the last events for people, counts of situations, and the first broken promise.
//!
//! Everything runs on one thread, so the report is shared without locks. Events also go to the trace, so a seed must
//! repeat them, too.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Events kept for the report of a failure: the last seconds of a run, which fill a few screens.
const KEPT: usize = 120;

/// The report of one run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Report(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    now: Cell<Duration>,
    events: RefCell<VecDeque<String>>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
    violation: RefCell<Option<String>>,
    leader: RefCell<Option<String>>,
    is_over: Cell<bool>,
    is_healed: Cell<bool>,
}

impl Report {
    /// Returns the simulated time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        turmoil::sim_elapsed().unwrap_or_else(|| self.0.now.get())
    }

    /// Sets the time for events outside of all hosts.
    pub(crate) fn set_now(&self, now: Duration) {
        self.0.now.set(now);
    }

    /// Notes an event.
    pub fn note(&self, event: impl fmt::Display) {
        let line = format!("{:9.3} s  {event}", self.now().as_secs_f64());
        tracing::info!(target: "seq_turmoil", "{line}");
        let mut events = self.0.events.borrow_mut();
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(line);
    }

    /// Counts a situation.
    pub fn count(&self, situation: &'static str) {
        self.add(situation, 1);
    }

    /// Counts a situation that happened several times.
    pub fn add(&self, situation: &'static str, times: u64) {
        if times > 0 {
            *self.0.counts.borrow_mut().entry(situation).or_default() += times;
        }
    }

    /// Returns how often each situation happened.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.counts.borrow().clone()
    }

    /// Returns how often a situation happened.
    #[must_use]
    pub fn times(&self, situation: &str) -> u64 {
        self.0.counts.borrow().get(situation).copied().unwrap_or(0)
    }

    /// Notes a broken promise. The run ends with the first violation.
    pub fn violation(&self, what: impl fmt::Display) {
        self.note(format_args!("VIOLATION: {what}"));
        self.0.violation.borrow_mut().get_or_insert_with(|| what.to_string());
    }

    /// Returns the first broken promise.
    #[must_use]
    pub fn first_violation(&self) -> Option<String> {
        self.0.violation.borrow().clone()
    }

    /// Returns the last events, starting with the oldest.
    #[must_use]
    pub fn last_events(&self) -> String {
        self.0.events.borrow().iter().map(|line| format!("{line}\n")).collect()
    }

    /// Notes that a member of the store began to lead.
    pub fn leads(&self, name: &str) {
        self.note(format_args!("{name} leads"));
        self.count("elections");
        *self.0.leader.borrow_mut() = Some(name.to_owned());
    }

    /// Returns the member that most recently began to lead.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.0.leader.borrow().clone()
    }

    /// Marks the end of faults.
    pub(crate) fn heal(&self) {
        self.0.is_healed.set(true);
    }

    /// Returns whether everything must work from now on.
    #[must_use]
    pub fn is_healed(&self) -> bool {
        self.0.is_healed.get()
    }

    /// Requests the clients to end.
    pub(crate) fn end(&self) {
        self.0.is_over.set(true);
    }

    /// Returns whether clients should end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_over.get()
    }
}
