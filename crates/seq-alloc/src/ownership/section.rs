//! Section that this process owns.
//!
//! **Invariant:** numbers are taken and read through [`Served`] only, which exists only under a lease that was checked
//! before the table was loaded. Access to the ceiling and the copy of a section needs no lease.

use std::sync::Arc;

use seq_core::lane_clock::{self, LaneClock, NotTaken};
use seq_core::section::{RaiseTicket, SectionCopy};
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
    section: Section,
}

impl OwnedSection {
    pub(crate) fn new(id: SectionId, epoch: Epoch, clock: Option<LaneClock>, section: Section) -> Arc<OwnedSection> {
        Arc::new(OwnedSection { id, epoch, clock, section, changed: Notify::new() })
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

    /// Changes the step of raises: see [`Section::set_step`].
    pub(crate) fn set_step(&self, step: Step) {
        self.section.set_step(step);
    }

    /// Returns the number of uids.
    pub(crate) fn uids(&self) -> u32 {
        self.section.uids()
    }

    /// Returns the bytes of the pages that hold counters of touched uids.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.section.slot_bytes()
    }

    /// Freezes every slot and copies the exact values: see [`Section::freeze`].
    pub(crate) fn freeze(&self) -> SectionCopy {
        self.section.freeze()
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
