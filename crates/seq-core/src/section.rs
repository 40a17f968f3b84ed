//! The counters of a section in its owner's memory, and the durable ceiling that limits all of them.
//!
//! Many threads can use a section at the same time without a lock. To take numbers, a thread does one compare-and-swap
//! on the slot of the uid. Memory outside the slots is written only when a raise is requested or done, and when numbers
//! are skipped. After [`Section::freeze`] has frozen a slot, every compare-and-swap on the slot fails, so the copy that
//! `freeze` returns is exact.

mod copy;
mod encoding;
mod keyed;
mod tally;
mod within;

use core::time::Duration;

use crate::id::{AdvanceLimit, Seq, SlotIndex, Step};
pub use crate::keyed::Keyed;
use crate::limits;
use crate::raise;
use crate::request::{Count, Target};
use crate::slots::{ADVANCED, FROZEN, MARKS};
pub use crate::slots::{Distance, SlotStore, Slots, Tally};
use crate::sync::{AcqRel, Acquire, AtomicU64, OnceBox, Relaxed, Release};
pub use copy::{AnyCopy, CopyMisfit, Counters, KeyedCopy, SLOTS_OF_KEY, SectionCopy};
pub use keyed::{Full, Keep, KeyedSection, Rebuilt};
pub use within::{Ahead, Window};

/// The counters and the ceiling of one section under one ownership. The section has slots of uids, unless it is a
/// [`KeyedSection`].
#[derive(Debug)]
pub struct Section<S = Slots> {
    /// The base. A uid with an untouched slot continues after the base, and the distance in a touched slot is relative
    /// to the base. After a handover, the base is the base of the handed-over copy. Otherwise it is the ceiling that
    /// was committed when this ownership began, or 0 for a section without an earlier owner.
    base: Seq,
    /// The highest number that the section may allocate. It is the lowest of three limits: [`Distance::MAX`] above the
    /// base, [`Seq::MAX`], and the limit set by [`Section::up_to`].
    last: Seq,
    /// The distance by which a raise moves the ceiling, above 0. No safety property depends on this value, so its type
    /// is an atomic of `core`, whose accesses the model checker loom does not track.
    step: core::sync::atomic::AtomicU64,
    /// The step of the set, above 0: the least value of `step`, from which an ownership begins.
    least_step: core::sync::atomic::AtomicU64,
    /// The committed ceiling, or `last` if that is lower. **Invariant:** the ceiling never falls, and no slot's value
    /// is ever above it.
    ceiling: AtomicU64,
    /// The highest number for which a caller has requested a raise; 0 if no raise is requested. While this is not 0, a
    /// [`RaiseTicket`] of the section exists: either it is in the raise queue, or the caller that received it is about
    /// to put it there. [`Section::raised`] and [`Section::raise_target`] reset this to 0 when no further raise is
    /// needed.
    wanted: AtomicU64,
    /// Whether the numbers are ticks of a clock. If so, `step` is the lead: the number of ticks from the wanted tick to
    /// the ceiling that a raise requests.
    ticks: bool,
    /// Sum of the distances in the copy from which this ownership started, modulo 2^64; 0 if it started without a copy.
    begun: u64,
    slots: S,
    /// Count of the numbers that this ownership has skipped, see [`Section::skipped`]; empty until a number is skipped.
    /// The count is boxed, so that it is not in the cache line of the ceiling. Every allocation reads the cache line of
    /// the ceiling, and an import, which makes many advances, would change the count in that line again and again.
    skipped: OnceBox<AtomicU64>,
}

// The target of every advance fits a slot, also in a section whose base is 0.
const _: () = assert!(limits::MAX_ADVANCE <= Distance::MAX);

const ZERO_STEP: &str = "a step of 0 raises nothing";

/// Proof that a raise of a section was requested. The caller that receives the ticket must put the section into the
/// raise queue. A section issues its next ticket only after the raise of the previous ticket has got its response. If a
/// ticket is dropped, the section's ceiling is not raised again in this ownership, and callers that reach the ceiling
/// keep waiting.
#[must_use = "the ceiling is not raised until the raise queue has the ticket"]
#[derive(Debug, PartialEq, Eq)]
pub struct RaiseTicket(());

