//! Online checker of the promises about numbers. Every test and tool that drives a cluster reports its calls to a
//! [`Checker`], which checks them while the test runs.
//!
//! Calls are allocations, reads and advances. For each user of a call, the *floor* is the largest number that earlier
//! calls had returned for the user before this call's request was sent. Every number that an allocation gets must be
//! above the floor and must not have been allocated before. These two conditions are exactly "unique, and ordered in
//! real time". The numbers of two calls that overlap in time may be in either order.
//!
//! The chain of `prev`s is checked against the same history. The `prev` of an allocation must be below the allocation's
//! first number and not below the floor, and no number between `prev` and the first number may ever be allocated.
//!
//! A `prev` or an exact read *names* a number, which means that it reports the number as allocated. Some call must have
//! got each named number, but the response of that call may have been lost. So an attempt of a call without a response,
//! a *lost attempt*, can explain one named number that no call got, if the attempt's call was sent before the number
//! was named, and the number is above the call's floor. A lost attempt raises no floor.
//!
//! The value of a read must not be below the floor. An exact value must have been the last allocated number at some
//! time between the start and the end of the read. So an exact value must be the last number of a call that was sent
//! before the read ended, or the target of an advance. An exact value must not be a number of a call other than the
//! call's last number, and must not be between the `prev` and the first number of an allocation. The checker checks
//! these conditions for reads that begin with [`Checker::start_read`].
//!
//! An advance raises the counter of a user to a target. Numbers of calls that start after the end of the advance must
//! be above the target, and reads that start after that end must not return a number below the target. An exact read
//! may return the target. A `prev` must not be the target, because no call got the target.
//!
//! A complete history ([`Checker::complete`]) contains all calls of its users, so a call or a lost attempt of the
//! history must explain each named number. While sections move only by handover ([`Checker::seamless`]), every item
//! must get numbers, and the numbers must begin right after the item's `prev`.
//!
//! **Invariant:** the test or tool reports the start of a call before it sends the request, and the end of the call
//! after the response arrived. As long as the test or tool keeps this rule, every violation that the checker finds is a
//! violation by the service. The checker reads no clock and sends nothing. The checker keeps one run of consecutive
//! numbers per user, and further runs only if there are holes between the user's numbers, so it can check millions of
//! numbers a second.

use std::time::Duration;

mod cold;
mod ids;
mod runs;
#[cfg(test)]
mod tests;
mod types;

pub use ids::{IdCall, IdPromises, IdTime, IdViolation, check_ids};
pub use types::{Advancing, CallId, Fault, Item, Outcome, Phantom, Reading, Tally, User, Violation};

use cold::{Attempt, Cold, Orphan};
use runs::Run;

/// The largest possible number.
pub const MAX_SEQ: u64 = (1 << 63) - 1;

/// Largest number of violations that are kept with their details. This many show a pattern on one screen. Further
/// violations are only counted.
const MAX_DETAILS: usize = 20;

/// Number of runs of one user above which the user's lowest runs are dropped, unless a call in flight may still be
/// compared with them.
const MAX_RUNS: usize = 64;

/// Checker with the history of the calls of its users.
#[derive(Debug)]
pub struct Checker {
    users: Vec<State>,
    /// Rarely needed state of users. The index of a user's entry is [`State::cold`] minus 1. If [`State::cold`] is 0,
    /// the user has no entry.
    cold: Vec<Cold>,
    calls: Vec<Flight>,
    free: Vec<usize>,
    /// User with too many runs, found while the end of a call is being recorded. After the last item of that call, the
    /// user's old runs are dropped.
    full: Option<User>,
    seamless: bool,
    complete: bool,
    /// Number of starts and ends so far, which serves as a logical clock.
    events: u64,
    /// Reads in flight.
    reads: usize,
    tally: Tally,
    details: Vec<Violation>,
}

/// State of a user. `top` is the run with the user's largest numbers, so the last number of `top` is the largest number
/// that an allocation returned for the user.
#[derive(Clone, Copy, Debug)]
struct State {
    top: Run,
    cold: u32,
}

#[derive(Debug, Default)]
struct Flight {
    items: Vec<(User, u64)>,
    sent: Duration,
    /// Value of [`Checker::events`] at the start of the call.
    started: u64,
    kind: Kind,
}

/// Kind of a call, as known at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// An allocation, or a read that began with [`Checker::start`].
    #[default]
    Any,
    Read,
    Advance {
        to: u64,
    },
}

