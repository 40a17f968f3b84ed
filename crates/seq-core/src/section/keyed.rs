//! Sections of keys, which are the buckets of a keyspace. A key gets a counter when it takes its first number, so a
//! section has as many counters as keys were used.
//!
//! A key without a counter is absent. It continues after the section's **floor**, which is never below the key's last
//! number: the floor begins at the ceiling at which the ownership began, and rises to the numbers of each counter that
//! an eviction drops. So an evicted key skips at most the numbers between its last number and the floor.
//!
//! **Invariant:** the floor never falls, is in each copy, and is never above the ceiling.

use super::{Advance, CopyMisfit, KeyedCopy, Reading, Section, SlotStore, Take};
use crate::id::{AdvanceLimit, Seq, Step};
use crate::keyed::{Counter, Keyed, NoEntry};
use crate::keyspace::KeyHash;
use crate::request::{Count, Target};
use crate::sync::Relaxed;

/// The counters and the ceiling of a bucket under one ownership.
///
/// The first number of an absent key skips the numbers from the section's base to its floor. They are
/// [counted as skipped](Section::skipped).
pub type KeyedSection = Section<Keyed>;

/// Refusal of a call for a key without a counter, because there is no room for another counter. The call changed
/// nothing. The caller [rebuilds](KeyedSection::rebuild) the section, and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the section has no room for the counter of another key")]
pub struct Full;

/// Counters that a rebuild keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All counters.
    All,
    /// Recent counters. A counter is recent if it was used by a call of [`take`](KeyedSection::take) or
    /// [`advance`](KeyedSection::advance) since the last rebuild of this kind. All other counters are evicted.
    Recent,
}

/// Section that continues a frozen one, with a table of another size.
#[derive(Debug)]
pub struct Rebuilt {
    /// The section.
    pub section: KeyedSection,
    /// Number of counters that were evicted.
    pub evicted: usize,
    /// Sum of the distances of all counters of the frozen section, modulo 2^64: see [`KeyedCopy::sum`].
    pub sum: u64,
}

impl KeyedSection {
    /// Creates the section of an ownership that starts without a copy: see [`Section::takeover`]. Every key continues
    /// after the committed `ceiling`.
    #[must_use]
    pub fn from_ceiling(ceiling: Seq, step: Step) -> KeyedSection {
        Section::new(Keyed::empty(0), ceiling, ceiling, step)
    }

    /// Creates the section of an ownership that continues the exact counters of the previous ownership: see
    /// [`Section::handed_over`]. The section has as much room as a section that has grown to the keys of the
    /// copy.
    ///
    /// # Errors
    /// [`CopyMisfit`] if the copy does not fit the ceiling, or is no copy of a section of keys. The caller then starts
    /// the ownership with [`KeyedSection::from_ceiling`] instead.
    pub fn from_copy(copy: &KeyedCopy, ceiling: Seq, step: Step) -> Result<KeyedSection, CopyMisfit> {
        let highest = copy.check()?;
        if highest > ceiling {
            return Err(CopyMisfit::AboveCeiling { highest, ceiling });
        }
        // No call has used the keys here, so an eviction may drop each of them.
        let counter = |&(key, distance)| Counter { key, distance, is_recent: false };
        let slots = Keyed::grown(copy.distances.iter().map(counter), copy.floor.0 - copy.base.0);
        Ok(Section { begun: copy.sum(), ..Section::new(slots, copy.base, ceiling, step) })
    }

