//! The beginning of an ownership: when it began and how, and how many numbers it may have skipped.
//!
//! A change of owner without an exact copy starts every uid of the section at the ceiling, so the numbers of a user
//! may jump. The record of the section keeps the last beginning permanently, which answers why a number jumped long
//! after the event of the takeover was removed.

use super::State;
use super::record::{Residence, SectionRecord};
use super::rules::Rules;
use crate::id::{Epoch, HandoverId, SectionId, Seq};

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

    /// Returns the name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BeganBy::Unknown => "unknown",
            BeganBy::First => "first",
            BeganBy::Release => "release",
            BeganBy::Takeover => "takeover",
            BeganBy::Handover => "handover",
            BeganBy::Arrival => "arrival",
            BeganBy::Restore => "restore",
        }
    }

    /// Returns the number in an encoding, which never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The beginning of an ownership, or of a residence without an owner yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Milliseconds since 1970 by the clock of the leading store, precise to a second; 0: not known. For people alone.
    pub at_unix_ms: u64,
    /// The way in which it began.
    pub by: BeganBy,
    /// The ceiling at the beginning.
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

impl State {
    /// Returns the next record of a section with the beginning of its ownership, if an ownership begins.
    pub(super) fn begun(&self, section: SectionId, before: &SectionRecord, next: SectionRecord) -> SectionRecord {
        let SectionRecord::Resident(next) = next else { return next };
        // Members of an earlier release keep no beginnings.
        if self.rules < Rules::Eleven {
            return SectionRecord::Resident(Residence { began: Beginning::default(), ..next });
        }
        let began = match before {
            SectionRecord::Resident(last) if last.epoch == next.epoch || next.owner.is_none() => last.began,
            SectionRecord::Resident(last) => self.succession(section, last, &next),
            SectionRecord::Never if next.began.by == BeganBy::First => self.beginning(BeganBy::First, &next, Some(0)),
            SectionRecord::Never | SectionRecord::Departed(_) => {
                let is_exact = next.handover_id != HandoverId(0);
                self.beginning(BeganBy::Arrival, &next, is_exact.then_some(0))
            }
            SectionRecord::Quarantined(_) => self.beginning(BeganBy::Restore, &next, None),
        };
        SectionRecord::Resident(Residence { began, ..next })
    }

    /// Returns the beginning of an ownership that follows another residence in this set.
    fn succession(&self, section: SectionId, last: &Residence, next: &Residence) -> Beginning {
        let is_known = last.began.by != BeganBy::Unknown;
        // Every uid of the section was at or above the ceiling at which the ownership before began.
        let above = |highest: Seq| is_known.then_some(highest.0.saturating_sub(last.began.ceiling.0));
        if next.handover_id != HandoverId(0) {
            return self.beginning(BeganBy::Handover, next, Some(0));
        }
        if last.owner.is_some() {
            return self.beginning(BeganBy::Takeover, next, above(next.max_seq));
        }
        if last.epoch == Epoch(0) {
            return self.beginning(BeganBy::First, next, Some(0));
        }
        // The first ownership of a residence began in the way in which the section came here.
        if last.epoch == last.since {
            return Beginning { at_unix_ms: self.events.now_ms(), ..last.began };
        }
        let skipped = match self.copies.left(section) {
            Some(kept) if kept.length > 0 => Some(0),
            Some(kept) => above(kept.highest),
            None => above(next.max_seq),
        };
        self.beginning(BeganBy::Release, next, skipped)
    }

    fn beginning(&self, by: BeganBy, next: &Residence, skipped: Option<u64>) -> Beginning {
        Beginning { at_unix_ms: self.events.now_ms(), by, ceiling: next.max_seq, skipped }
    }
}
