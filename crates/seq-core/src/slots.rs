//! The memory of a section's counters: one slot of 8 bytes for each uid. Slots are grouped in pages, and a page is
//! allocated when a slot in it is touched for the first time.
//!
//! A slot is a word of 64 bits with two marks and a distance. The distance is how far the uid's last number is above
//! the section's base; it is 0 if the slot is untouched. The highest bit marks a frozen slot. The second-highest bit
//! marks a uid that was advanced and has taken no number since.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::id::SlotIndex;
use crate::sync::{AtomicU8, AtomicU64, OnceBox, Ordering, Relaxed};

/// Marks a slot that allocates nothing any more.
pub(crate) const FROZEN: u64 = 1 << 63;
/// Marks a slot whose value is the target of an advance and not a number that was allocated.
pub(crate) const ADVANCED: u64 = 1 << 62;
/// Bits of both marks. Every distance is less than [`ADVANCED`], so a distance sets neither bit.
pub(crate) const MARKS: u64 = FROZEN | ADVANCED;

/// Memory of a section's slots: [`Slots`] of uids, or [`Keyed`](crate::section::Keyed) of keys.
pub trait SlotStore {
    /// Ordering with which a slot is changed.
    const CHANGE: Ordering;

    /// Returns the distance from the section's base after which a counter continues if its slot is untouched.
    fn start(&self) -> u64;

    /// Returns the number of pages, touched or not. A page is the smallest part of the slots that is summed up.
    fn pages(&self) -> usize;

    /// Returns the sums over the slots in a range of pages, which may end after the last page.
    fn tally(&self, pages: Range<usize>) -> Tally;
}

/// Sums over the touched slots in a range of a section's pages.
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

    /// Adds a slot, which may be untouched or frozen.
    #[inline]
    pub(crate) fn count(&mut self, word: u64) {
        let distance = word & !MARKS;
        self.sum = self.sum.wrapping_add(distance);
        self.highest = self.highest.max(distance);
        self.touched += u32::from(distance > 0);
    }
}

/// Distance of a touched uid above its section's base, with a mark if the uid was advanced to this distance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Distance(u64);

impl Distance {
    /// Largest distance, limited by the bits that the marks leave. An ownership with base 0 can allocate half of all
    /// numbers. The next ownership, with the ceiling as its base, can allocate the other half.
    pub const MAX: u64 = ADVANCED - 1;

    /// Creates a distance; `None` if `distance` is not in `1 ..=` [`Distance::MAX`]. `advanced` states whether the uid
    /// was advanced and has taken no number since.
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

    /// Returns whether the uid was advanced and has taken no number since.
    #[must_use]
    pub fn is_advanced(self) -> bool {
        self.0 & ADVANCED != 0
    }

