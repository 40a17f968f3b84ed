//! The layout of the cluster: section and slot of a uid.
//!
//! A layout is a list of spaces, ranges of uids that are cut into sections. Sections are numbered through all spaces,
//! so a [`SectionId`] means the same uids in every set, and a section keeps it when it migrates.
//!
//! **Invariant:** a space never changes, and spaces are only appended, because any other change would give uids other
//! counters. Two layouts of one cluster are equal, or one begins with the other. [`LayoutId`] names the part that a
//! section depends on, so that a message of a process with another layout is refused.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::id::{LayoutId, SectionId, SlotIndex, Uid};
use crate::limits;
use crate::refusal::Refusal;

/// Neighbouring sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRun {
    /// The first section.
    pub first: SectionId,
    /// Number of sections, 1 or above.
    pub sections: u32,
}

impl SectionRun {
    /// Returns the index past the last section; `None` for a run without sections, or past the last possible id.
    #[must_use]
    pub fn end(self) -> Option<u32> {
        self.first.0.checked_add(self.sections).filter(|_| self.sections > 0)
    }

    /// Returns the part of the run from the first to the last of these sections, which are in order; `None` if it has
    /// none of them.
    pub(crate) fn around(self, sections: &[SectionId]) -> Option<SectionRun> {
        let end = SectionId(self.end()?);
        let of_run = sections.get(sections.partition_point(|one| *one < self.first)..)?;
        let of_run = of_run.get(..of_run.partition_point(|one| *one < end))?;
        let (first, last) = (*of_run.first()?, *of_run.last()?);
        Some(SectionRun { first, sections: last.0 - first.0 + 1 })
    }

    /// Returns the sections, in order; none if [`SectionRun::end`] is `None`.
    pub fn iter(self) -> impl Iterator<Item = SectionId> {
        (self.first.0..self.end().unwrap_or(self.first.0)).map(SectionId)
    }
}

/// A range of uids that is cut into sections.
///
/// Invariant: `start < end`, at most `MAX_SECTIONS` sections. The last section may be shorter than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    start: u64,
    end: u64,
    keys: Keys,
}

/// Mapping of the uids of a space to sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// A section is a run of neighbouring uids.
    Dense {
        /// `1 ..= MAX_SECTION_SIZE`.
        section_size: u32,
        /// `u64::MAX / section_size`. Multiplying by it costs a third of dividing by the size, and every request for a
        /// number locates its uid.
        reciprocal: u64,
    },
}

impl Space {
    /// Cuts `uids` into sections of `section_size` neighbours.
    ///
    /// # Errors
    /// [`LayoutError`] names the bound that does not hold.
    pub fn dense(uids: Range<u64>, section_size: u32) -> Result<Space, LayoutError> {
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
        let reciprocal = u64::MAX / u64::from(section_size);
        Ok(Space { start, end, keys: Keys::Dense { section_size, reciprocal } })
    }

    /// Returns all uids, end exclusive.
    #[must_use]
    pub fn uids(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Returns the number of uids in a full section.
    #[must_use]
    pub fn section_size(&self) -> u32 {
        let Keys::Dense { section_size, .. } = self.keys;
        section_size
    }

    /// Returns the number of sections, 1 or above.
    #[must_use]
    pub fn sections(&self) -> u32 {
        (self.end - self.start).div_ceil(u64::from(self.section_size())) as u32
    }

    #[inline]
    fn contains(&self, uid: Uid) -> bool {
        uid.0 >= self.start && uid.0 < self.end
    }

    /// Returns the index in this space of the section of a uid that the space contains, and the slot.
    #[inline]
    fn locate(&self, uid: Uid) -> (u32, SlotIndex) {
        let (section, slot) = self.divide(uid.0 - self.start);
        // Both fit: the quotient is below MAX_SECTIONS, the remainder below a u32.
        (section as u32, SlotIndex(slot as u32))
    }

    /// Returns the quotient and the remainder of a division by the section's size.
    #[inline]
    fn divide(&self, offset: u64) -> (u64, u64) {
        let Keys::Dense { section_size, reciprocal } = self.keys;
        let size = u64::from(section_size);
        // The reciprocal is too small by at most 1 part in 2^64 of the offset, so the quotient is right or less by 1.
        let quotient = ((u128::from(offset) * u128::from(reciprocal)) >> 64) as u64;
        let remainder = offset - quotient * size;
        if remainder < size { (quotient, remainder) } else { (quotient + 1, remainder - size) }
    }

    /// Returns the uids of the section with this index in the space; none past the last section.
    fn uids_of(&self, index: u32) -> Range<u64> {
        let size = u64::from(self.section_size());
        let first = u64::from(index) * size;
        let len = (self.end - self.start).saturating_sub(first).min(size);
        if len == 0 {
            return self.end..self.end;
        }
        self.start + first..self.start + first + len
    }

    /// Continues the hash of a layout with this space. The hashed values are a format, because versions of the program
    /// compare the hashes.
    fn hash(&self, layout: LayoutId) -> LayoutId {
        /// Kind of [`Keys::Dense`].
        const DENSE: u8 = 1;
        let Keys::Dense { section_size, .. } = self.keys;
        let mut hash = fnv1a(layout.0, &[DENSE]);
        hash = fnv1a(hash, &self.start.to_le_bytes());
        hash = fnv1a(hash, &self.end.to_le_bytes());
        LayoutId(fnv1a(hash, &section_size.to_le_bytes()))
    }
}

/// Hash of the layout without spaces: the offset basis of FNV-1a.
pub(crate) const NO_SPACES: LayoutId = LayoutId(0xcbf2_9ce4_8422_2325);

/// Continues the FNV-1a hash with more bytes. It distinguishes layouts that differ by mistake, and protects from no
/// attacker.
pub(crate) fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The uids of a cluster, cut into sections.
///
/// Invariant: spaces do not overlap, and have at most `MAX_SECTIONS` sections together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first space, apart from the others, so that locating a uid follows no pointer if there is one space.
    first: Space,
    /// The spaces that were appended, in order; `None` for none.
    more: Option<Arc<[Appended]>>,
    /// Number of sections in all spaces, with which each read of a route table compares.
    sections: u32,
}

