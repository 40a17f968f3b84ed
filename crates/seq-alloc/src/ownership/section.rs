//! Section that this process owns.
//!
//! **Invariant:** numbers are taken and read through [`Served`] only. A [`Served`] exists only under a lease that was
//! checked before the table was loaded, or for a section that may be served without a lease (`Served::unleased`).
//! Access to the ceiling of a section, and freezing it for a copy, need no lease.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seq_core::keyspace::KeyHash;
use seq_core::lane_clock::{self, LaneClock, NotTaken};
use seq_core::section::{AnyCopy, CopyMisfit, Counters, Full, Keep, KeyedSection, RaiseTicket, Rebuilt, Tally};
use seq_core::{Advance, AdvanceLimit, Count, Epoch, Reading, Section, SectionId, Seq, SlotIndex, Step, Take, Target};
use tokio::sync::Notify;

use super::keys::{HeldRoom, KeyRoom};

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
    /// Time from which the numbers of this section are recorded, in nanoseconds of the boot clock. It is later than
    /// `began` if the section replaced a bucket under the same ownership.
    pub(crate) recorded_from: u64,
    /// Sum of the slots in the copy that was made when the section was frozen; empty before the freeze.
    final_sum: OnceLock<u64>,
    numbers: Numbers,
}

/// Counters of an owned section, with its ceiling.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Counters of uids or lanes.
    Slots(Section),
    /// Counters of the keys of a bucket.
    Keys(KeyedSection, HeldRoom),
}

/// Calls a method that sections of both kinds have.
macro_rules! either {
    ($numbers:expr, $section:ident => $call:expr) => {
        match $numbers {
            Numbers::Slots($section) => $call,
            Numbers::Keys($section, _) => $call,
        }
    };
}

impl From<Section> for Numbers {
    fn from(section: Section) -> Numbers {
        Numbers::Slots(section)
    }
}

impl Numbers {
    /// Creates the counters of an ownership that starts without a copy: see [`Section::takeover`] and
    /// [`KeyedSection::from_ceiling`].
    pub(super) fn from_ceiling(counters: Counters, ceiling: Seq, step: Step, room: &KeyRoom) -> Numbers {
        match counters {
            Counters::Slots(uids) => Section::takeover(uids, ceiling, step).into(),
            Counters::Keys => Numbers::of_keys(KeyedSection::from_ceiling(ceiling, step), room),
        }
    }

    fn of_keys(section: KeyedSection, room: &KeyRoom) -> Numbers {
        let room = room.hold(section.room());
        Numbers::Keys(section, room)
    }

    /// Creates the counters of an ownership that continues the counters in `copy`: see [`Section::handed_over`] and
    /// [`KeyedSection::from_copy`].
    pub(super) fn from_copy(
        counters: Counters,
        copy: &AnyCopy,
        ceiling: Seq,
        step: Step,
        room: &KeyRoom,
    ) -> Result<Numbers, CopyMisfit> {
        match (counters, copy) {
            (Counters::Slots(uids), AnyCopy::Slots(copy)) => {
                Section::handed_over(uids, copy, ceiling, step).map(Numbers::Slots)
            }
            (Counters::Keys, AnyCopy::Keys(copy)) => {
                KeyedSection::from_copy(copy, ceiling, step).map(|section| Numbers::of_keys(section, room))
            }
            (Counters::Slots(_), AnyCopy::Keys(_)) | (Counters::Keys, AnyCopy::Slots(_)) => {
                Err(CopyMisfit::OtherCounters)
            }
        }
    }

    /// Limits the numbers: see [`Section::up_to`].
    pub(super) fn up_to(self, last: Seq) -> Numbers {
        match self {
            Numbers::Slots(section) => section.up_to(last).into(),
            Numbers::Keys(section, room) => Numbers::Keys(section.up_to(last), room),
        }
    }

    /// Changes the numbers of lanes to ticks: see [`Section::in_ticks`].
    pub(super) fn in_ticks(self, lead: Step) -> Numbers {
        match self {
            Numbers::Slots(section) => section.in_ticks(lead).into(),
            Numbers::Keys(section, room) => Numbers::Keys(section.in_ticks(lead), room),
        }
    }

