//! A section in its owner's memory: the counters of neighbouring uids under one durable ceiling.
//!
//! A section can be used by many threads without a lock. To take numbers, a thread does one compare-and-swap on the
//! slot of the uid; other memory is written only once per raise. The compare-and-swap fails on a frozen slot, so a copy
//! that [`Section::freeze`] takes is exact.

use alloc::vec::Vec;

mod encoding;
mod tally;
mod within;

use crate::id::{AdvanceLimit, Seq, SlotIndex, Step};
use crate::limits;
use crate::raise;
use crate::request::{Count, Target};
pub use crate::slots::Distance;
use crate::slots::{ADVANCED, FROZEN, MARKS, Slots};
use crate::sync::{AcqRel, Acquire, AtomicU64, OnceBox, Relaxed, Release};
pub use tally::Tally;
pub use within::{Ahead, Window};

/// The counters and the ceiling of one section under one ownership.
#[derive(Debug)]
pub struct Section {
    /// The number after which every untouched uid starts; the distances in the slots are relative to it. After a
    /// handover, it is the base of the copy. Otherwise it is the ceiling that was committed when this ownership began,
    /// or 0 for a section without an earlier owner.
    base: Seq,
    /// The last number that a slot can hold: [`Distance::MAX`] above the base, or [`Seq::MAX`].
    last: Seq,
    /// The step of a raise, above 0. Safety does not depend on its value, so it is an atomic of `core`, which the model
    /// checker (loom) does not track.
    step: core::sync::atomic::AtomicU64,
    /// The committed ceiling, or `last` if `last` is less. **Invariant:** the ceiling never falls, and no slot's value
    /// is ever above it.
    ceiling: AtomicU64,
    /// The highest number for which a raise is requested; 0 for none. If not 0, a [`RaiseTicket`] exists, in the raise
    /// queue or on its way there, and [`Section::raised`] will be called.
    wanted: AtomicU64,
    /// Whether the numbers are ticks of a clock. The step is their lead then.
    ticks: bool,
    /// Sum of the distances of the copy with which this ownership began, modulo 2^64; 0 without a copy.
    begun: u64,
    slots: Slots,
    /// Count of the skipped numbers; empty until a number is skipped. See [`Section::skipped`]. The count has a cache
    /// line of its own: otherwise the many advances of an import would change the cache line of the ceiling, which
    /// every allocation reads.
    skipped: OnceBox<AtomicU64>,
}

// The target of every advance fits a slot, also in a section whose base is 0.
const _: () = assert!(limits::MAX_ADVANCE <= Distance::MAX);

const ZERO_STEP: &str = "a step of 0 raises nothing";

/// The obligation to put a section into the raise queue. A section issues its next ticket only after the raise for the
/// ticket before has its response. If a ticket is dropped while the section is owned, the section's ceiling is not
/// raised again, and callers that reach the ceiling keep waiting.
#[must_use = "the ceiling is not raised until the raise queue has the ticket"]
#[derive(Debug, PartialEq, Eq)]
pub struct RaiseTicket(());

/// Outcome of a call for numbers.
#[derive(Debug, PartialEq, Eq)]
pub enum Take {
    /// The numbers `value - count + 1 ..= value` are the caller's.
    Given {
        /// The last number taken.
        value: Seq,
        /// The number of this uid that was allocated before these numbers. 0 if there was none, if this owner does not
        /// know it, or if an advance came after it.
        prev: Seq,
        /// Ticket for the raise queue, if this call makes a raise due.
        ticket: Option<RaiseTicket>,
    },
    /// The numbers are above the ceiling; nothing was taken. The caller waits for a raise that covers `needed`.
    AtCeiling {
        /// The ceiling with which the call can continue.
        needed: Seq,
        /// Ticket for the raise queue, if this call makes a raise due.
        ticket: Option<RaiseTicket>,
    },
    /// The section is being handed over; nothing was taken.
    Frozen,
    /// The numbers would be above [`Seq::MAX`], above the [last number](Section::up_to) of the section, or further
    /// above its base than a slot can hold; nothing was taken.
    Exhausted,
}

