//! Section that this process owns.
//!
//! **Invariant:** numbers are taken and read through [`Served`] only. A [`Served`] exists only under a lease that was
//! checked before the table was loaded, or for a section that may be served without a lease (`Served::unleased`).
//! Access to the ceiling of a section, and freezing it for a copy, need no lease.

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
    /// Notified when the section's ceiling has been raised, and when the section has left the table of served sections.
    pub(crate) changed: Notify,
    /// Clock that the numbers of the section's lanes follow; `None` if the numbers follow no clock, or if the section
    /// has uids instead of lanes.
    pub(crate) clock: Option<LaneClock>,
    /// Time at which the ownership began, or at which it continued after a failed handover, in nanoseconds of the boot
    /// clock.
    pub(crate) began: u64,
    /// Start of the ownership.
    pub(crate) start: Start,
    /// Sum of the slots in the copy that was made when the section was frozen; empty before the freeze.
    final_sum: OnceLock<u64>,
    section: Section,
}

/// Values at which an ownership starts. They decide how many numbers the ownership skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Start at the exact values of a copy, or as the first ownership of the section. No number is skipped.
    Exact,
    /// Start at the ceiling without a copy, because the previous owner failed.
    Takeover,
    /// Start at the ceiling after a handover, because the handover's copy could not be used.
    CopyLost,
}

impl OwnedSection {
    /// Creates a section whose ownership begins at the given time, in nanoseconds of the boot clock.
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

    /// Returns whether no lane of the section can allocate a number at the time `unix_ms`, in milliseconds since 1970:
    /// see [`LaneClock::rests`].
    pub(crate) fn rests(&self, unix_ms: u64) -> bool {
        self.clock.is_some_and(|clock| clock.rests(&self.section, unix_ms))
    }

    /// Returns the committed ceiling that this node knows.
    pub(crate) fn ceiling(&self) -> Seq {
        self.section.ceiling()
    }

    /// Returns the base of this ownership. All numbers of the ownership are above the base: see [`Section::base`].
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

    /// Returns how many numbers this ownership has allocated if the sum of the slots of all pages is `sum`: see
    /// [`Section::numbers`].
    pub(crate) fn numbers(&self, sum: u64) -> Option<u64> {
        self.section.numbers(sum)
    }

    /// Freezes every slot, so that it allocates nothing any more, and returns a copy of the exact values: see
    /// [`Section::freeze`].
    pub(crate) fn freeze(&self) -> SectionCopy {
        let copy = self.section.freeze();
        self.final_sum.get_or_init(|| copy.sum());
        copy
    }

    /// Returns the final sum of all slots if the section was frozen; otherwise `None`.
    pub(crate) fn final_sum(&self) -> Option<u64> {
        self.final_sum.get().copied()
    }

    /// Returns the ceiling to request from the store: see [`Section::raise_target`].
    pub(crate) fn raise_target(&self) -> Option<Seq> {
        self.section.raise_target()
    }

    /// Adopts a ceiling that the store has committed: see [`Section::raised`].
    pub(crate) fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        self.section.raised(committed)
    }
}

/// Section from which numbers may be allocated now.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a>(&'a Arc<OwnedSection>);

impl<'a> Served<'a> {
    #[inline]
    pub(super) fn new(owned: &'a Arc<OwnedSection>) -> Served<'a> {
        Served(owned)
    }

    /// Returns access to a section that may be served without a lease.
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

    /// Returns whether this is the section `owned`, under the same ownership.
    pub(crate) fn is(self, owned: &Arc<OwnedSection>) -> bool {
        Arc::ptr_eq(self.0, owned)
    }

    /// Allocates numbers: see [`Section::take`].
    #[inline]
    pub(crate) fn take(self, slot: SlotIndex, count: Count) -> Take {
        self.0.section.take(slot, count)
    }

    /// Allocates numbers of a lane, all of them greater than `above`: see [`lane_clock::take`].
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
