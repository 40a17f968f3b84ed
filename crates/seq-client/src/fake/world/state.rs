//! The state of a fake cluster under its lock.

use std::collections::HashMap;

use seq_core::lane_clock::LaneClock;
use seq_core::layout::{Lanes, SectionRun};
use seq_core::route::{Adopted, Route, RouteTable, RouteUpdate, runs};
use seq_core::series::Series;
use seq_core::{Epoch, Layout, NodeId, Refusal, RouteVersion, SectionId, Seq, Uid};
use seq_ids::Shape;
use seq_proto::series::SeriesShape;

use crate::fake::numbers::{Numbers, Rules};
use crate::fake::series::FakeSeries;

#[derive(Debug)]
pub(super) struct State {
    pub(super) sets: Vec<SetState>,
    /// Location of each section.
    pub(super) homes: Vec<Home>,
    pub(super) sections: HashMap<SectionId, Numbers>,
    pub(super) series: Vec<FakeSeries>,
}

#[derive(Debug)]
pub(super) struct SetState {
    pub(super) table: RouteTable,
    /// Number of running servers.
    pub(super) running: usize,
    /// Whether the set's route table is updated when a section moves between two other sets. It is always updated when
    /// a section moves to or from this set.
    pub(super) learns: bool,
    /// Whether the set's servers forward requests to other sets. If they do not, they refuse such requests with
    /// `MOVED`.
    pub(super) forwards: bool,
}

/// Location of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub(super) set: usize,
    pub(super) route: Route,
}

impl State {
    pub(super) fn layout(&self) -> &Layout {
        self.sets[0].table.layout()
    }

    pub(super) fn section_of(&self, uid: u64) -> SectionId {
        self.layout().locate(Uid(uid)).expect("a uid of the cluster").0
    }

    /// Returns the route of a section as it appears in the route table of the set with the index `set`.
    pub(super) fn route_in(&self, set: usize, section: SectionId) -> Route {
        let home = self.homes[section.0 as usize];
        if home.set == set { home.route } else { Route::away(self.sets[home.set].table.id(), home.route.epoch) }
    }

    /// Copies the current routes of `sections` into the route table of the set with the index `set`. The table gets the
    /// next version.
    pub(super) fn update(&mut self, set: usize, sections: impl IntoIterator<Item = SectionId>) {
        let runs = runs(sections.into_iter().map(|section| (section, self.route_in(set, section))));
        let table = &mut self.sets[set].table;
        let base = table.version();
        let update = RouteUpdate {
            series: table.series().clone(),
            id: table.id(),
            sets: [].into(),
            set: table.set().to_owned(),
            layout: table.layout().clone(),
            version: RouteVersion(base.0 + 1),
            base,
            nodes: table.nodes().clone(),
            runs,
        };
        assert_eq!(table.adopt(&update), Adopted::Newer);
    }

    /// Returns the epoch of a section's current ownership, for a request that a server of the set with the index `set`
    /// received. Refuses the request if the section has no owner, if the caller has seen a newer epoch, or if the
    /// section is in another set and the servers of `set` do not forward.
    pub(super) fn serve(&self, set: usize, section: SectionId, seen: Epoch) -> Result<Epoch, Refusal> {
        let Home { set: home, route } = self.homes[section.0 as usize];
        let known = self.sets[set].table.get(section).unwrap_or_default();
        if home != set && !self.sets[set].forwards {
            return Err(match known.other_set() {
                Some(set) => Refusal::Moved { section, set, since: known.epoch },
                None => Refusal::Unserved { section },
            });
        }
        if self.sets[home].running == 0 {
            return Err(Refusal::SetUnavailable { section, set: self.sets[home].table.id() });
        }
        match route.owner {
            None => Err(Refusal::Unserved { section }),
            Some(_) if route.epoch < seen => Err(Refusal::StaleEpoch { section, mine: route.epoch, callers: seen }),
            Some(_) => Ok(route.epoch),
        }
    }

    pub(super) fn numbers(&mut self, section: SectionId) -> &mut Numbers {
        let rules = self.rules(section);
        self.sections.entry(section).or_insert_with(|| Numbers::new(section, rules, Seq::ZERO))
    }

    /// Returns the rules of a section's numbers.
    pub(super) fn rules(&self, section: SectionId) -> Rules {
        let counters = self.layout().counters_of(section);
        let of_section = |series: &&Series| {
            let index = section.0.checked_sub(series.sections.first.0);
            index.is_some_and(|index| index < series.sections.sections)
        };
        let series = self.sets[0].table.series().iter().find(of_section).filter(|series| !series.is_keyspace());
        let Some(shape) = series.and_then(|series| SeriesShape::of(series).ok()) else {
            return Rules { counters, clock: None, last: Seq::MAX };
        };
        let spreads = matches!(shape.shape, Shape::Timed(timed) if timed.spread);
        let (ahead_ms, is_chosen) = (shape.ahead_ms, !shape.named_lanes);
        let clock = self.layout().clock_of(section);
        let clock = clock.map(|clock| LaneClock { clock, ahead_ms, spreads, is_chosen });
        Rules { counters, clock, last: Seq(shape.shape.last_value()) }
    }

    /// Appends the lanes of a series, or the buckets of a keyspace, to the layout of every set. Their sections are
    /// assigned to all servers in rotation, neighbouring buckets together.
    pub(super) fn append(&mut self, name: &str, shape: Vec<u8>, lanes: Lanes) -> SectionRun {
        let (layout, sections) = self.layout().append(lanes).expect("a layout has room for a series");
        let home = self.sets[0].table.id();
        for section in sections.iter() {
            let place = match layout.bucket_group(section) {
                Some(group) => (group.0 - sections.first.0) / BUCKET_GROUP,
                None => section.0 - sections.first.0,
            } as usize;
            let set = place % self.sets.len();
            let owner = place / self.sets.len() % self.sets[set].table.nodes().len();
            self.homes.push(Home { set, route: Route::here(Some(node_id(owner)), Epoch(1)) });
        }
        for set in 0..self.sets.len() {
            let routes = sections.iter().map(|section| (section, self.route_in(set, section)));
            let runs = runs(routes);
            let table = &mut self.sets[set].table;
            let mut update = table.since(RouteVersion(0)).expect("a table has a version");
            (update.base, update.version) = (update.version, RouteVersion(update.version.0 + 1));
            (update.layout, update.runs) = (layout.clone(), runs);
            let (name, shape, routed) = (name.to_owned(), shape.clone(), update.version);
            let record = Series { name, shape, lanes, sections, created_ms: 0, home, retired: false, routed };
            update.series = update.series.iter().cloned().chain([record]).collect();
            assert_eq!(table.adopt(&update), Adopted::Newer);
        }
        sections
    }
}

/// Number of neighbouring buckets that are assigned together, as in real clusters.
const BUCKET_GROUP: u32 = 16;

pub(super) fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index + 1).expect("few servers"))
}
