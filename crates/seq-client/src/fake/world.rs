//! State that all servers of a fake cluster share: counters that have no ceiling, the owner of each section, and the
//! route table of each set.
//!
//! Invariant: a section is in one set at a time, and its epochs increase even if it moves between sets. The route table
//! of the set that has a section contains the section's current route. The tables of other sets may contain an older
//! route.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seq_core::route::{Adopted, Route, RouteNode, RouteRun, RouteSet, RouteTable, RouteUpdate};
use seq_core::{
    Advance, AdvanceLimit, Count, Epoch, Layout, NodeId, Reading, Refusal, RouteVersion, Section, SectionId, Seq,
    SetId, Step, Take, Target, Uid, limits,
};
use seq_ids::Shape;

use super::FakeCluster;
use super::series::FakeSeries;

/// Distance from the highest allocated number of a section to the section's new base after a crash. It is the usual
/// step of a raise.
const STEP: u64 = 10_000;

/// Id of the next fake set, unique within the process.
static NEXT_SET_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(super) struct World {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sets: Vec<SetState>,
    /// Location of each section.
    homes: Vec<Home>,
    sections: HashMap<SectionId, Counters>,
    series: Vec<FakeSeries>,
}

#[derive(Debug)]
struct SetState {
    table: RouteTable,
    /// Number of running servers.
    running: usize,
    /// Whether the set's route table is updated when a section moves between two other sets. It is always updated when
    /// a section moves to or from this set.
    learns: bool,
    /// Whether the set's servers forward requests to other sets. If they do not, they refuse such requests with
    /// `MOVED`.
    forwards: bool,
}

/// Location of a section.
#[derive(Clone, Copy, Debug)]
struct Home {
    set: usize,
    route: Route,
}

/// A section and its highest allocated number.
#[derive(Debug)]
struct Counters {
    section: Section,
    highest: Seq,
}

impl World {
    pub(super) fn new(cluster: &FakeCluster, addrs: &[Vec<SocketAddr>]) -> World {
        assert!(!addrs.is_empty() && addrs.iter().all(|addrs| !addrs.is_empty()), "a set has a server");
        let layout = Layout::new(cluster.uids.clone(), cluster.section_size).expect("a layout");
        let first_id = NEXT_SET_ID.fetch_add(addrs.len() as u64, Relaxed);
        let id = |set: usize| SetId(first_id + set as u64);
        let per_set = (layout.sections() as usize).div_ceil(addrs.len());
        let home = |section: usize| {
            let set = section / per_set;
            Home { set, route: Route::here(Some(node_id(section % addrs[set].len())), Epoch(1)) }
        };
        let homes: Vec<Home> = (0..layout.sections() as usize).map(home).collect();
        let other = |set: usize| {
            let allocs = addrs[set].iter().map(SocketAddr::to_string).collect();
            (id(set), RouteSet { name: cluster.sets[set].0.clone(), allocs })
        };
        let table = |set: usize| {
            let node = |(index, addr): (usize, &SocketAddr)| {
                (node_id(index), RouteNode { name: format!("a{}", index + 1), addr: addr.to_string() })
            };
            let run = |(section, home): (u32, &Home)| {
                let route = if home.set == set { home.route } else { Route::away(id(home.set), home.route.epoch) };
                RouteRun { first: SectionId(section), sections: 1, route }
            };
            let update = RouteUpdate {
                series: [].into(),
                id: id(set),
                sets: (0..addrs.len()).filter(|other| *other != set).map(other).collect(),
                set: cluster.sets[set].0.clone(),
                layout: layout.clone(),
                version: RouteVersion(1),
                base: RouteVersion(0),
                nodes: addrs[set].iter().enumerate().map(node).collect(),
                runs: (0..).zip(&homes).map(run).collect(),
            };
            RouteTable::from_whole(&update).expect("a whole table")
        };
        let set = |index| SetState { table: table(index), running: addrs[index].len(), learns: true, forwards: true };
        let sets = (0..addrs.len()).map(set).collect();
        World { state: Mutex::new(State { sets, homes, sections: HashMap::new(), series: Vec::new() }) }
    }

