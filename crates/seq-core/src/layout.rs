//! The layout of a set: section and slot of a uid.

use core::ops::Range;

use crate::id::{SectionId, SlotIndex, Uid};
use crate::limits;
use crate::refusal::Refusal;

/// The uids of a set and how they are cut into sections.
///
/// Invariant: `start < end`, `1 <= section_size <= MAX_SECTION_SIZE`, at most `MAX_SECTIONS` sections. The last section
/// may be shorter than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    start: u64,
    end: u64,
    section_size: u32,
    /// `u64::MAX / section_size`: multiplying by it costs a third of dividing by the size, and every number is located.
    reciprocal: u64,
}

impl Layout {
    /// Lays out `uids` in sections of `section_size`.
    ///
    /// # Errors
    /// [`LayoutError`] names the bound that does not hold.
    pub fn new(uids: Range<u64>, section_size: u32) -> Result<Layout, LayoutError> {
        let Range { start, end } = uids;
        if start >= end {
            return Err(LayoutError::EmptyRange { start, end });
        }
        if section_size == 0 || section_size > limits::MAX_SECTION_SIZE {
            return Err(LayoutError::SectionSize { section_size });
        }
        let sections = (end - start).div_ceil(u64::from(section_size));
        if sections > u64::from(limits::MAX_SECTIONS) {
            return Err(LayoutError::TooManySections { sections });
        }
        Ok(Layout { start, end, section_size, reciprocal: u64::MAX / u64::from(section_size) })
    }

    /// The section and slot of a uid.
    ///
    /// # Errors
    /// [`Refusal::UidOutOfRange`] when the set does not hold the uid.
    #[inline]
    pub fn locate(&self, uid: Uid) -> Result<(SectionId, SlotIndex), Refusal> {
        if uid.0 < self.start || uid.0 >= self.end {
            return Err(Refusal::UidOutOfRange { uid, start: self.start, end: self.end });
        }
        let offset = uid.0 - self.start;
        let (section, slot) = self.divide(offset);
        // Both fit: the quotient is below MAX_SECTIONS, the remainder below a u32.
        Ok((SectionId(section as u32), SlotIndex(slot as u32)))
    }

    /// Quotient and remainder by the section's size.
    #[inline]
    fn divide(&self, offset: u64) -> (u64, u64) {
        let size = u64::from(self.section_size);
        // The reciprocal is too small by at most 1 part in 2^64 of what is multiplied, so the quotient is right or one
        // less.
        let quotient = ((u128::from(offset) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = offset - quotient * size;
        if remainder < size { (quotient, remainder) } else { (quotient + 1, remainder - size) }
    }

    /// Number of sections, 1 or above.
    #[must_use]
    pub fn sections(&self) -> u32 {
        (self.end - self.start).div_ceil(u64::from(self.section_size)) as u32
    }

    /// The uids of one section; empty for a section the layout does not have.
    #[must_use]
    pub fn uids_of(&self, section: SectionId) -> Range<u64> {
        let first = u64::from(section.0) * u64::from(self.section_size);
        let len = (self.end - self.start).saturating_sub(first).min(u64::from(self.section_size));
        if len == 0 {
            return self.end..self.end;
        }
        self.start + first..self.start + first + len
    }

    /// All uids, end exclusive.
    #[must_use]
    pub fn uids(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Uids in a full section.
    #[must_use]
    pub fn section_size(&self) -> u32 {
        self.section_size
    }
}

/// Why a layout is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The range holds no uid.
    #[error("uid range {start}..{end} is empty or reversed")]
    EmptyRange {
        /// First uid.
        start: u64,
        /// End, exclusive.
        end: u64,
    },
    /// A section of no or too many uids.
    #[error("section size {section_size} is not from 1 to {}", limits::MAX_SECTION_SIZE)]
    SectionSize {
        /// The size asked for.
        section_size: u32,
    },
    /// More sections than a set may have.
    #[error(
        "{sections} sections are more than the {} a set may have; use larger sections or more sets",
        limits::MAX_SECTIONS
    )]
    TooManySections {
        /// How many there would be.
        sections: u64,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The widest offsets and the sizes next to powers of two are where a reciprocal would be wrong.
        #[test]
        fn multiplying_by_the_reciprocal_divides(
            offset in prop_oneof![any::<u64>(), (0..64_u32, 0..3_u64).prop_map(|(bits, less)| (u64::MAX >> bits) - less.min(u64::MAX >> bits))],
            size in prop_oneof![1..=limits::MAX_SECTION_SIZE, (0..24_u32, 0..3_u32).prop_map(|(bits, more)| (1 << bits) + more)],
            multiple in any::<bool>(),
        ) {
            let layout = Layout::new(0..1, size).unwrap();
            let size = u64::from(size);
            let offset = if multiple { offset - offset % size } else { offset };
            prop_assert_eq!(layout.divide(offset), (offset / size, offset % size));
        }
    }

    #[test]
    fn every_uid_of_a_section_is_located_in_it() {
        let layout = Layout::new(1_000..1_250, 100).unwrap();
        assert_eq!(layout.sections(), 3);
        for section in 0..3 {
            for (slot, uid) in layout.uids_of(SectionId(section)).enumerate() {
                assert_eq!(layout.locate(Uid(uid)), Ok((SectionId(section), SlotIndex(slot as u32))));
            }
        }
        assert_eq!(layout.uids_of(SectionId(2)), 1_200..1_250);
        assert!(layout.uids_of(SectionId(3)).is_empty());
    }

    #[test]
    fn uids_outside_the_set_are_refused_by_name() {
        let layout = Layout::new(10..20, 100).unwrap();
        for uid in [0, 9, 20, u64::MAX] {
            assert_eq!(layout.locate(Uid(uid)), Err(Refusal::UidOutOfRange { uid: Uid(uid), start: 10, end: 20 }));
        }
    }

    #[test]
    fn the_widest_range_has_no_overflow() {
        let layout = Layout::new(u64::MAX - 5..u64::MAX, 3).unwrap();
        assert_eq!(layout.uids_of(SectionId(1)), u64::MAX - 2..u64::MAX);
        assert_eq!(layout.locate(Uid(u64::MAX - 1)), Ok((SectionId(1), SlotIndex(1))));
    }

    #[test]
    fn bad_layouts_are_refused() {
        assert!(matches!(Layout::new(5..5, 1), Err(LayoutError::EmptyRange { .. })));
        assert!(matches!(Layout::new(0..5, 0), Err(LayoutError::SectionSize { .. })));
        assert!(matches!(Layout::new(0..u64::MAX, 100_000), Err(LayoutError::TooManySections { .. })));
    }
}
