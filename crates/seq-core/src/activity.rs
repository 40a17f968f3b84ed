//! Records, over time, how many numbers each section allocated and how often its ceiling was raised. Time is divided
//! into periods of equal length. A *column* has the activity of all sections in one period. Columns are kept in rings
//! of fixed length, so that their memory is bounded.
//!
//! The caller records the counts of a section together with the duration over which they were counted
//! ([`Activity::record`]), and closes a column when its period is over ([`Activity::close_until`]). A closed column has
//! a [`Level`] for each section, which is a rate in one byte. The levels are compressed with deflate: a column without
//! activity takes a few bytes, and a column of 42,950 sections with very different rates takes about 20 kB. The levels
//! of a section that is no longer recorded remain until the ring drops their columns.
//!
//! If a section gets another owner during a period, the old and the new owner each divide their own count by the whole
//! period, so that their two rates add up to the rate of the section.
//!
//! All times are in milliseconds since the same arbitrary origin.

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

/// Maximum number of places in a column. A place has one level. If the layout has more sections than this, each place
/// stands for several neighbouring sections and has the level of the busiest of them.
pub const MAX_PLACES: u32 = 131_072;

/// Resolution of the columns of a ring. It determines the duration of a column's period, and how many columns are kept.
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

    /// Returns the duration of a column's period, in milliseconds.
    #[must_use]
    pub const fn period_ms(self) -> u32 {
        match self {
            Resolution::Fine => 5_000,
            Resolution::Middle => 30_000,
            Resolution::Coarse => 900_000,
        }
    }

    /// Returns the number of columns of this resolution that are kept.
    #[must_use]
    pub const fn columns(self) -> usize {
        match self {
            Resolution::Fine => 60,
            Resolution::Middle => 120,
            Resolution::Coarse => 96,
        }
    }

    /// Returns the finest resolution whose columns cover the last `back_ms` milliseconds, or the coarsest resolution if
    /// no resolution covers that time.
    #[must_use]
    pub fn reaching(back_ms: u64) -> Resolution {
        let reaches =
            |resolution: &Resolution| back_ms <= u64::from(resolution.period_ms()) * resolution.columns() as u64;
        Resolution::ALL.into_iter().find(reaches).unwrap_or(Resolution::Coarse)
    }
}

/// Kind of activity whose rate a level states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Allocated numbers.
    Numbers,
    /// Raises of the section's ceiling. Each raise is one write at the store.
    Writes,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Layer; 2] = [Layer::Numbers, Layer::Writes];
}

/// Counts of one section's activity, with the duration over which they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Count of the allocated numbers.
    pub numbers: u64,
    /// Sum of the distances by which raises moved the ceiling.
    pub raised: u64,
    /// Count of the raises of the ceiling.
    pub writes: u32,
    /// Duration over which the numbers and raises were counted, in milliseconds; 0 if they were never counted.
    pub ms: u32,
}

impl Figures {
    fn add(&mut self, other: Figures) {
        self.numbers = self.numbers.saturating_add(other.numbers);
        self.raised = self.raised.saturating_add(other.raised);
        self.writes = self.writes.saturating_add(other.writes);
        self.ms = self.ms.saturating_add(other.ms);
    }

    /// Returns the count of numbers or of raises, depending on `layer`.
    #[must_use]
    pub fn count(&self, layer: Layer) -> u64 {
        match layer {
            Layer::Numbers => self.numbers,
            Layer::Writes => self.writes.into(),
        }
    }

    /// Returns the rate at which numbers were allocated or raises were made, as a level. Returns [`Level::NO_RECORD`]
    /// if the figures cover no time.
    #[must_use]
    pub fn level(&self, layer: Layer) -> Level {
        if self.ms == 0 { Level::NO_RECORD } else { Level::of(self.count(layer), self.ms.into()) }
    }

    /// Compares the rates of `self` and `other` in a layer. Figures that cover no time are below all other figures.
    #[must_use]
    pub fn cmp_rate(&self, other: &Figures, layer: Layer) -> core::cmp::Ordering {
        let rate = |mine: &Figures, theirs: &Figures| u128::from(mine.count(layer)) * u128::from(theirs.ms.max(1));
        (self.ms > 0).cmp(&(other.ms > 0)).then(rate(self, other).cmp(&rate(other, self)))
    }
}

