//! The places at which an account does not balance.

use std::collections::BTreeMap;
use std::fmt;

use super::{Ceiling, Ownership, OwnershipEvent};

/// A place at which the account does not balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discrepancy {
    /// Numbers after `after` and up to `before` were neither given nor skipped for a known cause.
    Hole {
        /// The uid.
        uid: u64,
        /// Epoch of the call that showed the hole.
        epoch: u64,
        /// The last number that is accounted for.
        after: u64,
        /// The number before the next given number.
        before: u64,
        /// Count of the attempts without a response that explain no other hole.
        attempts: usize,
    },
    /// A number is not above a number that was given or skipped before it.
    Repeated {
        /// The uid.
        uid: u64,
        /// The number.
        number: u64,
        /// The last number that is accounted for.
        last: u64,
    },
    /// The `prev` of a response is not the number before its first number.
    Prev {
        /// The uid.
        uid: u64,
        /// The `prev` in the response.
        stated: u64,
        /// The number before the first number; 0 if the owner cannot know it.
        expected: u64,
    },
    /// The last step of a uid is no read.
    NotRead(u64),
    /// A call has an epoch of which no ownership is known, or an earlier one than the call before.
    Epoch {
        /// The section.
        section: u32,
        /// The epoch.
        epoch: u64,
    },
    /// No event of the set has the beginning of an ownership.
    NoEvent(Ownership),
    /// Several events have the beginning of an ownership.
    SeveralEvents(Ownership, Vec<u64>),
    /// An event states other counts than the beginnings that belong to it.
    EventCounts {
        /// The event.
        event: OwnershipEvent,
        /// The number of beginnings of each next owner.
        found: BTreeMap<String, u32>,
    },
    /// Two events of a set have the same index.
    SameIndex(String, u64),
    /// A uid skipped more than the event of the ownership states.
    AboveBound {
        /// The uid.
        uid: u64,
        /// Count of the numbers that it skipped.
        skipped: u64,
        /// Set and index of the event.
        event: (String, u64),
        /// The most numbers that the event states.
        most: u64,
    },
    /// The ceiling of a section is not the sum of its raises.
    Ceiling {
        /// The section.
        section: u32,
        /// The ceiling.
        ceiling: u64,
        /// Sum of the raises in all sets.
        raised: u64,
    },
    /// A section arrived in a set with another ceiling than its raises in other sets add up to.
    Arrival {
        /// The set.
        set: String,
        /// The section.
        section: u32,
        /// The ceiling at the arrival.
        ceiling: u64,
        /// Sum of the raises in all other sets.
        raised: u64,
    },
    /// AllocSvrs have responses of more raises than the store applied.
    Responded(Ceiling),
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discrepancy::Hole { uid, epoch, after, before, attempts } => write!(
                f,
                "uid {uid}: numbers {} to {before} have no cause in epoch {epoch}; {attempts} attempts had no response",
                after + 1
            ),
            Discrepancy::Repeated { uid, number, last } => {
                write!(f, "uid {uid}: number {number} is not above {last}")
            }
            Discrepancy::Prev { uid, stated, expected } => {
                write!(f, "uid {uid}: prev is {stated} instead of {expected}")
            }
            Discrepancy::NotRead(uid) => write!(f, "uid {uid}: it was not read at the end"),
            Discrepancy::Epoch { section, epoch } => {
                write!(
                    f,
                    "section {section}: a call has epoch {epoch}, of which no ownership is known, or which was over"
                )
            }
            Discrepancy::NoEvent(ownership) => write!(f, "no event has {ownership:?}"),
            Discrepancy::SeveralEvents(ownership, events) => write!(f, "the events {events:?} have {ownership:?}"),
            Discrepancy::EventCounts { event, found } => write!(f, "{found:?} began with {event:?}"),
            Discrepancy::SameIndex(set, index) => write!(f, "set {set} has two events {index}"),
            Discrepancy::AboveBound { uid, skipped, event: (set, index), most } => {
                write!(f, "uid {uid}: it skipped {skipped} numbers, and event {index} of set {set} has {most} at most")
            }
            Discrepancy::Ceiling { section, ceiling, raised } => {
                write!(f, "section {section}: its ceiling is {ceiling}, and its raises add up to {raised}")
            }
            Discrepancy::Arrival { set, section, ceiling, raised } => write!(
                f,
                "section {section}: it arrived in set {set} at {ceiling}, and its raises before add up to {raised}"
            ),
            Discrepancy::Responded(ceiling) => write!(f, "more raises had a response than were applied: {ceiling:?}"),
        }
    }
}
