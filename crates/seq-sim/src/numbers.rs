//! The counters of a section in the memory of a simulated process.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use seq_core::keyspace::KeyHash;
use seq_core::lane_clock::LaneClock;
use seq_core::section::{AnyCopy, Counters, Distance, Full, KeyedSection, RaiseTicket, SectionCopy};
use seq_core::{Advance, AdvanceLimit, Count, Epoch, Reading, Section, SectionId, Seq, SlotIndex, Step, Take, Target};

use crate::bugs::Bug;

/// A section in a process' memory.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) id: SectionId,
    pub(crate) epoch: Epoch,
    pub(crate) numbers: Numbers,
    pub(crate) base: Seq,
    /// The clock that the numbers of the section's lanes follow; `None` if they follow no clock.
    pub(crate) clock: Option<LaneClock>,
    /// For [`Bug::RepeatsBack`], the owner's wall clock at the last call for the section, in milliseconds since 1970.
    pub(crate) latest_ms: Cell<u64>,
}

/// The counters of a section, with its ceiling.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Counters of uids or lanes.
    Slots(Section),
    /// Counters of the keys of a bucket.
    Keys(KeyedSection),
}

/// The counter of a call: the slot of a uid or lane, or the hash of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    Slot(SlotIndex),
    Key(KeyHash),
}

/// Calls a method that sections of both kinds have.
macro_rules! either {
    ($numbers:expr, $section:ident => $call:expr) => {
        match $numbers {
            Numbers::Slots($section) => $call,
            Numbers::Keys($section) => $call,
        }
    };
}

impl Numbers {
    /// Returns the counters of an ownership that begins with a copy, or at the ceiling. The numbers of lanes are ticks
    /// of `clock`, if it is given.
    pub(crate) fn new(
        counters: Counters,
        copy: Option<&AnyCopy>,
        ceiling: Seq,
        step: Step,
        clock: Option<LaneClock>,
    ) -> Numbers {
        const CHECKED: &str = "the machine checked the copy";
        let slots = match (counters, copy) {
            (Counters::Slots(uids), None) => Section::takeover(uids, ceiling, step),
            (Counters::Slots(uids), Some(AnyCopy::Slots(copy))) => {
                Section::handed_over(uids, copy, ceiling, step).expect(CHECKED)
            }
            (Counters::Keys, None) => return Numbers::Keys(KeyedSection::from_ceiling(ceiling, step)),
            (Counters::Keys, Some(AnyCopy::Keys(copy))) => {
                return Numbers::Keys(KeyedSection::from_copy(copy, ceiling, step).expect(CHECKED));
            }
            (Counters::Slots(_), Some(AnyCopy::Keys(_))) | (Counters::Keys, Some(AnyCopy::Slots(_))) => {
                panic!("{CHECKED}")
            }
        };
        Numbers::Slots(match clock {
            Some(clock) => slots.in_ticks(clock.clock.lead()),
            None => slots,
        })
    }
}

impl Owned {
    pub(crate) fn new(
        (id, epoch): (SectionId, Epoch),
        numbers: Numbers,
        base: Seq,
        clock: Option<LaneClock>,
    ) -> Rc<Owned> {
        Rc::new(Owned { id, epoch, numbers, base, clock, latest_ms: Cell::default() })
    }

    /// Returns the counters of uids or lanes.
    pub(crate) fn slots(&self) -> &Section {
        match &self.numbers {
            Numbers::Slots(section) => section,
            Numbers::Keys(_) => panic!("section {} is a bucket", self.id),
        }
    }

    /// Returns the counters of keys; `None` if the section is no bucket.
    pub(crate) fn keys(&self) -> Option<&KeyedSection> {
        match &self.numbers {
            Numbers::Slots(_) => None,
            Numbers::Keys(section) => Some(section),
        }
    }

    /// Returns whether the section is frozen, so that it serves no call.
    pub(crate) fn is_frozen(&self) -> bool {
        match &self.numbers {
            Numbers::Slots(section) => section.current(SlotIndex(0)).is_none(),
            // A frozen section states no number of any key, not even of a key that it does not have.
            Numbers::Keys(section) => section.current(KeyHash::from_bytes([2; 16]).expect("a hash")).is_none(),
        }
    }

    pub(crate) fn take(&self, at: At, count: Count) -> Result<Take, Full> {
        match (&self.numbers, at) {
            (Numbers::Slots(section), At::Slot(slot)) => Ok(section.take(slot, count)),
            (Numbers::Keys(section), At::Key(key)) => section.take(key, count),
            (Numbers::Slots(_) | Numbers::Keys(_), _) => Ok(Take::Frozen),
        }
    }

    pub(crate) fn advance(&self, at: At, to: Target, limit: AdvanceLimit) -> Result<Advance, Full> {
        match (&self.numbers, at) {
            (Numbers::Slots(section), At::Slot(slot)) => Ok(section.advance(slot, to, limit)),
            (Numbers::Keys(section), At::Key(key)) => section.advance(key, to, limit),
            (Numbers::Slots(_) | Numbers::Keys(_), _) => Ok(Advance::Frozen),
        }
    }

    pub(crate) fn current(&self, at: At) -> Option<Reading> {
        match (&self.numbers, at) {
            (Numbers::Slots(section), At::Slot(slot)) => section.current(slot),
            (Numbers::Keys(section), At::Key(key)) => section.current(key),
            (Numbers::Slots(_) | Numbers::Keys(_), _) => None,
        }
    }

    pub(crate) fn ceiling(&self) -> Seq {
        either!(&self.numbers, section => section.ceiling())
    }

    pub(crate) fn raise_target(&self) -> Option<Seq> {
        either!(&self.numbers, section => section.raise_target())
    }

    pub(crate) fn adapt_step(&self, since: Duration, most: Step) {
        either!(&self.numbers, section => section.adapt_step(since, most));
    }

    pub(crate) fn is_in_ticks(&self) -> bool {
        either!(&self.numbers, section => section.is_in_ticks())
    }

    pub(crate) fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        either!(&self.numbers, section => section.raised(committed))
    }

    /// Freezes the section and returns its copy.
    pub(crate) fn freeze(&self) -> AnyCopy {
        either!(&self.numbers, section => section.freeze().into())
    }

    /// Freezes the section and returns its copy, changed by the planted bug if it is a bug in copies.
    pub(crate) fn copy(&self, bug: Option<Bug>) -> AnyCopy {
        if bug == Some(Bug::NoFreeze) && !self.is_frozen() && self.keys().is_none() {
            return self.copy_unfrozen().into();
        }
        let mut copy = self.freeze();
        match (bug, &mut copy) {
            (Some(Bug::UnmarkedCopy), AnyCopy::Slots(copy)) => {
                for (_, distance) in &mut copy.distances {
                    *distance = Distance::new(distance.get(), false).expect("a copy has distances above 0");
                }
            }
            (Some(Bug::FloorNotCopied), AnyCopy::Keys(copy)) => copy.floor = copy.base,
            _ => {}
        }
        copy
    }

    fn copy_unfrozen(&self) -> SectionCopy {
        let section = self.slots();
        let distance = |slot: u32| {
            let reading = section.current(SlotIndex(slot))?;
            Some((SlotIndex(slot), Distance::new(reading.value.0 - self.base.0, false)?))
        };
        SectionCopy { base: self.base, distances: (0..section.uids()).filter_map(distance).collect() }
    }
}
