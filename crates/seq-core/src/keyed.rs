//! The memory of a bucket's counters: a hash table with an entry of 24 bytes for each key that has taken numbers.
//!
//! The index of an entry follows from the key's hash. If the entry there belongs to another key, the next entries are
//! tried in order, the first entry after the last one. Entries are only added, so the order in which a key's entry is
//! searched never has a gap, and a key never has two entries. No lock is needed to find, add or change an entry.
//!
//! **Invariant:** an entry is never removed and never moves within its table. A table as a whole is replaced by another
//! one, after all of its slots have been frozen. Otherwise a thread could find a key absent while its entry is moved,
//! and the key would continue below its last number.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use crate::keyspace::KeyHash;
use crate::slots::{Distance, FROZEN, SlotStore, Tally};
use crate::sync::{AcqRel, Acquire, AtomicU64, Ordering, Relaxed, Release};

/// Mark of an entry that was used since the last eviction; a bit of [`Entry::hi`].
const RECENT: u64 = KeyHash::SPARE;

/// Number of entries of the smallest table.
#[cfg(not(loom))]
const MIN_ENTRIES: usize = 8;
/// Number of entries of the smallest table in tests with loom. Loom tracks every atomic, so a small table keeps its
/// search small.
#[cfg(loom)]
const MIN_ENTRIES: usize = 4;

/// Number of entries that [`SlotStore::tally`] reads as one page.
const PAGE_ENTRIES: usize = 512;

/// Counter of one key.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Upper half of the key's hash, with the mark [`RECENT`]; 0 if the entry is free. It is set before `lo`.
    hi: AtomicU64,
    /// Lower half of the key's hash; 0 until a thread has set it. After that, the entry belongs to the key permanently.
    lo: AtomicU64,
    /// Slot of the key, as in [`slots`](crate::slots). It is 0 until the key has taken its first number.
    pub(crate) slot: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 24);

/// Counters of the keys of a bucket.
#[derive(Debug)]
pub struct Keyed {
    entries: Box<[Entry]>,
    /// Number of entries that are not free, together with the entries that threads are about to add; and the mark
    /// [`FROZEN`] after the table was frozen.
    occupied: AtomicU64,
    /// Distance of the floor from the section's base. A key without an entry continues after the floor.
    start: u64,
}

/// Reason why a key gets no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoEntry {
    /// The table has as many entries as it may.
    Full,
    /// The table is frozen.
    Frozen,
}

/// Counter of a frozen table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) key: KeyHash,
    pub(crate) distance: Distance,
    /// Whether the counter was used since the last eviction.
    pub(crate) is_recent: bool,
}

impl Entry {
    /// Marks the entry as recently used. Most entries have the mark already, so that this function only reads.
    #[inline]
    pub(crate) fn mark_recent(&self) {
        if self.hi.load(Relaxed) & RECENT == 0 {
            self.hi.fetch_or(RECENT, Relaxed);
        }
    }
}

impl Keyed {
    /// Creates the table of a bucket in which no key has an entry. The table has no memory until it is replaced by
    /// another one.
    pub(crate) fn empty(start: u64) -> Keyed {
        Keyed { entries: Box::default(), occupied: AtomicU64::new(0), start }
    }

    /// Creates a table with these counters, in which half as many keys again have room.
    ///
    /// # Panics
    /// When a key has two counters.
    pub(crate) fn with(counters: impl ExactSizeIterator<Item = Counter>, start: u64) -> Keyed {
        let entries = entries_for(counters.len());
        Keyed::sized(counters, start, entries)
    }

    /// Creates a table with these counters, which is as large as a table that has grown to this number of keys. Unlike
    /// a table of [`Keyed::with`], it may be full. The table of no counters has no memory.
    ///
    /// # Panics
    /// When a key has two counters.
    pub(crate) fn grown(counters: impl ExactSizeIterator<Item = Counter>, start: u64) -> Keyed {
        let entries = grown_to(counters.len());
        Keyed::sized(counters, start, entries)
    }

