//! Index of the series and keyspaces that this node knows, and the clocks of sections of lanes whose numbers follow the
//! time.

use std::collections::HashMap;
use std::sync::Arc;

use seq_api::ids::IdSeries;
use seq_api::keys::Keyspace;
use seq_core::keyspace::{BUCKETS, Hashing};
use seq_core::lane_clock::LaneClock;
use seq_core::layout::SectionRun;
use seq_core::lease::Clocks;
use seq_core::route::RouteTable;
use seq_core::series::Series;
use seq_core::{SectionId, Seq};
use seq_ids::Shape;
use seq_proto::series::SeriesShape;

/// Index of the series and keyspaces of a route table. It has them by name, and in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct SeriesIndex {
    /// All series and keyspaces of the route table, including series that only a later release can serve.
    /// [`SeriesIndex::newer`] compares this list with a newer table to find out whether the series changed.
    of: Arc<[Series]>,
    all: Vec<Arc<IdSeries>>,
    by_name: HashMap<Box<str>, Arc<IdSeries>>,
    keyspaces: Vec<Arc<Keyspace>>,
}

impl SeriesIndex {
    /// Returns the index of the series and keyspaces in `routes`; `None` if this index has the same.
    pub(crate) fn newer(&self, routes: &RouteTable) -> Option<SeriesIndex> {
        let of = routes.series();
        // The routes of a peer have no seeds, so the store's routes may add the seeds of keyspaces that are known.
        let is_known = |(hashing, buckets): &(Hashing, SectionRun)| {
            hashing.seed().is_some() && buckets.sections == u32::from(BUCKETS)
        };
        let seeds = routes.layout().keyspaces().filter(is_known).count();
        let known = self.keyspaces.iter().filter(|keyspace| keyspace.hashing.seed().is_some()).count();
        if (Arc::ptr_eq(of, &self.of) || **of == *self.of) && seeds == known {
            return None;
        }
        let all: Vec<Arc<IdSeries>> = of.iter().filter(|one| !one.is_keyspace()).filter_map(served).collect();
        let by_name = all.iter().map(|series| (series.name.as_str().into(), series.clone())).collect();
        let names = of.iter().filter(|one| one.is_keyspace()).map(|one| one.name.clone());
        // A keyspace has all buckets. A shorter keyspace is not served, because most keys would have no section.
        let keyspaces = names
            .zip(routes.layout().keyspaces())
            .filter(|(_, (_, buckets))| buckets.sections == u32::from(BUCKETS))
            .map(|(name, (hashing, buckets))| Arc::new(Keyspace { name, hashing, buckets }))
            .collect();
        Some(SeriesIndex { of: of.clone(), all, by_name, keyspaces })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<IdSeries>> {
        self.by_name.get(name)
    }

    pub(crate) fn all(&self) -> &[Arc<IdSeries>] {
        &self.all
    }

    /// Returns a keyspace by its name.
    pub(crate) fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.iter().find(|keyspace| keyspace.name == name)
    }

    /// Returns the keyspace whose keys are the sparse uids.
    pub(crate) fn of_uids(&self) -> Option<&Arc<Keyspace>> {
        self.keyspaces.iter().find(|keyspace| keyspace.hashing.has_uids())
    }

    /// Returns the keyspace with this digest of its seed.
    pub(crate) fn keyspace_with(&self, digest: u64) -> Option<&Arc<Keyspace>> {
        self.keyspaces.iter().find(|keyspace| keyspace.hashing.digest() == digest)
    }

    /// Returns three counts: of the series that allocate ids, of the retired series, and of the series whose shape only
    /// a later release knows.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let retired = self.all.iter().filter(|series| series.retired).count();
        let series = self.of.iter().filter(|one| !one.is_keyspace()).count();
        [self.all.len() - retired, retired, series - self.all.len()]
    }

    /// Returns the earliest time at which a series runs out of ids because the part of its ids for the time is full, in
    /// milliseconds since 1970. Returns `None` if no series has such a part.
    pub(crate) fn first_end_ms(&self) -> Option<u64> {
        let end = |series: &Arc<IdSeries>| match series.shape {
            Shape::Timed(timed) if !series.retired => timed.end_ms(),
            _ => None,
        };
        self.all.iter().filter_map(end).min()
    }
}

/// Returns a series in the form that endpoints use; `None` if only a later release knows its shape.
fn served(series: &Series) -> Option<Arc<IdSeries>> {
    let SeriesShape { shape, named_lanes, ahead_ms } = SeriesShape::of(series)
        .inspect_err(|error| tracing::warn!(series = series.name, %error, "a series is not served"))
        .ok()?;
    Some(Arc::new(IdSeries::new(series, shape, named_lanes, ahead_ms)))
}

/// Returns the last number for which the lanes of a section have an id. If the section has no lanes, returns
/// [`Seq::MAX`].
pub(crate) fn last_number(section: SectionId, routes: &RouteTable) -> Seq {
    // Most sections have uids and no lanes, so this avoids a search.
    if routes.layout().lanes_at(section).is_none() {
        return Seq::MAX;
    }
    let shape = series_of(section, routes).and_then(|series| SeriesShape::of(series).ok());
    shape.map_or(Seq::MAX, |shape| Seq(shape.shape.last_value()))
}

/// Returns the series to which a section's lanes belong.
fn series_of(section: SectionId, routes: &RouteTable) -> Option<&Series> {
    let has = |series: &&Series| {
        let index = section.0.checked_sub(series.sections.first.0);
        index.is_some_and(|index| index < series.sections.sections)
    };
    routes.series().iter().find(has)
}

/// Returns the clock that the lanes of a section follow, for a new ownership of the section; `None` if the section's
/// numbers follow no clock.
pub(crate) fn clock_of(section: SectionId, routes: &RouteTable) -> Option<LaneClock> {
    let clock = routes.layout().clock_of(section)?;
    let shape = series_of(section, routes).and_then(|series| SeriesShape::of(series).ok());
    let is_chosen = shape.is_some_and(|shape| !shape.named_lanes);
    let spreads = matches!(shape.map(|shape| shape.shape), Some(Shape::Timed(timed)) if timed.spread);
    let ahead_ms = shape.map_or(0, |shape| shape.ahead_ms);
    Some(LaneClock { clock, ahead_ms, spreads, is_chosen })
}

/// Returns the time of the wall clock in `now`, in milliseconds since 1970.
pub(crate) fn unix_ms(now: Clocks) -> u64 {
    now.realtime / 1_000_000
}
