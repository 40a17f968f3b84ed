//! The definitions of the promises over the whole history, taken literally.

use std::collections::BTreeMap;

use super::{Event, USERS};
use crate::{Advancing, MAX_SEQ, Outcome, Reading, Tally};

/// A completed item.
#[derive(Clone, Copy, Debug)]
struct Item {
    user: u32,
    first: u64,
    last: u64,
    prev: u64,
    holds: bool,
}

/// The value of one user's read, or the target of an advance.
#[derive(Clone, Copy, Debug)]
struct Read {
    user: u32,
    value: u64,
}

/// A number named as allocated: at which event, and whether by a read.
#[derive(Clone, Copy, Debug)]
struct Named {
    user: u32,
    number: u64,
    at: usize,
    read: bool,
}

/// An attempt that may have got a number: the event at which it was sent, and its floor.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    user: u32,
    sent: usize,
    floor: u64,
}

/// A call when it was sent.
#[derive(Clone, Debug)]
struct Call {
    users: Vec<u32>,
    sent: usize,
    /// Numbers of items and of reads known at that time.
    known: (usize, usize),
    allocates: bool,
    target: u64,
    open: bool,
}

/// State of the twin.
#[derive(Debug, Default)]
struct Twin {
    tally: Tally,
    calls: Vec<Call>,
    items: Vec<Item>,
    reads: Vec<Read>,
    named: Vec<Named>,
    lost: Vec<Attempt>,
    /// Targets of advances: the user, the number, and the event at which it was sent.
    targets: Vec<(u32, u64, usize)>,
}

/// Checks a history by the literal definitions of the promises, in quadratic time.
pub(super) fn twin(events: &[Event], complete: bool) -> Tally {
    let mut twin = Twin::default();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(users) => twin.start(users, at, true, 0),
            Event::StartRead(users) => twin.start(users, at, false, 0),
            Event::StartAdvance(user, to) => {
                twin.targets.push((*user, *to, at));
                twin.start(&[*user], at, false, *to);
            }
            Event::End(call, outcomes) => twin.end(*call, outcomes, at),
            Event::EndRead(call, readings) => {
                twin.calls[*call].open = false;
                for (user, reading) in twin.calls[*call].users.clone().into_iter().zip(readings) {
                    twin.end_read(*call, user, *reading, at);
                }
            }
            Event::EndAdvance(call, ended) => {
                twin.calls[*call].open = false;
                if *ended == Advancing::Done {
                    let (user, value) = (twin.calls[*call].users[0], twin.calls[*call].target);
                    let holds = twin.floor(*call, user).is_none_or(|floor| value >= floor);
                    twin.tally.stale_reads += u64::from(!holds);
                    twin.reads.push(Read { user, value });
                }
            }
        }
    }
    let foreign = twin.foreign(complete);
    *(if complete { &mut twin.tally.phantoms } else { &mut twin.tally.foreign_prevs }) = foreign;
    twin.tally
}

impl Twin {
    fn start(&mut self, users: &[u32], sent: usize, allocates: bool, target: u64) {
        let known = (self.items.len(), self.reads.len());
        self.calls.push(Call { users: users.to_vec(), sent, known, allocates, target, open: true });
    }

    /// Returns the largest number returned or read before a call was sent.
    fn floor(&self, call: usize, user: u32) -> Option<u64> {
        let (items, reads) = self.calls[call].known;
        let answered = self.items[..items].iter().filter(|item| item.user == user).map(|item| item.last);
        answered.chain(self.reads[..reads].iter().filter(|read| read.user == user).map(|read| read.value)).max()
    }

    fn lose(&mut self, call: usize, user: u32, attempts: u32) {
        let attempt = Attempt { user, sent: self.calls[call].sent, floor: self.floor(call, user).unwrap_or(0) };
        self.lost.extend((0..attempts).map(|_| attempt));
    }

    fn end(&mut self, call: usize, outcomes: &[Outcome], at: usize) {
        self.calls[call].open = false;
        for (user, outcome) in self.calls[call].users.clone().into_iter().zip(outcomes) {
            match *outcome {
                Outcome::Refused => {}
                Outcome::Maybe { lost } => self.lose(call, user, lost),
                Outcome::Given { value, prev, count, lost } => {
                    self.lose(call, user, lost);
                    self.tally.allocations += u64::from(count);
                    if value < u64::from(count) || value > MAX_SEQ {
                        self.tally.malformed += 1;
                        continue;
                    }
                    let (first, last) = (value - u64::from(count) + 1, value);
                    let (floor, item) = (self.floor(call, user), Item { user, first, last, prev, holds: true });
                    let item = judge(item, &self.items, floor, &mut self.tally);
                    self.items.push(item);
                    if item.holds {
                        self.contradict(item);
                        self.name(Named { user, number: prev, at, read: false });
                    }
                }
            }
        }
    }

    /// Returns whether an exact read contradicts an item: the read returned a number below the last number of a call,
    /// or a number that its `prev` skips.
    fn contradicts(item: &Item, user: u32, value: u64) -> bool {
        let skipped = item.prev != 0 && item.prev < value && value < item.first;
        item.holds && item.user == user && (skipped || (item.first <= value && value < item.last))
    }