    pub(super) fn next(&self, set: usize, uid: Uid, count: Count, seen: Epoch) -> Result<(Seq, Seq, Epoch), Refusal> {
        let mut state = self.state.lock();
        let (section, slot) = state.layout().locate(uid)?;
        let epoch = state.serve(set, section, seen)?;
        let counters = state.counters(section);
        match counters.section.take(slot, count) {
            Take::Given { value, prev, .. } => {
                counters.highest = counters.highest.max(value);
                Ok((value, prev, epoch))
            }
            Take::AtCeiling { .. } | Take::Frozen => Err(Refusal::CeilingStalled { section }),
            Take::Exhausted => Err(Refusal::Exhausted { uid, count: count.get() }),
        }
    }

    pub(super) fn advance(&self, set: usize, uid: Uid, to: Target, seen: Epoch) -> Result<Epoch, Refusal> {
        let mut state = self.state.lock();
        let (section, slot) = state.layout().locate(uid)?;
        let epoch = state.serve(set, section, seen)?;
        let counters = state.counters(section);
        match counters.section.advance(slot, to, AdvanceLimit(limits::DEFAULT_MAX_ADVANCE)) {
            Advance::Done { .. } => {
                counters.highest = counters.highest.max(to.seq());
                Ok(epoch)
            }
            Advance::Past => Err(Refusal::AlreadyPast { uid }),
            Advance::TooFar { bound } => Err(Refusal::AdvanceTooFar { to: to.seq().0, bound }),
            Advance::AtCeiling { .. } | Advance::Frozen => Err(Refusal::CeilingStalled { section }),
        }
    }

    pub(super) fn current(&self, set: usize, uid: Uid, seen: Epoch) -> Result<(Reading, Epoch), Refusal> {
        let mut state = self.state.lock();
        let (section, slot) = state.layout().locate(uid)?;
        let epoch = state.serve(set, section, seen)?;
        let reading = state.counters(section).section.current(slot).ok_or(Refusal::CeilingStalled { section })?;
        Ok((reading, epoch))
    }

    pub(super) fn routes_since(&self, set: usize, version: RouteVersion) -> Option<RouteUpdate> {
        self.state.lock().sets[set].table.since(version)
    }

    /// Creates a series, in the tables of all sets.
    pub(super) fn create_series(&self, name: &str, shape: Shape, named_lanes: bool) {
        let mut state = self.state.lock();
        let series = FakeSeries::new(name, shape, named_lanes);
        for set in &mut state.sets {
            let mut update = set.table.since(RouteVersion(0)).expect("a table has a version");
            update.base = update.version;
            update.version = RouteVersion(update.version.0 + 1);
            let record = series.record(&update.layout, update.version);
            update.layout = update.layout.append(record.lanes).expect("a layout has room for a series").0;
            update.series = update.series.iter().cloned().chain([record]).collect();
            assert_eq!(set.table.adopt(&update), Adopted::Newer);
        }
        state.series.push(series);
    }

    /// Applies a request to the series.
    pub(super) fn with_series<R>(&self, apply: impl FnOnce(&mut [FakeSeries]) -> R) -> R {
        apply(&mut self.state.lock().series)
    }

    /// Returns the id of a set.
    pub(super) fn set_id(&self, set: usize) -> SetId {
        self.state.lock().sets[set].table.id()
    }

    /// Assigns a uid's section to the set with the index `set` and to an owner in that set, under a new epoch.
    pub(super) fn assign(&self, uid: u64, set: usize, owner: Option<usize>) {
        let mut state = self.state.lock();
        let section = state.section_of(uid);
        let home = &mut state.homes[section.0 as usize];
        let source = std::mem::replace(&mut home.set, set);
        home.route = Route::here(owner.map(node_id), home.route.epoch.next());
        let claims =
            (0..state.sets.len()).filter(|other| *other == set || *other == source || state.sets[*other].learns);
        for set in claims.collect::<Vec<_>>() {
            state.update(set, [section]);
        }
    }

