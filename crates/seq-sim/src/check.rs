//! The checks of a simulated world. The order checker of `seq-order` checks responses. Further checks compare the
//! memory of all processes and the states of all stores at one instant, which is impossible in a real cluster.
//!
//! **Invariant:** at the moment when a process takes a number in its memory, the number is compared with the committed
//! ceiling and with all numbers taken before. So a number whose response never arrives is checked, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seq_order::{Advancing, CallId, Checker, Outcome, Reading, User};

use crate::faults::Weather;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the promise.
    pub promise: &'static str,
    /// Description of the violation, with its values.
    pub text: String,
    /// Time of the violation, since the world began.
    pub at: Duration,
}

/// The order that is promised for the numbers of a uid or a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A uid.
    OfUid,
    /// A counter of a series, or a lane that the caller names. The numbers are ordered in real time, but numbers may be
    /// skipped.
    OfLane,
    /// A lane that the node chooses. No order is promised over several owners of the lane.
    None,
}

/// A call in the history.
#[derive(Debug)]
pub(crate) enum Flight {
    OfUid(CallId),
    OfLane(CallId),
    Unordered,
}

/// The history of a world.
#[derive(Debug)]
pub(crate) struct Check {
    weather: Weather,
    /// Whether a process may give up and retry a forwarded call even in [`Weather::Calm`], because a migration may move
    /// the call's section while the call is in flight.
    repeats_calmly: bool,
    checker: Checker,
    /// The order checker of lanes. Numbers of lanes follow the clock and so skip numbers, so their history is never
    /// declared seamless.
    lanes: Checker,
    /// The order of each uid and lane.
    orders: Vec<Order>,
    /// The numbers that processes took for each uid and lane, as runs of consecutive numbers. The key of a map is the
    /// first number of a run, and the value is the last number of the run.
    taken: Vec<BTreeMap<u64, u64>>,
    /// For each call in progress, the number of times that a process forwarded the call, then gave up waiting for the
    /// response and retried the call.
    repeats: BTreeMap<u64, u32>,
    /// Calls of which the network has made copies. A caller uses the first response to any copy, which does not count
    /// the lost attempts of the other copies.
    copied: BTreeSet<u64>,
    /// The first promise that was broken.
    pub(crate) violation: Option<Violation>,
}

impl Check {
    pub(crate) fn new(weather: Weather, uids: usize) -> Check {
        let mut checker = Checker::new(uids);
        // All callers of the world are in the history, from the first number on.
        checker.complete();
        if weather == Weather::Calm {
            checker.seamless();
        }
        let taken = vec![BTreeMap::new(); uids];
        let mut lanes = Checker::new(uids);
        lanes.complete();
        Check {
            weather,
            repeats_calmly: false,
            checker,
            lanes,
            orders: vec![Order::OfUid; uids],
            taken,
            repeats: BTreeMap::new(),
            copied: BTreeSet::new(),
            violation: None,
        }
    }

    /// Returns an empty history for a world of several sets. In such a world, a process may give up and retry a
    /// forwarded call even in [`Weather::Calm`], because a section may return to its set soon after it departed.
    pub(crate) fn of_sets(weather: Weather, uids: usize) -> Check {
        let stormy = Check::new(Weather::Stormy, uids);
        Check { weather, repeats_calmly: true, ..stormy }
    }

    /// Sets the order of a lane.
    pub(crate) fn set_order(&mut self, user: u64, order: Order) {
        self.orders[user as usize] = order;
    }

    /// Records a broken promise, unless another promise was broken before.
    pub(crate) fn broken(&mut self, now: u64, promise: &'static str, text: String) {
        self.violation.get_or_insert(Violation { promise, text, at: Duration::from_nanos(now) });
    }

    /// Checks the numbers `first ..= last`, which a process just took for `uid` from a section in its memory. `ceiling`
    /// is the committed ceiling of the section.
    pub(crate) fn taken(&mut self, now: u64, uid: u64, first: u64, last: u64, ceiling: u64) {
        if last > ceiling {
            self.broken(now, "ceiling", format!("uid {uid} was given {first}..={last} above the ceiling {ceiling}"));
        }
        let runs = &mut self.taken[uid as usize];
        // The runs are disjoint. So if any run overlaps the new numbers, the last run that begins at or before `last`
        // does.
        if let Some((from, to)) = runs.range(..=last).next_back()
            && *to >= first
        {
            let text = format!("uid {uid} was given {first}..={last}, and {from}..={to} before");
            return self.broken(now, "unique", text);
        }
        // Adjacent runs are joined, so that a history without gaps stays short.
        match runs.range_mut(..first).next_back().filter(|(_, to)| **to + 1 == first) {
            Some((_, to)) => *to = last,
            None => {
                runs.insert(first, last);
            }
        }
    }