/// Outcome of a call for numbers.
#[derive(Debug, PartialEq, Eq)]
pub enum Take {
    /// The call took the numbers `value - count + 1 ..= value`, where `count` is its argument.
    Given {
        /// The last number taken.
        value: Seq,
        /// The uid's previous number, which was allocated before these numbers. 0 if there was none, if this owner does
        /// not know it, or if the uid was advanced after it was allocated.
        prev: Seq,
        /// Ticket that the caller must put into the raise queue; `None` if this call requests no raise.
        ticket: Option<RaiseTicket>,
    },
    /// The requested numbers are above the ceiling, so no number was taken. The caller waits until a raise has moved
    /// the ceiling to `needed` or above.
    AtCeiling {
        /// The ceiling with which the call can continue.
        needed: Seq,
        /// Ticket that the caller must put into the raise queue; `None` if this call requests no raise.
        ticket: Option<RaiseTicket>,
    },
    /// The section is being handed over; nothing was taken.
    Frozen,
    /// The requested numbers are above the highest number that the section may allocate, so no number was taken. That
    /// limit is [`Seq::MAX`], the argument of [`Section::up_to`], or the largest distance above the base that a slot
    /// can hold.
    Exhausted,
}

/// Outcome of a call to raise a uid to a number.
#[derive(Debug, PartialEq, Eq)]
pub enum Advance {
    /// The uid is at the requested number: all its numbers up to that number count as taken.
    Done {
        /// Number of seqs of the uid that the advance skipped. None of them can be allocated any more.
        skipped: u64,
        /// Ticket that the caller must put into the raise queue; `None` if this call requests no raise.
        ticket: Option<RaiseTicket>,
    },
    /// The uid is above the requested number already, so nothing was changed. If the owner does not know the uid's last
    /// number exactly, it compares its upper bound of that number.
    Past,
    /// The requested number is above the ceiling, so nothing was changed. The caller retries the advance after the next
    /// raise. If the number is far above the ceiling, the advance needs several raises.
    AtCeiling {
        /// Ticket that the caller must put into the raise queue; `None` if this call requests no raise.
        ticket: Option<RaiseTicket>,
    },
    /// The requested number is further above the ceiling than the `limit` of the call allows. Nothing was changed, and
    /// no raise was requested.
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
    /// Whether `value` is exactly the last allocated number; an exact 0 means that no number was ever allocated. If
    /// false, the last allocated number is not known, but it is not above `value`.
    pub exact: bool,
}

impl Section {
    /// Creates the section of an ownership that starts without a copy. Every uid continues after the committed
    /// `ceiling`, and therefore after every number that an earlier owner allocated.
    #[must_use]
    pub fn takeover(uids: u32, ceiling: Seq, step: Step) -> Section {
        Section::new(Slots::new(uids), ceiling, ceiling, step)
    }

    /// Creates the section of an ownership that continues the exact counters of the previous ownership from `copy`,
    /// under the committed `ceiling`.
    ///
    /// # Errors
    /// [`CopyMisfit`] if the copy does not fit the section or the ceiling. The caller then starts the ownership with
    /// [`Section::takeover`] instead.
    pub fn handed_over(uids: u32, copy: &SectionCopy, ceiling: Seq, step: Step) -> Result<Section, CopyMisfit> {
        let highest = copy.check(uids)?;
        if highest > ceiling {
            return Err(CopyMisfit::AboveCeiling { highest, ceiling });
        }
        let section = Section::new(Slots::new(uids), copy.base, ceiling, step);
        for &(slot, distance) in &copy.distances {
            section.slots.touch(slot).store(distance.word(), Relaxed);
        }
        Ok(Section { begun: copy.sum(), ..section })
    }

