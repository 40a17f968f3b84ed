//! Checks the order promise over a history of calls, while they run: for every test and tool that drives a cluster.
//!
//! At a call's start the largest number answered so far is its *floor*, per user. At its answer every number must lie
//! above the floor and never have been answered before: that is exact for "unique, and ordered in real time", with
//! overlapping calls free to be answered in either order. The chain is held against the same history: the number an
//! allocation names as `prev` lies below its first one, not below the floor, and nothing between the two was ever given
//! out. A call without an answer is "maybe": it raises no floor, and may explain one `prev` that nobody was given.
//!
//! A read has a floor as well: the largest number answered or read before it was sent. What it answers is never below, and
//! a number that it calls exact was given out by somebody. While sections only move as planned ([`Checker::seamless`]), no
//! item may go without a number, and each begins right behind its `prev`.
//!
//! Invariant: the caller reports a start before the request leaves and an end after the answer arrived; then a violation
//! here is one of the service. The checker reads no clock and sends nothing. It keeps one run of numbers per user and
//! more only where there are holes, so that it can watch millions of numbers a second. It does not remember where a call's
//! numbers ended: an exact read of a number inside of what an overlapping call took passes.

use std::time::Duration;

mod runs;
#[cfg(test)]
mod tests;

use runs::{Run, RunSet};

/// The largest number there is.
pub const MAX_SEQ: u64 = (1 << 63) - 1;

/// Violations kept with their details; the rest is only counted. Enough to see a pattern on one screen.
const MAX_DETAILS: usize = 20;

/// Runs of one user after which the oldest are folded away, unless a call in flight still needs them.
const MAX_RUNS: usize = 64;

/// Unexplained `prev`s kept per user; of more of them only the number is kept.
const MAX_ORPHANS: usize = 64;

/// Index of a user in the history, from 0; the caller knows which uid it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u32);

/// A call in flight.
#[derive(Debug)]
#[must_use = "a call that never ends keeps its floors for ever"]
pub struct CallId(usize);

/// How one item of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The numbers `value - count + 1 ..= value` were given out.
    Given {
        /// The last number.
        value: u64,
        /// The number given out before, or 0 when the owner does not know it.
        prev: u64,
        /// How many numbers were asked for, 1 or above.
        count: u32,
        /// Attempts inside the call whose outcome stayed unknown before the one that answered.
        lost: u32,
    },
    /// Refused for sure: nothing moved.
    Refused,
    /// No answer; the item may have moved once per attempt.
    Maybe {
        /// Attempts that may have moved the counter.
        lost: u32,
    },
}

/// How one item of a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The last number given out, for sure; 0 when there is none.
    Exact(u64),
    /// The last number given out is not above this one, and the next one will be.
    UpperBound(u64),
    /// No answer.
    Failed,
}

/// What was wrong with an item's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One of the numbers had been given out before.
    Duplicate,
    /// One of the numbers is not above the floor.
    Decrease,
    /// The `prev` does not fit the numbers given out, or a number fits no place in the chain.
    ChainBreak,
    /// Outside of `1 ..= 2^63-1`.
    Malformed,
    /// A read lies below its floor.
    StaleRead,
    /// In a seamless history: the numbers do not begin right behind `prev`.
    Gap,
}

/// One item that broke a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was wrong.
    pub fault: Fault,
    /// With which numbers.
    pub item: Item,
}

/// One item's numbers, with what they are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Whose numbers.
    pub user: User,
    /// The last number answered.
    pub value: u64,
    /// How many numbers the item took, 1 or above; 0 for a read.
    pub count: u32,
    /// The `prev` answered.
    pub prev: u64,
    /// The largest number answered or read before the call was sent.
    pub floor: u64,
    /// When the call was sent, since the start of the history.
    pub sent: Duration,
    /// When it was answered.
    pub answered: Duration,
}

/// The sums of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers answered.
    pub allocations: u64,
    /// Items with a number that had been given out before.
    pub duplicates: u64,
    /// Items with a number not above their floor.
    pub decreases: u64,
    /// Items whose `prev` contradicts the history.
    pub chain_breaks: u64,
    /// Items outside of the numbers there are.
    pub malformed: u64,
    /// Reads below their floor.
    pub stale_reads: u64,
    /// Items of a seamless history that do not begin right behind their `prev`.
    pub gaps: u64,
    /// Items of a seamless history, allocations and reads, without an answer.
    pub unserved: u64,
    /// `prev`s and exact reads that nobody of this history was given and no lost call explains; other callers of the same users do. Final
    /// once no call is in flight.
    pub foreign_prevs: u64,
}

