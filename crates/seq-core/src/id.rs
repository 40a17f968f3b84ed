//! The words of the domain as types, so that two bare integers never stand next to each other.

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
    /// A sequence number, or a ceiling of sequence numbers, `1 ..= 2^63-1`; 0 means "none yet". Never wraps.
    Seq(u64)
}
number! {
    /// Index of a section in the cluster's layout, from 0. It stays when the section migrates to another set.
    SectionId(u32)
}
number! {
    /// Index of a uid in its section, from 0.
    SlotIndex(u32)
}
number! {
    /// Distance by which a ceiling is raised at a time, 1 or above.
    Step(u64)
}
number! {
    /// Distance above its section's ceiling to which a uid may be raised by an advance.
    AdvanceLimit(u64)
}
number! {
    /// Number of an ownership of a section; every change of owner adds one. The upper 32 bits are the count of the
    /// lineage whose restore it followed last, see [`Lineage::restores`]. 0: never owned.
    Epoch(u64)
}
number! {
    /// Number of a registration of an AllocSvr; continues across lineages. 0: never registered.
    Incarnation(u64)
}
number! {
    /// Number of a renewal within an incarnation. 0: none yet.
    RenewSeq(u64)
}
number! {
    /// Number of renewals, raises and transfers applied for an AllocSvr, across incarnations: the arbiter's liveness
    /// counter. 0: none.
    Liveness(u64)
}
number! {
    /// Number of commands that a set's store has applied. In a response: the number when the response was read. 0:
    /// none.
    Revision(u64)
}
number! {
    /// Number of an attempt to hand a section over, drawn at random by its owner, so that it cannot be guessed. 0: no
    /// attempt.
    HandoverId(u64)
}
number! {
    /// Version of a set's table section -> owner. 0: no table yet.
    RouteVersion(u64)
}
number! {
    /// An AllocSvr's id within its set, given by the store to its name, 1 or above.
    NodeId(u32)
}
number! {
    /// Id of a set, which never changes, even if its name does: drawn at random when the set is created, 1 or above.
    SetId(u64)
}
number! {
    /// Number of a set's history: a restore from a backup begins another lineage. The upper 32 bits count the restores
    /// of all sets of the cluster, so a larger lineage is newer. The lower bits are random except for the lowest byte,
    /// which marks lineages that no operator began. 0: never restored.
    Lineage(u64)
}
number! {
    /// Id of a migration, which is permanent and the same in every set: drawn at random when it is planned. 0: no
    /// migration.
    MigrationId(u64)
}
number! {
    /// Hash of a cluster's layout up to one of its spaces, see [`Layout::id_of`](crate::layout::Layout::id_of).
    LayoutId(u64)
}

impl Seq {
    /// "None yet": no number was allocated.
    pub const ZERO: Seq = Seq(0);
    /// The last number, 2^63-1. Past it a uid is exhausted.
    pub const MAX: Seq = Seq(i64::MAX as u64);
}

/// The lowest byte of a lineage that a restored set began by itself.
const OF_SET: u64 = 0xa5;

impl Lineage {
    /// Returns the lineage of a restore under the count that an operator gave.
    #[must_use]
    pub fn of_restore(count: u32, random: u32) -> Lineage {
        let lineage = Lineage(u64::from(count) << 32 | u64::from(random));
        if lineage.is_of_set() { Lineage(lineage.0 ^ 1) } else { lineage }
    }

    /// Returns the lineage that a restored set begins by itself, because the log of another set counts more.
    #[must_use]
    pub fn of_set(count: u32, random: u32) -> Lineage {
        Lineage(u64::from(count) << 32 | u64::from(random) & !0xff | OF_SET)
    }

    /// Returns whether a restored set began it by itself, so that no operator gave its count.
    #[must_use]
    pub fn is_of_set(self) -> bool {
        self.restores() > 0 && self.0 & 0xff == OF_SET
    }

    /// Returns how many restores of the cluster's sets there were, up to the restore that began this lineage.
    #[must_use]
    pub fn restores(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number above which epochs, incarnations and route versions begin after this lineage's restore, so
    /// that they are above all earlier ones, because no lineage has 2^32 of them.
    #[must_use]
    pub fn first_number(self) -> u64 {
        u64::from(self.restores()) << 32
    }
}

impl Epoch {
    /// Returns the count in the lineage whose restore the section followed last.
    #[must_use]
    pub fn restores(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the epoch of the next ownership.
    ///
    /// # Panics
    /// After 2^64-1 changes of owner; one a microsecond takes 584,000 years.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0.checked_add(1).expect("epochs do not run out"))
    }
}

impl Liveness {
    /// Returns the count plus one.
    ///
    /// # Panics
    /// After 2^64-1 counted commands; one a microsecond takes 584,000 years.
    #[must_use]
    pub fn next(self) -> Liveness {
        Liveness(self.0.checked_add(1).expect("liveness counters do not run out"))
    }
}

impl Incarnation {
    /// Returns the next incarnation.
    ///
    /// # Panics
    /// After 2^64-1 incarnations; one a microsecond takes 584,000 years.
    #[must_use]
    pub fn next(self) -> Incarnation {
        Incarnation(self.0.checked_add(1).expect("incarnations do not run out"))
    }
}

impl RouteVersion {
    /// Returns the next version.
    ///
    /// # Panics
    /// After 2^64-1 changes; one a microsecond takes 584,000 years.
    #[must_use]
    pub fn next(self) -> RouteVersion {
        RouteVersion(self.0.checked_add(1).expect("route versions do not run out"))
    }
}

impl Revision {
    /// Returns the revision after one more command.
    ///
    /// # Panics
    /// After 2^64-1 commands; one a microsecond takes 584,000 years.
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
