//! Sums over the slots of a section. Statistics are computed from these sums, so that an allocation need not update any
//! counter for statistics.
//!
//! A slot holds the distance of its uid from the base. In a section of counters, the sum of the distances is therefore
//! the count of all numbers above the base that were allocated or skipped. It includes the numbers of earlier owners if
//! the ownership started from a copy. To count only the numbers that this ownership allocated, [`Section::numbers`]
//! subtracts the sum of that copy, and the numbers that this ownership skipped ([`Section::skipped`]).
//!
//! A tally reads the slots one after another while other threads take numbers. So its sum is at least the true sum at
//! the start of the tally, and at most the true sum at its end. It is exact for a frozen section.
//!
//! In a section of [ticks](Section::in_ticks), a distance stands for a time, so the sum of the distances has no meaning
//! there. The other fields of a [`Tally`] can be used.

use alloc::boxed::Box;
use core::ops::Range;

use super::{Distance, KeyedCopy, Section, SectionCopy, SlotStore, Tally};
use crate::sync::{Acquire, AtomicU64, Relaxed, fence};

impl SectionCopy {
    /// Returns the sum of the distances in the copy, modulo 2^64. The [`Tally::sum`] of the frozen section equals it,
    /// and so does the [`Tally::sum`] of a section that has just started from the copy.
    #[must_use]
    pub fn sum(&self) -> u64 {
        sum(&self.distances)
    }
}

impl KeyedCopy {
    /// Returns the sum of the distances in the copy, modulo 2^64: see [`SectionCopy::sum`].
    #[must_use]
    pub fn sum(&self) -> u64 {
        sum(&self.distances)
    }
}

fn sum<K>(distances: &[(K, Distance)]) -> u64 {
    distances.iter().fold(0, |sum, (_, distance)| sum.wrapping_add(distance.get()))
}

impl<S: SlotStore> Section<S> {
    /// Returns the number of pages, touched or not.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.slots.pages()
    }

    /// Returns the sums over the slots in a range of pages. The range may end after the last page. In an untouched
    /// page, no slot is read.
    #[must_use]
    pub fn tally(&self, pages: Range<usize>) -> Tally {
        self.slots.tally(pages)
    }

    /// Returns how many numbers this ownership has allocated, modulo 2^64; `None` in a section of ticks. `sum` is the
    /// [`Tally::sum`] of all pages. The result is exact for a frozen section. Otherwise it is never too large, but it
    /// can be too small, and even less than the result of an earlier call. This happens while a thread skips numbers,
    /// because the thread counts the skip before it changes the slot.
    #[must_use]
    pub fn numbers(&self, sum: u64) -> Option<u64> {
        let skipped = self.skipped();
        (!self.ticks).then(|| sum.wrapping_sub(self.begun).wrapping_sub(skipped))
    }

    /// Returns how many numbers this ownership has skipped, modulo 2^64, by [`Section::advance`], by
    /// [`Section::take_above`], and by the first numbers of keys. In a section of ticks, skipped ticks are not counted.
    ///
    /// To compute the count of allocated numbers, the caller must make the tally first, call this function afterwards,
    /// and subtract the result from the sum. A skip is counted before its slot changes, so the difference is never too
    /// large. It is too small while a thread has counted a skip but has not changed the slot yet.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        fence(Acquire);
        self.skipped.get().map_or(0, |skipped| skipped.load(Relaxed))
    }

    /// Adds `numbers` to the count of skipped numbers, before the slot is changed. If the change of the slot then
    /// fails, the caller calls [`Section::take_back_skip`].
    #[inline]
    pub(super) fn count_skip(&self, numbers: u64) {
        if numbers > 0 {
            self.skipped.get_or_init(|| Box::new(AtomicU64::new(0))).fetch_add(numbers, Relaxed);
        }
    }

    /// Subtracts from the count of skipped numbers a skip that [`Section::count_skip`] added and that did not happen.
    #[inline]
    pub(super) fn take_back_skip(&self, numbers: u64) {
        if let Some(skipped) = self.skipped.get().filter(|_| numbers > 0) {
            skipped.fetch_sub(numbers, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