impl Tally {
    /// Broken promises, all kinds.
    pub fn violations(&self) -> u64 {
        let order = self.duplicates + self.decreases + self.chain_breaks + self.malformed;
        order + self.stale_reads + self.gaps + self.unserved
    }
}

/// The history of a set of users.
#[derive(Debug)]
pub struct Checker {
    users: Vec<State>,
    /// What few users need; a user's `cold` is an index into it, plus one.
    cold: Vec<Cold>,
    calls: Vec<Flight>,
    free: Vec<usize>,
    /// A user with many runs, to be looked at when the call that ends has no item left to judge.
    full: Option<User>,
    seamless: bool,
    tally: Tally,
    details: Vec<Violation>,
}

/// The newest run of a user's numbers. Its last number is the largest answered one.
#[derive(Clone, Copy, Debug)]
struct State {
    top: Run,
    cold: u32,
}

#[derive(Debug, Default)]
struct Cold {
    /// Runs below the newest one.
    older: RunSet,
    /// Numbers between a `prev` and its first number: nobody may be given one.
    closed: RunSet,
    /// `prev`s and exact reads that nobody was given so far, or not when they were noted; the oldest are only counted in `orphans_dropped`.
    orphans: Vec<u64>,
    orphans_dropped: u64,
    /// The lowest number of the history, once a hole was seen; what came before it is unknown.
    begin: Option<u64>,
    /// Attempts without an answer.
    lost: u32,
    /// The largest number read, and the largest one that was read as an upper bound.
    read: u64,
    read_bound: u64,
    /// Length of the sets at which folding is tried next.
    fold_at: usize,
}

#[derive(Debug, Default)]
struct Flight {
    items: Vec<(User, u64)>,
    sent: Duration,
}

impl Checker {
    /// An empty history of `users` users.
    pub fn new(users: usize) -> Checker {
        Checker {
            users: vec![State { top: Run::EMPTY, cold: 0 }; users],
            cold: Vec::new(),
            calls: Vec::new(),
            free: Vec::new(),
            full: None,
            seamless: false,
            tally: Tally::default(),
            details: Vec::new(),
        }
    }

    /// Joins an earlier history of which only the largest number of a user is known. Before the user's first call.
    pub fn join_floor(&mut self, user: User, floor: u64) {
        let state = &mut self.users[user.0 as usize];
        assert!(state.top.is_empty(), "a floor joins before the first answer");
        if floor > 0 {
            state.top = Run { first: floor, last: floor };
        }
    }

    /// The largest number answered for a user, 0 when there is none.
    pub fn floor(&self, user: User) -> u64 {
        self.users[user.0 as usize].top.last
    }

    /// From here on sections only move as planned: every item gets a number, right behind the one before. A user's first
    /// number has none before; whatever else hides the one before, a crash, must lie in the past of the user's last call.
    pub fn seamless(&mut self) {
        self.seamless = true;
    }

