//! Encodes a [`SectionCopy`] as the bytes that the store keeps for the section's next owner. Each number is encoded as
//! LEB128: 7 bits in each byte, the lowest bits first.
//!
//! ```text
//! copy   base; for each touched slot, in order: number of untouched slots between it and the touched slot before it;
//!        twice its distance, plus 1 if the uid was advanced and took no number since
//! ```
//!
//! A touched slot that directly follows another touched slot takes two bytes if its distance is at most 63.

use alloc::vec::Vec;

use super::{Distance, SectionCopy};
use crate::id::{Seq, SlotIndex};

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
            // Distances are below 2^62.
            write(&mut bytes, distance.get() << 1 | u64::from(distance.is_advanced()));
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
            let distance = read(&mut bytes)?;
            distances.push((SlotIndex(slot), Distance::new(distance >> 1, distance & 1 == 1)?));
            next = slot.checked_add(1)?;
        }
        Some(SectionCopy { base, distances })
    }
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

    fn copies() -> impl Strategy<Value = SectionCopy> {
        let distance =
            (1..=Distance::MAX, any::<bool>()).prop_map(|(at, advanced)| Distance::new(at, advanced).unwrap());
        let slots = prop::collection::btree_map(0..200_000_u32, distance, 0..50);
        (0..=Seq::MAX.0, slots).prop_map(|(base, slots)| SectionCopy {
            base: Seq(base),
            distances: slots.into_iter().map(|(slot, distance)| (SlotIndex(slot), distance)).collect(),
        })
    }

    proptest! {
        #[test]
        fn a_copy_is_decoded_as_it_was(copy in copies()) {
            prop_assert_eq!(SectionCopy::decode(&copy.encode()), Some(copy));
        }

        #[test]
        fn any_bytes_are_a_copy_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(copy) = SectionCopy::decode(&bytes) {
                prop_assert_eq!(SectionCopy::decode(&copy.encode()), Some(copy));
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