    /// Sets whether the route table of a set is updated when a section moves between two other sets. If `learns` is
    /// true, also adds the moves that are missing in the table at once.
    pub(super) fn learn(&self, set: usize, learns: bool) {
        let mut state = self.state.lock();
        state.sets[set].learns = learns;
        if learns {
            let sections = (0..state.layout().declared().sections()).map(SectionId);
            let behind =
                sections.filter(|section| state.sets[set].table.get(*section) != Some(state.route_in(set, *section)));
            let behind: Vec<_> = behind.collect();
            state.update(set, behind);
        }
    }

    /// Changes the address of a server in the routes of its set.
    pub(super) fn advertise(&self, set: usize, index: usize, addr: &str) {
        let mut state = self.state.lock();
        let table = &mut state.sets[set].table;
        let mut update = table.since(RouteVersion(0)).expect("a table has a version");
        (update.base, update.version) = (update.version, RouteVersion(update.version.0 + 1));
        let node = |(id, node): (&NodeId, &RouteNode)| {
            let mut node = node.clone();
            if *id == node_id(index) {
                node.addr = addr.to_owned();
            }
            (*id, node)
        };
        update.nodes = table.nodes().iter().map(node).collect();
        assert_eq!(table.adopt(&update), Adopted::Newer);
    }

    /// Sets whether the servers of a set forward to other sets.
    pub(super) fn forward(&self, set: usize, forwards: bool) {
        self.state.lock().sets[set].forwards = forwards;
    }

    /// Counts a stopped server of a set.
    pub(super) fn stopped(&self, set: usize) {
        self.state.lock().sets[set].running -= 1;
    }

    /// Drops the exact counters of the uid's section, as a crash of the section's owner does.
    pub(super) fn crash(&self, uid: u64) {
        let mut state = self.state.lock();
        let section = state.section_of(uid);
        let counters = state.counters(section);
        let ceiling = Seq(counters.highest.0 + STEP);
        *counters = Counters::new(counters.section.uids(), ceiling);
    }
}

impl State {
    fn layout(&self) -> &Layout {
        self.sets[0].table.layout()
    }

    fn section_of(&self, uid: u64) -> SectionId {
        self.layout().locate(Uid(uid)).expect("a uid of the cluster").0
    }

    /// Returns the route of a section as it appears in the route table of the set with the index `set`.
    fn route_in(&self, set: usize, section: SectionId) -> Route {
        let home = self.homes[section.0 as usize];
        if home.set == set { home.route } else { Route::away(self.sets[home.set].table.id(), home.route.epoch) }
    }

    /// Copies the current routes of `sections` into the route table of the set with the index `set`. The table gets the
    /// next version.
    fn update(&mut self, set: usize, sections: impl IntoIterator<Item = SectionId>) {
        let run = |first| RouteRun { first, sections: 1, route: self.route_in(set, first) };
        let runs = sections.into_iter().map(run).collect();
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
    fn serve(&self, set: usize, section: SectionId, seen: Epoch) -> Result<Epoch, Refusal> {
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

    fn counters(&mut self, section: SectionId) -> &mut Counters {
        let uids = self.layout().uids_of(section);
        let uids = u32::try_from(uids.end - uids.start).expect("a section's uids fit");
        self.sections.entry(section).or_insert_with(|| Counters::new(uids, Seq::ZERO))
    }
}

impl Counters {
    fn new(uids: u32, base: Seq) -> Counters {
        let section = Section::takeover(uids, base, Step(STEP));
        // One raise to the maximum, because a fake set never waits for a store.
        assert!(section.raised(Seq::MAX).is_none(), "a new section has no pending raise");
        Counters { section, highest: base }
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index + 1).expect("few servers"))
}
