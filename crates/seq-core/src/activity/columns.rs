//! Columns of levels, compressed with deflate, and [`History`], the levels of selected sections that are read from
//! them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

use super::Level;
use crate::id::SectionId;

/// Compression level of deflate, from 0 to 10. A higher level would take too much time for the few bytes that it saves.
const EFFORT: u8 = 1;

/// The levels of all sections in one period.
#[derive(Debug)]
pub(super) struct Column {
    since_ms: u64,
    /// Binary logarithm of the number of sections that share a place.
    shift: u32,
    /// Number of places.
    places: u32,
    /// The compressed levels, in an allocation of exactly their size. They are moved out of the compressor's vector,
    /// whose capacity is at least half of the uncompressed size.
    deflated: Box<[u8]>,
}

impl Column {
    pub(super) fn new(since_ms: u64, shift: u32, levels: &[u8]) -> Column {
        let deflated = compress_to_vec(levels, EFFORT).into_boxed_slice();
        Column { since_ms, shift, places: levels.len() as u32, deflated }
    }

    pub(super) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Column>() + self.deflated.len()
    }

    fn levels(&self) -> Vec<u8> {
        decompress_to_vec_with_limit(&self.deflated, self.places as usize).expect("a column that was deflated here")
    }
}

/// The columns of one layer and resolution that were closed when [`Activity::columns`](super::Activity::columns) was
/// called, oldest first.
#[derive(Clone, Debug)]
pub struct Columns(Vec<Arc<Column>>);

/// Levels of selected sections in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Begin of the period.
    pub since_ms: u64,
    /// Level of each section, in the order of [`History::sections`].
    pub levels: Vec<Level>,
}

/// Levels of selected sections in the columns of one layer and resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The sections with a record in one of the columns, ascending.
    pub sections: Vec<SectionId>,
    /// The columns, oldest first.
    pub columns: Vec<Levels>,
    /// First section with a record that comes after [`History::sections`]; `None` if no further section has a record.
    pub next: Option<SectionId>,
}

impl Columns {
    pub(super) fn new(columns: Vec<Arc<Column>>) -> Columns {
        Columns(columns)
    }

    /// Returns the levels of up to `limit` sections that have a record in any of the columns, beginning with the
    /// section `first`. The call decompresses all columns, which takes milliseconds if the set has many sections.
    #[must_use]
    pub fn history(&self, first: SectionId, limit: usize) -> History {
        let columns: Vec<(&Column, Vec<u8>)> = self.0.iter().map(|column| (&**column, column.levels())).collect();
        let end = columns.iter().map(|(column, _)| u64::from(column.places) << column.shift).max().unwrap_or(0);
        let level = |(column, levels): &(&Column, Vec<u8>), section: u32| {
            levels.get((section >> column.shift) as usize).map_or(Level::NO_RECORD, |level| Level(*level))
        };
        let has_record = |section: &u32| columns.iter().any(|column| level(column, *section) != Level::NO_RECORD);
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        let mut recorded = (first.0..end).filter(has_record);
        let sections: Vec<SectionId> = recorded.by_ref().take(limit).map(SectionId).collect();
        let next = recorded.next().map(SectionId);
        let columns = columns.iter().map(|column| Levels {
            since_ms: column.0.since_ms,
            levels: sections.iter().map(|section| level(column, section.0)).collect(),
        });
        History { columns: columns.collect(), sections, next }
    }
}