impl Checker {
    /// Creates an empty history of `users` users.
    pub fn new(users: usize) -> Checker {
        Checker {
            users: vec![State { top: Run::EMPTY, cold: 0 }; users],
            cold: Vec::new(),
            calls: Vec::new(),
            free: Vec::new(),
            full: None,
            seamless: false,
            complete: false,
            events: 0,
            reads: 0,
            tally: Tally::default(),
            details: Vec::new(),
        }
    }

    /// Continues an earlier history of `user`, in which the user's largest number was `floor`. Must be called before
    /// the user's first call starts.
    pub fn join_floor(&mut self, user: User, floor: u64) {
        let state = &mut self.users[user.0 as usize];
        assert!(state.top.is_empty(), "a floor is joined before the first response");
        if floor > 0 {
            state.top = Run { first: floor, last: floor };
        }
    }

    /// Returns the largest number that an allocation returned for `user`, in this or a continued history; 0 if there is
    /// none.
    pub fn floor(&self, user: User) -> u64 {
        self.users[user.0 as usize].top.last
    }

    /// Declares that from now on sections move only by handover. So no item may fail, and the numbers of an item must
    /// begin right after the item's `prev`, or after the target of an advance. The first response for a user after a
    /// crash has no `prev`, so each user must have made a call between the last crash and this declaration.
    pub fn seamless(&mut self) {
        self.seamless = true;
    }

    /// Declares that the history contains every call of its users from their first number on. So a number that a `prev`
    /// or an exact read returns as allocated is a violation if no call of the history can have got it.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// Records the start of an allocation or a read, before its request is sent. A read whose exact values are to be
    /// checked begins with [`Checker::start_read`] instead.
    pub fn start(&mut self, now: Duration, items: impl IntoIterator<Item = User>) -> CallId {
        self.begin(now, Kind::Any, items)
    }

    /// Records the start of a read, before its request is sent.
    pub fn start_read(&mut self, now: Duration, items: impl IntoIterator<Item = User>) -> CallId {
        self.reads += 1;
        self.begin(now, Kind::Read, items)
    }

    /// Records the start of an advance that raises `user` to the number `to`, before its request is sent.
    pub fn start_advance(&mut self, now: Duration, user: User, to: u64) -> CallId {
        if to > 0 {
            // From now on the counter may be at the target, regardless of the response.
            self.cold(user).1.targets.insert(Run { first: to, last: to });
        }
        self.begin(now, Kind::Advance { to }, [user])
    }

