//! The records of all sections of the layout, in pages. A page is allocated when one of its sections gets a record
//! other than [`SectionRecord::Never`].
//!
//! A set of a large cluster has few of the cluster's sections, and mostly runs of neighbouring sections. So most pages
//! are never allocated, and take only the memory of a pointer.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::beginning::Beginning;
use super::record::{Residence, SectionRecord};
use crate::id::{RouteVersion, SectionId};

/// Number of sections in a page. A page has 30 KiB of records, and the largest layout has 4,096 pages.
const PAGE: usize = 256;

/// The records of neighbouring sections.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    /// The highest [`SectionRecord::routed`] of the records in this page. No later version of the route table changed
    /// the route of a section in this page.
    newest: RouteVersion,
    records: [SectionRecord; PAGE],
}

static NEVER: SectionRecord = SectionRecord::Never;

/// One record for each section of a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionRecords {
    /// Number of sections.
    sections: u32,
    /// The pages; `None` stands for a page in which every record is [`SectionRecord::Never`]. If the last page has room
    /// for more sections than there are, its further records are [`SectionRecord::Never`], too.
    pages: Vec<Option<Box<Page>>>,
    /// Number of departed sections whose arrival the other set has not confirmed yet.
    unconfirmed: u32,
}

impl SectionRecords {
    /// Creates the records of a layout with this many sections, none of which was ever in this set.
    #[must_use]
    pub fn new(sections: u32) -> SectionRecords {
        let pages = (sections as usize).div_ceil(PAGE);
        SectionRecords { sections, pages: (0..pages).map(|_| None).collect(), unconfirmed: 0 }
    }

    /// Adds records after sections were appended to the layout, up to `sections` records in total.
    ///
    /// # Panics
    /// When `sections` is below the present number of sections, because no section is ever removed from a layout.
    pub fn grow(&mut self, sections: u32) {
        assert!(sections >= self.sections, "{} sections would become {sections}", self.sections);
        self.sections = sections;
        self.pages.resize_with((sections as usize).div_ceil(PAGE), || None);
    }

