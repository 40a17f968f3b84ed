//! Reads the slots of all owned sections in repeated passes. A pass is divided into slices, between which other tasks
//! run.
//!
//! The count of numbers that a section allocated between two passes is the difference between the sums of its slots in
//! these passes. The records of an ownership begin at the sum of the copy from which the ownership started. If the
//! section was frozen for a handover, the records end at the sum of the copy that the freeze made. So the counts of the
//! owners before and after a handover add up exactly. If a section left this node without a copy, the numbers that it
//! allocated after the last pass are not recorded. A section that this node owned for less than a second may have no
//! record.

use std::collections::BTreeMap;
use std::sync::Arc;

use seq_core::SectionId;
use seq_core::activity::Figures;
use seq_core::lease::Clocks;
use seq_core::section::Tally;

use super::NodeActivity;
use super::order_check::OrderCheck;
use crate::fault_metrics::Violation;
use crate::ownership::{OwnedSection, Table};

/// Shortest time from the begin of one pass to the begin of the next pass, in milliseconds.
pub(crate) const MIN_PASS_MS: u32 = 1_000;

/// Number of bytes of slots in one slice, which is the part of a pass that is read without a break. The other tasks of
/// the runtime cannot run while a slice is read.
const SLICE: u64 = 256 << 10;

/// Bytes that are counted for a section in addition to the bytes of its pages of slots. They stand for the pointers to
/// these pages and for the section's records.
const SECTION_BYTES: u64 = 512;

/// A part of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Number of bytes of slots that were read. The pause before the next part of the pass is computed from this
    /// number.
    pub(crate) bytes: u64,
    /// Whether this slice ended the pass.
    pub(crate) is_last: bool,
}

/// Progress of a pass, and the sections for which records have begun.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    seen: BTreeMap<SectionId, Seen>,
    /// Number of changes of the table at the last sweep.
    swept: Option<u64>,
    /// First section of the next slice.
    at: SectionId,
    /// Section that the last slice began to read but did not finish, with the number of its pages that were read and
    /// the tally of these pages.
    part: Option<(Arc<OwnedSection>, usize, Tally)>,
    /// Bytes of the touched pages in this pass.
    slot_bytes: u64,
    /// Violations of the order that were found since the last call of [`Reader::take_violations`]. There are at most
    /// two for each section that was read.
    violations: Vec<(SectionId, Violation)>,
}

/// Section under one ownership for which records have begun.
#[derive(Debug)]
struct Seen {
    owned: Arc<OwnedSection>,
    /// Numbers of this ownership that are recorded already.
    counted: u64,
    /// Time until which its numbers are recorded, in milliseconds since 1970.
    until_ms: u64,
    order: OrderCheck,
}

impl Seen {
    /// Returns the figures for the time from the last recorded time until `now_ms`. `numbers` is the count of all
    /// numbers that this ownership of the section has allocated until `now_ms`.
    fn figures(&mut self, numbers: Option<u64>, now_ms: u64) -> Figures {
        let ms = u32::try_from(now_ms.saturating_sub(self.until_ms)).unwrap_or(u32::MAX);
        self.until_ms = self.until_ms.max(now_ms);
        // While a skip is in flight, `numbers` can be lower than the recorded count. The next pass then counts the
        // missing numbers.
        let more = numbers.unwrap_or(0).wrapping_sub(self.counted).cast_signed().max(0).cast_unsigned();
        self.counted = self.counted.wrapping_add(more);
        Figures { numbers: more, ms, ..Figures::default() }
    }
}

impl Reader {
    /// Reads the next slice of slots. Records the figures of each section of `table` whose last slot was read in this
    /// slice.
    pub(crate) fn slice(&mut self, activity: &NodeActivity, table: &Table, now: Clocks) -> Slice {
        activity.close_until(now);
        let mut bytes = 0;
        for owned in table.iter_from(self.at) {
            let (mut page, mut tally) = match self.part.take() {
                Some((part, page, tally)) if Arc::ptr_eq(&part, owned) => (page, tally),
                _ => {
                    bytes += SECTION_BYTES;
                    (0, Tally::default())
                }
            };
            while page < owned.pages() && bytes < SLICE {
                let read = owned.tally(page..page + 1);
                bytes += read.bytes;
                tally.add(read);
                page += 1;
            }
            self.at = owned.id;
            if page < owned.pages() {
                self.part = Some((owned.clone(), page, tally));
                return Slice { bytes, is_last: false };
            }
            self.record(activity, owned, tally, now);
            self.at = SectionId(owned.id.0 + 1);
            if bytes >= SLICE {
                return Slice { bytes, is_last: false };
            }
        }
        self.at = SectionId(0);
        Slice { bytes, is_last: true }
    }

