//! The layout of the cluster, which assigns a section and a slot to each uid.
//!
//! A layout begins with the uids that set files declare, cut into sections. The lanes of series follow, in the order in
//! which they were appended (`lanes.rs`). The sections of all these spaces are numbered consecutively. A [`SectionId`]
//! stands for the same counters in every set, and a section keeps its id when it migrates.
//!
//! **Invariant:** a space never changes, and lanes are only appended, because any other change would assign uids to
//! other counters. So of two layouts of one cluster, the longer layout begins with the shorter layout. A [`LayoutId`]
//! is a hash of the part of a layout on which a section depends. Processes compare it, so that they refuse messages of
//! a process with another layout.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::id::{LayoutId, SectionId, Seq, SlotIndex, Uid};
use crate::keyspace::{Bucket, Hashing};
use crate::limits;
use crate::refusal::Refusal;
use crate::section::Counters;

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
    /// Returns the index after the last section; `None` if the run has no sections, or extends past the last possible
    /// id.
    #[must_use]
    pub fn end(self) -> Option<u32> {
        self.first.0.checked_add(self.sections).filter(|_| self.sections > 0)
    }

    /// Returns the smallest run that contains every section which is both in this run and in `sections`; `None` if
    /// there is no such section. `sections` must be in ascending order.
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

/// A range of uids, cut into sections of consecutive uids.
///
/// Invariant: `start < end`, at most `MAX_SECTIONS` sections. The last section may be shorter than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dense {
    start: u64,
    end: u64,
    /// `1 ..= MAX_SECTION_SIZE`.
    section_size: u32,
    /// `u64::MAX / section_size`. A multiplication by this value takes a third of the time of a division by
    /// `section_size`. The time matters, because every request for a number locates its uid.
    reciprocal: u64,
}

impl Dense {
    /// Cuts `uids` into sections of `section_size` consecutive uids.
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

    /// Returns the section, as its index in this space, and the slot of a uid. The space must contain the uid.
    #[inline]
    fn locate(&self, uid: Uid) -> (u32, SlotIndex) {
        let (section, slot) = self.divide(uid.0 - self.start);
        // Both fit: the quotient is below MAX_SECTIONS, the remainder below a u32.
        (section as u32, SlotIndex(slot as u32))
    }

