//! Lanes of series: the series that this node knows, the choice of a lane, and numbers at the time of the clock.
//!
//! **Invariant:** the values of lanes are unique and ordered whatever the clock reads: it only moves the first number of
//! a call forwards.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use seq_api::ids::IdSeries;
use seq_api::service::{Allocation, Item};
use seq_core::layout::TickClock;
use seq_core::lease::Clocks;
use seq_core::route::RouteTable;
use seq_core::section::Window;
use seq_core::state::Series;
use seq_core::{Refusal, SectionId, Seq, SlotIndex, limits};
use seq_ids::Shape;
use seq_proto::series::SeriesShape;

use crate::ownership::Served;
use crate::pending_item::PendingItem;
use crate::shared::Shared;

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
    fn window(&self, now: Clocks) -> Window {
        let now_ms = now.realtime / 1_000_000;
        let last_of_unit = (1 << self.clock.seq_bits) - 1;
        let limit = self.clock.tick(now_ms.saturating_add(self.ahead_ms.into())).0 | last_of_unit;
        Window { floor: self.clock.tick(now_ms), limit: Seq(limit).min(Seq::MAX), spread: self.spread }
    }

    /// Returns whether no lane of the section has a number at this time.
    fn rests(&self, now: Clocks) -> bool {
        self.starts_above >= self.window(now).limit
    }
}

thread_local! {
    /// Number of lanes that this thread has chosen.
    static CHOSEN: Cell<u32> = const { Cell::new(0) };
}

impl Shared {
    /// Takes numbers of a lane from a section that is served here; `None` if the item has to wait, as for
    /// [`Shared::take`].
    pub(crate) fn take_in_lane(
        &self,
        served: Served<'_>,
        item: &PendingItem,
        above: Seq,
        now: Clocks,
    ) -> Option<Result<Allocation, Refusal>> {
        let PendingItem { section, slot, item, .. } = *item;
        if item.epoch > served.epoch() {
            return None;
        }
        match served.owned().clock {
            None if above == Seq::ZERO => self.take(served, &item, slot),
            None => self.take_above(served, &item, (section, slot), above),
            Some(clock) => {
                let window = clock.window(now);
                if above > window.limit {
                    return Some(Err(Refusal::AfterTooFar { section, above }));
                }
                let window = Window { floor: window.floor.max(Seq(above.0 + 1)), ..window };
                match served.take_within(slot, item.count, window) {
                    Ok(taken) => self.taken(served, &item, taken),
                    Err(_) => Some(Err(Refusal::LaneAhead { section })),
                }
            }
        }
    }

    /// Takes numbers of a lane without a clock, all of them above a number.
    fn take_above(
        &self,
        served: Served<'_>,
        item: &Item,
        (section, slot): (SectionId, SlotIndex),
        above: Seq,
    ) -> Option<Result<Allocation, Refusal>> {
        let last = served.current(slot)?.value;
        if above.0 > last.0.saturating_add(limits::MAX_AFTER) {
            return Some(Err(Refusal::AfterTooFar { section, above }));
        }
        let taken = served.take_within(slot, item.count, Window { floor: Seq(above.0 + 1), ..Window::ALL });
        self.taken(served, item, taken.ok()?)
    }

    /// Returns a lane of a series: of a section that is served here and does not rest, else of a section with an owner.
    /// Each call of a thread returns the next lane.
    pub(crate) fn choose_lane(&self, series: &IdSeries, now: Clocks) -> Option<u32> {
        let turn = CHOSEN.replace(CHOSEN.get().wrapping_add(1));
        let count = series.sections.sections;
        let place = |index: u32| SectionId(series.sections.first.0 + (turn.wrapping_add(index)) % count);
        let lane = |section: SectionId| {
            let (first, lanes) = series.lanes_of(section)?;
            Some(first + turn / count % lanes)
        };
        let owned = self.ownership.owned();
        let mut resting = None;
        for section in (0..count).map(place) {
            let Some(owned) = owned.get(section) else { continue };
            if !owned.clock.is_some_and(|clock| clock.rests(now)) {
                return lane(section);
            }
            resting = resting.or(Some(section));
        }
        let routes = self.routes();
        let is_owned = |section: &SectionId| {
            let route = routes.as_ref().and_then(|routes| routes.get(*section)).unwrap_or_default();
            route.other_set().is_some() || route.owner.is_some_and(|owner| owner != self.registration.node())
        };
        (0..count).map(place).find(is_owned).or(resting).and_then(lane)
    }
}