    /// Takes the next `count` numbers of a uid.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub fn take(&self, slot: SlotIndex, count: Count) -> Take {
        self.take_next(self.slots.touch(slot), count)
    }

    /// Advances a uid to `to`, so that all its numbers up to `to` count as taken. `to` may be at most `limit` above the
    /// ceiling. Another advance of the uid to the same number changes nothing.
    ///
    /// A raise moves the ceiling by at most [`limits::MAX_RAISE`], and each call of this function requests at most one
    /// raise. So if `to` is several raises above the ceiling, the caller must retry after each raise. If the caller
    /// stops retrying, the ceiling moves no further.
    ///
    /// # Panics
    /// When the section has no such slot.
    pub fn advance(&self, slot: SlotIndex, to: Target, limit: AdvanceLimit) -> Advance {
        // Every number up to the base may be allocated, by this owner or an earlier one.
        let Some(distance) = to.seq().0.checked_sub(self.base.0) else { return Advance::Past };
        self.advance_slot(self.slots.touch(slot), distance, limit)
    }

    /// Reads a slot so that the processor starts to load the slot's cache line before numbers are taken from the slot.
    /// The processor executes other instructions during the load. The caller must use the returned word, because
    /// otherwise the compiler removes the read.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    #[must_use]
    pub fn warm(&self, slot: SlotIndex) -> u64 {
        self.slots.word(slot)
    }

    /// Returns the last number of a uid; `None` if its slot is frozen, because in this case the next owner may have
    /// allocated higher numbers already.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[must_use]
    pub fn current(&self, slot: SlotIndex) -> Option<Reading> {
        self.read(self.slots.word(slot))
    }

    /// Freezes every slot and returns a copy of the exact counters. This section allocates nothing after the call has
    /// returned, and the copy covers all numbers that it allocated before. A second call returns the same copy.
    #[must_use]
    pub fn freeze(&self) -> SectionCopy {
        SectionCopy { base: self.base, distances: self.slots.freeze() }
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
}

impl<S: SlotStore> Section<S> {
    fn new(slots: S, base: Seq, ceiling: Seq, step: Step) -> Section<S> {
        assert!(ceiling <= Seq::MAX, "ceiling {ceiling}");
        assert!(step.0 > 0, "{ZERO_STEP}");
        let last = Seq(base.0 + Distance::MAX).min(Seq::MAX);
        Section {
            base,
            last,
            step: step.0.into(),
            least_step: step.0.into(),
            ceiling: AtomicU64::new(ceiling.min(last).0),
            wanted: AtomicU64::new(0),
            ticks: false,
            begun: 0,
            slots,
            skipped: OnceBox::new(),
        }
    }

    /// Returns this section, changed to allocate ticks of a clock instead of consecutive numbers. Its raises then
    /// request a ceiling that is `lead` above the wanted tick. The store may commit a lower ceiling than requested.
    ///
    /// # Panics
    /// When the lead is 0.
    #[must_use]
    pub fn in_ticks(self, lead: Step) -> Section<S> {
        assert!(lead.0 > 0, "{ZERO_STEP}");
        Section { ticks: true, step: lead.0.into(), least_step: lead.0.into(), ..self }
    }

    /// Returns this section, limited to numbers up to `last`. A call that needs a higher number returns
    /// [`Take::Exhausted`], and the section's ceiling is never above `last`.
    #[must_use]
    pub fn up_to(self, last: Seq) -> Section<S> {
        let last = self.last.min(last);
        let ceiling = AtomicU64::new(self.ceiling().min(last).0);
        Section { last, ceiling, ..self }
    }

    /// Returns whether the numbers are ticks.
    #[must_use]
    pub fn is_in_ticks(&self) -> bool {
        self.ticks
    }

    /// Sets the step of the raises that are requested from now on. Has no effect on a section of ticks, which keeps its
    /// lead.
    ///
    /// # Panics
    /// When the step is 0.
    pub fn set_step(&self, step: Step) {
        assert!(step.0 > 0, "{ZERO_STEP}");
        if !self.ticks {
            self.least_step.store(step.0, Relaxed);
            self.step.store(step.0, Relaxed);
        }
    }

