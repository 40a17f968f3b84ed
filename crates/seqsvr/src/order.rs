//! Checks the order promise over a history of calls, while they run.
//!
//! At a call's start the largest number answered so far is its *floor*, per user. At its answer every number must lie
//! above the floor and never have been answered before: that is exact for "unique, and ordered in real time", with
//! overlapping calls free to be answered in either order. The chain is held against the same history: the number an
//! allocation names as `prev` lies below its first one, not below the floor, and nothing between the two was ever given
//! out. A call without an answer is "maybe": it raises no floor, and may explain one `prev` that nobody was given.
//!
//! Invariant: the caller reports a start before the request leaves and an end after the answer arrived; then a violation
//! here is one of the service. The checker reads no clock and sends nothing. It keeps one run of numbers per user and
//! more only where there are holes, so that it can watch millions of numbers a second.

use std::time::Duration;

use seq_core::Seq;

mod runs;
#[cfg(test)]
mod tests;

use runs::{Run, RunSet};

/// Violations kept with their details; the rest is only counted. Enough to see a pattern on one screen.
const MAX_DETAILS: usize = 20;

/// Runs of one user after which the oldest are folded away, unless a call in flight still needs them.
const MAX_RUNS: usize = 64;

/// Unexplained `prev`s kept per user; of more of them only the number is kept.
const MAX_ORPHANS: usize = 64;

/// Index of a user in the history, from 0; the caller knows which uid it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct User(pub(crate) u32);

/// A call in flight.
#[derive(Debug)]
#[must_use = "a call that never ends keeps its floors for ever"]
pub(crate) struct CallId(usize);

/// How one item of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The numbers `value - count + 1 ..= value` were given out.
    Given {
        /// The last number.
        value: Seq,
        /// The number given out before, or 0 when the owner does not know it.
        prev: Seq,
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

/// What was wrong with an item's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One of the numbers had been given out before.
    Duplicate,
    /// One of the numbers is not above the floor.
    Decrease,
    /// The `prev` does not fit the numbers given out, or a number fits no place in the chain.
    ChainBreak,
    /// Outside of `1 ..= 2^63-1`.
    Malformed,
}

/// One item that broke a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// What was wrong.
    pub(crate) fault: Fault,
    /// With which numbers.
    pub(crate) item: Item,
}

/// One item's numbers, with what they are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Whose numbers.
    pub(crate) user: User,
    /// The last number answered.
    pub(crate) value: u64,
    /// How many numbers the item took, 1 or above.
    pub(crate) count: u32,
    /// The `prev` answered.
    pub(crate) prev: u64,
    /// The largest number answered before the call was sent.
    pub(crate) floor: u64,
    /// When the call was sent, since the start of the history.
    pub(crate) sent: Duration,
    /// When it was answered.
    pub(crate) answered: Duration,
}

/// The sums of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Numbers answered.
    pub(crate) allocations: u64,
    /// Items with a number that had been given out before.
    pub(crate) duplicates: u64,
    /// Items with a number not above their floor.
    pub(crate) decreases: u64,
    /// Items whose `prev` contradicts the history.
    pub(crate) chain_breaks: u64,
    /// Items outside of the numbers there are.
    pub(crate) malformed: u64,
    /// `prev`s that nobody of this history was given and no lost call explains; other callers of the same users do. Final
    /// once no call is in flight.
    pub(crate) foreign_prevs: u64,
}

impl Tally {
    /// Broken promises, all kinds.
    pub(crate) fn violations(&self) -> u64 {
        self.duplicates + self.decreases + self.chain_breaks + self.malformed
    }
}

/// The history of a set of users.
#[derive(Debug)]
pub(crate) struct Checker {
    users: Vec<State>,
    /// What few users need; a user's `cold` is an index into it, plus one.
    cold: Vec<Cold>,
    calls: Vec<Flight>,
    free: Vec<usize>,
    /// A user with many runs, to be looked at when the call that ends has no item left to judge.
    full: Option<User>,
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
    /// `prev`s that nobody was given so far; the oldest are only counted in `orphans_dropped`.
    orphans: Vec<u64>,
    orphans_dropped: u64,
    /// The lowest number of the history, once a hole was seen; what came before it is unknown.
    begin: Option<u64>,
    /// Attempts without an answer.
    lost: u32,
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
    pub(crate) fn new(users: usize) -> Checker {
        Checker {
            users: vec![State { top: Run::EMPTY, cold: 0 }; users],
            cold: Vec::new(),
            calls: Vec::new(),
            free: Vec::new(),
            full: None,
            tally: Tally::default(),
            details: Vec::new(),
        }
    }

