//! Takes numbers within a [`Window`], as series with a clock need it: each number is at least the current tick of the
//! clock, and no further ahead of the clock than the series allows.
//!
//! **Invariant:** the numbers of a slot only grow, even if the next window is below the previous window. So neither
//! uniqueness nor order depends on a clock.

use super::{Distance, Section, SlotStore, Take};
use crate::id::{Seq, SlotIndex};
use crate::request::Count;
use crate::slots::{FROZEN, MARKS};
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Range in which the first of the numbers taken by a call must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The lowest allowed first number, for example the first tick of the current unit of time.
    pub floor: Seq,
    /// The highest allowed first number; 2^64-1 for no limit.
    pub limit: Seq,
    /// Bit mask, 0 for none. The bits of the slot's next number that are in the mask are added to `floor`. With the
    /// bits of a sequence number as the mask, the sequence number continues in the next unit of time instead of
    /// starting at 0 again.
    pub spread: u64,
}

/// Refusal of a call whose first number would be above [`Window::limit`]. No number was taken. The caller retries later
/// with a window that has moved forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The first number.
    pub first: Seq,
}

impl Window {
    /// The window that allows every number, so that a slot continues after its last number.
    pub const ALL: Window = Window { floor: Seq::ZERO, limit: Seq(u64::MAX), spread: 0 };
}

impl Section {
    /// Takes `count` consecutive numbers of a uid. The first of them is the uid's next number or, if higher, the floor
    /// of the window with its [spread](Window::spread). The numbers in between are skipped and never allocated.
    ///
    /// # Errors
    /// [`Ahead`]: the first number would be above the window.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub fn take_within(&self, slot: SlotIndex, count: Count, window: Window) -> Result<Take, Ahead> {
        self.take_from::<false>(self.slots.touch(slot), u64::from(count.get()), window)
    }

    /// Takes the next `count` numbers of a uid that are greater than `above`. The section must be a section of
    /// counters, not of ticks. The numbers that this call skips are never allocated, and are
    /// [counted](Section::skipped).
    ///
    /// # Panics
    /// When the section has no such slot.
    pub fn take_above(&self, slot: SlotIndex, count: Count, above: Seq) -> Take {
        let window = Window { floor: Seq(above.0.saturating_add(1)), ..Window::ALL };
        let taken = self.take_from::<true>(self.slots.touch(slot), u64::from(count.get()), window);
        taken.expect("a window without a limit")
    }
}

impl<S: SlotStore> Section<S> {
    /// Takes `count` numbers from a slot, within a window. The slot of a key must have been touched.
    #[inline]
    pub(super) fn take_from<const COUNTS_SKIPS: bool>(
        &self,
        slot: &AtomicU64,
        count: u64,
        window: Window,
    ) -> Result<Take, Ahead> {
        let order = if COUNTS_SKIPS { Release } else { S::CHANGE };
        let mut word = slot.load(Relaxed);
        loop {
            if word & FROZEN != 0 {
                return Ok(Take::Frozen);
            }
            let last = self.base.0 + (word & !MARKS);
            let next = last + 1;
            let first = next.max(window.floor.0.saturating_add(next & window.spread));
            if first > window.limit.0 {
                return Err(Ahead { first: Seq(first) });
            }
            let value = first.saturating_add(count - 1);
            let ceiling = self.ceiling.load(Acquire);
            if value > ceiling {
                return Ok(self.at_ceiling(Seq(value)));
            }
            let skipped = if COUNTS_SKIPS { first - next } else { 0 };
            self.count_skip(skipped);
            match slot.compare_exchange_weak(word, value - self.base.0, order, Relaxed) {
                Ok(_) => {
                    // The base, and the target of an advance, were allocated to no call of this ownership.
                    let is_given = (1..=Distance::MAX).contains(&word);
                    let prev = if is_given { Seq(last) } else { Seq::ZERO };
                    return Ok(self.given(Seq(value), prev, Seq(ceiling)));
                }
                Err(seen) => {
                    self.take_back_skip(skipped);
                    word = seen;
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
