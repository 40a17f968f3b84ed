//! A type for each kind of id, version and counter, so that integers with different meanings cannot be confused.

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// A user, a conversation, or any other owner of a sequence.
    Uid(u64)
}
number! {
    /// A sequence number or a ceiling, `1 ..= 2^63-1`; 0 means "none yet". It never wraps.
    Seq(u64)
}
number! {
    /// Index of a section in the cluster's layout, from 0. It does not change when the section migrates to another set.
    SectionId(u32)
}
number! {
    /// Index of a uid in its section, from 0.
    SlotIndex(u32)
}
number! {
    /// Distance by which one raise usually moves a ceiling, 1 or above.
    Step(u64)
}
number! {
    /// Longest distance above a section's ceiling to which an advance may raise a uid of the section.
    AdvanceLimit(u64)
}
number! {
    /// Number of an ownership of a section. Every change of owner adds one. If a restore from a backup renumbers the
    /// section, the upper 32 bits become [`Lineage::restores`] of the lineage that the restore began. 0 if the section
    /// was never owned.
    Epoch(u64)
}
number! {
    /// Number of a registration of an AllocSvr. It grows with each registration, also after a restore of the set from a
    /// backup. 0 if the AllocSvr never registered.
    Incarnation(u64)
}
number! {
    /// Number of a renewal within an incarnation, which counts from 1. 0 if there was no renewal yet.
    RenewSeq(u64)
}
number! {
    /// Liveness counter of an AllocSvr. It is the number of renewals, raises and transfers that the store has applied
    /// for all incarnations of the AllocSvr together. 0 if there were none.
    Liveness(u64)
}
number! {
    /// Number of commands that a set's store has applied. The revision in a response is the number at the time when the
    /// store read its state for the response. 0 if there were none.
    Revision(u64)
}
number! {
    /// Number of an attempt to hand a section over. The section's owner draws it at random, so that no other process
    /// can guess it. 0 if there was no attempt.
    HandoverId(u64)
}
number! {
    /// Version of a set's route table. 0 if there is no table yet.
    RouteVersion(u64)
}
number! {
    /// Id of an AllocSvr within its set, 1 or above. The store assigns the id to the AllocSvr's name.
    NodeId(u32)
}
number! {
    /// Id of a set, 1 or above. It is drawn at random when the set is created, and never changes, even if the set's
    /// name does.
    SetId(u64)
}
number! {
    /// Number of a set's history. A restore of the set from a backup begins another lineage. The upper 32 bits count
    /// the restores of all sets of the cluster, so a larger lineage is newer. The lower 32 bits are random, except that
    /// one value of the lowest byte is reserved for lineages that a restored set began by itself. 0 if the set was
    /// never restored.
    Lineage(u64)
}
number! {
    /// Id of a migration. It is drawn at random when the migration is planned, never changes, and is the same in every
    /// set. 0 stands for no migration.
    MigrationId(u64)
}
number! {
    /// Hash of the part of a cluster's layout up to and including one of its spaces, see
    /// [`Layout::id_of`](crate::layout::Layout::id_of).
    LayoutId(u64)
}

impl Seq {
    /// "None yet": no number was allocated.
    pub const ZERO: Seq = Seq(0);
    /// The last number, 2^63-1. After it a uid is exhausted.
    pub const MAX: Seq = Seq(i64::MAX as u64);
}

/// Value of the lowest byte of a lineage that a restored set began by itself.
const OF_SET: u64 = 0xa5;

impl Lineage {
    /// Returns the lineage that begins with a restore for which an operator gave `count` as the count of restores.
    #[must_use]
    pub fn of_restore(count: u32, random: u32) -> Lineage {
        let lineage = Lineage(u64::from(count) << 32 | u64::from(random));
        if lineage.is_of_set() { Lineage(lineage.0 ^ 1) } else { lineage }
    }

    /// Returns the lineage that a restored set begins by itself, because the count of restores that an operator gave
    /// was too low.
    #[must_use]
    pub fn of_set(count: u32, random: u32) -> Lineage {
        Lineage(u64::from(count) << 32 | u64::from(random) & !0xff | OF_SET)
    }

    /// Returns whether a restored set began this lineage by itself, without a count of restores from an operator.
    #[must_use]
    pub fn is_of_set(self) -> bool {
        self.restores() > 0 && self.0 & 0xff == OF_SET
    }

    /// Returns the count of restores of all sets of the cluster, up to and including the restore that began this
    /// lineage.
    #[must_use]
    pub fn restores(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number above which epochs, incarnations and route versions continue after the restore that began
    /// this lineage. The new numbers are then above all epochs, incarnations and route versions of earlier lineages,
    /// because no lineage uses 2^32 of any of them.
    #[must_use]
    pub fn first_number(self) -> u64 {
        u64::from(self.restores()) << 32
    }
}

impl Epoch {
    /// Returns the upper 32 bits, which are [`Lineage::restores`] of the lineage whose restore last renumbered the
    /// section; 0 if no restore renumbered it.
    #[must_use]
    pub fn restores(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the epoch of the next ownership.
    ///
    /// # Panics
    /// After 2^64-1 changes of owner, which take 584,000 years at one per microsecond.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0.checked_add(1).expect("epochs do not run out"))
    }
}

impl Liveness {
    /// Returns the count plus one.
    ///
    /// # Panics
    /// After 2^64-1 counted commands, which take 584,000 years at one per microsecond.
    #[must_use]
    pub fn next(self) -> Liveness {
        Liveness(self.0.checked_add(1).expect("liveness counters do not run out"))
    }
}

impl Incarnation {
    /// Returns the next incarnation.
    ///
    /// # Panics
    /// After 2^64-1 incarnations, which take 584,000 years at one per microsecond.
    #[must_use]
    pub fn next(self) -> Incarnation {
        Incarnation(self.0.checked_add(1).expect("incarnations do not run out"))
    }
}

impl RouteVersion {
    /// Returns the next version.
    ///
    /// # Panics
    /// After 2^64-1 changes, which take 584,000 years at one per microsecond.
    #[must_use]
    pub fn next(self) -> RouteVersion {
        RouteVersion(self.0.checked_add(1).expect("route versions do not run out"))
    }
}

impl Revision {
    /// Returns the revision after one more command.
    ///
    /// # Panics
    /// After 2^64-1 commands, which take 584,000 years at one per microsecond.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0.checked_add(1).expect("revisions do not run out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lineage_shows_whether_an_operator_began_it() {
        for random in (0..=0x1ff).chain([u32::MAX]) {
            let (given, own) = (Lineage::of_restore(7, random), Lineage::of_set(7, random));
            assert!(!given.is_of_set() && own.is_of_set() && given != own, "{random}: {given} {own}");
            assert_eq!((given.restores(), own.restores()), (7, 7));
        }
        assert!(!Lineage(0xa5).is_of_set(), "one that was never restored");
    }
}
