//! One state of the model of restores.

use crate::restores::bounds::{Bounds, Budget};

pub(crate) const SETS: usize = 3;
/// Addition of a count to a ceiling: more numbers than are taken in a run.
pub(crate) const MARGIN: u8 = 8;
/// Addition of a count to an epoch: more ownerships than begin in a run.
pub(crate) const EPOCHS: u8 = 16;
/// Distance of a ceiling above the number that needed it.
pub(crate) const STEP: u8 = 1;
/// Ticks of the lease of each set's owner, and of the wait of its quarantine.
pub(crate) const LEASES: [u8; SETS] = [1, 3, 2];

/// A lineage of a set. Ids are unique, but counts may not be if a bug is planted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lineage {
    pub(crate) count: u8,
    pub(crate) id: u8,
}

/// A record of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Record {
    Never,
    Resident {
        since: u8,
        ceiling: u8,
        /// The next number of its owner.
        next: u8,
    },
    Departed {
        since: u8,
        to: usize,
        /// The count of the target's lineage that it departed to.
        to_count: u8,
        ceiling: u8,
        arrived: bool,
    },
    /// After a restore.
    Quarantined {
        since: u8,
        ceiling: u8,
        /// The count of the lineage in which the ceiling was committed.
        count: u8,
    },
}

impl Record {
    /// Returns the epoch since which the section is here, or elsewhere.
    pub(crate) fn since(self) -> u8 {
        match self {
            Record::Never => 0,
            Record::Resident { since, .. } | Record::Departed { since, .. } | Record::Quarantined { since, .. } => {
                since
            }
        }
    }
}

/// Contents of a record of another set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) since: u8,
    pub(crate) set: usize,
    pub(crate) count: u8,
    pub(crate) ceiling: u8,
}

/// Whether a set takes sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    Open,
    Closing,
    Closed,
}

/// Knowledge of a set in quarantine. Arrays are by set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recovery {
    pub(crate) answered: [bool; SETS],
    pub(crate) claim: Option<Claim>,
    /// The sets that the backup knew as closed.
    pub(crate) closed: [bool; SETS],
    /// The closed sets whose records are in the responses.
    pub(crate) heir_of: [bool; SETS],
    /// The longest lease that the quarantine must outlast, and the ticks since the newest lineage is known.
    pub(crate) needs: u8,
    pub(crate) elapsed: u8,
}

/// The store of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) lineage: Lineage,
    pub(crate) record: Record,
    /// The newest known lineage of each other set: nothing older is accepted.
    pub(crate) fenced: [Lineage; SETS],
    /// The lineage of each other set whose fence was accepted.
    pub(crate) admitted: [Lineage; SETS],
    pub(crate) closing: Stage,
    /// Stage of each other set, as far as it is known.
    pub(crate) known: [Stage; SETS],
    pub(crate) heir_of: [bool; SETS],
    /// The margin, which differs from 1 only with that bug.
    pub(crate) margin: u8,
    pub(crate) recovery: Option<Recovery>,
}

impl Store {
    /// Returns the highest count of any set that this store knows.
    pub(crate) fn most(&self) -> u8 {
        self.fenced.iter().map(|one| one.count).fold(self.lineage.count, Ord::max)
    }
}

/// Whether the processes of a set run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Running,
    /// The disks of the set are lost.
    Lost,
    /// The set was closed, and stopped permanently.
    Stopped,
}

/// The owner of a lost store, under its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ghost {
    pub(crate) next: u8,
    pub(crate) ceiling: u8,
    pub(crate) ticks: u8,
}

/// A promise that a step broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    Unique,
    Ordered,
    CeilingsRise,
}

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) stores: [Store; SETS],
    pub(crate) lives: [Life; SETS],
    pub(crate) backups: [Option<Store>; SETS],
    pub(crate) ghosts: [Option<Ghost>; SETS],
    /// The highest count that the operator knows.
    pub(crate) notebook: u8,
    /// Restores of each set since its backup.
    pub(crate) nth: [u8; SETS],
    /// Lineages so far.
    pub(crate) lineages: u8,
    /// The numbers that were taken, as bits, and the highest ceiling of a residence.
    pub(crate) given: u128,
    pub(crate) highest: u8,
    pub(crate) broken: Option<Promise>,
    pub(crate) left: Budget,
}

impl World {
    /// Creates a world in which the section is in the first set.
    pub(crate) fn start(bounds: &Bounds) -> World {
        let is_there = |set: usize| set < usize::from(bounds.budget.sets);
        let store = |record| Store {
            lineage: Lineage::default(),
            record,
            fenced: [Lineage::default(); SETS],
            admitted: [Lineage::default(); SETS],
            closing: Stage::Open,
            known: [Stage::Open; SETS],
            // No set awaits a set that does not exist.
            heir_of: std::array::from_fn(|set| !is_there(set)),
            margin: 1,
            recovery: None,
        };
        let resident = Record::Resident { since: 1, ceiling: STEP, next: 1 };
        World {
            stores: [store(resident), store(Record::Never), store(Record::Never)],
            lives: std::array::from_fn(|set| if is_there(set) { Life::Running } else { Life::Stopped }),
            backups: [None; SETS],
            ghosts: [None; SETS],
            notebook: 0,
            nth: [0; SETS],
            lineages: 0,
            given: 0,
            highest: STEP,
            broken: None,
            left: bounds.budget,
        }
    }

    /// Takes a number.
    pub(crate) fn take(&mut self, number: u8) {
        let bit = 1u128 << number;
        if self.given & bit != 0 {
            self.broken = Some(Promise::Unique);
        } else if self.given > bit {
            self.broken = Some(Promise::Ordered);
        }
        self.given |= bit;
    }

    /// Makes the section resident.
    pub(crate) fn reside(&mut self, set: usize, since: u8, ceiling: u8) {
        if ceiling < self.highest {
            self.broken = Some(Promise::CeilingsRise);
        }
        self.highest = self.highest.max(ceiling);
        self.stores[set].record = Record::Resident { since, ceiling, next: ceiling + 1 };
    }

    /// Returns whether a set responds to other sets and to operators.
    pub(crate) fn runs(&self, set: usize) -> bool {
        self.lives[set] == Life::Running
    }

    /// Returns whether a set also serves.
    pub(crate) fn serves(&self, set: usize) -> bool {
        self.runs(set) && self.stores[set].recovery.is_none()
    }

    /// Returns a lineage that no set had before.
    pub(crate) fn lineage(&mut self, count: u8) -> Lineage {
        self.lineages += 1;
        Lineage { count, id: self.lineages }
    }
}
