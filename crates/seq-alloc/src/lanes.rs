//! Lanes of series: the series that this node knows, and the clocks of sections whose numbers follow the time.

use std::collections::HashMap;
use std::sync::Arc;

use seq_api::ids::IdSeries;
use seq_core::lane_clock::LaneClock;
use seq_core::lease::Clocks;
use seq_core::route::RouteTable;
use seq_core::series::Series;
use seq_core::{SectionId, Seq};
use seq_ids::Shape;
use seq_proto::series::SeriesShape;

/// The series of a route table, by name and in order.
#[derive(Debug, Default)]
pub(crate) struct SeriesIndex {
    /// The series of the table, by which a newer table without another series is recognised.
    of: Arc<[Series]>,
    all: Vec<Arc<IdSeries>>,
    by_name: HashMap<Box<str>, Arc<IdSeries>>,
}

impl SeriesIndex {
    /// Returns the index of a table's series; `None` if this index is of the same series.
    pub(crate) fn newer(&self, routes: &RouteTable) -> Option<SeriesIndex> {
        let of = routes.series();
        if Arc::ptr_eq(of, &self.of) || **of == *self.of {
            return None;
        }
        let all: Vec<Arc<IdSeries>> = of.iter().filter_map(served).collect();
        let by_name = all.iter().map(|series| (series.name.as_str().into(), series.clone())).collect();
        Some(SeriesIndex { of: of.clone(), all, by_name })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<IdSeries>> {
        self.by_name.get(name)
    }

    pub(crate) fn all(&self) -> &[Arc<IdSeries>] {
        &self.all
    }

    /// Returns how many series give out ids, are retired, and have a shape of a later release.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let retired = self.all.iter().filter(|series| series.retired).count();
        [self.all.len() - retired, retired, self.of.len() - self.all.len()]
    }

    /// Returns when the first series with a time ends, in milliseconds since 1970; `None` without such a series.
    pub(crate) fn first_end_ms(&self) -> Option<u64> {
        let end = |series: &Arc<IdSeries>| match series.shape {
            Shape::Timed(timed) if !series.retired => timed.end_ms(),
            _ => None,
        };
        self.all.iter().filter_map(end).min()
    }
}

/// Returns a series as endpoints use it; `None` if its shape is of a later release.
fn served(series: &Series) -> Option<Arc<IdSeries>> {
    let SeriesShape { shape, named_lanes, ahead_ms } = SeriesShape::of(series)
        .inspect_err(|error| tracing::warn!(series = series.name, %error, "a series is not served"))
        .ok()?;
    Some(Arc::new(IdSeries::new(series, shape, named_lanes, ahead_ms)))
}

/// Returns the last number of a section's lanes that has an id; the last possible number for a section without lanes.
pub(crate) fn last_number(section: SectionId, routes: &RouteTable) -> Seq {
    // Most sections have uids, and search nothing.
    if routes.layout().lanes_at(section).is_none() {
        return Seq::MAX;
    }
    let shape = series_of(section, routes).and_then(|series| SeriesShape::of(series).ok());
    shape.map_or(Seq::MAX, |shape| Seq(shape.shape.last_value()))
}

/// Returns the series that a section's lanes are of.
fn series_of(section: SectionId, routes: &RouteTable) -> Option<&Series> {
    let has = |series: &&Series| {
        let index = section.0.checked_sub(series.sections.first.0);
        index.is_some_and(|index| index < series.sections.sections)
    };
    routes.series().iter().find(has)
}

/// Returns the clock of a section at the begin of an ownership; `None` for a section without a clock.
pub(crate) fn clock_of(section: SectionId, routes: &RouteTable) -> Option<LaneClock> {
    let clock = routes.layout().clock_of(section)?;
    let shape = series_of(section, routes).and_then(|series| SeriesShape::of(series).ok());
    let is_chosen = shape.is_some_and(|shape| !shape.named_lanes);
    let spreads = matches!(shape.map(|shape| shape.shape), Some(Shape::Timed(timed)) if timed.spread);
    let ahead_ms = shape.map_or(0, |shape| shape.ahead_ms);
    Some(LaneClock { clock, ahead_ms, spreads, is_chosen })
}

/// Returns the time of clocks, in milliseconds since 1970.
pub(crate) fn unix_ms(now: Clocks) -> u64 {
    now.realtime / 1_000_000
}