    pub(crate) fn start(&mut self, now: u64, uid: u64) -> Flight {
        let (now, user) = (Duration::from_nanos(now), [User(uid as u32)]);
        match self.orders[uid as usize] {
            Order::OfUid => Flight::OfUid(self.checker.start(now, user)),
            Order::OfLane => Flight::OfLane(self.lanes.start(now, user)),
            Order::None => Flight::Unordered,
        }
    }

    pub(crate) fn start_read(&mut self, now: u64, uid: u64) -> Flight {
        Flight::OfUid(self.checker.start_read(Duration::from_nanos(now), [User(uid as u32)]))
    }

    pub(crate) fn start_advance(&mut self, now: u64, uid: u64, to: u64) -> Flight {
        Flight::OfUid(self.checker.start_advance(Duration::from_nanos(now), User(uid as u32), to))
    }

    /// Returns the largest number of a uid in any response.
    pub(crate) fn largest(&self, uid: u64) -> u64 {
        self.checker.floor(User(uid as u32))
    }

    /// Checks that an advance of `uid`, which a process just made in its memory, is not above the committed ceiling.
    pub(crate) fn advanced(&mut self, now: u64, uid: u64, to: u64, ceiling: u64) {
        if to > ceiling {
            self.broken(now, "ceiling", format!("uid {uid} was advanced to {to} above the ceiling {ceiling}"));
        }
    }

    /// Records that the network doubled a call. The copy counts as an attempt of its own, because it may take numbers
    /// without a response to any caller.
    pub(crate) fn doubled(&mut self, now: u64, uid: u64, call: u64) {
        self.copied.insert(call);
        let copy = self.start(now, uid);
        self.end_quietly(copy, now, Outcome::Maybe { lost: 1 });
    }

    /// Records that a process gave up a call that it had forwarded, and will retry the call. The abandoned attempt may
    /// still take numbers.
    pub(crate) fn repeated(&mut self, call: u64) {
        *self.repeats.entry(call).or_default() += 1;
    }

    /// Returns how many attempts of a call may have taken numbers without a response. `counted` is the number of such
    /// attempts that the response to the call states. The stated number may be too low, because a node that was given
    /// up may itself have retried the call.
    pub(crate) fn lost(&mut self, call: u64, counted: u32) -> u32 {
        let repeats = self.repeats.remove(&call).unwrap_or(0);
        if counted == 0 && !self.copied.contains(&call) { 0 } else { counted.max(repeats) }
    }

    /// Returns how many attempts of a call that got no response may have taken numbers.
    pub(crate) fn lost_unanswered(&mut self, call: u64) -> u32 {
        1 + self.repeats.remove(&call).unwrap_or(0)
    }

    pub(crate) fn end(&mut self, flight: Flight, now: u64, outcome: Outcome) {
        let is_served = |lost: u32| lost == 0 || self.repeats_calmly;
        // A call for ids may be refused even in calm weather, because the node may not know the series yet, or because
        // the lane's counter is ahead of the clock.
        if self.weather == Weather::Calm
            && matches!(flight, Flight::OfUid(_))
            && !matches!(outcome, Outcome::Given { lost, .. } if is_served(lost))
        {
            self.broken(now, "no call is refused or repeated", format!("a call ended with {outcome:?}"));
        }
        self.end_quietly(flight, now, outcome);
        self.judge(now);
    }

    fn end_quietly(&mut self, flight: Flight, now: u64, outcome: Outcome) {
        match flight {
            Flight::OfUid(id) => self.checker.end(id, Duration::from_nanos(now), [outcome]),
            Flight::OfLane(id) => self.lanes.end(id, Duration::from_nanos(now), [outcome]),
            Flight::Unordered => {}
        }
    }

    pub(crate) fn end_read(&mut self, flight: Flight, now: u64, reading: Reading) {
        if self.weather == Weather::Calm && reading == Reading::Failed {
            self.broken(now, "no call is refused or repeated", "a read failed".to_owned());
        }
        let Flight::OfUid(id) = flight else { return };
        self.checker.end_read(id, Duration::from_nanos(now), [reading]);
        self.judge(now);
    }

    pub(crate) fn end_advance(&mut self, flight: Flight, now: u64, ended: Advancing) {
        if self.weather == Weather::Calm && ended == Advancing::Failed {
            self.broken(now, "no call is refused or repeated", "an advance failed".to_owned());
        }
        let Flight::OfUid(id) = flight else { return };
        self.checker.end_advance(id, Duration::from_nanos(now), ended);
        self.judge(now);
    }

    fn judge(&mut self, now: u64) {
        // The promised order depends on clocks, which are wrong in wild weather. The promises that need no clock are
        // checked when a process takes numbers.
        if self.weather != Weather::Wild
            && let Some(fault) = self.checker.details().first().or(self.lanes.details().first()).copied()
        {
            self.broken(now, "order", format!("{fault:?}"));
        }
        if self.weather != Weather::Wild
            && let Some(phantom) = self.checker.phantoms().first().or(self.lanes.phantoms().first())
        {
            let text = format!("{phantom:?}");
            self.broken(now, "named numbers were given out", text);
        }
    }
}