/// Outcome of a call to raise a uid to a number.
#[derive(Debug, PartialEq, Eq)]
pub enum Advance {
    /// The uid is at the number: all numbers up to it are taken.
    Done {
        /// Numbers of the uid that the advance skipped, none of which can be allocated any more.
        skipped: u64,
        /// Ticket for the raise queue, if this call makes a raise due.
        ticket: Option<RaiseTicket>,
    },
    /// The uid's last number, or the known upper bound of it, is above the requested number. Nothing was changed.
    Past,
    /// The number is above the ceiling; nothing was changed. The caller retries after a raise. A number far above the
    /// ceiling takes several raises.
    AtCeiling {
        /// Ticket for the raise queue, if this call makes a raise due.
        ticket: Option<RaiseTicket>,
    },
    /// The number is further above the ceiling than the limit allows; nothing was changed, and no raise was requested.
    TooFar {
        /// The highest number that is accepted now.
        bound: Seq,
    },
    /// The section is being handed over; nothing was changed.
    Frozen,
}

/// A read of a uid's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The last number allocated, or an upper bound of it.
    pub value: Seq,
    /// Whether `value` is the last number allocated, where 0 means that none ever was. If false, the last number is not
    /// known, but no number above `value` was allocated.
    pub exact: bool,
}

/// The exact counters of a frozen section, for the next owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionCopy {
    /// The frozen section's base.
    pub base: Seq,
    /// Distance from the base of each touched uid, in order of slot.
    pub distances: Vec<(SlotIndex, Distance)>,
}

/// Reason why an ownership cannot start from a copy. The copy comes from a peer, so a misfit is a returned error and
/// not a failed assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyMisfit {
    /// The section has no such slot, or the slots are not in ascending order.
    #[error("slot {slot} of {uids} is out of order or out of range")]
    Slot {
        /// The slot.
        slot: SlotIndex,
        /// Slots of the section.
        uids: u32,
    },
    /// A distance leads past the last number.
    #[error("slot {slot}: distance {distance} from base {base} is past the last number")]
    Distance {
        /// The slot.
        slot: SlotIndex,
        /// Distance of the slot in the copy.
        distance: u64,
        /// The copy's base.
        base: Seq,
    },
    /// The base, or a number, is above the ceiling.
    #[error("its highest number {highest} is above the ceiling {ceiling}")]
    AboveCeiling {
        /// The highest number in the copy.
        highest: Seq,
        /// The committed ceiling.
        ceiling: Seq,
    },
}

impl SectionCopy {
    /// Checks the copy for a section of `uids` slots. Returns its highest number, which the ceiling must cover.
    ///
    /// # Errors
    /// [`CopyMisfit`].
    pub fn check(&self, uids: u32) -> Result<Seq, CopyMisfit> {
        let base = self.base;
        let most =
            Seq::MAX.0.checked_sub(base.0).ok_or(CopyMisfit::AboveCeiling { highest: base, ceiling: Seq::MAX })?;
        let (mut next, mut highest) = (0, 0);
        for &(slot, distance) in &self.distances {
            if slot.0 < next || slot.0 >= uids {
                return Err(CopyMisfit::Slot { slot, uids });
            }
            let distance = distance.get();
            if distance > most {
                return Err(CopyMisfit::Distance { slot, distance, base });
            }
            next = slot.0 + 1;
            highest = highest.max(distance);
        }
        Ok(Seq(base.0 + highest))
    }
}

impl Section {
    /// Creates a section for an ownership without a copy. Every uid continues after the committed `ceiling`, and so
    /// after all allocated numbers.
    #[must_use]
    pub fn takeover(uids: u32, ceiling: Seq, step: Step) -> Section {
        Section::new(uids, ceiling, ceiling, step)
    }

