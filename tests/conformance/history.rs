//! The history of all calls of a driver, and its check by the order checker.
//!
//! **Invariant:** the interval of a call contains the call: it begins before the SDK was called, and ends after the SDK
//! returned. All times are those of `CLOCK_MONOTONIC`, which all processes of a machine share, so intervals of the
//! driver and of the runner are comparable. A wider interval makes the check weaker, and never wrong.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use seq_order::{Advancing, CallId, Checker, Tally, User};
use seq_testkit::rows::note;

use crate::call::{Allocation, CallError, Current};

/// Reasons of failed items that a summary has.
const MOST_REASONS: usize = 5;

/// The calls that have ended.
#[derive(Debug, Default)]
pub(crate) struct History {
    calls: Mutex<Vec<Ended>>,
}

/// A call that has ended, with the bounds of its interval in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) call: Call,
}

/// A call with its results.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// A request for numbers: uid and result of each item.
    Next(Vec<(u64, Result<Allocation, CallError>)>),
    /// A read.
    Read(Vec<(u64, Result<Current, CallError>)>),
    /// An advance of a uid to a number.
    Advance(u64, u64, Result<u64, CallError>),
}

/// Figures of the requests for numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) calls: usize,
    /// Items without a number, by reason.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Attempts that the SDK counts as lost, in calls that got numbers.
    pub(crate) lost: u64,
    /// Failed items that may have consumed numbers.
    pub(crate) unknown: u64,
    pub(crate) longest: Duration,
}

impl History {
    pub(crate) fn add(&self, ended: Ended) {
        self.calls.lock().push(ended);
    }

    /// Returns whether each of the uids got a number in a call that began at `since_ns` or later.
    pub(crate) fn served_since(&self, since_ns: u64, uids: &[u64]) -> bool {
        let calls = self.calls.lock();
        let later = calls.iter().rev().filter(|ended| ended.start_ns >= since_ns);
        let mut missing: Vec<u64> = uids.to_vec();
        for ended in later {
            if let Call::Next(items) = &ended.call {
                missing.retain(|uid| !items.iter().any(|(of, result)| of == uid && result.is_ok()));
            }
            if missing.is_empty() {
                break;
            }
        }
        missing.is_empty()
    }

    /// Returns the figures of the requests for numbers that began at `since_ns` or later.
    pub(crate) fn figures_since(&self, since_ns: u64) -> Figures {
        let mut figures = Figures::default();
        for Ended { start_ns, end_ns, call } in self.calls.lock().iter().filter(|ended| ended.start_ns >= since_ns) {
            let Call::Next(items) = call else { continue };
            figures.calls += 1;
            figures.longest = figures.longest.max(Duration::from_nanos(end_ns - start_ns));
            for (_, result) in items {
                match result {
                    Ok(allocation) => figures.lost += u64::from(allocation.lost),
                    Err(error) => {
                        *figures.failed.entry(error.name().to_owned()).or_default() += 1;
                        figures.unknown += u64::from(error.may_have_applied);
                    }
                }
            }
        }
        figures
    }

    /// Returns the figures of all requests for numbers.
    pub(crate) fn figures(&self) -> Figures {
        self.figures_since(0)
    }

    /// Checks the order of all numbers, and prints a summary. If `seamless`, no item may have failed and no number may
    /// be missing.
    pub(crate) fn check(&self, seamless: bool) {
        let calls = self.calls.lock();
        let mut users = Users::default();
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (index, Ended { start_ns, end_ns, call }) in calls.iter().enumerate() {
            assert!(start_ns <= end_ns, "a call ends before its start: {call:?}");
            // Calls that touch overlap, because `false` is before `true`.
            events.extend([(*start_ns, false, index), (*end_ns, true, index)]);
            users.add(call);
        }
        events.sort_unstable();
        let mut checker = Checker::new(users.0.len());
        checker.complete();
        if seamless {
            checker.seamless();
        }
        let mut open: HashMap<usize, CallId> = HashMap::new();
        for (ns, is_end, index) in events {
            let (now, call) = (Duration::from_nanos(ns), &calls[index].call);
            if is_end {
                let id = open.remove(&index).expect("a start is before its end");
                end(&mut checker, id, now, call);
            } else {
                open.insert(index, start(&mut checker, &users, now, call));
            }
        }
        let tally = checker.tally();
        drop(calls);
        self.print(tally);
        let details = (checker.details(), checker.phantoms());
        assert_eq!(tally.violations(), 0, "{tally:?}\n{details:#?}\nof {:?}", users.0);
    }

    fn print(&self, tally: Tally) {
        let Figures { calls, failed, lost, unknown, longest } = self.figures();
        let failed_items: u64 = failed.values().sum();
        let failed: BTreeMap<_, _> = failed.into_iter().take(MOST_REASONS).collect();
        note(format_args!(
            "{} numbers in {calls} calls, {} violations; {failed_items} failed items {failed:?}, {unknown} of them \
             unknown; {lost} lost attempts; longest call {:.3} s",
            tally.allocations,
            tally.violations(),
            longest.as_secs_f64()
        ));
    }
}

/// The index of each uid in the history of the checker.
#[derive(Debug, Default)]
struct Users(BTreeMap<u64, User>);

impl Users {
    fn add(&mut self, call: &Call) {
        let uids: Vec<u64> = match call {
            Call::Next(items) => items.iter().map(|(uid, _)| *uid).collect(),
            Call::Read(items) => items.iter().map(|(uid, _)| *uid).collect(),
            Call::Advance(uid, ..) => vec![*uid],
        };
        for uid in uids {
            let next = User(u32::try_from(self.0.len()).expect("few uids"));
            self.0.entry(uid).or_insert(next);
        }
    }

    fn of(&self, uid: u64) -> User {
        self.0[&uid]
    }
}

fn start(checker: &mut Checker, users: &Users, now: Duration, call: &Call) -> CallId {
    match call {
        Call::Next(items) => checker.start(now, items.iter().map(|(uid, _)| users.of(*uid))),
        Call::Read(items) => checker.start_read(now, items.iter().map(|(uid, _)| users.of(*uid))),
        Call::Advance(uid, to, _) => checker.start_advance(now, users.of(*uid), *to),
    }
}

fn end(checker: &mut Checker, id: CallId, now: Duration, call: &Call) {
    match call {
        Call::Next(items) => checker.end(id, now, items.iter().map(|(_, result)| Allocation::outcome(result))),
        Call::Read(items) => checker.end_read(id, now, items.iter().map(|(_, result)| Current::reading(result))),
        Call::Advance(_, _, result) => {
            let ended = match result {
                Ok(_) => Advancing::Done,
                Err(error) if error.reason == "ALREADY_PAST" && !error.may_have_applied => Advancing::Past,
                Err(_) => Advancing::Failed,
            };
            checker.end_advance(id, now, ended);
        }
    }
}
