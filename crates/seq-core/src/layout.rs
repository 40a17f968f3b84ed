//! The layout of the cluster: section and slot of a uid.
//!
//! A layout has the uids that set files declare, cut into sections, and then the lanes of series in the order in which
//! they were appended (`lanes.rs`). Sections are numbered through all of these spaces, so a [`SectionId`] means the
//! same counters in every set, and a section keeps it when it migrates.
//!
//! **Invariant:** a space never changes, and lanes are only appended, because any other change would give uids other
//! counters. Two layouts of one cluster are equal, or one begins with the other. [`LayoutId`] names the part that a
//! section depends on, so that a message of a process with another layout is refused.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::id::{LayoutId, SectionId, Seq, SlotIndex, Uid};
use crate::limits;
use crate::refusal::Refusal;

mod lanes;

pub use lanes::{ADDRESSES, Lanes, TickClock, address, locate};

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

/// A range of uids that is cut into sections of neighbours.
///
/// Invariant: `start < end`, at most `MAX_SECTIONS` sections. The last section may be shorter than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dense {
    start: u64,
    end: u64,
    /// `1 ..= MAX_SECTION_SIZE`.
    section_size: u32,
    /// `u64::MAX / section_size`. Multiplying by it costs a third of dividing by the size, and every request for a
    /// number locates its uid.
    reciprocal: u64,
}

impl Dense {
    /// Cuts `uids` into sections of `section_size` neighbours.
    ///
    /// # Errors
    /// [`LayoutError`] names the bound that does not hold.
    pub fn new(uids: Range<u64>, section_size: u32) -> Result<Dense, LayoutError> {
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
        Ok(Dense { start, end, section_size, reciprocal: u64::MAX / u64::from(section_size) })
    }

    fn sections(&self) -> u32 {
        (self.end - self.start).div_ceil(u64::from(self.section_size)) as u32
    }

    #[inline]
    fn contains(&self, uid: Uid) -> bool {
        uid.0 >= self.start && uid.0 < self.end
    }

    /// Returns the index of the section of a uid that the space contains, and the slot.
    #[inline]
    fn locate(&self, uid: Uid) -> (u32, SlotIndex) {
        let (section, slot) = self.divide(uid.0 - self.start);
        // Both fit: the quotient is below MAX_SECTIONS, the remainder below a u32.
        (section as u32, SlotIndex(slot as u32))
    }