    /// Notes that a call or a read is about to be sent.
    pub fn start(&mut self, now: Duration, items: impl IntoIterator<Item = User>) -> CallId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.calls.push(Flight::default());
            self.calls.len() - 1
        });
        let call = &mut self.calls[id];
        call.sent = now;
        debug_assert!(call.items.is_empty());
        call.items.extend(items.into_iter().map(|user| (user, floor(&self.users, &self.cold, user))));
        CallId(id)
    }

    /// Notes how an allocation ended: one outcome per item, in the order of its start.
    pub fn end(&mut self, id: CallId, now: Duration, outcomes: impl IntoIterator<Item = Outcome>) {
        let mut flight = std::mem::take(&mut self.calls[id.0]);
        let (sent, answered) = (flight.sent, now);
        let mut ended = 0;
        for (outcome, &(user, floor)) in outcomes.into_iter().zip(&flight.items) {
            ended += 1;
            match outcome {
                Outcome::Given { value, prev, count, lost } => {
                    self.lose(user, lost);
                    self.given(Item { user, value, count, prev, floor, sent, answered });
                }
                Outcome::Refused => self.unserved(),
                Outcome::Maybe { lost } => {
                    self.unserved();
                    self.lose(user, lost);
                }
            }
        }
        assert_eq!(ended, flight.items.len(), "every item of a call has an outcome");
        flight.items.clear();
        self.calls[id.0] = flight;
        self.free.push(id.0);
        if let Some(user) = self.full.take() {
            self.fold(user);
        }
    }

    /// Notes how a read ended: one reading per item, in the order of its start.
    pub fn end_read(&mut self, id: CallId, now: Duration, readings: impl IntoIterator<Item = Reading>) {
        let mut flight = std::mem::take(&mut self.calls[id.0]);
        let (sent, answered) = (flight.sent, now);
        let mut ended = 0;
        for (reading, &(user, floor)) in readings.into_iter().zip(&flight.items) {
            ended += 1;
            let (value, exact) = match reading {
                Reading::Exact(value) => (value, true),
                Reading::UpperBound(value) => (value, false),
                Reading::Failed => {
                    self.unserved();
                    continue;
                }
            };
            self.read(Item { user, value, count: 0, prev: 0, floor, sent, answered }, exact);
        }
        assert_eq!(ended, flight.items.len(), "every item of a read has an outcome");
        flight.items.clear();
        self.calls[id.0] = flight;
        self.free.push(id.0);
    }

    /// The sums so far.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally;
        for State { top, cold } in self.users.iter().filter(|state| state.cold != 0) {
            let cold = &self.cold[*cold as usize - 1];
            // What lies below the history's first number was given out before it began.
            let begin = cold.begin.or((!top.is_empty()).then_some(top.first)).unwrap_or(u64::MAX);
            let nobodys = |number: u64| number > begin && !top.contains(number) && !cold.older.contains(number);
            let orphans = cold.orphans.iter().filter(|number| nobodys(**number)).count() as u64;
            let orphans = orphans + cold.orphans_dropped;
            tally.foreign_prevs += orphans.saturating_sub(u64::from(cold.lost));
        }
        tally
    }

    /// Users that were given a number, here or before a floor was joined.
    pub fn users_seen(&self) -> usize {
        self.users.iter().filter(|state| !state.top.is_empty()).count()
    }

    /// The first violations, with their details.
    pub fn details(&self) -> &[Violation] {
        &self.details
    }

    #[inline]
    fn given(&mut self, item: Item) {
        let Item { user, value, count, prev, floor, .. } = item;
        assert!(count > 0, "a call asks for at least one number");
        self.tally.allocations += u64::from(count);
        let top = &mut self.users[user.0 as usize].top;
        // Nearly always the next numbers of the user, chained to the last: above every floor, unseen, without a hole.
        if prev == top.last && value == top.last + u64::from(count) && value <= MAX_SEQ && floor <= prev {
            top.last = value;
        } else if value > MAX_SEQ || value < u64::from(count) {
            self.fault(Fault::Malformed, item);
        } else {
            self.judge(item);
        }
    }

    /// The way of everything but the next numbers of a user.
    #[cold]
    fn judge(&mut self, item: Item) {
        let Item { user, value, count, prev, floor, .. } = item;
        let run = Run { first: value - u64::from(count) + 1, last: value };
        let (top, cold) = self.cold(user);
        if !top.is_empty() {
            cold.older.insert(*top);
        }
        let gap = Run { first: prev.saturating_add(1), last: run.first - 1 };
        // Two links that cross put a first number into a gap, so nothing else needs to be compared.
        let holds = !cold.closed.overlaps(run)
            && (prev == 0 || (prev < run.first && prev >= floor && !cold.older.overlaps(gap)));
        let duplicate = cold.older.insert(run);
        cold.begin = cold.begin.min(cold.older.lowest()).or(cold.older.lowest());
        *top = cold.older.pop().expect("a run was just put in");

        cold.orphans.retain(|orphan| !run.contains(*orphan));
        let decrease = run.first <= floor;
        if holds && !decrease && !duplicate && prev != 0 {
            if !gap.is_empty() {
                cold.closed.insert(gap);
            }
            // The floor was given out by definition, even when its run is folded away; not so a bound that was read.
            if prev != floor || prev <= cold.read_bound {
                cold.must_be_given(*top, prev);
            }
        }
        if cold.older.len() + cold.closed.len() > cold.fold_at.max(MAX_RUNS) {
            self.full = Some(user);
        }
        if decrease {
            self.fault(Fault::Decrease, item);
        }
        if duplicate {
            self.fault(Fault::Duplicate, item);
        }
        // A number that is wrong itself fits no chain either; that is one fault, not two.
        if !holds && !decrease && !duplicate {
            self.fault(Fault::ChainBreak, item);
        }
        if self.seamless && holds && !decrease && !duplicate && run.first != prev + 1 {
            self.fault(Fault::Gap, item);
        }
    }

    fn read(&mut self, item: Item, exact: bool) {
        let Item { user, value, floor, .. } = item;
        if value > MAX_SEQ {
            return self.fault(Fault::Malformed, item);
        }
        let (top, cold) = self.cold(user);
        cold.read = cold.read.max(value);
        if value < floor {
            return self.fault(Fault::StaleRead, item);
        }
        if !exact {
            cold.read_bound = cold.read_bound.max(value);
        } else if value != 0 && (value != floor || value <= cold.read_bound) {
            cold.must_be_given(*top, value);
        }
    }

    /// Forgets runs that no call in flight can meet: a number in them lies below every floor there will be.
    fn fold(&mut self, user: User) {
        let in_flight = self.calls.iter().flat_map(|call| &call.items).filter(|item| item.0 == user).map(|item| item.1);
        let floor = in_flight.min().unwrap_or(self.users[user.0 as usize].top.last);
        let (top, cold) = self.cold(user);
        cold.settle(*top);
        cold.older.forget(floor, MAX_RUNS / 4);
        cold.closed.forget(floor, MAX_RUNS / 4);
        cold.fold_at = 2 * (cold.older.len() + cold.closed.len());
    }

    fn lose(&mut self, user: User, lost: u32) {
        if lost > 0 {
            let (_, cold) = self.cold(user);
            cold.lost = cold.lost.saturating_add(lost);
        }
    }

    fn unserved(&mut self) {
        self.tally.unserved += u64::from(self.seamless);
    }

    fn cold(&mut self, user: User) -> (&mut Run, &mut Cold) {
        let state = &mut self.users[user.0 as usize];
        if state.cold == 0 {
            self.cold.push(Cold::default());
            state.cold = u32::try_from(self.cold.len()).expect("no more than there are users");
        }
        (&mut state.top, &mut self.cold[state.cold as usize - 1])
    }

    fn fault(&mut self, fault: Fault, item: Item) {
        let sum = match fault {
            Fault::Duplicate => &mut self.tally.duplicates,
            Fault::Decrease => &mut self.tally.decreases,
            Fault::ChainBreak => &mut self.tally.chain_breaks,
            Fault::Malformed => &mut self.tally.malformed,
            Fault::StaleRead => &mut self.tally.stale_reads,
            Fault::Gap => &mut self.tally.gaps,
        };
        *sum += 1;
        if self.details.len() < MAX_DETAILS {
            self.details.push(Violation { fault, item });
        }
    }
}

/// The largest number answered or read for a user.
#[inline]
fn floor(users: &[State], cold: &[Cold], user: User) -> u64 {
    let state = &users[user.0 as usize];
    let read = if state.cold == 0 { 0 } else { cold[state.cold as usize - 1].read };
    state.top.last.max(read)
}

impl Cold {
    /// Notes a number that somebody says was given out. Whoever got it may hear of it later.
    fn must_be_given(&mut self, top: Run, number: u64) {
        if self.older.contains(number) || top.contains(number) || self.orphans.contains(&number) {
            return;
        }
        if self.orphans.len() == MAX_ORPHANS {
            self.settle(top);
        }
        if self.orphans.len() == MAX_ORPHANS {
            self.orphans.remove(0);
            self.orphans_dropped += 1;
        }
        self.orphans.push(number);
    }

    /// Forgets the numbers that somebody was given meanwhile.
    fn settle(&mut self, top: Run) {
        let older = &self.older;
        self.orphans.retain(|number| !top.contains(*number) && !older.contains(*number));
    }
}
