//! Sums of a section's slots, from which statistics are computed, so that an allocation need not count anything.
//!
//! A slot holds the distance of its uid from the base. In a section of counters, the sum of the distances is therefore
//! the count of all numbers that were allocated or skipped since the base, including the numbers in the copy from which
//! the ownership started. [`Section::numbers`] subtracts the sum of that copy and the numbers that this ownership
//! skipped, which [`Section::skipped`] counts. A tally reads the slots one after another while other threads take
//! numbers, so its sum is between the true sums before and after the tally, and is exact for a frozen section.
//!
//! In a section of [ticks](Section::in_ticks), a distance is a time. The sum of times has no meaning, and only
//! [`Tally::highest`] and [`Tally::touched`] can be used there.

use alloc::boxed::Box;
use core::ops::Range;

use super::{Section, SectionCopy};
use crate::slots::{MARKS, PAGE_BYTES};
use crate::sync::{Acquire, AtomicU64, Relaxed, fence};

/// Sums of the touched slots of some pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sum of the distances from the base, modulo 2^64, so that only differences of sums have a meaning.
    pub sum: u64,
    /// Largest distance from the base; 0 if no uid is touched.
    pub highest: u64,
    /// Number of touched uids.
    pub touched: u32,
    /// Bytes of the touched pages.
    pub bytes: u64,
}

impl Tally {
    /// Adds the tally of other pages of the same section.
    pub fn add(&mut self, pages: Tally) {
        self.sum = self.sum.wrapping_add(pages.sum);
        self.highest = self.highest.max(pages.highest);
        self.touched += pages.touched;
        self.bytes += pages.bytes;
    }
}

impl SectionCopy {
    /// Returns the sum of the distances. It equals the [`Tally::sum`] of the frozen section, and that of a new section
    /// that starts from the copy.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.distances.iter().fold(0, |sum, (_, distance)| sum.wrapping_add(distance.get()))
    }
}

impl Section {
    /// Returns the number of pages, touched or not.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.slots.pages()
    }

    /// Sums up the slots of a range of pages, whose end may be past the last page. For an untouched page, only a
    /// pointer is read.
    #[must_use]
    pub fn tally(&self, pages: Range<usize>) -> Tally {
        let mut tally = Tally::default();
        for page in self.slots.touched_pages(pages) {
            tally.bytes += PAGE_BYTES;
            for slot in page {
                let distance = slot.load(Relaxed) & !MARKS;
                tally.sum = tally.sum.wrapping_add(distance);
                tally.highest = tally.highest.max(distance);
                tally.touched += u32::from(distance > 0);
            }
        }
        tally
    }

    /// Returns how many numbers this ownership allocated, modulo 2^64, computed from `sum`, the [`Tally::sum`] of all
    /// pages; `None` in a section of ticks. The count is exact for a frozen section. Otherwise it is never too large,
    /// but while a thread skips numbers it can be too small, even less than the count of an earlier call, because a
    /// skip is counted before its slot changes.
    #[must_use]
    pub fn numbers(&self, sum: u64) -> Option<u64> {
        let skipped = self.skipped();
        (!self.ticks).then(|| sum.wrapping_sub(self.begun).wrapping_sub(skipped))
    }

    /// Returns how many numbers this ownership skipped, modulo 2^64, by advances and by [`Section::take_above`]. Skips
    /// in a section of ticks are not counted.
    ///
    /// Must be called after the tally from whose sum the result is subtracted. A skip is counted before its slot
    /// changes, so the difference is never too large. It is too small while a thread has counted a skip and not changed
    /// the slot yet; a later difference is right again.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        fence(Acquire);
        self.skipped.get().map_or(0, |skipped| skipped.load(Relaxed))
    }

    /// Counts numbers that a slot is about to skip. If the slot is not changed then, the caller calls
    /// [`Section::take_back_skip`].
    #[inline]
    pub(super) fn count_skip(&self, numbers: u64) {
        if numbers > 0 {
            self.skipped.get_or_init(|| Box::new(AtomicU64::new(0))).fetch_add(numbers, Relaxed);
        }
    }

    /// Subtracts a skip that [`Section::count_skip`] counted and that did not happen.
    #[inline]
    pub(super) fn take_back_skip(&self, numbers: u64) {
        if let Some(skipped) = self.skipped.get().filter(|_| numbers > 0) {
            skipped.fetch_sub(numbers, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
