//! Encodes a [`SectionCopy`] or a [`KeyedCopy`] as the bytes that the store keeps for the section's next owner. Each
//! number is encoded as LEB128: 7 bits in each byte, the lowest bits first.
//!
//! ```text
//! copy          base; for each touched slot, in order: number of untouched slots between it and the touched slot
//!               before it; distance
//! copy of keys  base; distance of the floor from the base; for each key, in order: the 16 bytes of its hash; distance
//! distance      twice the distance, plus 1 if the uid or key was advanced and took no number since
//! ```
//!
//! A touched slot that directly follows another touched slot takes two bytes if its distance is at most 63. A key takes
//! 17 bytes then.

use alloc::vec::Vec;

use super::{Distance, KeyedCopy, SectionCopy};
use crate::id::{Seq, SlotIndex};
use crate::keyspace::KeyHash;

/// Most bytes of a number of 64 bits.
const MAX_NUMBER_BYTES: usize = 10;

impl SectionCopy {
    /// Creates a copy with the base `highest` and no touched slots, so that all uids of the section continue after
    /// `highest`.
    #[must_use]
    pub fn above(highest: Seq) -> SectionCopy {
        SectionCopy { base: highest, distances: Vec::new() }
    }

    /// Encodes the copy.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_NUMBER_BYTES + 3 * self.distances.len());
        write(&mut bytes, self.base.0);
        let mut next = 0;
        for &(slot, distance) in &self.distances {
            write(&mut bytes, u64::from(slot.0 - next));
            write_distance(&mut bytes, distance);
            next = slot.0 + 1;
        }
        bytes
    }

    /// Decodes a copy; `None` if the bytes are not the encoding of a copy. [`SectionCopy::check`] checks whether a
    /// decoded copy fits a section.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<SectionCopy> {
        let base = Seq(read(&mut bytes)?);
        let (mut distances, mut next) = (Vec::new(), 0_u32);
        while !bytes.is_empty() {
            let slot = next.checked_add(u32::try_from(read(&mut bytes)?).ok()?)?;
            distances.push((SlotIndex(slot), read_distance(&mut bytes)?));
            next = slot.checked_add(1)?;
        }
        Some(SectionCopy { base, distances })
    }
}

impl KeyedCopy {
    /// Creates a copy with the base and floor `highest` and no keys, so that all keys of the section continue after
    /// `highest`.
    #[must_use]
    pub fn above(highest: Seq) -> KeyedCopy {
        KeyedCopy { base: highest, floor: highest, distances: Vec::new() }
    }

    /// Encodes the copy.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * MAX_NUMBER_BYTES + 19 * self.distances.len());
        write(&mut bytes, self.base.0);
        write(&mut bytes, self.floor.0 - self.base.0);
        for &(key, distance) in &self.distances {
            bytes.extend(key.to_bytes());
            write_distance(&mut bytes, distance);
        }
        bytes
    }

    /// Decodes a copy; `None` if the bytes are not the encoding of a copy. [`KeyedCopy::check`] checks whether a
    /// decoded copy fits a section.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<KeyedCopy> {
        let base = read(&mut bytes)?;
        let floor = base.checked_add(read(&mut bytes)?)?;
        let mut distances = Vec::new();
        while let Some((key, rest)) = bytes.split_first_chunk() {
            bytes = rest;
            distances.push((KeyHash::from_bytes(*key)?, read_distance(&mut bytes)?));
        }
        bytes.is_empty().then_some(KeyedCopy { base: Seq(base), floor: Seq(floor), distances })
    }
}

fn write_distance(bytes: &mut Vec<u8>, distance: Distance) {
    // Distances are below 2^62.
    write(bytes, distance.get() << 1 | u64::from(distance.is_advanced()));
}