    /// Joins an earlier history of which only the largest number of a user is known. Before the user's first call.
    pub(crate) fn join_floor(&mut self, user: User, floor: Seq) {
        let state = &mut self.users[user.0 as usize];
        assert!(state.top.is_empty(), "a floor joins before the first answer");
        if floor > Seq::ZERO {
            state.top = Run { first: floor.0, last: floor.0 };
        }
    }

    /// The largest number answered for a user, 0 when there is none.
    pub(crate) fn floor(&self, user: User) -> Seq {
        Seq(self.users[user.0 as usize].top.last)
    }

    /// Notes that a call is about to be sent.
    pub(crate) fn start(&mut self, now: Duration, items: impl IntoIterator<Item = User>) -> CallId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.calls.push(Flight::default());
            self.calls.len() - 1
        });
        let call = &mut self.calls[id];
        call.sent = now;
        debug_assert!(call.items.is_empty());
        call.items.extend(items.into_iter().map(|user| (user, self.users[user.0 as usize].top.last)));
        CallId(id)
    }

    /// Notes how a call ended: one outcome per item, in the order of its start.
    pub(crate) fn end(&mut self, id: CallId, now: Duration, outcomes: impl IntoIterator<Item = Outcome>) {
        let mut flight = std::mem::take(&mut self.calls[id.0]);
        let (sent, answered) = (flight.sent, now);
        let mut ended = 0;
        for (outcome, &(user, floor)) in outcomes.into_iter().zip(&flight.items) {
            ended += 1;
            match outcome {
                Outcome::Given { value, prev, count, lost } => {
                    self.lose(user, lost);
                    self.given(Item { user, value: value.0, count, prev: prev.0, floor, sent, answered });
                }
                Outcome::Refused => {}
                Outcome::Maybe { lost } => self.lose(user, lost),
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

    /// The sums so far.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally;
        for state in self.users.iter().filter(|state| state.cold != 0) {
            let cold = &self.cold[state.cold as usize - 1];
            // What lies below the history's first number was given out before it began.
            let orphans = cold.orphans.iter().filter(|prev| Some(**prev) > cold.begin).count() as u64;
            let orphans = orphans + cold.orphans_dropped;
            tally.foreign_prevs += orphans.saturating_sub(u64::from(cold.lost));
        }
        tally
    }

    /// Users that were given a number, here or before a floor was joined.
    pub(crate) fn users_seen(&self) -> usize {
        self.users.iter().filter(|state| !state.top.is_empty()).count()
    }

    /// The first violations, with their details.
    pub(crate) fn details(&self) -> &[Violation] {
        &self.details
    }

    #[inline]
    fn given(&mut self, item: Item) {
        let Item { user, value, count, prev, .. } = item;
        assert!(count > 0, "a call asks for at least one number");
        self.tally.allocations += u64::from(count);
        let top = &mut self.users[user.0 as usize].top;
        // Nearly always the next numbers of the user, chained to the last: above every floor, unseen, without a hole.
        if prev == top.last && value == top.last + u64::from(count) && value <= Seq::MAX.0 {
            top.last = value;
        } else if value > Seq::MAX.0 || value < u64::from(count) {
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
            // The floor was given out by definition, even when its run is folded away.
            let known = prev == floor || cold.older.contains(prev) || top.contains(prev);
            if !known && !cold.orphans.contains(&prev) {
                if cold.orphans.len() == MAX_ORPHANS {
                    cold.orphans.remove(0);
                    cold.orphans_dropped += 1;
                }
                cold.orphans.push(prev);
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
    }

    /// Forgets runs that no call in flight can meet: a number in them lies below every floor there will be.
    fn fold(&mut self, user: User) {
        let in_flight = self.calls.iter().flat_map(|call| &call.items).filter(|item| item.0 == user).map(|item| item.1);
        let floor = in_flight.min().unwrap_or(self.users[user.0 as usize].top.last);
        let (_, cold) = self.cold(user);
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
        };
        *sum += 1;
        if self.details.len() < MAX_DETAILS {
            self.details.push(Violation { fault, item });
        }
    }
}