    /// Returns the distance in the word of a slot that is not frozen; `None` if the slot is untouched.
    pub(crate) fn of_word(word: u64) -> Option<Distance> {
        (word > 0).then_some(Distance(word))
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

/// Number of slots in a page, which has 16 KiB. With smaller pages, sections in which few uids are used would waste
/// less memory, but all sections would need more pointers. With this size, the pointers for ten million uids take 38
/// KiB and stay in the first-level cache, and a section of 100,000 uids has 49 pointers.
#[cfg(not(loom))]
const PAGE_SLOTS: usize = 2_048;
/// Number of slots in a page in tests with loom. Loom tracks every atomic, so a small page keeps its search small.
#[cfg(loom)]
const PAGE_SLOTS: usize = 2;

type Page = [AtomicU64; PAGE_SLOTS];

/// Bytes of a page of counters.
const PAGE_BYTES: u64 = (PAGE_SLOTS * 8) as u64;

/// Slots of a section of uids.
#[derive(Debug)]
pub struct Slots {
    pages: Box<[OnceBox<Page>]>,
    /// First use of each page.
    first_uses: Box<[FirstUse]>,
    len: u32,
}

/// The first use of a page, which is either the touch of one of its slots or the freeze of all of them. It is decided
/// once, by a compare-and-swap, so that a freeze needs no memory for pages in which no slot was touched.
///
/// **Invariant:** if the first use was the freeze, every word of the page is [`FROZEN`] forever.
#[derive(Debug)]
struct FirstUse(AtomicU8);

impl FirstUse {
    const NONE: u8 = 0;
    const TOUCH: u8 = 1;
    const FREEZE: u8 = 2;

    fn new() -> FirstUse {
        FirstUse(AtomicU8::new(FirstUse::NONE))
    }

    /// Makes `used` the first use if the page has none yet, and returns the first use.
    ///
    /// Relaxed is enough, because only the order of the changes of this word matters, and no other memory is published
    /// by it.
    fn decide(&self, used: u8) -> u8 {
        self.0.compare_exchange(FirstUse::NONE, used, Relaxed, Relaxed).map_or_else(|first| first, |_| used)
    }

    fn is_freeze(&self) -> bool {
        self.0.load(Relaxed) == FirstUse::FREEZE
    }
}

impl Slots {
    pub(crate) fn new(len: u32) -> Slots {
        let pages = (len as usize).div_ceil(PAGE_SLOTS);
        let (first_uses, pages) = ((0..pages).map(|_| FirstUse::new()), (0..pages).map(|_| OnceBox::new()));
        Slots { pages: pages.collect(), first_uses: first_uses.collect(), len }
    }

    /// Returns the slot; allocates its page if it was untouched.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub(crate) fn touch(&self, slot: SlotIndex) -> &AtomicU64 {
        let index = self.index(slot);
        let number = index / PAGE_SLOTS;
        let page = self.pages[number].get().unwrap_or_else(|| self.first_touched(number));
        &page[index % PAGE_SLOTS]
    }

    /// Creates a page for the first touch of a slot in it.
    #[cold]
    #[inline(never)]
    fn first_touched(&self, number: usize) -> &Page {
        let is_frozen = self.first_uses[number].decide(FirstUse::TOUCH) == FirstUse::FREEZE;
        self.pages[number].get_or_init(|| new_page(if is_frozen { FROZEN } else { 0 }))
    }

    /// Returns the word of a slot, without touching the slot.
    ///
    /// # Panics
    /// When the section has no such slot.
    #[inline]
    pub(crate) fn word(&self, slot: SlotIndex) -> u64 {
        let index = self.index(slot);
        match self.pages[index / PAGE_SLOTS].get() {
            Some(page) => page[index % PAGE_SLOTS].load(Relaxed),
            None if self.first_uses[index / PAGE_SLOTS].is_freeze() => FROZEN,
            None => 0,
        }
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
    /// A page whose first use is this freeze gets no memory: [`Slots::touch`] creates it with frozen slots later. If
    /// the first use was a touch, this function freezes the slots of the page one by one, also if the page does not
    /// exist yet. In both cases, no slot is left from which a number can be taken.
    pub(crate) fn freeze(&self) -> Vec<(SlotIndex, Distance)> {
        let mut touched = Vec::new();
        for (number, (entry, first_use)) in self.pages.iter().zip(&self.first_uses).enumerate() {
            if first_use.decide(FirstUse::FREEZE) == FirstUse::FREEZE {
                continue;
            }
            let page = entry.get_or_init(|| new_page(FROZEN));
            let first = (number * PAGE_SLOTS) as u32;
            for (slot, index) in page.iter().zip(first..self.len) {
                let word = slot.fetch_or(FROZEN, Relaxed) & !FROZEN;
                touched.extend(Distance::of_word(word).map(|distance| (SlotIndex(index), distance)));
            }
        }
        touched
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

impl SlotStore for Slots {
    const CHANGE: Ordering = Relaxed;

    #[inline]
    fn start(&self) -> u64 {
        0
    }

    fn pages(&self) -> usize {
        self.pages.len()
    }

    fn tally(&self, pages: Range<usize>) -> Tally {
        let mut tally = Tally::default();
        let end = pages.end.min(self.pages.len());
        let pages = self.pages.get(pages.start..end).unwrap_or_default();
        for page in pages.iter().filter_map(OnceBox::get) {
            tally.bytes += PAGE_BYTES;
            page.iter().for_each(|slot| tally.count(slot.load(Relaxed)));
        }
        tally
    }
}

/// Panics with a message that contains the slot. The function is not inlined, because a caller that formats the message
/// itself would have to keep the slot in memory.
#[cold]
#[inline(never)]
fn no_such_slot(slot: SlotIndex, len: u32) -> ! {
    panic!("slot {slot} of {len}")
}

fn new_page(value: u64) -> Box<Page> {
    Box::new(core::array::from_fn(|_| AtomicU64::new(value)))
}
