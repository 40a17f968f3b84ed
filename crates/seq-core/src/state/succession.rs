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
            SectionRecord::Never if next.began.by == BeganBy::First => {
                self.beginning(BeganBy::First, &next, Some(0), Some(next.max_seq))
            }
            SectionRecord::Never | SectionRecord::Departed(_) => match next.handover_id {
                HandoverId(0) => self.beginning(BeganBy::Arrival, &next, None, Some(next.max_seq)),
                _ => self.beginning(BeganBy::Arrival, &next, Some(0), None),
            },
            SectionRecord::Quarantined(_) => self.beginning(BeganBy::Restore, &next, None, Some(next.max_seq)),
        };
        SectionRecord::Resident(Residence { began, ..next })
    }

    /// Returns the beginning of the ownership or residence `next`, which follows the residence `last` in this set.
    fn succession(&self, section: SectionId, last: &Residence, next: &Residence) -> Beginning {
        let floor = last.began.floor;
        // An owner that starts without an exact copy moves each uid from the floor or above to `start`.
        let without_copy = |by: BeganBy, start: Seq| {
            let skipped = floor.map(|floor| start.0.saturating_sub(floor.0));
            self.beginning(by, next, skipped, Some(start))
        };
        if next.handover_id != HandoverId(0) {
            return self.beginning(BeganBy::Handover, next, Some(0), floor);
        }
        if last.owner.is_some() {
            return without_copy(BeganBy::Takeover, next.max_seq);
        }
        if last.epoch == Epoch(0) {
            return self.beginning(BeganBy::First, next, Some(0), Some(next.max_seq));
        }
        // The first ownership of a residence began in the way in which the section came here. The way is not known if
        // the section came before the store kept beginnings.
        if last.epoch == last.since {
            return self.beginning(last.began.by, next, last.began.skipped, floor);
        }
        match self.copies.left(section) {
            Some(kept) if kept.length > 0 => self.beginning(BeganBy::Release, next, Some(0), floor),
            Some(kept) => without_copy(BeganBy::Release, kept.highest),
            None => without_copy(BeganBy::Release, next.max_seq),
        }
    }

    fn beginning(&self, by: BeganBy, next: &Residence, skipped: Option<u64>, floor: Option<Seq>) -> Beginning {
        let (at_unix_ms, ceiling) = (self.events.now_ms(), next.max_seq);
        Beginning { at_unix_ms, by, ceiling, skipped, floor }
    }
}