/// A space with the id of its first section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Appended {
    space: Space,
    first_section: u32,
}

impl Layout {
    /// Lays out `uids`, the only space so far, in sections of `section_size`.
    ///
    /// # Errors
    /// [`LayoutError`] names the bound that does not hold.
    pub fn new(uids: Range<u64>, section_size: u32) -> Result<Layout, LayoutError> {
        let first = Space::dense(uids, section_size)?;
        Ok(Layout { first, more: None, sections: first.sections() })
    }

    /// Returns the layout with one more space. The ids of the sections so far stay.
    ///
    /// # Errors
    /// [`AppendError`] names the bound that does not hold.
    pub fn append(&self, space: Space) -> Result<Layout, AppendError> {
        if self.more().len() + 1 == limits::MAX_SPACES {
            return Err(AppendError::TooManySpaces);
        }
        if let Some(other) = self.spaces().find(|other| space.start < other.end && other.start < space.end) {
            let Range { start, end } = other.uids();
            return Err(AppendError::Overlap { start, end });
        }
        let first_section = self.sections();
        let sections = first_section.saturating_add(space.sections());
        if sections > limits::MAX_SECTIONS {
            return Err(AppendError::TooManySections { sections });
        }
        let mut more: Vec<Appended> = self.more().to_vec();
        more.push(Appended { space, first_section });
        Ok(Layout { first: self.first, more: Some(more.into()), sections })
    }

    /// Adopts another process's layout of the cluster if it is longer. Returns whether it was.
    ///
    /// # Errors
    /// [`OtherLayout`]: neither layout begins with the other. Nothing changed.
    pub fn adopt(&mut self, other: &Layout) -> Result<bool, OtherLayout> {
        let common = self.spaces().zip(other.spaces()).all(|(mine, theirs)| mine == theirs);
        if !common {
            return Err(OtherLayout { ours: self.id(), theirs: other.id() });
        }
        let longer = other.more().len() > self.more().len();
        if longer {
            self.clone_from(other);
        }
        Ok(longer)
    }

    /// Returns the section and the slot of a uid.
    ///
    /// # Errors
    /// [`Refusal::UidOutOfRange`] when no space holds the uid.
    #[inline]
    pub fn locate(&self, uid: Uid) -> Result<(SectionId, SlotIndex), Refusal> {
        if self.first.contains(uid) {
            let (section, slot) = self.first.locate(uid);
            return Ok((SectionId(section), slot));
        }
        self.locate_in_more(uid)
    }

    #[cold]
    fn locate_in_more(&self, uid: Uid) -> Result<(SectionId, SlotIndex), Refusal> {
        let Some(appended) = self.more().iter().find(|appended| appended.space.contains(uid)) else {
            let Range { start, end } = self.uids();
            return Err(Refusal::UidOutOfRange { uid, start, end });
        };
        let (section, slot) = appended.space.locate(uid);
        Ok((SectionId(appended.first_section + section), slot))
    }