    /// Creates a table with counters of this frozen table, in which half as many keys again have room, but no more keys
    /// than in this table.
    ///
    /// # Panics
    /// When a key has two counters.
    pub(crate) fn reduced(&self, counters: impl ExactSizeIterator<Item = Counter>, start: u64) -> Keyed {
        let entries = entries_for(counters.len()).min(self.entries.len());
        Keyed::sized(counters, start, entries)
    }

    fn sized(counters: impl ExactSizeIterator<Item = Counter>, start: u64, entries: usize) -> Keyed {
        let entries =
            (0..entries).map(|_| Entry { hi: AtomicU64::new(0), lo: AtomicU64::new(0), slot: AtomicU64::new(0) });
        let table = Keyed { entries: entries.collect(), occupied: AtomicU64::new(counters.len() as u64), start };
        for Counter { key, distance, is_recent } in counters {
            let entry = table.claim(key).expect("a key has one counter");
            entry.hi.store(key.hi() | if is_recent { RECENT } else { 0 }, Relaxed);
            entry.slot.store(distance.word(), Relaxed);
        }
        table
    }

    /// Returns the entry of a key; `None` if no thread has completely added one.
    #[inline]
    pub(crate) fn find(&self, key: KeyHash) -> Option<&Entry> {
        let mut index = self.home(key);
        loop {
            let entry = self.entries.get(index)?;
            let hi = entry.hi.load(Relaxed);
            if hi & !RECENT == key.hi() {
                let lo = entry.lo.load(Acquire);
                if lo == key.lo() {
                    return Some(entry);
                }
                if lo == 0 {
                    return None;
                }
            }
            if hi == 0 {
                return None;
            }
            index = self.after(index);
        }
    }

    /// Reads the first entry at which the key is searched, so that the processor loads its cache line.
    #[inline]
    pub(crate) fn warm(&self, key: KeyHash) -> u64 {
        self.entries.get(self.home(key)).map_or(0, |entry| entry.hi.load(Relaxed))
    }

    /// Returns the slot of a key, and adds an entry for the key if there is none.
    pub(crate) fn insert(&self, key: KeyHash) -> Result<&AtomicU64, NoEntry> {
        // The entry is counted before it is added, so that a table always keeps free entries, at which searches end.
        let limit = limit(self.entries.len());
        let counted =
            self.occupied.fetch_update(Relaxed, Relaxed, |occupied| (occupied < limit).then_some(occupied + 1));
        if let Err(occupied) = counted {
            return Err(if occupied & FROZEN != 0 { NoEntry::Frozen } else { NoEntry::Full });
        }
        let entry = self.claim(key);
        if entry.is_err() {
            self.occupied.fetch_sub(1, Relaxed);
        }
        let (Ok(entry) | Err(entry)) = entry;
        Ok(&entry.slot)
    }

    /// Adds an entry for a key. Returns the present entry as an error if the key has one.
    ///
    /// Two threads may add an entry for one key at the same time. Both try the same entries in the same order, and the
    /// first entry that is not another key's becomes the key's. The entry belongs to the key of the thread that sets
    /// `lo`. This thread need not be the thread that set `hi`.
    fn claim(&self, key: KeyHash) -> Result<&Entry, &Entry> {
        let mut index = self.home(key);
        loop {
            let entry = &self.entries[index];
            let hi = match entry.hi.load(Relaxed) {
                0 => entry.hi.compare_exchange(0, key.hi() | RECENT, Relaxed, Relaxed).err(),
                hi => Some(hi),
            };
            if hi.is_none_or(|hi| hi & !RECENT == key.hi()) {
                match entry.lo.compare_exchange(0, key.lo(), AcqRel, Acquire) {
                    Ok(_) => return Ok(entry),
                    Err(lo) if lo == key.lo() => return Err(entry),
                    Err(_) => {}
                }
            }
            index = self.after(index);
        }
    }

