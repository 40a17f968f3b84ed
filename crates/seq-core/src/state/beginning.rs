//! The beginning of an ownership: when it began and how, and how many numbers it may have skipped.
//!
//! A change of owner without an exact copy starts every uid of the section at the ceiling, so the numbers of a user may
//! jump. The record of the section permanently keeps how its last ownership began, so that a jump can be explained even
//! after the event of the takeover was removed from the event log.

use crate::id::Seq;

/// The way in which an ownership began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BeganBy {
    /// No ownership has begun yet, or it began under a release that did not keep beginnings.
    #[default]
    Unknown,
    /// The first ownership of the section.
    First,
    /// The owner before stopped in an orderly way and gave the section up.
    Release,
    /// The owner before no longer renewed its lease, or its process started anew.
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

/// The beginning of an ownership, or of a residence without an owner yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Time in milliseconds since 1970 by the clock of the store's leader, precise to a second; 0 if not known. Only
    /// shown to people.
    pub at_unix_ms: u64,
    /// The way in which it began.
    pub by: BeganBy,
    /// The ceiling at the beginning.
    pub ceiling: Seq,
    /// Upper bound of the numbers that the beginning skipped for each uid of the section; `None` if this set does not
    /// know the numbers before. 0 if there was an exact copy, although the next owner may have lost the copy before it
    /// started.
    pub skipped: Option<u64>,
}

impl Beginning {
    /// The beginning of a section that was in no set before.
    pub(super) const FIRST: Beginning =
        Beginning { at_unix_ms: 0, by: BeganBy::First, ceiling: Seq::ZERO, skipped: Some(0) };
}