    /// Creates a section for an ownership that continues the exact counters in the `copy` of the ownership before,
    /// under the committed `ceiling`.
    ///
    /// # Errors
    /// [`CopyMisfit`]: the copy does not fit the section. The caller starts the ownership at the ceiling instead, which
    /// is at or above all allocated numbers.
    pub fn handed_over(uids: u32, copy: &SectionCopy, ceiling: Seq, step: Step) -> Result<Section, CopyMisfit> {
        let highest = copy.check(uids)?;
        if highest > ceiling {
            return Err(CopyMisfit::AboveCeiling { highest, ceiling });
        }
        let section = Section::new(uids, copy.base, ceiling, step);
        for &(slot, distance) in &copy.distances {
            section.slots.touch(slot).store(distance.word(), Relaxed);
        }
        Ok(Section { begun: copy.sum(), ..section })
    }

    fn new(uids: u32, base: Seq, ceiling: Seq, step: Step) -> Section {
        assert!(ceiling <= Seq::MAX, "ceiling {ceiling}");
        assert!(step.0 > 0, "{ZERO_STEP}");
        let last = Seq(base.0 + Distance::MAX).min(Seq::MAX);
        Section {
            base,
            last,
            step: step.0.into(),
            ceiling: AtomicU64::new(ceiling.min(last).0),
            wanted: AtomicU64::new(0),
            ticks: false,
            begun: 0,
            slots: Slots::new(uids),
            skipped: OnceBox::new(),
        }
    }

    /// Returns the section with ticks of a clock as its numbers. A raise then requests a ceiling that is `lead` above
    /// the wanted tick, and the store may commit a lower ceiling.
    ///
    /// # Panics
    /// When the lead is 0.
    #[must_use]
    pub fn in_ticks(self, lead: Step) -> Section {
        assert!(lead.0 > 0, "{ZERO_STEP}");
        Section { ticks: true, step: lead.0.into(), ..self }
    }

    /// Returns the section limited to numbers up to `last`. A call for a higher number returns [`Take::Exhausted`], and
    /// the section's ceiling is never above `last`.
    #[must_use]
    pub fn up_to(self, last: Seq) -> Section {
        let last = self.last.min(last);
        let ceiling = AtomicU64::new(self.ceiling().min(last).0);
        Section { last, ceiling, ..self }
    }

    /// Returns whether the numbers are ticks.
    #[must_use]
    pub fn is_in_ticks(&self) -> bool {
        self.ticks
    }

    /// Changes the step of raises, beginning with the next raise. A section of ticks keeps its lead.
    ///
    /// # Panics
    /// When the step is 0.
    pub fn set_step(&self, step: Step) {
        assert!(step.0 > 0, "{ZERO_STEP}");
        if !self.ticks {
            self.step.store(step.0, Relaxed);
        }
    }

    #[inline]
    fn step(&self) -> Step {
        Step(self.step.load(Relaxed))
    }

    /// Returns half a step. While the ceiling is further than this above the last number taken, no raise is due, so a
    /// caller can compare with half a step and need not call [`raise::is_due`].
    #[inline]
    fn half_step(&self) -> u64 {
        self.step().0 / 2
    }

