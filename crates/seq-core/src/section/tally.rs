//! Sums of a section's slots, from which statistics are made: the path of a number counts nothing.
//!
//! A slot holds the distance of its uid from the base. In a section of counters, the sum of the distances therefore is
//! the number of numbers that this ownership and the ownership of its copy allocated, plus the numbers that were
//! skipped. [`Section::skipped`] counts the latter on the paths that skip, and [`Section::numbers`] is the difference.
//! The slots are read one by one while numbers are taken, so a tally is between the sums before and after it, and exact
//! for a frozen section.
//!
//! In a section of [ticks](Section::in_ticks), a distance is a time. Its sum counts nothing, and only
//! [`Tally::highest`] and [`Tally::touched`] have a meaning there.

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
    /// Returns the sum of the distances, as [`Tally::sum`] of the frozen section and of the section that starts from
    /// the copy.
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

    /// Sums up the slots of pages, the last of which may be past the end. An untouched page costs the read of a
    /// pointer.
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

    /// Returns the count of the numbers that this ownership allocated, modulo 2^64, by the [`Tally::sum`] of all pages;
    /// `None` in a section of ticks. The count is exact for a frozen section. Otherwise it can be below an earlier
    /// count while a number is skipped, because a skip is counted before its slot moves. It is never above the numbers
    /// that were allocated until now.
    #[must_use]
    pub fn numbers(&self, sum: u64) -> Option<u64> {
        let skipped = self.skipped();
        (!self.ticks).then(|| sum.wrapping_sub(self.begun).wrapping_sub(skipped))
    }

    /// Returns the count of numbers that this ownership skipped in slots, modulo 2^64: by advances, and by takes above
    /// a number. Ticks skip uncounted.
    ///
    /// Must be called after the tally from which it is subtracted. A skip is counted before its slot moves, so the
    /// difference is never too large. It can be too small by a skip in flight, which the next difference contains.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        fence(Acquire);
        self.skipped.get().map_or(0, |skipped| skipped.load(Relaxed))
    }

    /// Counts numbers that a slot is about to skip. If the slot is not moved, [`Section::take_back_skip`] follows.
    #[inline]
    pub(super) fn count_skip(&self, numbers: u64) {
        if numbers > 0 {
            self.skipped.get_or_init(|| Box::new(AtomicU64::new(0))).fetch_add(numbers, Relaxed);
        }
    }

    /// Takes the count of a skip back that did not happen.
    #[inline]
    pub(super) fn take_back_skip(&self, numbers: u64) {
        if let Some(skipped) = self.skipped.get().filter(|_| numbers > 0) {
            skipped.fetch_sub(numbers, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