    /// Returns the quotient and the remainder of a division by the section's size.
    #[inline]
    fn divide(&self, offset: u64) -> (u64, u64) {
        let size = u64::from(self.section_size);
        // The reciprocal is too small by at most 1 part in 2^64 of the offset, so the quotient is right or less by 1.
        let quotient = ((u128::from(offset) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = offset - quotient * size;
        if remainder < size { (quotient, remainder) } else { (quotient + 1, remainder - size) }
    }

    /// Returns the uids of the section with this index; none past the last section.
    fn uids_of(&self, index: u32) -> Range<u64> {
        let size = u64::from(self.section_size);
        let first = u64::from(index) * size;
        let len = (self.end - self.start).saturating_sub(first).min(size);
        if len == 0 {
            return self.end..self.end;
        }
        self.start + first..self.start + first + len
    }

    /// Continues the hash of a layout. The hashed values are a format, because versions of the program compare the
    /// hashes.
    fn hash(&self, layout: LayoutId) -> LayoutId {
        /// Kind of a dense space.
        const DENSE: u8 = 1;
        let mut hash = fnv1a(layout.0, &[DENSE]);
        hash = fnv1a(hash, &self.start.to_le_bytes());
        hash = fnv1a(hash, &self.end.to_le_bytes());
        LayoutId(fnv1a(hash, &self.section_size.to_le_bytes()))
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
/// Invariant: at most `MAX_SECTIONS` sections in all spaces together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The uids that the set files declare, apart from other spaces, so that locating a uid follows no pointer.
    uids: Dense,
    /// The lanes that were appended, in order; `None` for none.
    lanes: Option<Arc<[Appended]>>,
    /// Number of sections in all spaces, with which each read of a route table compares.
    sections: u32,
}

/// Lanes with the id of their first section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Appended {
    lanes: Lanes,
    first_section: u32,
}

impl Layout {
    /// Lays out `uids` in sections of `section_size`, without lanes.
    ///
    /// # Errors
    /// [`LayoutError`] names the bound that does not hold.
    pub fn new(uids: Range<u64>, section_size: u32) -> Result<Layout, LayoutError> {
        let uids = Dense::new(uids, section_size)?;
        Ok(Layout { uids, lanes: None, sections: uids.sections() })
    }

    /// Returns the layout with more lanes, and their sections. The ids of the sections so far stay.
    ///
    /// # Errors
    /// [`AppendError`] names the bound that does not hold.
    pub fn append(&self, lanes: Lanes) -> Result<(Layout, SectionRun), AppendError> {
        lanes.check()?;
        if self.uids.end > lanes::ADDRESSES {
            return Err(AppendError::UidsTooHigh { end: self.uids.end });
        }
        if self.appended().len() + 1 == limits::MAX_SPACES {
            return Err(AppendError::TooManySpaces);
        }
        let first_section = self.sections();
        let run = SectionRun { first: SectionId(first_section), sections: lanes.sections() };
        let sections = first_section.saturating_add(run.sections);
        if sections > limits::MAX_SECTIONS {
            return Err(AppendError::TooManySections { sections });
        }
        let mut appended: Vec<Appended> = self.appended().to_vec();
        appended.push(Appended { lanes, first_section });
        Ok((Layout { uids: self.uids, lanes: Some(appended.into()), sections }, run))
    }

    /// Adopts another process's layout of the cluster if it is longer. Returns whether it was.
    ///
    /// # Errors
    /// [`OtherLayout`]: neither layout begins with the other. Nothing changed.
    pub fn adopt(&mut self, other: &Layout) -> Result<bool, OtherLayout> {
        if !self.agrees(other) {
            return Err(OtherLayout { ours: self.id(), theirs: other.id() });
        }
        let longer = other.appended().len() > self.appended().len();
        if longer {
            self.clone_from(other);
        }
        Ok(longer)
    }

    /// Returns whether both are layouts of the same cluster, in which the shorter layout begins the longer.
    #[must_use]
    pub fn agrees(&self, other: &Layout) -> bool {
        let common = self.appended().iter().zip(other.appended()).all(|(mine, theirs)| mine == theirs);
        self.uids == other.uids && common
    }

    /// Returns the section and the slot of a uid, or of the address of a lane.
    ///
    /// # Errors
    /// [`Refusal::UidOutOfRange`] when no section has it.
    #[inline]
    pub fn locate(&self, uid: Uid) -> Result<(SectionId, SlotIndex), Refusal> {
        if self.uids.contains(uid) {
            let (section, slot) = self.uids.locate(uid);
            return Ok((SectionId(section), slot));
        }
        self.locate_lane(uid)
    }

    #[cold]
    fn locate_lane(&self, address: Uid) -> Result<(SectionId, SlotIndex), Refusal> {
        let located = lanes::locate(address).filter(|(section, _)| self.uids_of(*section).contains(&address.0));
        let Range { start, end } = self.uids();
        located.ok_or(Refusal::UidOutOfRange { uid: address, start, end })
    }

    /// Returns the number of sections in all spaces, 1 or above.
    #[inline]
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.sections
    }

    /// Returns the uids of a section, or the addresses of its lanes; none for a section that the layout does not have.
    #[must_use]
    pub fn uids_of(&self, section: SectionId) -> Range<u64> {
        match self.lanes_of(section) {
            None => self.uids.uids_of(section.0),
            Some(Appended { lanes, first_section }) => {
                let (first, slots) = (lanes::address(section, SlotIndex(0)).0, lanes.slots(section.0 - first_section));
                first..first + u64::from(slots)
            }
        }
    }

    /// Returns the clock that the numbers of a section follow; `None` for uids, lanes without a clock, and a section
    /// that the layout does not have.
    #[must_use]
    pub fn clock_of(&self, section: SectionId) -> Option<TickClock> {
        self.lanes_of(section).filter(|_| section.0 < self.sections)?.lanes.clock
    }

    /// Returns the uids that the set files declare.
    #[must_use]
    pub fn uids(&self) -> Range<u64> {
        self.uids.start..self.uids.end
    }

    /// Returns the number of uids in a full section.
    #[must_use]
    pub fn section_size(&self) -> u32 {
        self.uids.section_size
    }

    /// Returns the lanes that were appended, each with its sections, in order.
    pub fn lanes(&self) -> impl Iterator<Item = (Lanes, SectionRun)> {
        self.appended().iter().map(|Appended { lanes, first_section }| {
            (*lanes, SectionRun { first: SectionId(*first_section), sections: lanes.sections() })
        })
    }

    /// Returns the lanes with a section; `None` for a section of uids.
    #[must_use]
    pub fn lanes_at(&self, section: SectionId) -> Option<Lanes> {
        self.lanes_of(section).map(|one| one.lanes)
    }

    /// Returns the layout without lanes: the part that the set files declare.
    #[must_use]
    pub fn declared(&self) -> Layout {
        Layout { uids: self.uids, lanes: None, sections: self.uids.sections() }
    }

    /// Returns the hash of the whole layout.
    #[must_use]
    pub fn id(&self) -> LayoutId {
        self.hash(self.appended())
    }

    /// Returns the hash of the spaces up to the space of this section: the part that the section depends on, which a
    /// space that is appended later does not change. `None` when the layout has no such section.
    #[must_use]
    pub fn id_of(&self, section: SectionId) -> Option<LayoutId> {
        let with = self.appended().partition_point(|one| one.first_section <= section.0);
        (section.0 < self.sections).then(|| self.hash(&self.appended()[..with]))
    }

    fn hash(&self, appended: &[Appended]) -> LayoutId {
        appended.iter().fold(self.uids.hash(NO_SPACES), |hash, one| one.lanes.hash(hash))
    }

    /// Returns the lanes that a section is part of; past the last section, the last lanes. Sections of uids, which are
    /// the most, search nothing.
    fn lanes_of(&self, section: SectionId) -> Option<&Appended> {
        let appended = self.appended();
        appended.first().filter(|first| first.first_section <= section.0)?;
        appended[..appended.partition_point(|one| one.first_section <= section.0)].last()
    }

    #[inline]
    fn appended(&self) -> &[Appended] {
        self.lanes.as_deref().unwrap_or_default()
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

/// Reason why lanes cannot be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The layout has as many spaces as it may.
    #[error("the layout has {} spaces, the most it may have", limits::MAX_SPACES)]
    TooManySpaces,
    /// The layout would have more sections than allowed.
    #[error("{sections} sections in all spaces are more than the {} a layout may have", limits::MAX_SECTIONS)]
    TooManySections {
        /// Number of sections that it would have.
        sections: u32,
    },
    /// The uids of the cluster include addresses of lanes.
    #[error("the uids of the cluster end at {end}, and lanes need those from {} on", lanes::ADDRESSES)]
    UidsTooHigh {
        /// End of the cluster's uids, exclusive.
        end: u64,
    },
    /// There would be no lane, or a section without or with too many lanes.
    #[error(
        "{count} lanes, {per_section} in a section: 1 to {} in a section, in at most {} sections",
        limits::MAX_SECTION_SIZE,
        limits::MAX_SERIES_SECTIONS
    )]
    BadLanes {
        /// Number of lanes.
        count: u32,
        /// Lanes in a section.
        per_section: u32,
    },
    /// The lanes would begin above the last number.
    #[error("the lanes would begin at {start}, above {}", Seq::MAX)]
    BadStart {
        /// The ceiling at which the lanes begin.
        start: Seq,
    },
    /// The clock would not move, or has no bits of time.
    #[error("ticks of {} ms with {} bits of sequence, {} ms ahead", clock.unit_ms, clock.seq_bits, clock.lead_ms)]
    BadClock {
        /// The clock.
        clock: TickClock,
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
mod tests;
