//! Copies of frozen sections, from which the next owners continue exactly, and the checks of copies that other nodes
//! have sent.

use alloc::vec::Vec;

use super::Distance;
use crate::id::{Seq, SlotIndex};
use crate::keyspace::KeyHash;
use crate::limits;

/// Kind of the counters of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// A slot for each of this number of uids or lanes.
    Slots(u32),
    /// A counter for each key that was used.
    Keys,
}

/// The exact counters of a frozen section of either kind, for the next owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyCopy {
    /// Copy of a section of uids or lanes.
    Slots(SectionCopy),
    /// Copy of a section of keys.
    Keys(KeyedCopy),
}

/// The exact counters of a frozen section, for the next owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionCopy {
    /// The frozen section's base.
    pub base: Seq,
    /// The touched slots in ascending order, each with the distance of its uid from the base.
    pub distances: Vec<(SlotIndex, Distance)>,
}

/// The exact counters of a frozen section of keys, for the next owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedCopy {
    /// The frozen section's base.
    pub base: Seq,
    /// The frozen section's floor, see [`KeyedSection::floor`](super::KeyedSection::floor). A key that is not in the
    /// copy continues after the floor.
    pub floor: Seq,
    /// The keys that have taken numbers, in ascending order of their hashes, each with its distance from the base.
    pub distances: Vec<(KeyHash, Distance)>,
}

impl AnyCopy {
    /// Creates a copy whose base is `highest`, so that all counters of the section continue after `highest`.
    #[must_use]
    pub fn above(highest: Seq, counters: Counters) -> AnyCopy {
        match counters {
            Counters::Slots(_) => SectionCopy::above(highest).into(),
            Counters::Keys => KeyedCopy::above(highest).into(),
        }
    }

    /// Encodes the copy.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            AnyCopy::Slots(copy) => copy.encode(),
            AnyCopy::Keys(copy) => copy.encode(),
        }
    }

    /// Decodes the copy of a section with counters of this kind; `None` if the bytes are not the encoding of such a
    /// copy.
    #[must_use]
    pub fn decode(bytes: &[u8], counters: Counters) -> Option<AnyCopy> {
        match counters {
            Counters::Slots(_) => SectionCopy::decode(bytes).map(AnyCopy::Slots),
            Counters::Keys => KeyedCopy::decode(bytes).map(AnyCopy::Keys),
        }
    }

    /// Checks that the copy can belong to a section with counters of this kind: see [`SectionCopy::check`] and
    /// [`KeyedCopy::check`].
    ///
    /// # Errors
    /// [`CopyMisfit`].
    pub fn check(&self, counters: Counters) -> Result<Seq, CopyMisfit> {
        match (self, counters) {
            (AnyCopy::Slots(copy), Counters::Slots(uids)) => copy.check(uids),
            (AnyCopy::Keys(copy), Counters::Keys) => copy.check(),
            (AnyCopy::Slots(_), Counters::Keys) | (AnyCopy::Keys(_), Counters::Slots(_)) => {
                Err(CopyMisfit::OtherCounters)
            }
        }
    }

    /// Returns the base.
    #[must_use]
    pub fn base(&self) -> Seq {
        match self {
            AnyCopy::Slots(copy) => copy.base,
            AnyCopy::Keys(copy) => copy.base,
        }
    }

    /// Returns the sum of the distances in the copy, modulo 2^64: see [`SectionCopy::sum`].
    #[must_use]
    pub fn sum(&self) -> u64 {
        match self {
            AnyCopy::Slots(copy) => copy.sum(),
            AnyCopy::Keys(copy) => copy.sum(),
        }
    }

    /// Frees the spare memory of the copy.
    pub fn shrink_to_fit(&mut self) {
        match self {
            AnyCopy::Slots(copy) => copy.distances.shrink_to_fit(),
            AnyCopy::Keys(copy) => copy.distances.shrink_to_fit(),
        }
    }

    /// Returns the number of slots whose copies take as much memory as this copy.
    #[must_use]
    pub fn slots(&self) -> usize {
        match self {
            AnyCopy::Slots(copy) => copy.distances.len(),
            AnyCopy::Keys(copy) => copy.distances.len() * SLOTS_OF_KEY,
        }
    }
}

/// Number of slots whose copies take at least as much memory as the copy of a key.
pub const SLOTS_OF_KEY: usize = 2;

const _: () = assert!(size_of::<(KeyHash, Distance)>() <= SLOTS_OF_KEY * size_of::<(SlotIndex, Distance)>());

impl From<SectionCopy> for AnyCopy {
    fn from(copy: SectionCopy) -> AnyCopy {
        AnyCopy::Slots(copy)
    }
}