    /// Returns the index of the first entry at which a key is searched.
    #[inline]
    fn home(&self, key: KeyHash) -> usize {
        ((u128::from(key.lo()) * self.entries.len() as u128) >> 64) as usize
    }

    /// Returns the index of the entry that is tried after the entry at `index`.
    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.entries.len() { 0 } else { index + 1 }
    }

    /// Returns whether the table is frozen, or about to be.
    pub(crate) fn is_frozen(&self) -> bool {
        self.occupied.load(Relaxed) & FROZEN != 0
    }

    /// Freezes every slot, also those of free entries, and returns the counters of all keys that have taken numbers.
    ///
    /// A key that gets an entry at the same time takes no number from it, because the slot is frozen, too.
    pub(crate) fn freeze(&self) -> Vec<Counter> {
        self.occupied.fetch_or(FROZEN, Relaxed);
        let mut counters = Vec::with_capacity(self.keys() as usize);
        for entry in &self.entries {
            // A slot is changed with the ordering `Release`, after both halves of the hash were set.
            let word = entry.slot.fetch_or(FROZEN, Acquire) & !FROZEN;
            let Some(distance) = Distance::of_word(word) else { continue };
            let hi = entry.hi.load(Relaxed);
            let key = KeyHash::from_halves(entry.lo.load(Relaxed), hi & !RECENT).expect("the hash of a key");
            counters.push(Counter { key, distance, is_recent: hi & RECENT != 0 });
        }
        counters
    }

    /// Returns the number of keys with an entry, and of keys to which threads are about to give one.
    pub(crate) fn keys(&self) -> u32 {
        (self.occupied.load(Relaxed) & !FROZEN) as u32
    }

    /// Returns the number of keys for which the table has entries.
    pub(crate) fn room(&self) -> usize {
        limit(self.entries.len()) as usize
    }

    /// Returns the bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

impl SlotStore for Keyed {
    /// A thread that freezes the table reads the key of an entry after its slot.
    const CHANGE: Ordering = Release;

    #[inline]
    fn start(&self) -> u64 {
        self.start
    }

    fn pages(&self) -> usize {
        self.entries.len().div_ceil(PAGE_ENTRIES)
    }

    fn tally(&self, pages: Range<usize>) -> Tally {
        let mut tally = Tally::default();
        let end = pages.end.saturating_mul(PAGE_ENTRIES).min(self.entries.len());
        for entry in self.entries.get(pages.start.saturating_mul(PAGE_ENTRIES)..end).unwrap_or_default() {
            tally.bytes += size_of::<Entry>() as u64;
            tally.count(entry.slot.load(Relaxed));
        }
        tally
    }
}

/// Returns the number of entries of a table for `keys` keys. At 7/8 of these entries the table is full, with one and a
/// half times as many keys.
fn entries_for(keys: usize) -> usize {
    (12 * keys).div_ceil(7).max(MIN_ENTRIES)
}

/// Returns the number of entries of a table that has grown to `keys` keys, key by key. At least 7/12 of them are
/// occupied then, unless the table is the smallest table.
fn grown_to(keys: usize) -> usize {
    if keys == 0 {
        return 0;
    }
    let mut entries = MIN_ENTRIES;
    while limit(entries) < keys as u64 {
        entries = entries_for(limit(entries) as usize);
    }
    entries
}

/// Returns the number of keys for which a table has room that was made for `keys` keys: half as many again, and a few
/// in any case.
pub(crate) fn room_for(keys: usize) -> usize {
    limit(entries_for(keys)) as usize
}

/// Returns the number of entries of a table that may be occupied, 7/8 of all of them. A search passes more entries of
/// other keys, the fewer entries are free.
fn limit(entries: usize) -> u64 {
    (7 * entries / 8) as u64
}

#[cfg(all(test, not(loom)))]
mod tests;
