//! Section that this process owns.
//!
//! **Invariant:** numbers are taken and read through [`Served`] only, which exists only under a lease that was checked
//! before the table was loaded. Access to the ceiling and the copy of a section needs no lease.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use seq_core::lane_clock::{self, LaneClock, NotTaken};
use seq_core::section::{RaiseTicket, SectionCopy, Tally};
use seq_core::{Advance, AdvanceLimit, Count, Epoch, Reading, Section, SectionId, Seq, SlotIndex, Step, Take, Target};
use tokio::sync::Notify;

/// Section under one ownership.
#[derive(Debug)]
pub(crate) struct OwnedSection {
    pub(crate) id: SectionId,
    /// Number of the ownership.
    pub(crate) epoch: Epoch,
    /// Notified after the ceiling was raised and after the section left the table.
    pub(crate) changed: Notify,
    /// The clock of lanes whose numbers follow it.
    pub(crate) clock: Option<LaneClock>,
    /// Begin of the ownership, or its continuation after a handover that failed, in nanoseconds of the boot clock.
    pub(crate) began: u64,
    /// Start of the ownership.
    pub(crate) start: Start,
    /// Sum of the copy, once the section was frozen.
    final_sum: OnceLock<u64>,
    section: Section,
}

/// Start of an ownership, which decides how many numbers it skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// From a copy, or as the first ownership: no number is skipped.
    Exact,
    /// At the ceiling without a copy, because the owner before was lost.
    Takeover,
    /// At the ceiling, because the copy of a handover was not used.
    CopyLost,
}

impl OwnedSection {
    /// Creates a section whose ownership begins at a time in nanoseconds of the boot clock.
    pub(crate) fn new(
        (id, epoch): (SectionId, Epoch),
        clock: Option<LaneClock>,
        section: Section,
        (began, start): (u64, Start),
    ) -> Arc<OwnedSection> {
        let (changed, final_sum) = (Notify::new(), OnceLock::new());
        Arc::new(OwnedSection { id, epoch, changed, clock, began, start, final_sum, section })
    }

    /// Returns whether the numbers are ticks: see [`Section::is_in_ticks`].
    pub(crate) fn is_in_ticks(&self) -> bool {
        self.section.is_in_ticks()
    }

    /// Returns whether no lane has a number at a time in milliseconds since 1970: see [`LaneClock::rests`].
    pub(crate) fn rests(&self, unix_ms: u64) -> bool {
        self.clock.is_some_and(|clock| clock.rests(&self.section, unix_ms))
    }

    /// Returns the committed ceiling as known here.
    pub(crate) fn ceiling(&self) -> Seq {
        self.section.ceiling()
    }

    /// Returns the number above which all numbers of the ownership are: see [`Section::base`].
    pub(crate) fn base(&self) -> Seq {
        self.section.base()
    }

    /// Returns the count of skipped numbers: see [`Section::skipped`].
    pub(crate) fn skipped(&self) -> u64 {
        self.section.skipped()
    }

    /// Changes the step of raises: see [`Section::set_step`].
    pub(crate) fn set_step(&self, step: Step) {
        self.section.set_step(step);
    }

    /// Returns the number of uids.
    pub(crate) fn uids(&self) -> u32 {
        self.section.uids()
    }

    /// Returns the number of pages: see [`Section::pages`].
    pub(crate) fn pages(&self) -> usize {
        self.section.pages()
    }

    /// Sums up the slots of pages: see [`Section::tally`].
    pub(crate) fn tally(&self, pages: Range<usize>) -> Tally {
        self.section.tally(pages)
    }

    /// Returns the count of allocated numbers by the sum of all pages: see [`Section::numbers`].
    pub(crate) fn numbers(&self, sum: u64) -> Option<u64> {
        self.section.numbers(sum)
    }

    /// Freezes every slot and copies the exact values: see [`Section::freeze`].
    pub(crate) fn freeze(&self) -> SectionCopy {
        let copy = self.section.freeze();
        self.final_sum.get_or_init(|| copy.sum());
        copy
    }

    /// Returns the sum of all slots of a section that was frozen, which does not change any more.
    pub(crate) fn final_sum(&self) -> Option<u64> {
        self.final_sum.get().copied()
    }

    /// Returns the ceiling to request: see [`Section::raise_target`].
    pub(crate) fn raise_target(&self) -> Option<Seq> {
        self.section.raise_target()
    }

    /// Adopts a committed ceiling: see [`Section::raised`].
    pub(crate) fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        self.section.raised(committed)
    }
}

/// Section that may be served now.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a>(&'a Arc<OwnedSection>);

impl<'a> Served<'a> {
    #[inline]
    pub(super) fn new(owned: &'a Arc<OwnedSection>) -> Served<'a> {
        Served(owned)
    }

    /// Returns access to a section without a lease.
    #[cfg(test)]
    pub(crate) fn unleased(owned: &'a Arc<OwnedSection>) -> Served<'a> {
        Served(owned)
    }

    /// Returns the number of the ownership.
    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        self.0.epoch
    }

    /// Returns the section without the right to serve from it.
    pub(crate) fn owned(self) -> &'a Arc<OwnedSection> {
        self.0
    }

    /// Returns whether this is `owned`, under the same ownership.
    pub(crate) fn is(self, owned: &Arc<OwnedSection>) -> bool {
        Arc::ptr_eq(self.0, owned)
    }

    /// Allocates numbers: see [`Section::take`].
    #[inline]
    pub(crate) fn take(self, slot: SlotIndex, count: Count) -> Take {
        self.0.section.take(slot, count)
    }

    /// Allocates numbers of a lane, all of them above a number: see [`lane_clock::take`].
    #[inline]
    pub(crate) fn take_in_lane(
        self,
        slot: SlotIndex,
        count: Count,
        above: Seq,
        unix_ms: u64,
    ) -> Result<Take, NotTaken> {
        lane_clock::take(&self.0.section, self.0.clock.as_ref(), (slot, count), above, unix_ms)
    }

    /// Advances a uid: see [`Section::advance`].
    pub(crate) fn advance(self, slot: SlotIndex, to: Target, limit: AdvanceLimit) -> Advance {
        self.0.section.advance(slot, to, limit)
    }

    /// Reads a uid's last number: see [`Section::current`].
    pub(crate) fn current(self, slot: SlotIndex) -> Option<Reading> {
        self.0.section.current(slot)
    }

    /// Prefetches a slot: see [`Section::warm`].
    #[inline]
    #[must_use]
    pub(crate) fn warm(self, slot: SlotIndex) -> u64 {
        self.0.section.warm(slot)
    }
}