    /// Returns the quotient and the remainder of a division of `offset` by the number of uids in a section.
    #[inline]
    fn divide(&self, offset: u64) -> (u64, u64) {
        let size = u64::from(self.section_size);
        // The reciprocal is too small by at most 1 part in 2^64 of the offset, so the quotient is exact or too small by
        // 1.
        let quotient = ((u128::from(offset) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = offset - quotient * size;
        if remainder < size { (quotient, remainder) } else { (quotient + 1, remainder - size) }
    }

    /// Returns the uids of the section with this index in the space; an empty range if `index` is past the last
    /// section.
    fn uids_of(&self, index: u32) -> Range<u64> {
        let size = u64::from(self.section_size);
        let first = u64::from(index) * size;
        let len = (self.end - self.start).saturating_sub(first).min(size);
        if len == 0 {
            return self.end..self.end;
        }
        self.start + first..self.start + first + len
    }

    /// Returns the hash of this space and of all spaces before it; `layout` is the hash of the spaces before it. The
    /// hashed bytes must not change, because different versions of the program compare their hashes.
    fn hash(&self, layout: LayoutId) -> LayoutId {
        /// Kind of a dense space.
        const DENSE: u8 = 1;
        let mut hash = fnv1a(layout.0, &[DENSE]);
        hash = fnv1a(hash, &self.start.to_le_bytes());
        hash = fnv1a(hash, &self.end.to_le_bytes());
        LayoutId(fnv1a(hash, &self.section_size.to_le_bytes()))
    }
}

/// FNV-1a hash of no bytes, with which [`fnv1a`] begins.
pub const FNV1A_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Hash of the layout without spaces.
pub(crate) const NO_SPACES: LayoutId = LayoutId(FNV1A_BASIS);

/// Continues an FNV-1a hash with more bytes. The hash distinguishes values that differ by mistake; it does not protect
/// against attackers.
#[must_use]
pub fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The uids and the lanes of a cluster, cut into sections.
///
/// Invariant: at most `MAX_SECTIONS` sections in all spaces together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The uids that the set files declare. They are stored separately from the lanes, so that locating a uid follows
    /// no pointer.
    uids: Dense,
    /// The lanes that were appended, in order; `None` for none.
    lanes: Option<Arc<[Appended]>>,
    /// Number of sections in all spaces. It is stored because each read of a route table compares it with the id of a
    /// section.
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

    /// Returns this layout extended by `lanes`, and the sections that these lanes get. The existing sections keep their
    /// ids.
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
        if lanes.keys.is_some() && self.keyspaces().count() == limits::MAX_KEYSPACES {
            return Err(AppendError::TooManyKeyspaces);
        }
        if lanes.keys.is_some_and(|keys| keys.has_uids()) && self.keyspace_of_uids().is_some() {
            return Err(AppendError::SecondKeyspaceOfUids);
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

    /// Adopts the spaces of another layout that this layout lacks, and the seeds of keyspaces that this process does
    /// not know. Returns whether anything was new.
    ///
    /// # Errors
    /// [`OtherLayout`] if neither layout begins with the other. Nothing is changed then.
    pub fn adopt(&mut self, other: &Layout) -> Result<bool, OtherLayout> {
        if !self.agrees(other) {
            return Err(OtherLayout { ours: self.id(), theirs: other.id() });
        }
        let longer = other.appended().len() > self.appended().len();
        let shorter = longer.then(|| core::mem::replace(self, other.clone()));
        let learned = self.learn_seeds(shorter.as_ref().unwrap_or(other));
        Ok(longer || learned)
    }

    /// Adopts the seeds of keyspaces that this process does not know, as far as another layout has the same keyspaces
    /// with their seeds. Returns whether there were any.
    pub fn learn_seeds(&mut self, other: &Layout) -> bool {
        let lacks = |mine: &Appended, theirs: &Appended| {
            mine == theirs && !mine.lanes.knows_seed() && theirs.lanes.knows_seed()
        };
        let theirs = other.appended();
        if !self.appended().iter().zip(theirs).any(|(mine, theirs)| lacks(mine, theirs)) {
            return false;
        }
        let mut lanes = self.appended().to_vec();
        for (mine, theirs) in lanes.iter_mut().zip(theirs) {
            if lacks(mine, theirs) {
                *mine = *theirs;
            }
        }
        self.lanes = Some(lanes.into());
        true
    }

    /// Returns whether both layouts may belong to the same cluster. This is so if they are equal, or if one of them
    /// begins with the other.
    #[must_use]
    pub fn agrees(&self, other: &Layout) -> bool {
        let common = self.appended().iter().zip(other.appended()).all(|(mine, theirs)| mine == theirs);
        self.uids == other.uids && common
    }

    /// Returns the section and the slot of a uid, or of the address of a lane. Buckets have no slots.
    ///
    /// # Errors
    /// [`Refusal::UidOutOfRange`] when no section contains the uid or address, or when the section is a bucket.
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
        let has_slot = |(section, _): &(SectionId, _)| self.uids_of(*section).contains(&address.0);
        let located = lanes::locate(address).filter(|located| has_slot(located) && !self.has_keys(located.0));
        let Range { start, end } = self.uids();
        located.ok_or(Refusal::UidOutOfRange { uid: address, start, end })
    }

    /// Returns the number of sections in all spaces, 1 or above.
    #[inline]
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.sections
    }

    /// Returns the uids of a section, or the addresses of its lanes; an empty range if the layout has no such section.
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

    /// Returns the clock that the numbers of a section follow; `None` for a section of uids or of lanes without a
    /// clock, and if the layout has no such section.
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

    /// Returns the lanes of each series with their sections, in the order in which they were appended.
    pub fn lanes(&self) -> impl Iterator<Item = (Lanes, SectionRun)> {
        self.appended().iter().map(|Appended { lanes, first_section }| {
            (*lanes, SectionRun { first: SectionId(*first_section), sections: lanes.sections() })
        })
    }

    /// Returns the keyspaces with the sections of their buckets, in the order in which they were appended.
    pub fn keyspaces(&self) -> impl Iterator<Item = (Hashing, SectionRun)> {
        self.lanes().filter_map(|(lanes, sections)| Some((lanes.keys?, sections)))
    }