impl From<KeyedCopy> for AnyCopy {
    fn from(copy: KeyedCopy) -> AnyCopy {
        AnyCopy::Keys(copy)
    }
}

impl SectionCopy {
    /// Checks that the copy can belong to a section of `uids` slots. Returns the highest number in the copy; the caller
    /// must check that the section's ceiling is not below this number.
    ///
    /// # Errors
    /// [`CopyMisfit`].
    pub fn check(&self, uids: u32) -> Result<Seq, CopyMisfit> {
        let base = self.base;
        let most = most_above(base)?;
        let (mut next, mut highest) = (0, 0);
        for &(slot, distance) in &self.distances {
            if slot.0 < next || slot.0 >= uids {
                return Err(CopyMisfit::Slot { slot, uids });
            }
            let distance = distance.get();
            if distance > most {
                return Err(CopyMisfit::Distance { slot, distance, base });
            }
            next = slot.0 + 1;
            highest = highest.max(distance);
        }
        Ok(Seq(base.0 + highest))
    }
}

impl KeyedCopy {
    /// Checks that the copy can belong to a section of keys. Returns the highest number in the copy, which is its floor
    /// if no key is above the floor; the caller must check that the section's ceiling is not below this number.
    ///
    /// The check does not notice that a hash belongs to another section. The keys of this section are then absent.
    ///
    /// # Errors
    /// [`CopyMisfit`].
    pub fn check(&self) -> Result<Seq, CopyMisfit> {
        let KeyedCopy { base, floor, ref distances } = *self;
        let most = most_above(base)?;
        if distances.len() > limits::MAX_BUCKET_KEYS {
            return Err(CopyMisfit::TooManyKeys { keys: distances.len() });
        }
        let start = floor.0.checked_sub(base.0).filter(|start| *start <= most.min(Distance::MAX));
        let mut highest = start.ok_or(CopyMisfit::Floor { floor, base })?;
        let mut last = None;
        for &(key, distance) in distances {
            if last.replace(key) >= Some(key) {
                return Err(CopyMisfit::Key { key });
            }
            let distance = distance.get();
            if distance > most {
                return Err(CopyMisfit::KeyDistance { key, distance, base });
            }
            highest = highest.max(distance);
        }
        Ok(Seq(base.0 + highest))
    }
}

/// Returns the largest distance of a number above the base.
fn most_above(base: Seq) -> Result<u64, CopyMisfit> {
    Seq::MAX.0.checked_sub(base.0).ok_or(CopyMisfit::AboveCeiling { highest: base, ceiling: Seq::MAX })
}

/// Reason why an ownership cannot start from a copy. The copy comes from another node and may be faulty, so a copy that
/// does not fit leads to this error instead of a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyMisfit {
    /// A slot in the copy is past the last slot of the section, or the slots are not in ascending order.
    #[error("slot {slot} of {uids} is out of order or out of range")]
    Slot {
        /// The slot.
        slot: SlotIndex,
        /// Slots of the section.
        uids: u32,
    },
    /// The sum of the copy's base and a distance is above [`Seq::MAX`].
    #[error("slot {slot}: distance {distance} from base {base} is past the last number")]
    Distance {
        /// The slot.
        slot: SlotIndex,
        /// Distance of the slot in the copy.
        distance: u64,
        /// The copy's base.
        base: Seq,
    },
    /// A key in the copy is out of order, or in the copy twice.
    #[error("key {key:?} is out of order")]
    Key {
        /// The key.
        key: KeyHash,
    },
    /// The sum of the copy's base and the distance of a key is above [`Seq::MAX`].
    #[error("key {key:?}: distance {distance} from base {base} is past the last number")]
    KeyDistance {
        /// The key.
        key: KeyHash,
        /// Distance of the key in the copy.
        distance: u64,
        /// The copy's base.
        base: Seq,
    },
    /// The copy has more keys than a section may have.
    #[error("{keys} keys are more than the {} that a bucket may have", limits::MAX_BUCKET_KEYS)]
    TooManyKeys {
        /// Number of keys in the copy.
        keys: usize,
    },
    /// The copy is that of a section of keys, and the section has none, or the other way round.
    #[error("its counters are of another kind than those of the section")]
    OtherCounters,
    /// The copy's floor is below its base, or too far above it.
    #[error("floor {floor} does not fit base {base}")]
    Floor {
        /// The floor.
        floor: Seq,
        /// The copy's base.
        base: Seq,
    },
    /// The highest number in the copy, its base, or its floor, is above the ceiling.
    #[error("its highest number {highest} is above the ceiling {ceiling}")]
    AboveCeiling {
        /// The highest number in the copy.
        highest: Seq,
        /// The committed ceiling.
        ceiling: Seq,
    },
}
