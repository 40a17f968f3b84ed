//! The counters of one section of a fake cluster: of uids, of the lanes of a series, or of the keys of a bucket. They
//! are the counters of a real owner, with a ceiling that was raised as far as possible, so that no request waits.

use seq_core::keyspace::KeyHash;
use seq_core::lane_clock::{self, LaneClock, NotTaken};
use seq_core::section::{Counters, Keep, KeyedSection};
use seq_core::{
    Advance, AdvanceLimit, Count, Reading, Refusal, Section, SectionId, Seq, SlotIndex, Step, Take, Target, Uid, limits,
};

/// Distance from the highest allocated number of a section to the section's new base after a crash. It is the usual
/// step of a raise.
const STEP: u64 = 10_000;

/// The counters of a section, and the highest number that they allocated.
#[derive(Debug)]
pub(super) struct Numbers {
    section: SectionId,
    counters: Counted,
    rules: Rules,
    highest: Seq,
}

/// Counters by kind.
#[derive(Debug)]
enum Counted {
    Slots(Section),
    Keys(KeyedSection),
}

/// Rules of a section's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Kind of the counters.
    pub(super) counters: Counters,
    /// Clock that the numbers of lanes follow.
    pub(super) clock: Option<LaneClock>,
    /// Highest number of each counter.
    pub(super) last: Seq,
}

/// One counter of a section.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counter {
    /// The counter of a uid, or of a lane by its address.
    Uid(Uid, SlotIndex),
    Key(KeyHash),
}

impl Counter {
    fn uid(self) -> Uid {
        match self {
            Counter::Uid(uid, _) => uid,
            // A key has no uid. The text of a refusal names the key instead.
            Counter::Key(_) => Uid(0),
        }
    }
}

impl Numbers {
    /// Creates the counters of a section that has allocated numbers up to `base` at most.
    pub(super) fn new(section: SectionId, rules: Rules, base: Seq) -> Numbers {
        let step = Step(STEP);
        let counters = match rules.counters {
            Counters::Slots(slots) => {
                let slots = Section::takeover(slots, base, step).up_to(rules.last);
                Counted::Slots(match rules.clock {
                    Some(LaneClock { clock, .. }) => slots.in_ticks(clock.lead()),
                    None => slots,
                })
            }
            Counters::Keys => Counted::Keys(KeyedSection::from_ceiling(base, step)),
        };
        // One raise to the maximum, because a fake set never waits for a store.
        let raise = match &counters {
            Counted::Slots(section) => section.raised(Seq::MAX),
            Counted::Keys(section) => section.raised(Seq::MAX),
        };
        assert!(raise.is_none(), "a new section has no pending raise");
        Numbers { section, counters, rules, highest: base }
    }

    /// Returns the counters of an owner that takes the section over after a crash: every counter continues above the
    /// highest number that the section allocated. The numbers of a clock continue without a distance, because otherwise
    /// the section would rest until the clock has passed it.
    pub(super) fn taken_over(&self) -> Numbers {
        let distance = if self.rules.clock.is_some() { 0 } else { STEP };
        Numbers::new(self.section, self.rules, Seq(self.highest.0.saturating_add(distance)).min(Seq::MAX))
    }

    /// Takes `count` numbers, all of them above `above`, at the time `unix_ms`, in milliseconds since 1970. Returns the
    /// last number, and the number before these numbers.
    pub(super) fn take(
        &mut self,
        counter: Counter,
        count: Count,
        (above, unix_ms): (Seq, u64),
    ) -> Result<(Seq, Seq), Refusal> {
        let section = self.section;
        let taken = match (&self.counters, counter) {
            (Counted::Slots(slots), Counter::Uid(_, slot)) => {
                let clock = self.rules.clock.as_ref();
                lane_clock::take(slots, clock, (slot, count), above, unix_ms).map_err(|not_taken| match not_taken {
                    NotTaken::Ahead => Refusal::LaneAhead { section },
                    NotTaken::AfterTooFar => Refusal::AfterTooFar { section, above },
                })?
            }
            (Counted::Keys(keys), Counter::Key(key)) => match keys.take(key, count) {
                Ok(taken) => taken,
                Err(_) => self.grow().and_then(|keys| keys.take(key, count).ok()).unwrap_or(Take::Frozen),
            },
            _ => Take::Frozen,
        };
        match taken {
            Take::Given { value, prev, .. } => {
                self.highest = self.highest.max(value);
                Ok((value, prev))
            }
            Take::AtCeiling { .. } | Take::Exhausted => {
                Err(Refusal::Exhausted { uid: counter.uid(), count: count.get() })
            }
            Take::Frozen => Err(Refusal::Unserved { section }),
        }
    }

    /// Advances a counter to `to`.
    pub(super) fn advance(&mut self, counter: Counter, to: Target) -> Result<(), Refusal> {
        let limit = AdvanceLimit(limits::DEFAULT_MAX_ADVANCE);
        let advanced = match (&self.counters, counter) {
            (Counted::Slots(slots), Counter::Uid(_, slot)) => slots.advance(slot, to, limit),
            (Counted::Keys(keys), Counter::Key(key)) => match keys.advance(key, to, limit) {
                Ok(advanced) => advanced,
                Err(_) => self.grow().and_then(|keys| keys.advance(key, to, limit).ok()).unwrap_or(Advance::Frozen),
            },
            _ => Advance::Frozen,
        };
        match advanced {
            Advance::Done { .. } => {
                self.highest = self.highest.max(to.seq());
                Ok(())
            }
            Advance::Past => Err(Refusal::AlreadyPast { uid: counter.uid() }),
            Advance::TooFar { bound } => Err(Refusal::AdvanceTooFar { to: to.seq().0, bound }),
            Advance::AtCeiling { .. } => Err(Refusal::AdvanceTooFar { to: to.seq().0, bound: self.rules.last }),
            Advance::Frozen => Err(Refusal::Unserved { section: self.section }),
        }
    }

    /// Reads a counter.
    pub(super) fn current(&self, counter: Counter) -> Result<Reading, Refusal> {
        let reading = match (&self.counters, counter) {
            (Counted::Slots(slots), Counter::Uid(_, slot)) => slots.current(slot),
            (Counted::Keys(keys), Counter::Key(key)) => keys.current(key),
            _ => None,
        };
        reading.ok_or(Refusal::Unserved { section: self.section })
    }

    /// Makes room for the counter of another key.
    fn grow(&mut self) -> Option<&KeyedSection> {
        let Counted::Keys(keys) = &mut self.counters else { return None };
        *keys = keys.rebuild(Keep::All).section;
        Some(keys)
    }
}
