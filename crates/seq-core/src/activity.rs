//! Activity of sections over time: how many numbers each section allocated, and how often its ceiling was raised. A
//! *column* has the activity of all sections in one period. The columns are kept in rings, so that their memory is
//! bounded.
//!
//! The caller records the counts of a section together with the time in which they were counted ([`Activity::record`]),
//! and closes a column when its period is over ([`Activity::close_until`]). A closed column has a [`Level`] of one byte
//! for each section, compressed with deflate. A column without activity takes a few bytes, and a column of 42,950
//! sections at scattered levels about 20 kB. The levels of a section that is no longer recorded remain until the ring
//! drops their columns.
//!
//! If a section gets another owner during a period, the old and the new owner each divide their own count by the whole
//! period, so that their two rates add up to the rate of the section.
//!
//! Times are in milliseconds since any origin that is the same in all calls.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::id::SectionId;
use columns::Column;
pub use columns::{Columns, History, Levels};
pub use level::Level;
pub use raises::{MAX_RAISES, RaiseRing, Raised};

mod columns;
mod level;
mod raises;

/// Most places in a column; each place has one level. In a layout with more sections than this, neighbouring sections
/// share a place, which has the level of the busiest section among them.
pub const MAX_PLACES: u32 = 131_072;

/// Length of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// 60 columns of 5 seconds.
    Fine,
    /// 120 columns of 30 seconds.
    Middle,
    /// 96 columns of 15 minutes.
    Coarse,
}

impl Resolution {
    /// Every resolution, the finest first.
    pub const ALL: [Resolution; 3] = [Resolution::Fine, Resolution::Middle, Resolution::Coarse];

    /// Returns the time of a column in milliseconds.
    #[must_use]
    pub const fn period_ms(self) -> u32 {
        match self {
            Resolution::Fine => 5_000,
            Resolution::Middle => 30_000,
            Resolution::Coarse => 900_000,
        }
    }

    /// Returns the number of columns that are kept.
    #[must_use]
    pub const fn columns(self) -> usize {
        match self {
            Resolution::Fine => 60,
            Resolution::Middle => 120,
            Resolution::Coarse => 96,
        }
    }

    /// Returns the finest resolution whose columns cover the last `back_ms` milliseconds, or the coarsest resolution if
    /// none does.
    #[must_use]
    pub fn reaching(back_ms: u64) -> Resolution {
        let reaches =
            |resolution: &Resolution| back_ms <= u64::from(resolution.period_ms()) * resolution.columns() as u64;
        Resolution::ALL.into_iter().find(reaches).unwrap_or(Resolution::Coarse)
    }
}

/// Subject of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Allocated numbers.
    Numbers,
    /// Raises of the ceiling, each of which is a write of the section at the store.
    Writes,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Layer; 2] = [Layer::Numbers, Layer::Writes];
}

/// Counts of a section, and the time that they cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Count of the allocated numbers.
    pub numbers: u64,
    /// Sum of the distances by which raises moved the ceiling.
    pub raised: u64,
    /// Count of the raises of the ceiling.
    pub writes: u32,
    /// Time in which these counts were taken, in milliseconds; 0 if nothing was counted.
    pub ms: u32,
}

impl Figures {
    fn add(&mut self, other: Figures) {
        self.numbers = self.numbers.saturating_add(other.numbers);
        self.raised = self.raised.saturating_add(other.raised);
        self.writes = self.writes.saturating_add(other.writes);
        self.ms = self.ms.saturating_add(other.ms);
    }

    /// Returns the count of a layer.
    #[must_use]
    pub fn count(&self, layer: Layer) -> u64 {
        match layer {
            Layer::Numbers => self.numbers,
            Layer::Writes => self.writes.into(),
        }
    }

    /// Returns the level of the rate in a layer; [`Level::NO_RECORD`] if nothing was counted.
    #[must_use]
    pub fn level(&self, layer: Layer) -> Level {
        if self.ms == 0 { Level::NO_RECORD } else { Level::of(self.count(layer), self.ms.into()) }
    }

    /// Compares the two rates in a layer. Figures that cover no time have the lowest rate.
    #[must_use]
    pub fn cmp_rate(&self, other: &Figures, layer: Layer) -> core::cmp::Ordering {
        let rate = |mine: &Figures, theirs: &Figures| u128::from(mine.count(layer)) * u128::from(theirs.ms.max(1));
        (self.ms > 0).cmp(&(other.ms > 0)).then(rate(self, other).cmp(&rate(other, self)))
    }
}

/// A section since its columns began.
#[derive(Debug, Default)]
struct Recorded {
    /// Figures in the open column of each resolution.
    open: [Figures; Resolution::ALL.len()],
    /// Whether the section entered or left in the open column of each resolution.
    in_part: [bool; Resolution::ALL.len()],
    /// The figures that were recorded last.
    last: Figures,
    /// The figures of the last fine column with a record.
    closed: Figures,
    /// Whether the section left. Its open columns are still closed at the end of their periods.
    has_left: bool,
    /// Whether its numbers are counted.
    counts_numbers: bool,
}

#[derive(Debug, Default)]
struct Ring {
    /// Columns of each layer, oldest first.
    columns: [VecDeque<Arc<Column>>; Layer::ALL.len()],
    /// Begin of the open column; `None` before the first call.
    open_since: Option<u64>,
}

/// Activity of the sections of one process.
#[derive(Debug, Default)]
pub struct Activity {
    sections: BTreeMap<SectionId, Recorded>,
    rings: [Ring; Resolution::ALL.len()],
}