    /// Returns the number of sections of the layout.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sections as usize
    }

    /// Returns whether there is no layout yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections == 0
    }

    /// Returns the record of a section; `None` if the layout has no such section.
    #[inline]
    #[must_use]
    pub fn get(&self, section: SectionId) -> Option<&SectionRecord> {
        if section.0 >= self.sections {
            return None;
        }
        let index = section.0 as usize;
        Some(self.pages[index / PAGE].as_ref().map_or(&NEVER, |page| &page.records[index % PAGE]))
    }

    /// Returns the residence of a section that is in the set; `None` for any other section.
    #[inline]
    #[must_use]
    pub fn resident(&self, section: SectionId) -> Option<&Residence> {
        self.get(section)?.resident()
    }

    /// Replaces the record of a section without a check. Only for code that decodes a state, and for tests that damage
    /// a state.
    ///
    /// # Panics
    /// When the layout has no such section.
    pub fn put(&mut self, section: SectionId, record: SectionRecord) {
        self.change(section, |current| *current = record);
    }

    /// Replaces the record of a section. Records change only by this method, except for changes that keep the section's
    /// owner, which use [`SectionRecords::resident_mut`].
    ///
    /// # Panics
    /// When the layout has no such section, and whenever [`SectionRecord::advance`] panics.
    pub(super) fn advance(&mut self, section: SectionId, next: SectionRecord) {
        self.change(section, |current| current.advance(next));
    }

    /// Returns the number of departed sections whose arrival the other set has not confirmed yet.
    #[must_use]
    pub fn unconfirmed(&self) -> u32 {
        self.unconfirmed
    }

    /// Changes a record, and creates the page of the section if it does not exist.
    fn change(&mut self, section: SectionId, change: impl FnOnce(&mut SectionRecord)) {
        assert!(section.0 < self.sections, "the layout has no section {section}");
        let index = section.0 as usize;
        let empty = || Box::new(Page { newest: RouteVersion(0), records: [SectionRecord::Never; PAGE] });
        let page = self.pages[index / PAGE].get_or_insert_with(empty);
        let record = &mut page.records[index % PAGE];
        let before = record.is_unconfirmed();
        change(record);
        let after = record.is_unconfirmed();
        page.newest = page.newest.max(record.routed());
        self.unconfirmed = self.unconfirmed + u32::from(after) - u32::from(before);
    }

    /// Returns the residence of a section that is in the set, so that the caller can change any value except the owner.
    #[inline]
    pub(super) fn resident_mut(&mut self, section: SectionId) -> Option<&mut Residence> {
        // No page is created, because a section of a page that does not exist is not in the set.
        let index = section.0 as usize;
        match self.pages.get_mut(index / PAGE)?.as_mut()?.records.get_mut(index % PAGE)? {
            SectionRecord::Resident(residence) => Some(residence),
            _ => None,
        }
    }

    /// Returns the records that are not [`SectionRecord::Never`], in order of section.
    pub fn known(&self) -> impl Iterator<Item = (SectionId, &SectionRecord)> {
        self.known_from(SectionId(0))
    }

    /// Returns the records that are not [`SectionRecord::Never`], beginning with the section `from`, in order of
    /// section.
    pub(super) fn known_from(&self, from: SectionId) -> impl Iterator<Item = (SectionId, &SectionRecord)> {
        let skipped = (from.0 as usize / PAGE).min(self.pages.len());
        self.records(skipped, |_| true).filter(move |(section, _)| *section >= from)
    }

    /// Returns the records whose route changed after version `since` of the route table, in order of section.
    pub fn changed(&self, since: RouteVersion) -> impl Iterator<Item = (SectionId, &SectionRecord)> {
        let records = self.records(0, move |page| page.newest > since);
        records.filter(move |(_, record)| record.routed() > since)
    }

    fn records(&self, skipped: usize, of: impl Fn(&Page) -> bool) -> impl Iterator<Item = (SectionId, &SectionRecord)> {
        let pages = (skipped as u32..).zip(&self.pages[skipped..]);
        let pages = pages.filter_map(|(index, page)| Some((index * PAGE as u32, page.as_ref()?)));
        let pages = pages.filter(move |(_, page)| of(page));
        let records = pages.flat_map(|(first, page)| (first..).map(SectionId).zip(&page.records));
        records.filter(|(_, record)| **record != SectionRecord::Never)
    }

    /// Returns the sections that are in the set, in order.
    pub fn residents(&self) -> impl Iterator<Item = (SectionId, &Residence)> {
        self.residents_from(SectionId(0))
    }

    /// Returns the ids of the sections that are in the set, in order.
    #[must_use]
    pub fn resident_ids(&self) -> Vec<SectionId> {
        let mut ids = Vec::with_capacity(self.sections as usize);
        // A loop over these nested iterators would take a fifth longer.
        self.residents().for_each(|(section, _)| ids.push(section));
        ids
    }

    /// Returns the sections that are in the set, beginning with the section `from`, in order.
    pub fn residents_from(&self, from: SectionId) -> impl Iterator<Item = (SectionId, &Residence)> {
        self.known_from(from).filter_map(|(section, record)| Some((section, record.resident()?)))
    }

    pub(super) fn residents_mut(&mut self) -> impl Iterator<Item = &mut Residence> {
        self.pages.iter_mut().flatten().flat_map(|page| page.records.iter_mut()).filter_map(|record| match record {
            SectionRecord::Resident(residence) => Some(residence),
            _ => None,
        })
    }

    /// Sets the beginning of each section that is in the set, in order of section. Only for code that decodes a state.
    /// Returns whether the beginnings fit: `began` has as many values as there are such sections, and no value has a
    /// ceiling above the ceiling of its section.
    #[must_use]
    pub fn put_beginnings(&mut self, began: &[Beginning]) -> bool {
        let is_as_many = self.residents().count() == began.len();
        let fits = |((_, one), began): ((SectionId, &Residence), &Beginning)| {
            began.ceiling <= one.max_seq && began.floor <= Some(began.ceiling)
        };
        let fits = is_as_many && self.residents().zip(began).all(fits);
        for (residence, began) in self.residents_mut().zip(began) {
            residence.began = *began;
        }
        fits
    }

    /// Returns the bytes of memory that the records take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count();
        self.pages.len() * size_of::<Option<Box<Page>>>() + pages * size_of::<Page>()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::vec;

    use super::*;
    use crate::id::Seq;

    fn resident(max_seq: u64) -> SectionRecord {
        SectionRecord::Resident(Residence { max_seq: Seq(max_seq), ..Residence::default() })
    }

    #[test]
    fn a_page_exists_once_a_section_of_it_was_here() {
        let mut records = SectionRecords::new(600);
        let empty = records.bytes();
        assert_eq!(records.get(SectionId(599)), Some(&SectionRecord::Never));
        assert_eq!(records.get(SectionId(600)), None);
        assert!(records.resident_mut(SectionId(300)).is_none());
        assert_eq!(records.bytes(), empty, "reading makes no page");
        records.put(SectionId(300), resident(7));
        records.put(SectionId(599), resident(8));
        assert_eq!(records.resident(SectionId(300)).map(|record| record.max_seq), Some(Seq(7)));
        let found: Vec<_> = records.residents().map(|(section, record)| (section.0, record.max_seq.0)).collect();
        assert_eq!(found, [(300, 7), (599, 8)]);
        assert!(records.resident_mut(SectionId(600)).is_none(), "past the last section, within its page");
        let from = |first| records.known_from(SectionId(first)).map(|(section, _)| section.0).collect::<Vec<_>>();
        assert_eq!([from(300), from(301), from(600), from(u32::MAX)], [vec![300, 599], vec![599], vec![], vec![]]);
    }

    #[test]
    fn a_page_without_a_newer_route_has_no_change() {
        let mut records = SectionRecords::new(600);
        let routed =
            |routed| SectionRecord::Resident(Residence { routed: RouteVersion(routed), ..Residence::default() });
        for (section, version) in [(0, 3), (1, 7), (256, 5), (512, 7)] {
            records.put(SectionId(section), routed(version));
        }
        let changed = |records: &SectionRecords, since| -> Vec<u32> {
            records.changed(RouteVersion(since)).map(|(section, _)| section.0).collect()
        };
        assert_eq!(changed(&records, 0), [0, 1, 256, 512]);
        assert_eq!(changed(&records, 4), [1, 256, 512]);
        assert_eq!(changed(&records, 5), [1, 512]);
        records.put(SectionId(256), routed(9));
        assert_eq!(changed(&records, 7), [256]);
        assert_eq!(changed(&records, 9), [0; 0]);
    }

    /// `cargo test -p seq-core records_stay_small -- --nocapture` prints the sizes.
    #[test]
    fn records_stay_small() {
        const UIDS_2_32: u32 = 42_950;
        for sets in [1, 4, 64] {
            let mut records = SectionRecords::new(UIDS_2_32);
            for section in 0..UIDS_2_32 / sets {
                records.put(SectionId(section), resident(1));
            }
            let bytes = records.bytes();
            std::println!("{UIDS_2_32} sections in runs of {sets} sets: {} kB of records in one", bytes / 1_000);
            assert!(bytes <= 5_200_000 / sets as usize + 40_000, "{bytes} bytes");
        }
    }
}