    /// Changes the step to that of a raise `since` after the last raise of this ownership was requested: see
    /// [`raise::adapted_step`]. Has no effect on a section of ticks.
    pub fn adapt_step(&self, since: Duration, most: Step) {
        if !self.ticks {
            self.step.store(raise::adapted_step(self.step(), since, self.least_step(), most).0, Relaxed);
        }
    }

    /// Returns the step in force: the distance by which the next raise moves the ceiling.
    #[inline]
    pub fn step(&self) -> Step {
        Step(self.step.load(Relaxed))
    }

    fn least_step(&self) -> Step {
        Step(self.least_step.load(Relaxed))
    }

    /// Returns half of the step. As long as the ceiling is more than half a step above the last number taken, no raise
    /// is due. So most calls only compare these numbers and do not call [`raise::is_due`].
    #[inline]
    fn half_step(&self) -> u64 {
        self.step().0 / 2
    }

    /// Takes the next `count` numbers from a slot.
    #[inline]
    fn take_next(&self, slot: &AtomicU64, count: Count) -> Take {
        let count = u64::from(count.get());
        let mut word = slot.load(Relaxed);
        loop {
            if word & MARKS != 0 {
                return self.take_marked(slot, count);
            }
            // The first call for a key skips the numbers up to the floor. Slots of uids start at 0.
            let skipped = if word == 0 { self.slots.start() } else { 0 };
            // Base and distance are below 2^63 and the count below 2^20, so the sum fits.
            let distance = word + skipped + count;
            let value = self.base.0 + distance;
            let ceiling = self.ceiling.load(Acquire);
            if value > ceiling {
                return self.at_ceiling(Seq(value));
            }
            self.count_skip(skipped);
            match slot.compare_exchange_weak(word, distance, S::CHANGE, Relaxed) {
                Ok(_) => {
                    let prev = if word == 0 { Seq::ZERO } else { Seq(self.base.0 + word) };
                    return self.given(Seq(value), prev, Seq(ceiling));
                }
                Err(seen) => {
                    self.take_back_skip(skipped);
                    word = seen;
                }
            }
        }
    }

    /// Takes numbers from a slot that is frozen, or whose value is the target of an advance. This function is separate
    /// and `cold`, so that [`Section::take_next`] needs only one test for both marks if the slot has no mark.
    #[cold]
    fn take_marked(&self, slot: &AtomicU64, count: u64) -> Take {
        self.take_from::<false>(slot, count, Window::ALL).expect("a window without a limit")
    }

    #[inline]
    fn given(&self, value: Seq, prev: Seq, ceiling: Seq) -> Take {
        let due = ceiling.0 - value.0 <= self.half_step();
        Take::Given { value, prev, ticket: if due { self.want_early(value, ceiling) } else { None } }
    }