    /// Returns the counters of uids or lanes; `None` if the section has keys. This is so only for a moment, if a
    /// restore lost the keyspace and another space got its sections.
    #[inline]
    fn slots(&self) -> Option<&Section> {
        match self {
            Numbers::Slots(section) => Some(section),
            Numbers::Keys(..) => None,
        }
    }

    /// Returns the counters of keys; `None` if the section has uids or lanes: see [`Numbers::slots`].
    #[inline]
    fn keys(&self) -> Option<&KeyedSection> {
        match self {
            Numbers::Slots(_) => None,
            Numbers::Keys(section, _) => Some(section),
        }
    }
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
        numbers: impl Into<Numbers>,
        (began, start): (u64, Start),
    ) -> Arc<OwnedSection> {
        let (changed, final_sum, numbers) = (Notify::new(), OnceLock::new(), numbers.into());
        let recorded_from = began;
        Arc::new(OwnedSection { id, epoch, changed, clock, began, start, recorded_from, final_sum, numbers })
    }

    /// Returns whether the numbers are ticks: see [`Section::is_in_ticks`].
    pub(crate) fn is_in_ticks(&self) -> bool {
        either!(&self.numbers, section => section.is_in_ticks())
    }

    /// Returns whether no lane of the section can allocate a number at the time `unix_ms`, in milliseconds since 1970:
    /// see [`LaneClock::rests`].
    pub(crate) fn rests(&self, unix_ms: u64) -> bool {
        self.clock.zip(self.numbers.slots()).is_some_and(|(clock, section)| clock.rests(section, unix_ms))
    }

    /// Returns the committed ceiling that this node knows.
    pub(crate) fn ceiling(&self) -> Seq {
        either!(&self.numbers, section => section.ceiling())
    }

    /// Returns the base of this ownership. All numbers of the ownership are above the base: see [`Section::base`].
    pub(crate) fn base(&self) -> Seq {
        either!(&self.numbers, section => section.base())
    }

    /// Returns the count of skipped numbers: see [`Section::skipped`].
    pub(crate) fn skipped(&self) -> u64 {
        either!(&self.numbers, section => section.skipped())
    }

    /// Changes the step of raises: see [`Section::set_step`].
    pub(crate) fn set_step(&self, step: Step) {
        either!(&self.numbers, section => section.set_step(step));
    }

    /// Adapts the step: see [`Section::adapt_step`].
    pub(crate) fn adapt_step(&self, since: Duration, most: Step) {
        either!(&self.numbers, section => section.adapt_step(since, most));
    }

    /// Returns the step in force: see [`Section::step`].
    pub(crate) fn step(&self) -> Step {
        either!(&self.numbers, section => section.step())
    }

    /// Returns the number of uids, or of the keys with a counter.
    pub(crate) fn uids(&self) -> u32 {
        match &self.numbers {
            Numbers::Slots(section) => section.uids(),
            Numbers::Keys(section, _) => section.keys(),
        }
    }

    /// Returns the number of slots that take as long to be frozen and copied as the counters of this section.
    pub(crate) fn slots(&self) -> usize {
        match &self.numbers {
            Numbers::Slots(section) => section.uids() as usize,
            Numbers::Keys(section, _) => section.counter_bytes() / size_of::<u64>(),
        }
    }

    /// Returns the number of pages: see [`Section::pages`].
    pub(crate) fn pages(&self) -> usize {
        either!(&self.numbers, section => section.pages())
    }

    /// Sums up the slots of pages: see [`Section::tally`].
    pub(crate) fn tally(&self, pages: Range<usize>) -> Tally {
        either!(&self.numbers, section => section.tally(pages))
    }

    /// Returns how many numbers this ownership has allocated if the sum of the slots of all pages is `sum`: see
    /// [`Section::numbers`].
    pub(crate) fn numbers(&self, sum: u64) -> Option<u64> {
        either!(&self.numbers, section => section.numbers(sum))
    }

    /// Freezes every slot, so that it allocates nothing any more, and returns a copy of the exact values: see
    /// [`Section::freeze`].
    pub(crate) fn freeze(&self) -> AnyCopy {
        let copy = either!(&self.numbers, section => AnyCopy::from(section.freeze()));
        self.final_sum.get_or_init(|| copy.sum());
        copy
    }

    /// Freezes a bucket, and returns one with the counters that stay and room for half as many keys again, and the
    /// number of evicted counters; `None` if the section is no bucket. The numbers of the returned bucket are recorded
    /// from the time `now`, in nanoseconds of the boot clock.
    pub(super) fn rebuilt(&self, keep: Keep, room: &KeyRoom, now: u64) -> Option<(Arc<OwnedSection>, usize)> {
        let Rebuilt { section, sum, evicted } = self.numbers.keys()?.rebuild(keep);
        self.final_sum.get_or_init(|| sum);
        let OwnedSection { id, epoch, clock, began, start, .. } = *self;
        let (changed, final_sum, numbers) = (Notify::new(), OnceLock::new(), Numbers::of_keys(section, room));
        let rebuilt = OwnedSection { id, epoch, changed, clock, began, start, recorded_from: now, final_sum, numbers };
        Some((Arc::new(rebuilt), evicted))
    }

    /// Returns the final sum of all slots if the section was frozen; otherwise `None`.
    pub(crate) fn final_sum(&self) -> Option<u64> {
        self.final_sum.get().copied()
    }

    /// Returns the ceiling to request from the store: see [`Section::raise_target`].
    pub(crate) fn raise_target(&self) -> Option<Seq> {
        either!(&self.numbers, section => section.raise_target())
    }

    /// Returns whether the section is a bucket.
    pub(crate) fn has_keys(&self) -> bool {
        self.numbers.keys().is_some()
    }

    /// Adopts a ceiling that the store has committed for the section that this section may have replaced: see
    /// [`Section::adopt_ceiling`].
    pub(super) fn adopt_ceiling(&self, committed: Seq) {
        either!(&self.numbers, section => section.adopt_ceiling(committed));
        self.changed.notify_waiters();
    }

    /// Adopts a ceiling that the store has committed: see [`Section::raised`].
    pub(crate) fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        either!(&self.numbers, section => section.raised(committed))
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
        match &self.0.numbers {
            Numbers::Slots(section) => section.take(slot, count),
            Numbers::Keys(..) => Take::Frozen,
        }
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
        let Some(section) = self.0.numbers.slots() else { return Ok(Take::Frozen) };
        lane_clock::take(section, self.0.clock.as_ref(), (slot, count), above, unix_ms)
    }

    /// Advances a uid: see [`Section::advance`].
    pub(crate) fn advance(self, slot: SlotIndex, to: Target, limit: AdvanceLimit) -> Advance {
        self.0.numbers.slots().map_or(Advance::Frozen, |section| section.advance(slot, to, limit))
    }

    /// Reads a uid's last number: see [`Section::current`].
    pub(crate) fn current(self, slot: SlotIndex) -> Option<Reading> {
        self.0.numbers.slots()?.current(slot)
    }

    /// Allocates numbers of a key: see [`KeyedSection::take`].
    #[inline]
    pub(crate) fn take_of_key(self, key: KeyHash, count: Count) -> Result<Take, Full> {
        self.0.numbers.keys().map_or(Ok(Take::Frozen), |section| section.take(key, count))
    }

    /// Advances a key: see [`KeyedSection::advance`].
    pub(crate) fn advance_key(self, key: KeyHash, to: Target, limit: AdvanceLimit) -> Result<Advance, Full> {
        self.0.numbers.keys().map_or(Ok(Advance::Frozen), |section| section.advance(key, to, limit))
    }

    /// Reads a key's last number: see [`KeyedSection::current`].
    pub(crate) fn current_of_key(self, key: KeyHash) -> Option<Reading> {
        self.0.numbers.keys()?.current(key)
    }

    /// Prefetches the counter of a key: see [`KeyedSection::warm`].
    #[inline]
    #[must_use]
    pub(crate) fn warm_key(self, key: KeyHash) -> u64 {
        self.0.numbers.keys().map_or(0, |section| section.warm(key))
    }

    /// Prefetches a slot: see [`Section::warm`].
    #[inline]
    #[must_use]
    pub(crate) fn warm(self, slot: SlotIndex) -> u64 {
        self.0.numbers.slots().map_or(0, |section| section.warm(slot))
    }
}
