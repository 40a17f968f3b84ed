//! The beginning of an ownership: when it began and how, and how many numbers it may have skipped.
//!
//! A change of owner without an exact copy starts every uid of the section at the ceiling, so the numbers of a user
//! may jump. The record of the section keeps the last beginning permanently, which explains why a number jumped long
//! after the event of the takeover was removed.

use crate::id::Seq;

/// The way in which an ownership began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BeganBy {
    /// No ownership has begun yet, or it began before the store kept beginnings.
    #[default]
    Unknown,
    /// The first ownership of the section.
    First,
    /// The owner before stopped in an orderly way and gave the section up.
    Release,
    /// The owner before stopped to renew, or its process started anew.
    Takeover,
    /// The owner before handed the section over.
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

    /// Returns the number in an encoding, which never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The beginning of an ownership, or of a residence without an owner yet. The default is a beginning that is not known.
///
/// Groups of formats before 11 keep no beginnings, so all are the default there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Milliseconds since 1970 by the clock of the leading store, precise to a second; 0: not known. For people alone.
    pub at_unix_ms: u64,
    /// The way in which it began.
    pub by: BeganBy,
    /// The committed ceiling at the beginning. **Invariant:** at most the ceiling of the record, which never falls.
    pub ceiling: Seq,
    /// The most numbers that the beginning skipped for each uid of the section; `None` if the numbers before are not
    /// known to this set. 0 for an exact copy, which the next owner may still have lost before it started.
    pub skipped: Option<u64>,
}

impl Beginning {
    /// The beginning of a section that was in no set before.
    pub(super) const FIRST: Beginning =
        Beginning { at_unix_ms: 0, by: BeganBy::First, ceiling: Seq::ZERO, skipped: Some(0) };
}