    /// Advances a slot to the distance `wanted`: see [`Section::advance`]. If the slot is untouched, the distance must
    /// not be below the start of the slots.
    fn advance_slot(&self, slot: &AtomicU64, wanted: u64, limit: AdvanceLimit) -> Advance {
        let to = Seq(self.base.0 + wanted);
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
                return self.advance_above_ceiling(to, Seq(ceiling), limit);
            }
            // If the slot is at the target already, its word stays: an allocated number can still be a `prev`, and a
            // repeated advance keeps the mark of the first advance.
            let advanced = if distance < wanted { wanted | ADVANCED } else { word };
            let moved = wanted - distance;
            self.count_skip(moved);
            match slot.compare_exchange_weak(word, advanced, Release, Relaxed) {
                Ok(_) => {
                    let due = wanted > 0 && ceiling - to.0 <= self.half_step();
                    let ticket = if due { self.want_early(to, Seq(ceiling)) } else { None };
                    let before = if word == 0 { self.slots.start() } else { 0 };
                    return Advance::Done { skipped: moved - before, ticket };
                }
                Err(seen) => {
                    self.take_back_skip(moved);
                    word = seen;
                }
            }
        }
    }

    /// Requests a raise for an advance above the ceiling, unless the advance is further above it than it may be.
    #[cold]
    fn advance_above_ceiling(&self, to: Seq, ceiling: Seq, limit: AdvanceLimit) -> Advance {
        // Checked before a raise is requested, so that a refused advance does not raise the ceiling, which the other
        // uids of the section share.
        let bound = Seq(ceiling.0.saturating_add(limit.0)).min(Seq(limits::MAX_ADVANCE));
        if to > bound {
            return Advance::TooFar { bound };
        }
        Advance::AtCeiling { ticket: self.want(to.min(Seq(ceiling.0.saturating_add(limits::MAX_RAISE)))) }
    }

    /// Returns the last number of a slot: see [`Section::current`].
    fn read(&self, word: u64) -> Option<Reading> {
        if word & FROZEN != 0 {
            return None;
        }
        let distance = word & !MARKS;
        if distance > 0 {
            return Some(Reading { value: Seq(self.base.0 + distance), exact: true });
        }
        let value = Seq(self.base.0 + self.slots.start());
        Some(Reading { value, exact: value == Seq::ZERO })
    }

    /// Returns the ceiling to request from the store, when the raise queue comes to this section. Returns `None` if the
    /// section needs no raise, or no longer needs the requested raise. In both cases, the section's ticket is void.
    ///
    /// A raise can be requested although it is not needed, because a thread may have read the ceiling just before
    /// another raise changed it. This function drops such a request.
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

    /// Adopts the ceiling that the store committed for a raise. A ceiling below the present ceiling changes nothing.
    /// The ticket of the raise becomes void. Returns the next ticket if a caller wants a number above the committed
    /// ceiling.
    ///
    /// In a section of ticks, returns no ticket in any case. The store limits the ceiling of ticks by its own clock, so
    /// it would limit an immediate second raise as well. A call that waits for a higher ceiling requests another raise
    /// when it retries.
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

    /// Adopts a ceiling that the store committed for a raise of the section that this section has replaced under the
    /// same ownership. A ceiling below the present ceiling changes nothing, and no ticket becomes void.
    ///
    /// # Panics
    /// When the ceiling is above [`Seq::MAX`], which the store never commits.
    pub fn adopt_ceiling(&self, committed: Seq) {
        assert!(committed <= Seq::MAX, "ceiling {committed}");
        self.ceiling.fetch_max(committed.min(self.last).0, AcqRel);
    }

    /// Returns the base. All numbers that this ownership allocates are above it. It is the ceiling at which the
    /// ownership began, or the base of the copy from which the ownership started.
    #[must_use]
    pub fn base(&self) -> Seq {
        self.base
    }

    /// Returns the committed ceiling that was adopted last.
    #[must_use]
    pub fn ceiling(&self) -> Seq {
        Seq(self.ceiling.load(Acquire))
    }

    #[cold]
    fn at_ceiling(&self, needed: Seq) -> Take {
        if needed > self.last {
            return Take::Exhausted;
        }
        Take::AtCeiling { needed, ticket: self.want(needed) }
    }

    /// Requests a raise of the ceiling to `needed` or above. Returns the ticket; `None` if a raise of this section is
    /// already requested.
    fn want(&self, needed: Seq) -> Option<RaiseTicket> {
        (self.wanted.fetch_max(needed.0, Relaxed) == 0).then_some(RaiseTicket(()))
    }

    /// Requests the next raise if it is due, so that it can be done before a caller reaches the ceiling. Returns the
    /// ticket; `None` if no raise is due, or a raise of this section is already requested.
    ///
    /// The function is `cold`, because it is called only while the ceiling is half a step away or less. With fewer
    /// instructions in [`Section::take`] itself, the processor begins to load the slots of later calls sooner.
    #[cold]
    fn want_early(&self, value: Seq, ceiling: Seq) -> Option<RaiseTicket> {
        // Most calls of this function find that a raise is already requested. Such calls only read.
        let due = ceiling < self.last
            && raise::is_due(value, ceiling, self.step())
            && self.wanted.load(Relaxed) == 0
            && self.wanted.compare_exchange(0, value.0, Relaxed, Relaxed).is_ok();
        due.then_some(RaiseTicket(()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