impl Activity {
    /// Begins the records of a section. Without `counts_numbers`, the section has no record in [`Layer::Numbers`].
    pub fn enter(&mut self, section: SectionId, counts_numbers: bool) {
        let recorded = self.sections.entry(section).or_default();
        let open = recorded.open;
        *recorded = Recorded { open, in_part: [true; Resolution::ALL.len()], counts_numbers, ..Recorded::default() };
    }

    /// Records figures of a section that entered.
    pub fn record(&mut self, section: SectionId, figures: Figures) {
        let Some(recorded) = self.sections.get_mut(&section) else { return };
        recorded.open.iter_mut().for_each(|open| open.add(figures));
        recorded.last = figures;
    }

    /// Ends the records of a section.
    pub fn leave(&mut self, section: SectionId) {
        if let Some(recorded) = self.sections.get_mut(&section) {
            (recorded.in_part, recorded.has_left) = ([true; Resolution::ALL.len()], true);
        }
    }

    /// Closes the columns whose periods are over at `now_ms`. The caller counts the numbers of all sections in passes,
    /// and a pass over many uids takes longer than a short period. So if no figures of a section were recorded during a
    /// column, the section has the rate of its last figures there.
    pub fn close_until(&mut self, now_ms: u64) {
        for (place, resolution) in Resolution::ALL.into_iter().enumerate() {
            let period = u64::from(resolution.period_ms());
            let begin = now_ms / period * period;
            let since_ms = *self.rings[place].open_since.get_or_insert(begin);
            if since_ms < begin {
                self.rings[place].open_since = Some(begin);
                let closed = self.close(place, resolution, since_ms);
                for (columns, column) in self.rings[place].columns.iter_mut().zip(closed) {
                    columns.push_back(Arc::new(column));
                    while columns.len() > resolution.columns() {
                        columns.pop_front();
                    }
                }
            }
        }
        let is_open = |recorded: &Recorded| recorded.open.iter().any(|open| open.ms > 0);
        self.sections.retain(|_, recorded| !recorded.has_left || is_open(recorded));
    }

    fn close(&mut self, place: usize, resolution: Resolution, since_ms: u64) -> [Column; Layer::ALL.len()] {
        let highest = self.sections.last_key_value().map_or(0, |(section, _)| section.0);
        let mut shift = 0;
        while highest >> shift >= MAX_PLACES {
            shift += 1;
        }
        let places = if self.sections.is_empty() { 0 } else { (highest >> shift) + 1 };
        let mut levels = Layer::ALL.map(|_| vec![Level::NO_RECORD.0; places as usize]);
        for (section, recorded) in &mut self.sections {
            let figures = recorded.close(place, resolution);
            for (layer, levels) in Layer::ALL.into_iter().zip(&mut levels) {
                if layer == Layer::Numbers && !recorded.counts_numbers {
                    continue;
                }
                let level = &mut levels[(section.0 >> shift) as usize];
                *level = Level(*level).max(figures.level(layer)).0;
            }
        }
        levels.map(|levels| Column::new(since_ms, shift, &levels))
    }

    /// Returns the closed columns of a resolution that began at `since_ms` or later. The call copies only pointers to
    /// the columns.
    #[must_use]
    pub fn columns(&self, layer: Layer, resolution: Resolution, since_ms: u64) -> Columns {
        let columns = &self.rings[resolution as usize].columns[layer as usize];
        Columns::new(columns.iter().filter(|column| column.since_ms() >= since_ms).cloned().collect())
    }

    /// Returns the figures of a section in its last closed fine column with a record. If there is no such column yet,
    /// returns the figures that were recorded last.
    #[must_use]
    pub fn figures(&self, section: SectionId) -> Option<Figures> {
        self.sections.get(&section).filter(|recorded| !recorded.has_left).map(Recorded::figures)
    }

    /// Returns the [figures](Activity::figures) of all sections whose count in this layer is above 0, as input for
    /// [`top`].
    #[must_use]
    pub fn all_figures(&self, layer: Layer) -> Vec<(SectionId, Figures)> {
        let sections = self.sections.iter().filter(|(_, recorded)| !recorded.has_left);
        let figures = sections.map(|(section, recorded)| (*section, recorded.figures()));
        figures.filter(|(_, figures)| figures.count(layer) > 0).collect()
    }

    /// Returns the bytes of the closed columns.
    #[must_use]
    pub fn column_bytes(&self) -> usize {
        let columns = self.rings.iter().flat_map(|ring| ring.columns.iter().flatten());
        columns.map(|column| column.bytes()).sum()
    }
}

/// Returns the `count` sections with the highest rates in a layer, in descending order of their rates.
#[must_use]
pub fn top(mut figures: Vec<(SectionId, Figures)>, layer: Layer, count: usize) -> Vec<(SectionId, Figures)> {
    figures.sort_by(|(section, mine), (other, theirs)| theirs.cmp_rate(mine, layer).then(section.cmp(other)));
    figures.truncate(count);
    figures
}

impl Recorded {
    /// Closes the column of a resolution, and returns its figures.
    fn close(&mut self, place: usize, resolution: Resolution) -> Figures {
        let mut figures = core::mem::take(&mut self.open[place]);
        let in_part = core::mem::take(&mut self.in_part[place]);
        if figures.ms == 0 {
            return if self.has_left { Figures::default() } else { self.last };
        }
        if in_part {
            figures.ms = figures.ms.max(resolution.period_ms());
        }
        if resolution == Resolution::Fine {
            self.closed = figures;
        }
        figures
    }

    fn figures(&self) -> Figures {
        if self.closed.ms > 0 { self.closed } else { self.last }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
