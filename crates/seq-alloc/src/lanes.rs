//! Lanes of series: the series that this node knows, and the clocks of sections whose numbers follow the time.

use std::collections::HashMap;
use std::sync::Arc;

use seq_api::ids::IdSeries;
use seq_core::layout::TickClock;
use seq_core::lease::Clocks;
use seq_core::route::RouteTable;
use seq_core::section::Window;
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
}

/// Returns a series as endpoints use it; `None` if its shape is of a later release.
fn served(series: &Series) -> Option<Arc<IdSeries>> {
    let SeriesShape { shape, named_lanes, ahead_ms } = SeriesShape::of(series)
        .inspect_err(|error| tracing::warn!(series = series.name, %error, "a series is not served"))
        .ok()?;
    let Series { name, lanes, sections, created_ms, retired, .. } = series.clone();
    Some(Arc::new(IdSeries { name, shape, named_lanes, ahead_ms, lanes, sections, created_ms, retired }))
}

/// The clock of a section's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneClock {
    pub(crate) clock: TickClock,
    /// Time by which a number may be ahead of the clock, in milliseconds.
    ahead_ms: u32,
    /// Bits of the sequence number that go on in a new unit of time.
    spread: u64,
    /// The ceiling at which the ownership began, above which all its numbers are; 0 if it began with exact numbers.
    pub(crate) starts_above: Seq,
    /// Whether the node chooses the lane of a call. Callers of such lanes are promised no order in real time, so the
    /// section is served up to its ceiling without a lease.
    pub(crate) is_chosen: bool,
}

impl LaneClock {
    /// Returns the clock of a section; `None` for a section without a clock.
    pub(crate) fn of(section: SectionId, routes: &RouteTable, starts_above: Seq) -> Option<LaneClock> {
        let clock = routes.layout().clock_of(section)?;
        let sections = |series: &&Series| series.sections.iter().any(|one| one == section);
        let shape = routes.series().iter().find(sections).and_then(|series| SeriesShape::of(series).ok());
        let is_chosen = shape.is_some_and(|shape| !shape.named_lanes);
        let spread = match shape.map(|shape| shape.shape) {
            Some(Shape::Timed(timed)) if timed.spread => (1 << timed.seq_bits) - 1,
            _ => 0,
        };
        let ahead_ms = shape.map_or(0, |shape| shape.ahead_ms);
        Some(LaneClock { clock, ahead_ms, spread, starts_above, is_chosen })
    }

    /// Returns the window of the first number at a time.
    pub(crate) fn window(&self, now: Clocks) -> Window {
        let now_ms = now.realtime / 1_000_000;
        let last_of_unit = (1 << self.clock.seq_bits) - 1;
        let limit = self.clock.tick(now_ms.saturating_add(self.ahead_ms.into())).0 | last_of_unit;
        Window { floor: self.clock.tick(now_ms), limit: Seq(limit).min(Seq::MAX), spread: self.spread }
    }

    /// Returns whether no lane of the section has a number at this time.
    pub(crate) fn rests(&self, now: Clocks) -> bool {
        self.starts_above >= self.window(now).limit
    }
}