    /// Returns the number of sections in all spaces, 1 or above.
    #[inline]
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.sections
    }

    /// Returns the uids of a section; none for a section that the layout does not have.
    #[must_use]
    pub fn uids_of(&self, section: SectionId) -> Range<u64> {
        match self.more().iter().rev().find(|appended| appended.first_section <= section.0) {
            None => self.first.uids_of(section.0),
            Some(appended) => appended.space.uids_of(section.0 - appended.first_section),
        }
    }

    /// Returns the range from the first uid of all spaces to past the last. Some uids between two spaces may be in no
    /// space.
    #[must_use]
    pub fn uids(&self) -> Range<u64> {
        let start = self.spaces().map(|space| space.start).min();
        let end = self.spaces().map(|space| space.end).max();
        start.unwrap_or(self.first.start)..end.unwrap_or(self.first.end)
    }

    /// Returns the number of uids in a full section of the space with the largest sections.
    #[must_use]
    pub fn section_size(&self) -> u32 {
        self.more().iter().map(|one| one.space.section_size()).fold(self.first.section_size(), u32::max)
    }

    /// Returns the spaces, in the order in which their sections are numbered.
    pub fn spaces(&self) -> impl Iterator<Item = &Space> {
        core::iter::once(&self.first).chain(self.more().iter().map(|appended| &appended.space))
    }

    /// Returns the hash of the whole layout.
    #[must_use]
    pub fn id(&self) -> LayoutId {
        self.spaces().fold(NO_SPACES, |hash, space| space.hash(hash))
    }

    /// Returns the hash of the spaces up to the space with this section; `None` if the layout has no such section. The
    /// uids of the section depend on these spaces alone, so a space that is appended later does not change the hash.
    #[must_use]
    pub fn id_of(&self, section: SectionId) -> Option<LayoutId> {
        let (mut end, mut hash) = (0, NO_SPACES);
        for space in self.spaces() {
            end += space.sections();
            hash = space.hash(hash);
            if section.0 < end {
                return Some(hash);
            }
        }
        None
    }

    #[inline]
    fn more(&self) -> &[Appended] {
        self.more.as_deref().unwrap_or_default()
    }
}

/// Neither of two layouts begins with the other, because they belong to two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout {theirs} does not continue layout {ours}, nor the other way round")]
pub struct OtherLayout {
    /// [`Layout::id`] of this process.
    pub ours: LayoutId,
    /// [`Layout::id`] of the other process.
    pub theirs: LayoutId,
}

/// Reason why a space cannot be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The layout has as many spaces as it may.
    #[error("the layout has {} spaces, the most it may have", limits::MAX_SPACES)]
    TooManySpaces,
    /// A uid would be in two spaces.
    #[error("the uids overlap those of the space {start}..{end}")]
    Overlap {
        /// First uid of the other space.
        start: u64,
        /// End of the other space, exclusive.
        end: u64,
    },
    /// The layout would have more sections than allowed.
    #[error("{sections} sections in all spaces are more than the {} a layout may have", limits::MAX_SECTIONS)]
    TooManySections {
        /// Number of sections that it would have.
        sections: u32,
    },
}

