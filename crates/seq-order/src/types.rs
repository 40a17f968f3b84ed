//! The words of a history: calls, how their items end, and what may be wrong with them.

use std::time::Duration;

/// Index of a user in the history, from 0; the caller knows which uid it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u32);

/// A call in flight.
#[derive(Debug)]
#[must_use = "a call that never ends keeps its floors for ever"]
pub struct CallId(pub(super) usize);

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

/// How an advance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advancing {
    /// The counter stands at the target, or above it by other calls: every later number is above the target.
    Done,
    /// Refused for sure, because the counter is past the target: nothing moved.
    Past,
    /// No answer; the counter may stand at the target now or later.
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
    /// A read lies below its floor, or an advance was answered as done although its target does.
    StaleRead,
    /// A read was called exact, and its number was the last one of no call at any time: it lies inside of what one call took,
    /// or where a `prev` says that nothing was given out. With an allocation's numbers, where its answer came last.
    InexactRead,
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

/// A number that a `prev` or an exact read named, that no call of the history was given and no lost one can explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phantom {
    /// Whose number.
    pub user: User,
    /// The number.
    pub number: u64,
    /// Whether an exact read named it; otherwise it was a `prev`.
    pub read: bool,
    /// When it was named first, since the start of the history.
    pub named: Duration,
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
    /// Exact reads of a number that was the last one of no call at any time.
    pub inexact_reads: u64,
    /// Items of a seamless history that do not begin right behind their `prev`.
    pub gaps: u64,
    /// Items of a seamless history, allocations, reads and advances, without an answer.
    pub unserved: u64,
    /// `prev`s and exact reads that no call of this history was given and no lost call explains; other callers of the same
    /// users do. A call in flight that may still explain one is taken to do so.
    pub foreign_prevs: u64,
    /// The same in a complete history, where there are no other callers: each is a broken promise.
    pub phantoms: u64,
}

impl Tally {
    /// Broken promises, all kinds.
    pub fn violations(&self) -> u64 {
        let order = self.duplicates + self.decreases + self.chain_breaks + self.malformed;
        order + self.stale_reads + self.inexact_reads + self.gaps + self.unserved + self.phantoms
    }
}
