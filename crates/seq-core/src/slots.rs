//! The counters of a section: one 8-byte slot for each uid, in pages that exist once they are touched.
//!
//! A slot is a word with the distance of its uid above the section's base, 0 if untouched, and two marks. The top bit
//! marks a frozen slot. The bit below it marks a uid that was advanced and has taken no number since.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::id::SlotIndex;
use crate::sync::{AtomicU64, OnceBox, Relaxed};

/// Marks a slot that allocates nothing any more.
pub(crate) const FROZEN: u64 = 1 << 63;
/// Marks a slot whose value is the target of an advance and not a number that was allocated.
pub(crate) const ADVANCED: u64 = 1 << 62;
/// Both marks. Distances stay below them, so both bits are free.
pub(crate) const MARKS: u64 = FROZEN | ADVANCED;

/// Distance of a touched uid above its section's base, with a mark if an advance took it there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Distance(u64);

impl Distance {
    /// Largest distance, as large as the marks of a slot allow. An ownership that began at 0 reaches half of all
    /// numbers, and the next ownership, which begins at the ceiling, reaches the rest.
    pub const MAX: u64 = ADVANCED - 1;

    /// Creates a distance in `1 ..=` [`Distance::MAX`]; `None` for another number. `advanced` is true if the uid took
    /// no number since an advance.
    #[must_use]
    pub fn new(distance: u64, advanced: bool) -> Option<Distance> {
        let mark = if advanced { ADVANCED } else { 0 };
        (1..=Distance::MAX).contains(&distance).then_some(Distance(distance | mark))
    }

    /// Returns the distance in numbers above the base.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0 & !MARKS
    }

    /// Returns whether the uid took no number since an advance.
    #[must_use]
    pub fn is_advanced(self) -> bool {
        self.0 & ADVANCED != 0
    }

    /// Returns the word of a slot that is not frozen.
    pub(crate) fn word(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_advanced() { "=" } else { "" }, self.get())
    }
}

/// Number of slots in a page, which has 16 KiB. Smaller pages waste less memory where few uids are used. Larger pages
/// need fewer pointers: with this size, the pointers for ten million uids take 38 KiB and stay in the first-level
/// cache, and an untouched section of 100,000 uids has 49 pointers.
#[cfg(not(loom))]
const PAGE_SLOTS: usize = 2_048;
/// Loom tracks every atomic; a small page keeps the search small.
#[cfg(loom)]
const PAGE_SLOTS: usize = 2;

type Page = [AtomicU64; PAGE_SLOTS];

/// Bytes of a page of counters.
pub(crate) const PAGE_BYTES: u64 = (PAGE_SLOTS * 8) as u64;

#[derive(Debug)]
pub(crate) struct Slots {
    pages: Box<[OnceBox<Page>]>,
    len: u32,
}

impl Slots {
    pub(crate) fn new(len: u32) -> Slots {
        let pages = (len as usize).div_ceil(PAGE_SLOTS);
        Slots { pages: (0..pages).map(|_| OnceBox::new()).collect(), len }
    }

    /// Returns the slot; allocates its page if it was untouched.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub(crate) fn touch(&self, slot: SlotIndex) -> &AtomicU64 {
        let index = self.index(slot);
        let page = self.pages[index / PAGE_SLOTS].get_or_init(|| new_page(0));
        &page[index % PAGE_SLOTS]
    }

    /// Returns the slot, if its page was ever touched.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub(crate) fn peek(&self, slot: SlotIndex) -> Option<&AtomicU64> {
        let index = self.index(slot);
        self.pages[index / PAGE_SLOTS].get().map(|page| &page[index % PAGE_SLOTS])
    }

    #[inline]
    fn index(&self, slot: SlotIndex) -> usize {
        if slot.0 >= self.len {
            no_such_slot(slot, self.len);
        }
        slot.0 as usize
    }

    /// Freezes every slot, even in untouched pages, and returns the touched slots with their exact distance.
    ///
    /// A page that does not exist yet is created with frozen slots. If another thread, which takes numbers, creates the
    /// page first, this function freezes its slots one by one, like those of all other pages. In both cases, no slot is
    /// left that can still be incremented.
    pub(crate) fn freeze(&self) -> Vec<(SlotIndex, Distance)> {
        let mut touched = Vec::new();
        for (number, entry) in self.pages.iter().enumerate() {
            let page = entry.get_or_init(|| new_page(FROZEN));
            let first = (number * PAGE_SLOTS) as u32;
            for (slot, index) in page.iter().zip(first..self.len) {
                let word = slot.fetch_or(FROZEN, Relaxed) & !FROZEN;
                if word > 0 {
                    touched.push((SlotIndex(index), Distance(word)));
                }
            }
        }
        touched
    }

    /// Returns the number of pages, touched or not.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the touched pages of a range, whose end may be past the last page.
    pub(crate) fn touched_pages(&self, pages: Range<usize>) -> impl Iterator<Item = &[AtomicU64]> {
        let end = pages.end.min(self.pages.len());
        let pages = self.pages.get(pages.start..end).unwrap_or_default();
        pages.iter().filter_map(|page| page.get().map(|page| &page[..]))
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the bytes of the pages that exist.
    pub(crate) fn touched_bytes(&self) -> usize {
        self.pages.iter().filter(|page| page.get().is_some()).count() * size_of::<Page>()
    }
}

/// Panics with the slot. It is not inlined, because a message with the slot in it would make every caller keep the slot
/// in memory.
#[cold]
#[inline(never)]
fn no_such_slot(slot: SlotIndex, len: u32) -> ! {
    panic!("slot {slot} of {len}")
}

fn new_page(value: u64) -> Box<Page> {
    Box::new(core::array::from_fn(|_| AtomicU64::new(value)))
}
