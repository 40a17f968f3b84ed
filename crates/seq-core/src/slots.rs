//! The counters of a section: one 8-byte slot for each uid, in pages that exist once they are touched.
//!
//! A slot holds how far its uid is from the section's base; 0 is "untouched". The top bit says that the slot is frozen.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::id::SlotIndex;
use crate::sync::{AtomicU64, OnceBox, Relaxed};

/// Marks a slot that gives nothing out any more. Distances stay below 2^63, so the bit is free.
pub(crate) const FROZEN: u64 = 1 << 63;

/// Slots in a page, 16 KiB. Smaller pages waste less where few uids are used, larger ones have fewer pointers to follow:
/// those of ten million uids are 38 KiB and stay in the first-level cache, and an untouched section of 100,000 uids has 49.
#[cfg(not(loom))]
const PAGE_SLOTS: usize = 2_048;
/// Under loom every atomic is watched; a small page keeps the search small.
#[cfg(loom)]
const PAGE_SLOTS: usize = 2;

type Page = [AtomicU64; PAGE_SLOTS];

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

    /// The slot, made if its page was untouched.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub(crate) fn touch(&self, slot: SlotIndex) -> &AtomicU64 {
        let index = self.index(slot);
        let page = self.pages[index / PAGE_SLOTS].get_or_init(|| new_page(0));
        &page[index % PAGE_SLOTS]
    }

    /// The slot, if its page was ever touched.
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

    /// Freezes every slot, also those of untouched pages, and answers the touched ones with their exact distance.
    ///
    /// An untouched page is put in place frozen. If a taker puts a fresh one there first, its slots are frozen one by one
    /// like all others: whoever wins, no slot is left that can still be incremented.
    pub(crate) fn freeze(&self) -> Vec<(SlotIndex, u64)> {
        let mut touched = Vec::new();
        for (number, entry) in self.pages.iter().enumerate() {
            let page = entry.get_or_init(|| new_page(FROZEN));
            let first = (number * PAGE_SLOTS) as u32;
            for (slot, index) in page.iter().zip(first..self.len) {
                let distance = slot.fetch_or(FROZEN, Relaxed) & !FROZEN;
                if distance > 0 {
                    touched.push((SlotIndex(index), distance));
                }
            }
        }
        touched
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes of the pages in place.
    pub(crate) fn touched_bytes(&self) -> usize {
        self.pages.iter().filter(|page| page.get().is_some()).count() * size_of::<Page>()
    }
}

/// Out of line: a message with the slot in it would have every caller keep the slot in memory.
#[cold]
#[inline(never)]
fn no_such_slot(slot: SlotIndex, len: u32) -> ! {
    panic!("slot {slot} of {len}")
}

fn new_page(value: u64) -> Box<Page> {
    Box::new(core::array::from_fn(|_| AtomicU64::new(value)))
}