    fn begin(&mut self, now: Duration, kind: Kind, items: impl IntoIterator<Item = User>) -> CallId {
        self.events += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            self.calls.push(Flight::default());
            self.calls.len() - 1
        });
        let call = &mut self.calls[id];
        (call.sent, call.started, call.kind) = (now, self.events, kind);
        debug_assert!(call.items.is_empty());
        call.items.extend(items.into_iter().map(|user| (user, floor(&self.users, &self.cold, user))));
        CallId(id)
    }

    /// Records the end of an allocation. `outcomes` has one outcome for each item, in the order in which the items were
    /// passed to [`Checker::start`].
    pub fn end(&mut self, id: CallId, now: Duration, outcomes: impl IntoIterator<Item = Outcome>) {
        self.events += 1;
        let mut flight = std::mem::take(&mut self.calls[id.0]);
        let (sent, answered) = (flight.sent, now);
        let mut ended = 0;
        for (outcome, &(user, floor)) in outcomes.into_iter().zip(&flight.items) {
            ended += 1;
            match outcome {
                Outcome::Given { value, prev, count, lost } => {
                    self.lose(user, Attempt { started: flight.started, floor }, lost);
                    self.given(Item { user, value, count, prev, floor, sent, answered });
                }
                Outcome::Refused => self.unserved(),
                Outcome::Maybe { lost } => {
                    self.unserved();
                    self.lose(user, Attempt { started: flight.started, floor }, lost);
                }
            }
        }
        assert_eq!(ended, flight.items.len(), "every item of a call has an outcome");
        flight.items.clear();
        self.give_back(id, flight);
        if let Some(user) = self.full.take() {
            self.fold(user);
        }
    }

    fn give_back(&mut self, id: CallId, empty: Flight) {
        self.calls[id.0] = empty;
        self.free.push(id.0);
    }

    /// Records the end of a read. `readings` has one reading for each item, in the order in which the items were passed
    /// to [`Checker::start_read`].
    pub fn end_read(&mut self, id: CallId, now: Duration, readings: impl IntoIterator<Item = Reading>) {
        self.events += 1;
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
        self.reads -= usize::from(flight.kind == Kind::Read);
        flight.items.clear();
        self.give_back(id, flight);
    }

    /// Records the end of an advance.
    pub fn end_advance(&mut self, id: CallId, now: Duration, ended: Advancing) {
        self.events += 1;
        let mut flight = std::mem::take(&mut self.calls[id.0]);
        let (Kind::Advance { to }, [(user, floor)]) = (flight.kind, &*flight.items) else {
            panic!("no advance: {flight:?}");
        };
        let item = Item { user: *user, value: to, count: 0, prev: 0, floor: *floor, sent: flight.sent, answered: now };
        match ended {
            Advancing::Done => {
                let (_, cold) = self.cold(item.user);
                cold.read = cold.read.max(to);
                cold.read_bound = cold.read_bound.max(to);
                if to < item.floor {
                    self.fault(Fault::StaleRead, item);
                }
            }
            Advancing::Past => {}
            Advancing::Failed => self.unserved(),
        }
        flight.items.clear();
        self.give_back(id, flight);
    }

    /// Returns the sums over the history so far.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally;
        let unexplained = self.unexplained().map(|(_, orphans, dropped)| orphans.len() as u64 + dropped).sum();
        *(if self.complete { &mut tally.phantoms } else { &mut tally.foreign_prevs }) = unexplained;
        tally
    }

    /// Returns numbers that a `prev` or an exact read reported as allocated, although no call of the history can have
    /// got them. The history keeps at most 64 such numbers per user; [`Checker::tally`] counts all of them.
    pub fn phantoms(&self) -> Vec<Phantom> {
        let phantom = |user, Orphan { number, read, at, .. }: Orphan| Phantom { user, number, read, named: at };
        self.unexplained()
            .flat_map(|(user, orphans, _)| orphans.into_iter().map(move |orphan| phantom(user, orphan)))
            .collect()
    }

    /// Returns, for each user, the kept numbers that a `prev` or an exact read reported as allocated although no call
    /// and no lost attempt explains them, and the count of such numbers that are no longer kept.
    fn unexplained(&self) -> impl Iterator<Item = (User, Vec<Orphan>, u64)> {
        let users = (0..).map(User).zip(&self.users).filter(|(_, state)| state.cold != 0);
        users.filter_map(|(user, State { top, cold })| {
            let cold = &self.cold[*cold as usize - 1];
            if cold.orphans.is_empty() && cold.orphans_dropped == 0 {
                return None;
            }
            // Numbers below the first number of the history were allocated before the history began.
            let begin = cold.begin.or((!top.is_empty()).then_some(top.first)).unwrap_or(u64::MAX);
            let begin = if self.complete { 0 } else { begin };
            let (orphans, dropped) = cold.unexplained(*top, begin, &self.in_flight(user));
            Some((user, orphans, dropped))
        })
    }

    /// Returns the calls in flight that may get a number for `user`.
    fn in_flight(&self, user: User) -> Vec<Attempt> {
        let calls = self.calls.iter().filter(|call| call.kind == Kind::Any);
        let items = calls.flat_map(|call| call.items.iter().map(|(user, floor)| (*user, *floor, call.started)));
        items.filter(|item| item.0 == user).map(|(_, floor, started)| Attempt { started, floor }).collect()
    }

    /// Returns the number of users that got a number, in this history or in the earlier history that it continues.
    pub fn users_seen(&self) -> usize {
        self.users.iter().filter(|state| !state.top.is_empty()).count()
    }

    /// Returns the first violations, with their details.
    pub fn details(&self) -> &[Violation] {
        &self.details
    }

    #[inline]
    fn given(&mut self, item: Item) {
        let Item { user, value, count, prev, floor, .. } = item;
        assert!(count > 0, "a call asks for at least one number");
        self.tally.allocations += u64::from(count);
        let State { top, cold } = &mut self.users[user.0 as usize];
        // The checker needs to know which number of a call is its last only if there are reads.
        let unread = count == 1 || (self.reads == 0 && *cold == 0);
        // In the usual case, `prev` is the user's last number, and the new numbers follow it directly. So they are
        // above every floor, were not seen before, and leave no hole.
        if prev == top.last && value == top.last + u64::from(count) && value <= MAX_SEQ && floor <= prev && unread {
            top.last = value;
        } else if value > MAX_SEQ || value < u64::from(count) {
            self.fault(Fault::Malformed, item);
        } else {
            self.judge(item);
        }
    }

    /// Checks the numbers of an item against the full state of its user. [`Checker::given`] skips this slower check if
    /// the numbers simply follow the user's last number.
    #[cold]
    fn judge(&mut self, item: Item) {
        let Item { user, value, count, prev, floor, answered, .. } = item;
        let (reads, named) = (self.reads > 0, self.events);
        let run = Run { first: value - u64::from(count) + 1, last: value };
        let (top, cold) = self.cold(user);
        if !top.is_empty() {
            cold.older.insert(*top);
        }
        let gap = Run { first: prev.saturating_add(1), last: run.first - 1 };
        // If the gaps of two calls overlap, the first number of one call is in the gap of the other, so gaps need not
        // be compared with each other.
        let holds = !cold.closed.overlaps(run)
            && (prev == 0 || (prev < run.first && prev >= floor && !cold.older.overlaps(gap)));
        let duplicate = cold.older.insert(run);
        cold.begin = cold.begin.min(cold.older.lowest()).or(cold.older.lowest());
        *top = cold.older.pop().expect("a run was just put in");

        let decrease = run.first <= floor;
        let sound = holds && !decrease && !duplicate;
        let inexact = cold.take_in(run, (prev != 0).then_some(gap), sound);
        if sound && reads && count > 1 {
            cold.inner.insert(cold::inner(run));
        }
        if sound && prev != 0 {
            if !gap.is_empty() {
                cold.closed.insert(gap);
            }
            // A floor above `read_bound` was allocated, even if the run that ends at the floor was dropped. A floor up
            // to `read_bound` may be an upper bound or the target of an advance, so it is not known to be allocated.
            if prev != floor || prev <= cold.read_bound {
                cold.must_be_given(*top, Orphan { number: prev, read: false, named, at: answered });
            }
        }
        // The first number after an advance follows the target of the advance.
        let follows = run.first == prev.saturating_add(1) || (prev == 0 && cold.targets.contains(run.first - 1));
        if cold.older.len() + cold.closed.len() + cold.inner.len() > cold.fold_at.max(MAX_RUNS) {
            self.full = Some(user);
        }
        if decrease {
            self.fault(Fault::Decrease, item);
        }
        if duplicate {
            self.fault(Fault::Duplicate, item);
        }
        // A number that is a decrease or a duplicate also fits nowhere in the chain, but it counts as a single fault.
        if !holds && !decrease && !duplicate {
            self.fault(Fault::ChainBreak, item);
        }
        if self.seamless && sound && !follows {
            self.fault(Fault::Gap, item);
        }
        (0..inexact).for_each(|_| self.fault(Fault::InexactRead, item));
    }

    fn read(&mut self, item: Item, exact: bool) {
        let Item { user, value, floor, answered, .. } = item;
        if value > MAX_SEQ {
            return self.fault(Fault::Malformed, item);
        }
        let named = self.events;
        let (top, cold) = self.cold(user);
        cold.read = cold.read.max(value);
        if value < floor {
            return self.fault(Fault::StaleRead, item);
        }
        let is_target = cold.targets.contains(value);
        if !exact || is_target {
            cold.read_bound = cold.read_bound.max(value);
        }
        if !exact {
            return;
        }
        if !is_target && (cold.inner.contains(value) || cold.closed.contains(value)) {
            self.fault(Fault::InexactRead, item);
        } else if value != 0 && (value != floor || value <= cold.read_bound) {
            cold.must_be_given(*top, Orphan { number: value, read: true, named, at: answered });
        }
    }

    /// Drops old runs of `user`. No call needs to be compared with them any more, because their numbers are not above
    /// the floor of any call in flight or of any future call.
    fn fold(&mut self, user: User) {
        let in_flight = self.calls.iter().flat_map(|call| &call.items).filter(|item| item.0 == user).map(|item| item.1);
        let floor = in_flight.min().unwrap_or(self.users[user.0 as usize].top.last);
        let (top, cold) = self.cold(user);
        cold.settle(*top);
        cold.older.forget(floor, MAX_RUNS / 4);
        cold.closed.forget(floor, MAX_RUNS / 4);
        cold.inner.forget(floor, MAX_RUNS / 4);
        // A read may still return a target that is equal to the floor.
        cold.targets.forget(floor.saturating_sub(1), MAX_RUNS / 4);
        cold.fold_at = 2 * (cold.older.len() + cold.closed.len() + cold.inner.len());
    }

    fn lose(&mut self, user: User, attempt: Attempt, lost: u32) {
        if lost > 0 {
            self.cold(user).1.lose(attempt, lost);
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
            Fault::InexactRead => &mut self.tally.inexact_reads,
            Fault::Gap => &mut self.tally.gaps,
        };
        *sum += 1;
        if self.details.len() < MAX_DETAILS {
            self.details.push(Violation { fault, item });
        }
    }
}

/// Returns the largest number returned or read for a user.
#[inline]
fn floor(users: &[State], cold: &[Cold], user: User) -> u64 {
    let state = &users[user.0 as usize];
    let read = if state.cold == 0 { 0 } else { cold[state.cold as usize - 1].read };
    state.top.last.max(read)
}