fn read_distance(bytes: &mut &[u8]) -> Option<Distance> {
    let distance = read(bytes)?;
    Distance::new(distance >> 1, distance & 1 == 1)
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..MAX_NUMBER_BYTES {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * place as u32;
        // The tenth byte has one bit left.
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::id::Uid;
    use crate::keyspace::Seed;

    fn copies() -> impl Strategy<Value = SectionCopy> {
        let distance =
            (1..=Distance::MAX, any::<bool>()).prop_map(|(at, advanced)| Distance::new(at, advanced).unwrap());
        let slots = prop::collection::btree_map(0..200_000_u32, distance, 0..50);
        (0..=Seq::MAX.0, slots).prop_map(|(base, slots)| SectionCopy {
            base: Seq(base),
            distances: slots.into_iter().map(|(slot, distance)| (SlotIndex(slot), distance)).collect(),
        })
    }

    fn copies_of_keys() -> impl Strategy<Value = KeyedCopy> {
        (copies(), 0..=Seq::MAX.0, any::<[u8; 16]>()).prop_map(|(copy, above, seed)| KeyedCopy {
            base: copy.base,
            floor: Seq(copy.base.0 + above),
            distances: copy.distances.into_iter().map(|(slot, distance)| (key(seed, slot), distance)).collect(),
        })
    }

    fn key(seed: [u8; 16], slot: SlotIndex) -> KeyHash {
        Seed::new(seed).hash_uid(Uid(slot.0.into()))
    }

    proptest! {
        #[test]
        fn a_copy_is_decoded_as_it_was(copy in copies(), keyed in copies_of_keys()) {
            prop_assert_eq!(SectionCopy::decode(&copy.encode()), Some(copy));
            prop_assert_eq!(KeyedCopy::decode(&keyed.encode()), Some(keyed));
        }

        #[test]
        fn any_bytes_are_a_copy_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(copy) = SectionCopy::decode(&bytes) {
                prop_assert_eq!(SectionCopy::decode(&copy.encode()), Some(copy));
            }
            if let Some(copy) = KeyedCopy::decode(&bytes) {
                prop_assert_eq!(KeyedCopy::decode(&copy.encode()), Some(copy));
            }
        }
    }

    #[test]
    fn bytes_of_a_copy() {
        let distance = |at, advanced| Distance::new(at, advanced).unwrap();
        let distances = vec![(SlotIndex(0), distance(3, false)), (SlotIndex(2), distance(64, true))];
        let copy = SectionCopy { base: Seq(300), distances };
        assert_eq!(copy.encode(), [0xac, 0x02, 0, 6, 1, 0x81, 0x01]);
        assert_eq!(SectionCopy::above(Seq(7)).encode(), [7]);
        assert_eq!(SectionCopy::decode(&[]), None, "no base");
        assert_eq!(SectionCopy::decode(&[7, 0]), None, "a slot without a distance");
        assert_eq!(SectionCopy::decode(&[7, 0, 0]), None, "a distance of 0");
        assert_eq!(SectionCopy::decode(&[0x80; 11]), None, "a number without an end");
    }

    #[test]
    fn bytes_of_a_copy_of_keys() {
        let key = KeyHash::from_bytes(core::array::from_fn(|index| 2 * index as u8 + 2)).unwrap();
        let distances = vec![(key, Distance::new(64, true).unwrap())];
        let copy = KeyedCopy { base: Seq(300), floor: Seq(303), distances };
        let bytes = [0xac, 0x02, 3, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 0x81, 0x01];
        assert_eq!(copy.encode(), bytes);
        assert_eq!(KeyedCopy::above(Seq(7)).encode(), [7, 0]);
        for len in (0..2).chain(4..bytes.len()) {
            assert_eq!(KeyedCopy::decode(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(KeyedCopy::decode(&bytes[..3]).unwrap().distances, []);
        assert_eq!(KeyedCopy::decode(&[bytes.map(|_| 0), bytes].concat()), None, "no key has the hash 0");
        let far = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1];
        assert_eq!(KeyedCopy::decode(&far), None, "a floor above 2^64");
    }

    /// Checks that the store can keep the copy of a bucket with 50,000 keys, each of which took up to 8,191 numbers.
    #[test]
    fn usual_copies_of_keys_are_small() {
        let distance = Distance::new(8_191, false).unwrap();
        let distances = (0..50_000).map(|slot| (key([7; 16], SlotIndex(slot)), distance)).collect();
        let bytes = KeyedCopy { base: Seq(0), floor: Seq(0), distances }.encode();
        assert_eq!(bytes.len(), 900_002);
        assert!(bytes.len() <= crate::limits::MAX_KEPT_COPY_BYTES);
    }

    /// Checks that the store can keep the copy of a section of the default size in which every uid took up to 2^41
    /// numbers.
    #[test]
    fn usual_copies_are_small() {
        let dense = |distance| SectionCopy {
            base: Seq(0),
            distances: (0..100_000).map(|slot| (SlotIndex(slot), Distance::new(distance, false).unwrap())).collect(),
        };
        assert_eq!(dense(63).encode().len(), 200_001);
        assert_eq!(dense(8_191).encode().len(), 300_001);
        assert!(dense(1 << 41).encode().len() <= crate::limits::MAX_KEPT_COPY_BYTES);
    }
}
