//! Types of a history, namely calls, outcomes of the items of a call, and violations of a promise.

use std::time::Duration;

/// Index of a user in the history, from 0; the caller maps it to a uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u32);

/// A call in flight.
#[derive(Debug)]
#[must_use = "a call that never ends keeps its floors forever"]
pub struct CallId(pub(super) usize);

/// Outcome of one item of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The numbers `value - count + 1 ..= value` were allocated.
    Given {
        /// The last number.
        value: u64,
        /// The number allocated for the user before these numbers; 0 if the owner does not know it.
        prev: u64,
        /// Number of requested numbers, 1 or above.
        count: u32,
        /// Earlier attempts of the call with unknown outcome.
        lost: u32,
    },
    /// The item was refused, and its counter did not move.
    Refused,
    /// There is no response. Each attempt may have moved the counter once.
    Maybe {
        /// Attempts that may have moved the counter.
        lost: u32,
    },
}

/// Outcome of one item of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The last allocated number, exactly; 0 if there is none.
    Exact(u64),
    /// The last allocated number is at most this number, and every number that is allocated later is above this number.
    UpperBound(u64),
    /// The read was refused or got no response.
    Failed,
}

/// Outcome of an advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advancing {
    /// The counter is at the target, or other calls have moved it above the target. Every number that is allocated
    /// later is above the target.
    Done,
    /// Refused because the counter is past the target; nothing moved.
    Past,
    /// There is no response. The counter may have reached the target, or may still reach it.
    Failed,
}

/// Kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A number was allocated before.
    Duplicate,
    /// A number is not above the floor.
    Decrease,
    /// The chain of `prev`s is broken. Either the `prev` of an allocation is below the floor or not below the
    /// allocation's first number, or a number was allocated between the `prev` and the first number of an allocation.
    ChainBreak,
    /// A number is outside of `1 ..= 2^63-1`.
    Malformed,
    /// A read returned a number below the read's floor, or an advance was reported as done although its target is below
    /// the advance's floor.
    StaleRead,
    /// An exact read returned a number that was never a user's last number, because a call got this number together
    /// with larger numbers, or because it is between the `prev` and the first number of a call. If the response of that
    /// call arrived after the response of the read, the [`Violation`] has the item of the call instead of the item of
    /// the read.
    InexactRead,
    /// The numbers of an item do not begin right after the item's `prev`, although
    /// [`Checker::seamless`](crate::Checker::seamless) was declared.
    Gap,
}

/// One item that broke a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Kind of the violation.
    pub fault: Fault,
    /// The item, with its numbers.
    pub item: Item,
}

/// Numbers of one item, with the floor and the times that they are checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The user.
    pub user: User,
    /// The last number returned.
    pub value: u64,
    /// Count of numbers, 1 or above; 0 for a read.
    pub count: u32,
    /// The `prev` returned.
    pub prev: u64,
    /// The largest number that any call had returned for the user before the request was sent.
    pub floor: u64,
    /// Time at which the request was sent, since the start of the history.
    pub sent: Duration,
    /// Time at which the response arrived, since the start of the history.
    pub answered: Duration,
}

/// A number that a `prev` or an exact read reported as allocated, although no call of the history got it and no attempt
/// without a response can have got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phantom {
    /// The user.
    pub user: User,
    /// The number.
    pub number: u64,
    /// Whether an exact read reported the number; otherwise a `prev` did.
    pub read: bool,
    /// Time at which the number was first reported, since the start of the history.
    pub named: Duration,
}

/// Sums of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers returned.
    pub allocations: u64,
    /// Items with a number that was allocated before.
    pub duplicates: u64,
    /// Items with a number not above their floor.
    pub decreases: u64,
    /// Items whose `prev` contradicts the history.
    pub chain_breaks: u64,
    /// Items outside of `1 ..= 2^63-1`.
    pub malformed: u64,
    /// Reads below their floor.
    pub stale_reads: u64,
    /// Exact reads of a number that was never the last number of a call.
    pub inexact_reads: u64,
    /// Items whose numbers do not begin right after the item's `prev`, counted since
    /// [`Checker::seamless`](crate::Checker::seamless) was declared.
    pub gaps: u64,
    /// Items of allocations, reads and advances that failed since [`Checker::seamless`](crate::Checker::seamless) was
    /// declared. An advance that is refused because the counter is past its target has not failed.
    pub unserved: u64,
    /// Numbers that a `prev` or an exact read reported as allocated, although no call of this history got them and no
    /// attempt without a response can have got them. Callers outside this history must have got them. Numbers that a
    /// call in flight may have got are not counted.
    pub foreign_prevs: u64,
    /// The same numbers as in `foreign_prevs`, but counted here if the history is complete. There are no callers
    /// outside a complete history, so each of these numbers is a broken promise.
    pub phantoms: u64,
}

impl Tally {
    /// Returns the number of broken promises of all kinds.
    pub fn violations(&self) -> u64 {
        let order = self.duplicates + self.decreases + self.chain_breaks + self.malformed;
        order + self.stale_reads + self.inexact_reads + self.gaps + self.unserved + self.phantoms
    }
}