/// The figures of one section that are not yet in a closed column, and its last figures.
#[derive(Debug, Default)]
struct Recorded {
    /// For each resolution, the figures of the open column.
    open: [Figures; Resolution::ALL.len()],
    /// For each resolution, whether the recording of the section began or ended during the period of the open column.
    in_part: [bool; Resolution::ALL.len()],
    /// The figures that were recorded last.
    last: Figures,
    /// The section's figures in the last closed 5-second column for which any figures of it were recorded.
    closed: Figures,
    /// Whether [`Activity::leave`] was called for the section. Its figures in open columns are still closed when the
    /// periods of these columns end.
    has_left: bool,
    /// Whether the numbers of the section are counted, and not only its raises.
    counts_numbers: bool,
}

#[derive(Debug, Default)]
struct Ring {
    /// Columns of each layer, oldest first.
    columns: [VecDeque<Arc<Column>>; Layer::ALL.len()],
    /// Begin of the open column's period; `None` before the first call of [`Activity::close_until`].
    open_since: Option<u64>,
}

/// Activity of the sections of one process.
#[derive(Debug, Default)]
pub struct Activity {
    sections: BTreeMap<SectionId, Recorded>,
    rings: [Ring; Resolution::ALL.len()],
}

impl Activity {
    /// Begins to record a section. If `counts_numbers` is false, only the section's raises are recorded, and it has no
    /// record in [`Layer::Numbers`].
    pub fn enter(&mut self, section: SectionId, counts_numbers: bool) {
        let recorded = self.sections.entry(section).or_default();
        let open = recorded.open;
        *recorded = Recorded { open, in_part: [true; Resolution::ALL.len()], counts_numbers, ..Recorded::default() };
    }

    /// Adds `figures` to the section's figures for the current period of each [`Resolution`]. Does nothing if
    /// [`Activity::enter`] was not called for the section.
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

    /// Closes the columns whose periods are over at `now_ms`. If no figures of a section were recorded during a period,
    /// the section's level in the column is the rate of its last figures. This can happen because the caller counts the
    /// numbers of all sections in passes, and a pass over many uids takes longer than a short period.
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

    /// Returns the closed columns of a layer in a resolution, without the columns whose periods began before
    /// `since_ms`. The call copies only pointers to the columns.
    #[must_use]
    pub fn columns(&self, layer: Layer, resolution: Resolution, since_ms: u64) -> Columns {
        let columns = &self.rings[resolution as usize].columns[layer as usize];
        Columns::new(columns.iter().filter(|column| column.since_ms() >= since_ms).cloned().collect())
    }

    /// Returns a section's figures in the last closed 5-second column for which any figures of the section were
    /// recorded. If there is no such column yet, returns the section's last figures. Returns `None` if the section is
    /// not recorded now.
    #[must_use]
    pub fn figures(&self, section: SectionId) -> Option<Figures> {
        self.sections.get(&section).filter(|recorded| !recorded.has_left).map(Recorded::figures)
    }

    /// Returns the [figures](Activity::figures) of every section whose count in this layer is above 0. They are the
    /// input of [`top`].
    #[must_use]
    pub fn all_figures(&self, layer: Layer) -> Vec<(SectionId, Figures)> {
        let sections = self.sections.iter().filter(|(_, recorded)| !recorded.has_left);
        let figures = sections.map(|(section, recorded)| (*section, recorded.figures()));
        figures.filter(|(_, figures)| figures.count(layer) > 0).collect()
    }

    /// Returns the memory that the closed columns take, in bytes.
    #[must_use]
    pub fn column_bytes(&self) -> usize {
        let columns = self.rings.iter().flat_map(|ring| ring.columns.iter().flatten());
        columns.map(|column| column.bytes()).sum()
    }
}

/// Returns those `count` entries of `figures` that have the highest rates in a layer, in descending order of rate.
#[must_use]
pub fn top(mut figures: Vec<(SectionId, Figures)>, layer: Layer, count: usize) -> Vec<(SectionId, Figures)> {
    figures.sort_by(|(section, mine), (other, theirs)| theirs.cmp_rate(mine, layer).then(section.cmp(other)));
    figures.truncate(count);
    figures
}

impl Recorded {
    /// Closes the section's open column of a resolution, and returns the figures for this column.
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