    /// Takes the next `count` numbers of a uid.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub fn take(&self, slot: SlotIndex, count: Count) -> Take {
        let slot = self.slots.touch(slot);
        let count = u64::from(count.get());
        let mut distance = slot.load(Relaxed);
        loop {
            if distance & MARKS != 0 {
                return self.take_marked(slot, count);
            }
            // Base and distance are below 2^63 and the count below 2^20, so the sum fits.
            let value = self.base.0 + distance + count;
            let ceiling = self.ceiling.load(Acquire);
            if value > ceiling {
                return self.at_ceiling(Seq(value));
            }
            match slot.compare_exchange_weak(distance, distance + count, Relaxed, Relaxed) {
                Ok(_) => {
                    let prev = if distance == 0 { Seq::ZERO } else { Seq(self.base.0 + distance) };
                    return self.given(Seq(value), prev, Seq(ceiling));
                }
                Err(seen) => distance = seen,
            }
        }
    }

    /// Takes numbers from a slot that is frozen, or whose value is the target of an advance. The function is `cold`, so
    /// that taking from a slot without a mark costs a single test for both marks.
    #[cold]
    fn take_marked(&self, slot: &AtomicU64, count: u64) -> Take {
        self.take_from::<false>(slot, count, Window::ALL).expect("a window without a limit")
    }

    #[inline]
    fn given(&self, value: Seq, prev: Seq, ceiling: Seq) -> Take {
        let due = ceiling.0 - value.0 <= self.half_step();
        Take::Given { value, prev, ticket: if due { self.want_early(value, ceiling) } else { None } }
    }

    /// Takes all numbers of a uid up to `to`, which may be at most `limit` above the ceiling. Another advance of the
    /// uid to the same number changes nothing.
    ///
    /// A raise moves the ceiling by at most [`limits::MAX_RAISE`], and each call requests one raise at most. So if `to`
    /// needs several raises and the caller no longer retries, the ceiling moves no further.
    ///
    /// # Panics
    /// When the section has no such slot.
    pub fn advance(&self, slot: SlotIndex, to: Target, limit: AdvanceLimit) -> Advance {
        let to = to.seq();
        // Every number up to the base may be allocated, by this owner or an earlier one.
        let Some(wanted) = to.0.checked_sub(self.base.0) else { return Advance::Past };
        let slot = self.slots.touch(slot);
        let mut word = slot.load(Relaxed);
        loop {
            if word & FROZEN != 0 {
                return Advance::Frozen;
            }
            let distance = word & !MARKS;
            if distance > wanted {
                return Advance::Past;
            }
            let ceiling = self.ceiling.load(Acquire);
            if to.0 > ceiling {
                // Checked before a raise is requested, so that a refused advance leaves the neighbours' ceiling as it
                // is.
                let bound = Seq(ceiling.saturating_add(limit.0)).min(Seq(limits::MAX_ADVANCE));
                if to > bound {
                    return Advance::TooFar { bound };
                }
                return Advance::AtCeiling {
                    ticket: self.want(to.min(Seq(ceiling.saturating_add(limits::MAX_RAISE)))),
                };
            }
            // A slot that is at the target already keeps its word: an allocated number stays a `prev`, and a repeated
            // advance keeps the mark of the first.
            let advanced = if distance < wanted { wanted | ADVANCED } else { word };
            let skipped = wanted - distance;
            self.count_skip(skipped);
            match slot.compare_exchange_weak(word, advanced, Release, Relaxed) {
                Ok(_) => {
                    let due = wanted > 0 && ceiling - to.0 <= self.half_step();
                    let ticket = if due { self.want_early(to, Seq(ceiling)) } else { None };
                    return Advance::Done { skipped, ticket };
                }
                Err(seen) => {
                    self.take_back_skip(skipped);
                    word = seen;
                }
            }
        }
    }

    /// Prefetches a slot into the cache before numbers are taken from it: the processor executes other instructions
    /// while it loads the slot's cache line. The caller must use the returned word, or the compiler removes the read.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    #[must_use]
    pub fn warm(&self, slot: SlotIndex) -> u64 {
        self.slots.peek(slot).map_or(0, |slot| slot.load(Relaxed))
    }

    /// Returns a uid's last number; `None` if its slot is frozen, because the next owner may have allocated higher
    /// numbers already.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[must_use]
    pub fn current(&self, slot: SlotIndex) -> Option<Reading> {
        let word = self.slots.peek(slot).map_or(0, |slot| slot.load(Relaxed));
        if word & FROZEN != 0 {
            return None;
        }
        let distance = word & !MARKS;
        Some(Reading { value: Seq(self.base.0 + distance), exact: distance > 0 || self.base == Seq::ZERO })
    }

    /// Returns the ceiling that the queued raise is to request. Returns `None` if no raise is needed, or is no longer
    /// needed; the ticket of the queued raise is void then.
    ///
    /// A thread that read the ceiling just before a raise can request another raise just after it. This function drops
    /// such a request.
    #[must_use]
    pub fn raise_target(&self) -> Option<Seq> {
        let mut wanted = self.wanted.load(Relaxed);
        loop {
            let ceiling = self.ceiling();
            let (needed, step) = (Seq(wanted), self.step());
            if wanted > 0 && ceiling < self.last && raise::is_due(needed, ceiling, step) {
                return Some(match self.ticks {
                    true => raise::tick_target(needed, step),
                    false => raise::target(ceiling, needed, step),
                });
            }
            match self.wanted.compare_exchange(wanted, 0, Relaxed, Relaxed) {
                Ok(_) => return None,
                Err(seen) => wanted = seen,
            }
        }
    }

    /// Raises the section's ceiling to a committed ceiling; a lower ceiling changes nothing. The ticket of this raise
    /// is void then. Returns the ticket of the next raise if a number above the committed ceiling is wanted.
    ///
    /// Returns no ticket in a section of ticks: the store limits the ceiling of ticks by its own clock, so it would
    /// limit an immediate second raise, too. Each call that waits for a higher ceiling requests a raise when it
    /// retries.
    ///
    /// # Panics
    /// When the ceiling is above [`Seq::MAX`], which the store never commits.
    pub fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        assert!(committed <= Seq::MAX, "ceiling {committed}");
        let committed = committed.min(self.last);
        let ceiling = self.ceiling.fetch_max(committed.0, AcqRel).max(committed.0);
        let mut wanted = self.wanted.load(Relaxed);
        while wanted <= ceiling || self.ticks {
            match self.wanted.compare_exchange(wanted, 0, Relaxed, Relaxed) {
                Ok(_) => return None,
                Err(seen) => wanted = seen,
            }
        }
        Some(RaiseTicket(()))
    }

    /// Freezes every slot and copies the exact values. This section allocates nothing after the call has returned, and
    /// all numbers that it allocated before are in the copy. A second call returns the same copy.
    #[must_use]
    pub fn freeze(&self) -> SectionCopy {
        SectionCopy { base: self.base, distances: self.slots.freeze() }
    }

    /// Returns the base, above which all numbers of this ownership are: the ceiling at which the ownership began, or
    /// the base of the copy with which it began.
    #[must_use]
    pub fn base(&self) -> Seq {
        self.base
    }

    /// Returns the committed ceiling that was adopted last.
    #[must_use]
    pub fn ceiling(&self) -> Seq {
        Seq(self.ceiling.load(Acquire))
    }

    /// Returns the number of uids.
    #[must_use]
    pub fn uids(&self) -> u32 {
        self.slots.len()
    }

    /// Returns the bytes that hold counters of touched pages.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.slots.touched_bytes()
    }

    #[cold]
    fn at_ceiling(&self, needed: Seq) -> Take {
        if needed > self.last {
            return Take::Exhausted;
        }
        Take::AtCeiling { needed, ticket: self.want(needed) }
    }

    /// Requests a raise that covers a number; returns the ticket if no raise was requested already.
    fn want(&self, needed: Seq) -> Option<RaiseTicket> {
        (self.wanted.fetch_max(needed.0, Relaxed) == 0).then_some(RaiseTicket(()))
    }

    /// Requests the next raise before callers need it; returns the ticket if no raise was requested already.
    ///
    /// The function is `cold`, because it is called only shortly before a raise and during it. With fewer instructions
    /// in [`Section::take`] itself, the processor begins to load the slots of later calls sooner.
    #[cold]
    fn want_early(&self, value: Seq, ceiling: Seq) -> Option<RaiseTicket> {
        // Most calls that come here find that a raise is already requested; they only read.
        let due = ceiling < self.last
            && raise::is_due(value, ceiling, self.step())
            && self.wanted.load(Relaxed) == 0
            && self.wanted.compare_exchange(0, value.0, Relaxed, Relaxed).is_ok();
        due.then_some(RaiseTicket(()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
