//! Account of all numbers of a cluster, made after a run from the calls of the callers, the ownerships of the sections,
//! the events of the sets, and the figures of the stores.
//!
//! For each uid, `last number = numbers given + numbers of lost responses + jumps`. Each jump has exactly one cause,
//! which is either an advance, or the beginning of an ownership whose owner did not have the last numbers. A beginning
//! belongs to exactly one event of its set. For each event, the number of sections and the next owners are those of the
//! beginnings that belong to it, and no jump is larger than its bound. For each section, the ceiling is the sum of the
//! distances by which the stores raised it.
//!
//! **The rule for lost responses.** One caller has each uid to itself, and takes the same number of numbers with each
//! call. An attempt without a response may have taken its numbers at any time after it was sent. So a hole between two
//! numbers of the same ownership must be a multiple of that count, and takes one unexplained attempt for each multiple.
//! The newest attempts are used first. Before a jump, no number shows whether an attempt took its numbers. There, the
//! attempts since the last response that explain no other hole count as numbers of lost responses, up to the length of
//! the hole, and the rest of the hole is the jump.
//!
//! **Invariant:** the check is independent of the service, as the checker in `seq-order`: no clock, no I/O, no type of
//! another crate. So it cannot share an error with the service.

use std::collections::{BTreeMap, BTreeSet};

mod discrepancy;
mod events;
mod uids;

#[cfg(test)]
mod tests;

pub use discrepancy::Discrepancy;

/// Everything that is known about a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The calls of each uid.
    pub uids: Vec<UidCalls>,
    /// Every ownership of the sections of these uids, in any order.
    pub ownerships: Vec<Ownership>,
    /// Every event of the sets about ownerships, in any order.
    pub events: Vec<OwnershipEvent>,
    /// The ceilings at the end, one for each set in which a section is or was.
    pub ceilings: Vec<Ceiling>,
}

/// The calls for one uid, which one caller makes one after another.
#[derive(Clone, Debug)]
pub struct UidCalls {
    /// The uid.
    pub uid: u64,
    /// Its section.
    pub section: u32,
    /// Count of the numbers that each of its calls takes, 1 or above.
    pub count: u64,
    /// The calls, in order. The last call is a read.
    pub steps: Vec<Step>,
}

/// A call, or an attempt of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call got numbers, up to `last`.
    Given {
        /// Epoch of the ownership that gave them.
        epoch: u64,
        /// The last number.
        last: u64,
        /// The number before the first number, as the response states it; 0 if the response does not state it.
        prev: u64,
    },
    /// An attempt of a call for numbers got no response, or a response without its outcome.
    Lost,
    /// The uid was advanced to `to`.
    Advanced {
        /// Epoch of the ownership that advanced it.
        epoch: u64,
        /// The number.
        to: u64,
    },
    /// A read of the last number.
    Read {
        /// Epoch of the ownership that responded.
        epoch: u64,
        /// The last number, or an upper bound of it.
        value: u64,
        /// Whether it is the last number.
        exact: bool,
    },
}

/// The way in which an ownership began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Beginning {
    /// The section had no owner before.
    FirstOwner,
    /// The owner before stopped in an orderly way.
    Release,
    /// The owner before was lost.
    Takeover,
    /// The owner before handed the section over.
    Handover,
    /// The section came from another set.
    Arrival,
    /// A restored set took the section back.
    Restore,
}

impl Beginning {
    /// Returns the beginning with this name in events and records of sections; `None` for other names.
    #[must_use]
    pub fn parse(kind: &str) -> Option<Beginning> {
        Some(match kind {
            "first_owners" => Beginning::FirstOwner,
            "release" => Beginning::Release,
            "takeover" => Beginning::Takeover,
            "handover" => Beginning::Handover,
            "arrival" => Beginning::Arrival,
            "restored_owners" => Beginning::Restore,
            _ => return None,
        })
    }

    /// Returns whether the event of such a beginning names the owner before.
    #[must_use]
    pub fn names_owner_before(self) -> bool {
        matches!(self, Beginning::Takeover | Beginning::Handover)
    }
}

/// An ownership of a section, as its record in the set has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Name of the set.
    pub set: String,
    /// The section.
    pub section: u32,
    /// Its epoch.
    pub epoch: u64,
    /// The way in which it began.
    pub by: Beginning,
    /// Owner before; empty if there was none, or if it was in another set.
    pub from: String,
    /// The owner.
    pub owner: String,
    /// The ceiling at the beginning. An owner without the last numbers starts each uid there.
    pub ceiling: u64,
    /// Time of the beginning by the store, in milliseconds.
    pub at_ms: u64,
}

