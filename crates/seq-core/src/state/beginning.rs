//! Records when and how an ownership began, and how many numbers may have been skipped at its beginning.
//!
//! If an owner starts without an exact copy, every uid of the section continues after the ceiling, so the numbers of a
//! user may jump. The section's record keeps the beginning of its last ownership, so that an operator can explain a
//! jump even after the event of a takeover was removed from the event log.

use crate::id::Seq;

/// The way in which an ownership began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BeganBy {
    /// No ownership has begun yet, or the ownership began under a release that did not record beginnings.
    #[default]
    Unknown,
    /// The first ownership of the section.
    First,
    /// The previous owner stopped in an orderly way and gave the section up.
    Release,
    /// The previous owner no longer renewed its lease, or its process was restarted.
    Takeover,
    /// The previous owner handed the section over.
    Handover,
    /// The section came from another set.
    Arrival,
    /// A restored set took the section back.
    Restore,
}

impl BeganBy {
    /// All ways, in the order of their numbers.
    pub const ALL: [BeganBy; 7] = [
        BeganBy::Unknown,
        BeganBy::First,
        BeganBy::Release,
        BeganBy::Takeover,
        BeganBy::Handover,
        BeganBy::Arrival,
        BeganBy::Restore,
    ];

    /// Returns the number of this variant in encodings, which never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The beginning of an ownership; or the beginning of a section's residence in a set, until the section gets its first
/// owner there. The default is a beginning that is not known: groups of formats before 11 keep no beginnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Time of the beginning, in milliseconds since 1970 by the clock of the store's leader, precise to a second; 0 if
    /// not known. It is only shown to people.
    pub at_unix_ms: u64,
    /// The way in which it began.
    pub by: BeganBy,
    /// The committed ceiling at the beginning. **Invariant:** at most the ceiling of the record, which never falls.
    pub ceiling: Seq,
    /// Upper bound of how many numbers each uid of the section skipped at the beginning; `None` if this set does not
    /// know the uids' previous numbers. 0 if the owner was to start from an exact copy, even if it lost the copy before
    /// it started.
    pub skipped: Option<u64>,
    /// Lower bound of the numbers of all uids of the section at the beginning. It is the ceiling, or another bound, at
    /// which the last owner without an exact copy started, because owners with a copy do not move idle uids. `None` if
    /// this set does not know it, for example because the section arrived with an exact copy. **Invariant:** at most
    /// `ceiling`.
    pub floor: Option<Seq>,
}

impl Beginning {
    /// The beginning of a section that was in no set before.
    pub(super) const FIRST: Beginning =
        Beginning { at_unix_ms: 0, by: BeganBy::First, ceiling: Seq::ZERO, skipped: Some(0), floor: Some(Seq::ZERO) };
}