    /// Returns the keyspace whose keys are the sparse uids, with the sections of its buckets; `None` if the cluster has
    /// none, so that every uid outside of the declared uids is refused.
    #[must_use]
    pub fn keyspace_of_uids(&self) -> Option<(Hashing, SectionRun)> {
        self.keyspaces().find(|(keys, _)| keys.has_uids())
    }

    /// Returns the section of a sparse uid's bucket; `None` if the set files declare the uid, or if the cluster has no
    /// keyspace of uids.
    #[must_use]
    pub fn bucket_of_uid(&self, uid: Uid) -> Option<SectionId> {
        let (_, buckets) = self.keyspace_of_uids().filter(|_| !self.uids.contains(uid))?;
        let section = SectionId(buckets.first.0 + u32::from(Bucket::of_uid(uid).index()));
        Some(section).filter(|section| buckets.end().is_some_and(|end| section.0 < end))
    }

    /// Returns the kind of a section's counters.
    #[must_use]
    pub fn counters_of(&self, section: SectionId) -> Counters {
        let uids = self.uids_of(section);
        if self.has_keys(section) { Counters::Keys } else { Counters::Slots((uids.end - uids.start) as u32) }
    }

    /// Returns whether the counters of a section are those of keys.
    #[must_use]
    pub fn has_keys(&self, section: SectionId) -> bool {
        section.0 < self.sections && self.lanes_of(section).is_some_and(|one| one.lanes.keys.is_some())
    }

    /// Returns the first of the neighbouring buckets that are placed together with this section; `None` if the section
    /// is no bucket. The routes of a keyspace have at most 1,024 runs, because 16 buckets are placed together.
    #[must_use]
    pub fn bucket_group(&self, section: SectionId) -> Option<SectionId> {
        /// Number of neighbouring buckets that are placed together.
        const GROUP: u32 = 16;
        let first = self.lanes_of(section).filter(|_| self.has_keys(section))?.first_section;
        Some(SectionId(section.0 - (section.0 - first) % GROUP))
    }

    /// Returns the lanes to which a section belongs; `None` for a section of uids.
    #[must_use]
    pub fn lanes_at(&self, section: SectionId) -> Option<Lanes> {
        self.lanes_of(section).map(|one| one.lanes)
    }

    /// Returns the part of the layout that the set files declare, which has no lanes.
    #[must_use]
    pub fn declared(&self) -> Layout {
        Layout { uids: self.uids, lanes: None, sections: self.uids.sections() }
    }

    /// Returns the hash of the whole layout.
    #[must_use]
    pub fn id(&self) -> LayoutId {
        self.hash(self.appended())
    }

    /// Returns the hash of all spaces up to and including the space that contains this section. Spaces that are
    /// appended later do not change this hash. `None` if the layout has no such section.
    #[must_use]
    pub fn id_of(&self, section: SectionId) -> Option<LayoutId> {
        let with = self.appended().partition_point(|one| one.first_section <= section.0);
        (section.0 < self.sections).then(|| self.hash(&self.appended()[..with]))
    }

    fn hash(&self, appended: &[Appended]) -> LayoutId {
        appended.iter().fold(self.uids.hash(NO_SPACES), |hash, one| one.lanes.hash(hash))
    }

    /// Returns the lanes to which a section belongs, or the last lanes if the section is past the last section; `None`
    /// for a section of uids. Sections of uids, which are most sections, take no search.
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

/// Two layouts of which neither begins with the other. They belong to different clusters.
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
    /// The layout has as many keyspaces as it may.
    #[error("the layout has {} keyspaces, the most it may have", limits::MAX_KEYSPACES)]
    TooManyKeyspaces,
    /// The layout has a keyspace of uids. A sparse uid would have a counter in each of two.
    #[error("the layout has a keyspace whose keys are uids, and may have one")]
    SecondKeyspaceOfUids,
    /// The lanes have keys, and are not the buckets of a keyspace.
    #[error("the lanes of keys are not at most {} buckets from 0 on, without a clock", crate::keyspace::BUCKETS)]
    BadKeyspace,
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
    /// The number of lanes is 0, the number of lanes in a section is 0 or too large, or the lanes need too many
    /// sections.
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