    /// Ends a pass; returns the bytes of the touched pages.
    pub(crate) fn end_pass(&mut self) -> u64 {
        std::mem::take(&mut self.slot_bytes)
    }

    /// Returns the violations of the order that were found since the last call of this function.
    pub(crate) fn take_violations(&mut self) -> Vec<(SectionId, Violation)> {
        std::mem::take(&mut self.violations)
    }

    fn record(&mut self, activity: &NodeActivity, owned: &Arc<OwnedSection>, tally: Tally, now: Clocks) {
        self.slot_bytes += tally.bytes;
        self.enter(activity, owned, now);
        let seen = self.seen.get_mut(&owned.id).expect("entered above");
        let violations = seen.order.check(tally, owned.base(), owned.ceiling());
        self.violations.extend(violations.into_iter().flatten().map(|violation| (owned.id, violation)));
        let figures = seen.figures(owned.numbers(tally.sum), activity.ms(now.boottime));
        activity.record(owned.id, figures);
    }

    /// Begins the records of the ownership `owned`. If the records of an earlier ownership of the same section are
    /// open, ends them.
    fn enter(&mut self, activity: &NodeActivity, owned: &Arc<OwnedSection>, now: Clocks) {
        if self.seen.get(&owned.id).is_some_and(|seen| Arc::ptr_eq(&seen.owned, owned)) {
            return;
        }
        let (until_ms, order) = (activity.ms(owned.recorded_from), OrderCheck::default());
        let seen = Seen { owned: owned.clone(), counted: 0, until_ms, order };
        if let Some(left) = self.seen.insert(owned.id, seen) {
            self.leave(activity, left, now);
        }
        activity.enter(owned);
    }

    /// Ends the records of an ownership.
    fn leave(&mut self, activity: &NodeActivity, left: Seen, now: Clocks) {
        let violation = left.owned.final_sum().and_then(|sum| left.order.check_final(sum));
        self.violations.extend(violation.map(|violation| (left.owned.id, violation)));
        activity.leave(left, now);
    }

    /// Compares the sections that have records with `table`. Ends the records of sections that left the table, and
    /// begins records of sections that entered it.
    pub(crate) fn sweep(&mut self, activity: &NodeActivity, table: &Table, now: Clocks) {
        if self.swept.replace(table.changes()) == Some(table.changes()) {
            return;
        }
        let left: Vec<Seen> =
            self.seen.extract_if(.., |_, seen| !table.has(&seen.owned)).map(|(_, left)| left).collect();
        left.into_iter().for_each(|left| self.leave(activity, left, now));
        table.iter_from(SectionId(0)).for_each(|owned| self.enter(activity, owned, now));
    }
}

impl NodeActivity {
    /// Closes the columns whose time has passed.
    fn close_until(&self, now: Clocks) {
        self.recorded.lock().activity.close_until(self.ms(now.boottime));
    }

    fn enter(&self, owned: &OwnedSection) {
        self.recorded.lock().activity.enter(owned.id, !owned.is_in_ticks());
    }

    /// Adds `figures`, and the raises of the section since its last record, to the section's recorded activity.
    fn record(&self, section: SectionId, figures: Figures) {
        let mut recorded = self.recorded.lock();
        let raises = recorded.unrecorded.remove(&section).unwrap_or_default();
        recorded.activity.record(section, Figures { writes: raises.writes, raised: raises.raised, ..figures });
    }

    /// Ends the records of an ownership. If the section was frozen, the records end at the exact count of numbers that
    /// the ownership allocated.
    fn leave(&self, mut left: Seen, now: Clocks) {
        let section = left.owned.id;
        let figures = match left.owned.final_sum() {
            Some(sum) => left.figures(left.owned.numbers(sum), self.ms(now.boottime)),
            None => Figures::default(),
        };
        self.record(section, figures);
        self.recorded.lock().activity.leave(section);
    }
}

#[cfg(test)]
mod tests;