    /// Takes the next `count` numbers of a key.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub fn take(&self, key: KeyHash, count: Count) -> Result<Take, Full> {
        let Some(entry) = self.slots.find(key) else { return self.take_first(key, count) };
        entry.mark_recent();
        Ok(self.take_next(&entry.slot, count))
    }

    /// Takes numbers of an absent key. A call that has to wait for a raise adds no counter, so the counters that wait
    /// for a raise do not fill the table.
    #[cold]
    fn take_first(&self, key: KeyHash, count: Count) -> Result<Take, Full> {
        if self.slots.is_frozen() {
            return Ok(Take::Frozen);
        }
        let value = Seq(self.floor().0 + u64::from(count.get()));
        if value > self.ceiling() {
            return Ok(self.at_ceiling(value));
        }
        match self.slots.insert(key) {
            Ok(slot) => Ok(self.take_next(slot, count)),
            Err(NoEntry::Frozen) => Ok(Take::Frozen),
            Err(NoEntry::Full) => Err(Full),
        }
    }

    /// Advances a key to `to`: see [`Section::advance`]. An absent key may have taken any number up to the floor, so
    /// its advance to such a number is [`Advance::Past`].
    ///
    /// # Errors
    /// [`Full`].
    pub fn advance(&self, key: KeyHash, to: Target, limit: AdvanceLimit) -> Result<Advance, Full> {
        let to = to.seq();
        let entry = self.slots.find(key).filter(|entry| entry.slot.load(Relaxed) > 0);
        let slot = match entry {
            Some(entry) => {
                entry.mark_recent();
                &entry.slot
            }
            None if to <= self.floor() => return Ok(Advance::Past),
            None if self.slots.is_frozen() => return Ok(Advance::Frozen),
            None if to > self.ceiling() => return Ok(self.advance_above_ceiling(to, self.ceiling(), limit)),
            None => match self.slots.insert(key) {
                Ok(slot) => slot,
                Err(NoEntry::Frozen) => return Ok(Advance::Frozen),
                Err(NoEntry::Full) => return Err(Full),
            },
        };
        // Every number up to the base may be allocated, by this owner or an earlier one.
        let Some(distance) = to.0.checked_sub(self.base.0) else { return Ok(Advance::Past) };
        Ok(self.advance_slot(slot, distance, limit))
    }

    /// Returns the last number of a key, or the floor as an upper bound of it if the key is absent. Returns `None` if
    /// the section is frozen, because in this case the next owner may have allocated higher numbers already.
    #[must_use]
    pub fn current(&self, key: KeyHash) -> Option<Reading> {
        match self.slots.find(key) {
            Some(entry) => self.read(entry.slot.load(Relaxed)),
            None if self.slots.is_frozen() => None,
            None => self.read(0),
        }
    }

    /// Reads the place at which a key's counter is searched first, so that the processor starts to load its cache line
    /// before numbers are taken: see [`Section::warm`].
    #[inline]
    #[must_use]
    pub fn warm(&self, key: KeyHash) -> u64 {
        self.slots.warm(key)
    }

    /// Freezes every counter and returns a copy of the exact counters. This section allocates nothing after the call
    /// has returned, and the copy covers all numbers that it allocated before. A second call returns the same copy.
    #[must_use]
    pub fn freeze(&self) -> KeyedCopy {
        let counters = self.slots.freeze();
        let mut distances: alloc::vec::Vec<_> =
            counters.into_iter().map(|counter| (counter.key, counter.distance)).collect();
        distances.sort_unstable_by_key(|(key, _)| *key);
        KeyedCopy { base: self.base, floor: self.floor(), distances }
    }

    /// Freezes this section, and creates a section that continues it under the same ownership and the present ceiling.
    /// The counters that stay get a table in which half as many again have room. An eviction adds no room, so that the
    /// room of a node grows only where the node checks its limit; after an eviction of all counters, the section has no
    /// room. If counters are dropped, the floor rises to the highest of their numbers.
    ///
    /// Calls that find this section frozen are retried with the next section. A raise that was requested for this
    /// section is not requested for the next section until a call needs it.
    #[must_use]
    pub fn rebuild(&self, keep: Keep) -> Rebuilt {
        let mut counters = self.slots.freeze();
        let (mut start, all, sum) = (self.slots.start(), counters.len(), sum_of(&counters));
        if keep == Keep::Recent {
            counters.retain_mut(|counter| {
                if !counter.is_recent {
                    start = start.max(counter.distance.get());
                }
                core::mem::take(&mut counter.is_recent)
            });
        }
        let (begun, evicted) = (sum_of(&counters), all - counters.len());
        // A bucket grows because a key needs room. A bucket of which nothing is left after an eviction needs none.
        let slots = match keep {
            Keep::Recent if counters.is_empty() => Keyed::empty(start),
            Keep::Recent => self.slots.reduced(counters.into_iter(), start),
            Keep::All => Keyed::with(counters.into_iter(), start),
        };
        let section = Section::new(slots, self.base, self.ceiling(), self.least_step());
        Rebuilt { section: Section { begun, ..section.up_to(self.last) }, evicted, sum }
    }

    /// Returns the floor, after which absent keys continue. Each number that an absent key has taken is at most the
    /// floor.
    #[must_use]
    pub fn floor(&self) -> Seq {
        Seq(self.base.0 + self.slots.start())
    }

    /// Returns the number of keys with a counter.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.slots.keys()
    }

    /// Returns the number of keys for whose counters the section has room.
    #[must_use]
    pub fn room(&self) -> usize {
        self.slots.room()
    }

    /// Returns the bytes that hold counters.
    #[must_use]
    pub fn counter_bytes(&self) -> usize {
        self.slots.bytes()
    }
}

fn sum_of(counters: &[Counter]) -> u64 {
    counters.iter().fold(0, |sum, counter| sum.wrapping_add(counter.distance.get()))
}

#[cfg(all(test, not(loom)))]
mod tests;