/// An event about ownerships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipEvent {
    /// Name of the set.
    pub set: String,
    /// Index in the event log of the set.
    pub index: u64,
    /// The way in which the ownerships began.
    pub by: Beginning,
    /// Owner before; empty if the event names none.
    pub from: String,
    /// The next owners, each with the number of sections that it got.
    pub to: BTreeMap<String, u32>,
    /// Number of sections of owners that are not in `to`.
    pub others: u32,
    /// Number of ownerships.
    pub sections: u32,
    /// The lowest and the highest section.
    pub range: (u32, u32),
    /// The most numbers that any uid of the sections skipped; `None` if the set does not know it.
    pub most_skipped: Option<u64>,
    /// Times of its first and its last change, in milliseconds.
    pub times_ms: (u64, u64),
}

/// The ceiling of a section in one set at the end of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Name of the set.
    pub set: String,
    /// The section.
    pub section: u32,
    /// The ceiling in the set's record: at present, or when the section departed.
    pub ceiling: u64,
    /// Sum of the distances by which raises moved it in this set.
    pub raised: u64,
    /// Sum of the distances of which an AllocSvr that still runs has the responses. This sum is not above `raised`.
    /// The difference consists of raises whose response was lost, or whose AllocSvr was.
    pub responded: u64,
}

/// A jump of a uid: numbers that are never given, because of one advance or of the beginning of one ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The uid.
    pub uid: u64,
    /// Count of the numbers, without the numbers of lost responses.
    pub numbers: u64,
    /// Count of the numbers of lost responses in the same hole.
    pub lost: u64,
    /// Place of the ownership in [`History::ownerships`]; `None` for an advance.
    pub ownership: Option<usize>,
}

/// A balanced account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Count of the uids.
    pub uids: u64,
    /// Count of the numbers that callers got.
    pub given: u64,
    /// Count of the numbers of lost responses.
    pub lost: u64,
    /// Sum of the last numbers of all uids.
    pub last: u64,
    /// The jumps.
    pub jumps: Vec<Jump>,
    /// For each ownership, the place of its event in [`History::events`].
    pub events: Vec<usize>,
    /// Sum of the distances by which ceilings were raised.
    pub raised: u64,
    /// Sum of [`Ceiling::responded`].
    pub responded: u64,
}

impl Account {
    /// Returns the sum of all jumps.
    #[must_use]
    pub fn jumped(&self) -> u64 {
        self.jumps.iter().map(|jump| jump.numbers).sum()
    }
}

/// Makes the account of a run.
///
/// # Errors
/// Every place at which the account does not balance.
pub fn settle(history: &History) -> Result<Account, Vec<Discrepancy>> {
    let mut found = Vec::new();
    let events = events::assign(history, &mut found);
    let mut account = Account::default();
    for calls in &history.uids {
        uids::settle(history, &events, calls, &mut account, &mut found);
    }
    settle_ceilings(history, &mut account, &mut found);
    account.events = events.into_iter().map(Option::unwrap_or_default).collect();
    if found.is_empty() { Ok(account) } else { Err(found) }
}

fn settle_ceilings(history: &History, account: &mut Account, found: &mut Vec<Discrepancy>) {
    let sections: BTreeSet<u32> = history.ceilings.iter().map(|one| one.section).collect();
    for section in sections {
        let of_section = || history.ceilings.iter().filter(move |one| one.section == section);
        let raised: u64 = of_section().map(|one| one.raised).sum();
        let ceiling = of_section().map(|one| one.ceiling).max().unwrap_or(0);
        account.raised += raised;
        account.responded += of_section().map(|one| one.responded).sum::<u64>();
        found.extend(of_section().filter(|one| one.responded > one.raised).cloned().map(Discrepancy::Responded));
        if ceiling != raised {
            found.push(Discrepancy::Ceiling { section, ceiling, raised });
        }
        // If a section came to a set only once, all its raises in other sets were made before.
        for one in of_section() {
            let is_arrival =
                |way: &&Ownership| way.set == one.set && way.section == section && way.by == Beginning::Arrival;
            let arrivals: Vec<&Ownership> = history.ownerships.iter().filter(is_arrival).collect();
            let elsewhere: u64 = of_section().filter(|other| other.set != one.set).map(|other| other.raised).sum();
            if let [arrival] = arrivals[..]
                && arrival.ceiling != elsewhere
            {
                let (set, ceiling) = (one.set.clone(), arrival.ceiling);
                found.push(Discrepancy::Arrival { set, section, ceiling, raised: elsewhere });
            }
        }
    }
}
