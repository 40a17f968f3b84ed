//! Derives how an ownership of a section began, from the section's record before and after the change that began the
//! ownership.

use super::State;
use super::beginning::{BeganBy, Beginning};
use super::record::{Residence, SectionRecord};
use super::rules::Rules;
use crate::id::{Epoch, HandoverId, SectionId, Seq};

impl State {
    /// Returns the record `next` with [`Residence::began`] set. If the change from `before` to `next` begins an
    /// ownership, the value describes its beginning. Otherwise the value is that of `before`.
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

    /// Returns the beginning of the ownership or residence `next`, which follows the residence `last` in this set.
    fn succession(&self, section: SectionId, last: &Residence, next: &Residence) -> Beginning {
        let is_known = last.began.by != BeganBy::Unknown;
        // Every uid of the section was at or above the ceiling at which the previous ownership began.
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
        // The first ownership of a residence began in the way in which the section came here. The way is not known if
        // the section came before the store kept beginnings.
        if last.epoch == last.since {
            return self.beginning(last.began.by, next, last.began.skipped);
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