/// Reason why a layout is refused.
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
    /// A section would have no uids, or too many.
    #[error("section size {section_size} is not from 1 to {}", limits::MAX_SECTION_SIZE)]
    SectionSize {
        /// The requested size.
        section_size: u32,
    },
    /// The set would have more sections than allowed.
    #[error(
        "{sections} sections are more than the {} a set may have; use larger sections, fewer uids or more sets",
        limits::MAX_SECTIONS
    )]
    TooManySections {
        /// Number of sections that it would have.
        sections: u64,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Checks the widest offsets and the sizes next to powers of two, with which a reciprocal would be wrong.
        #[test]
        fn multiplying_by_the_reciprocal_divides(
            offset in prop_oneof![any::<u64>(), (0..64_u32, 0..3_u64).prop_map(|(bits, less)| (u64::MAX >> bits) - less.min(u64::MAX >> bits))],
            size in prop_oneof![1..=limits::MAX_SECTION_SIZE, (0..24_u32, 0..3_u32).prop_map(|(bits, more)| (1 << bits) + more)],
            multiple in any::<bool>(),
        ) {
            let space = Space::dense(0..1, size).unwrap();
            let size = u64::from(size);
            let offset = if multiple { offset - offset % size } else { offset };
            prop_assert_eq!(space.divide(offset), (offset / size, offset % size));
        }
    }

    #[test]
    fn a_run_is_cut_to_the_sections_that_are_named() {
        let run = |first: u32, sections| SectionRun { first: SectionId(first), sections };
        let around = |sections: &[u32]| run(10, 5).around(&sections.iter().copied().map(SectionId).collect::<Vec<_>>());
        assert_eq!(around(&[]), None);
        assert_eq!(around(&[9, 15]), None);
        assert_eq!(around(&[9, 10, 15]), Some(run(10, 1)));
        assert_eq!(around(&[0, 11, 13, 14, 20]), Some(run(11, 4)));
        assert_eq!(run(u32::MAX, 2).around(&[SectionId(u32::MAX)]), None, "it is none");
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

    /// Returns a layout of three spaces, out of order: sections 0..3, 3..5 and 5.
    fn spaces() -> Layout {
        let layout = Layout::new(1_000..1_250, 100).unwrap();
        let layout = layout.append(Space::dense(0..20, 10).unwrap()).unwrap();
        layout.append(Space::dense(5_000..5_001, 7).unwrap()).unwrap()
    }

    #[test]
    fn sections_are_numbered_through_all_spaces() {
        let layout = spaces();
        assert_eq!((layout.sections(), layout.uids(), layout.section_size()), (6, 0..5_001, 100));
        let mut located = 0;
        for section in 0..layout.sections() {
            for (slot, uid) in layout.uids_of(SectionId(section)).enumerate() {
                assert_eq!(layout.locate(Uid(uid)), Ok((SectionId(section), SlotIndex(slot as u32))));
                located += 1;
            }
        }
        assert_eq!(located, 250 + 20 + 1);
        assert!(layout.uids_of(SectionId(6)).is_empty());
        for uid in [20, 999, 1_250, 4_999, 5_001, u64::MAX] {
            assert_eq!(layout.locate(Uid(uid)), Err(Refusal::UidOutOfRange { uid: Uid(uid), start: 0, end: 5_001 }));
        }
    }

    /// The ids are in messages between sets, and on disk, so other values would refuse every message of the version
    /// before.
    #[test]
    fn the_ids_of_layouts_are_pinned() {
        let (one, all) = (Layout::new(1_000..1_250, 100).unwrap(), spaces());
        assert_eq!(one.id(), LayoutId(0x2ea6_1e8b_6438_a93f), "{:#x}", one.id().0);
        assert_eq!(all.id(), LayoutId(0xbaf9_6e75_3674_4221), "{:#x}", all.id().0);
        assert_eq!(Layout::new(0..1 << 32, 100_000).unwrap().id(), LayoutId(0x5247_18cc_b824_43c2));
    }

    #[test]
    fn an_appended_space_leaves_the_ids_of_earlier_sections() {
        let (one, all) = (Layout::new(1_000..1_250, 100).unwrap(), spaces());
        for section in 0..3 {
            assert_eq!(all.id_of(SectionId(section)), Some(one.id()));
        }
        assert_eq!(all.id_of(SectionId(5)), Some(all.id()));
        assert_ne!(all.id_of(SectionId(3)), Some(one.id()));
        assert_eq!(all.id_of(SectionId(6)), None);
        for other in [Layout::new(1_000..1_251, 100), Layout::new(1_001..1_250, 100), Layout::new(1_000..1_250, 99)] {
            assert_ne!(other.unwrap().id(), one.id());
        }
    }

    #[test]
    fn a_longer_layout_is_adopted_if_it_begins_with_the_shorter() {
        let (one, all) = (Layout::new(1_000..1_250, 100).unwrap(), spaces());
        let mut layout = one.clone();
        assert_eq!(layout.adopt(&one), Ok(false));
        assert_eq!(layout.adopt(&all), Ok(true));
        assert_eq!(layout, all);
        assert_eq!(layout.adopt(&one), Ok(false), "a shorter one is older");
        assert_eq!(layout, all);
        let other = one.append(Space::dense(0..20, 5).unwrap()).unwrap();
        for (mut ours, theirs) in [(all.clone(), &other), (other.clone(), &all), (Layout::new(0..9, 1).unwrap(), &all)]
        {
            let before = ours.clone();
            assert_eq!(ours.adopt(theirs), Err(OtherLayout { ours: before.id(), theirs: theirs.id() }));
            assert_eq!(ours, before);
        }
    }

    #[test]
    fn bad_spaces_are_refused() {
        let layout = spaces();
        let space = |uids: Range<u64>, size| Space::dense(uids, size).unwrap();
        for uids in [19..21, 1_100..1_101, 0..u64::MAX >> 20, 5_000..5_001] {
            assert!(matches!(layout.append(space(uids, 1 << 24)), Err(AppendError::Overlap { .. })));
        }
        let wide = space(10_000..10_000 + u64::from(limits::MAX_SECTIONS), 1);
        assert_eq!(layout.append(wide), Err(AppendError::TooManySections { sections: limits::MAX_SECTIONS + 6 }));
        let mut many = layout;
        for index in 3..limits::MAX_SPACES as u64 {
            many = many.append(space(10_000 + index..10_001 + index, 1)).unwrap();
        }
        assert_eq!(many.append(space(20_000..20_001, 1)), Err(AppendError::TooManySpaces));
    }
}