    /// Checks an item against earlier exact reads of numbers that no call had got.
    fn contradict(&mut self, item: Item) {
        let user = item.user;
        let wrong = |named: &Named| named.user == user && Self::contradicts(&item, user, named.number);
        let mut numbers: Vec<u64> =
            self.named.iter().filter(|named| named.read && wrong(named)).map(|named| named.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.tally.inexact_reads += numbers.len() as u64;
        self.named.retain(|named| named.user != user || !numbers.contains(&named.number));
    }

    fn end_read(&mut self, call: usize, user: u32, reading: Reading, at: usize) {
        let (value, exact) = match reading {
            Reading::Exact(value) => (value, true),
            Reading::UpperBound(value) => (value, false),
            Reading::Failed => return,
        };
        let mut holds = self.floor(call, user).is_none_or(|floor| value >= floor);
        self.tally.stale_reads += u64::from(!holds);
        let target = self.is_target(user, value);
        if exact && holds && !target && self.items.iter().any(|item| Self::contradicts(item, user, value)) {
            self.tally.inexact_reads += 1;
            holds = false;
        }
        self.reads.push(Read { user, value });
        if exact && holds {
            self.name(Named { user, number: value, at, read: true });
        }
    }

    fn is_target(&self, user: u32, number: u64) -> bool {
        self.targets.iter().any(|target| (target.0, target.1) == (user, number))
    }

    /// Records a number named as allocated; a read may name the target of a sent advance.
    fn name(&mut self, named: Named) {
        let given = |item: &Item| item.user == named.user && (item.first..=item.last).contains(&named.number);
        let is_target = named.read && self.is_target(named.user, named.number);
        if named.number != 0 && !is_target && !self.items.iter().any(given) {
            self.named.push(named);
        }
    }

    /// Returns how many named numbers no call got and no lost attempt or open call can explain.
    fn foreign(&self, complete: bool) -> u64 {
        (0..USERS)
            .map(|user| {
                let mine = || self.items.iter().filter(move |item| item.user == user);
                let given = |number: u64| mine().any(|item| (item.first..=item.last).contains(&number));
                let lowest = mine().map(|item| item.first).min().unwrap_or(u64::MAX);
                let lowest = if complete { 0 } else { lowest };
                let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
                for named in self.named.iter().filter(|named| named.user == user) {
                    let first = numbers.entry(named.number).or_insert(named.at);
                    *first = (*first).min(named.at);
                }
                let open = self.calls.iter().zip(0..).filter(|(call, _)| call.open && call.allocates);
                let open: Vec<Attempt> = open
                    .filter(|(call, _)| call.users.contains(&user))
                    .map(|(call, at)| Attempt { user, sent: call.sent, floor: self.floor(at, user).unwrap_or(0) })
                    .collect();
                let explains = |attempt: &Attempt, number: u64, at: usize| attempt.sent < at && attempt.floor < number;
                let orphans: Vec<(u64, usize)> = numbers
                    .into_iter()
                    .filter(|(number, _)| *number > lowest && !given(*number))
                    .filter(|(number, at)| !open.iter().any(|attempt| explains(attempt, *number, *at)))
                    .collect();
                let lost: Vec<_> = self.lost.iter().filter(|attempt| attempt.user == user).collect();
                (orphans.len() - matched(&orphans, &lost, |(number, at), lost| explains(lost, *number, *at))) as u64
            })
            .sum()
    }
}

/// Returns the size of a maximum bipartite matching, by augmenting paths.
fn matched<A, B>(left: &[A], right: &[B], fits: impl Fn(&A, &B) -> bool) -> usize {
    fn augment<A, B>(
        at: usize,
        (left, right): (&[A], &[B]),
        fits: &impl Fn(&A, &B) -> bool,
        taken: &mut [Option<usize>],
        tried: &mut [bool],
    ) -> bool {
        for to in 0..right.len() {
            if !tried[to] && fits(&left[at], &right[to]) {
                tried[to] = true;
                if taken[to].is_none_or(|other| augment(other, (left, right), fits, taken, tried)) {
                    taken[to] = Some(at);
                    return true;
                }
            }
        }
        false
    }
    let mut taken = vec![None; right.len()];
    (0..left.len()).filter(|at| augment(*at, (left, right), &fits, &mut taken, &mut vec![false; right.len()])).count()
}

fn judge(mut item: Item, items: &[Item], floor: Option<u64>, tally: &mut Tally) -> Item {
    let Item { user, first, last, prev, .. } = item;
    let mine = || items.iter().filter(move |other| other.user == user);
    let decrease = floor.is_some_and(|floor| first <= floor);
    let duplicate = mine().any(|other| first <= other.last && other.first <= last);
    let closed = |other: &Item| other.holds && other.prev != 0;
    let in_gap = |from: u64, to: u64, lower: u64, upper: u64| from < upper && to > lower;
    let mut fits = !mine().any(|other| closed(other) && in_gap(first, last, other.prev, other.first));
    if prev != 0 {
        fits &= prev < first && floor.is_none_or(|floor| prev >= floor);
        fits &= !mine().any(|other| in_gap(other.first, other.last, prev, first));
        fits &= !mine().any(|other| closed(other) && in_gap(other.prev, other.prev, prev, first));
        fits &= !mine().any(|other| closed(other) && in_gap(prev, prev, other.prev, other.first));
    }
    tally.decreases += u64::from(decrease);
    tally.duplicates += u64::from(duplicate);
    tally.chain_breaks += u64::from(!fits && !decrease && !duplicate);
    item.holds = fits && !decrease && !duplicate;
    item
}
