//! State that all servers of a fake cluster share: counters that have no ceiling, the owner of each section, and the
//! route table of each set. [`crate::fake::FakeServer`] serves a part of it. The command `seqsvr fake` serves all of it
//! through the endpoints of a real node.
//!
//! Invariant: a section is in one set at a time, and its epochs increase even if it moves between sets. The route table
//! of the set that has a section contains the section's current route. The tables of other sets may contain an older
//! route.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seq_core::keyspace::{Bucket, Hashing, KeyHash, Seed};
use seq_core::layout::{Lanes, SectionRun};
use seq_core::route::{Adopted, Route, RouteNode, RouteRun, RouteSet, RouteTable, RouteUpdate};
use seq_core::series::Series;
use seq_core::{Count, Epoch, Layout, NodeId, Reading, Refusal, RouteVersion, SectionId, Seq, SetId, Target, Uid};
use seq_ids::Shape;
use seq_proto::series::SeriesShape;

use super::FakeCluster;
use super::numbers::{Counter, Numbers};
use super::series::FakeSeries;

mod state;

use state::{Home, SetState, State, node_id};

/// Id of the next fake set, unique within the process.
static NEXT_SET_ID: AtomicU64 = AtomicU64::new(1);

/// Counters, owners and routes of a fake cluster, without servers.
///
/// A server is named by the index of its set and its own index in that set. Every server serves every section: a
/// request for a section that another server owns is applied as if it had been forwarded.
#[derive(Debug)]
pub struct World {
    state: Mutex<State>,
}

impl World {
    /// Creates the state of a cluster whose servers listen at `addrs`, grouped by set.
    ///
    /// # Panics
    /// If the configuration is invalid.
    #[must_use]
    pub fn new(cluster: &FakeCluster, addrs: &[Vec<SocketAddr>]) -> World {
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

    /// Allocates numbers of a uid. Returns the last number, the number before these numbers, and the epoch.
    ///
    /// # Errors
    /// The refusal.
    pub fn next(&self, set: usize, uid: Uid, count: Count, seen: Epoch) -> Result<(Seq, Seq, Epoch), Refusal> {
        self.next_in_lane(set, (uid, seen), count, (Seq::ZERO, 0))
    }

    /// Allocates numbers of a lane, or of a uid. All of them are above `above`. `unix_ms` is the time of the request,
    /// in milliseconds since 1970. Returns the same as [`World::next`].
    ///
    /// # Errors
    /// The refusal.
    pub fn next_in_lane(
        &self,
        set: usize,
        (uid, seen): (Uid, Epoch),
        count: Count,
        (above, unix_ms): (Seq, u64),
    ) -> Result<(Seq, Seq, Epoch), Refusal> {
        self.with_uid(set, uid, seen, |numbers, counter| numbers.take(counter, count, (above, unix_ms)))
            .map(|((value, prev), epoch)| (value, prev, epoch))
    }

    /// Advances a uid, or the lane of a counter, to `to`. Returns the epoch.
    ///
    /// # Errors
    /// The refusal.
    pub fn advance(&self, set: usize, uid: Uid, to: Target, seen: Epoch) -> Result<Epoch, Refusal> {
        self.with_uid(set, uid, seen, |numbers, counter| numbers.advance(counter, to)).map(|((), epoch)| epoch)
    }

    /// Reads the last number of a uid, or of the lane of a counter.
    ///
    /// # Errors
    /// The refusal.
    pub fn current(&self, set: usize, uid: Uid, seen: Epoch) -> Result<(Reading, Epoch), Refusal> {
        self.with_uid(set, uid, seen, |numbers, counter| numbers.current(counter))
    }

    /// Allocates numbers of a key in the bucket `bucket`. Returns the same as [`World::next`].
    ///
    /// # Errors
    /// The refusal.
    pub fn next_key(
        &self,
        set: usize,
        (bucket, key): (SectionId, KeyHash),
        count: Count,
        seen: Epoch,
    ) -> Result<(Seq, Seq, Epoch), Refusal> {
        self.with(set, bucket, seen, |numbers| numbers.take(Counter::Key(key), count, (Seq::ZERO, 0)))
            .map(|((value, prev), epoch)| (value, prev, epoch))
    }

    /// Advances a key in the bucket `bucket` to `to`. Returns the epoch.
    ///
    /// # Errors
    /// The refusal.
    pub fn advance_key(
        &self,
        set: usize,
        (bucket, key): (SectionId, KeyHash),
        to: Target,
        seen: Epoch,
    ) -> Result<Epoch, Refusal> {
        self.with(set, bucket, seen, |numbers| numbers.advance(Counter::Key(key), to)).map(|((), epoch)| epoch)
    }

    /// Reads the last number of a key in the bucket `bucket`.
    ///
    /// # Errors
    /// The refusal.
    pub fn current_key(
        &self,
        set: usize,
        (bucket, key): (SectionId, KeyHash),
        seen: Epoch,
    ) -> Result<(Reading, Epoch), Refusal> {
        self.with(set, bucket, seen, |numbers| numbers.current(Counter::Key(key)))
    }

    /// Applies a request to the counter of a uid or of a lane.
    fn with_uid<R>(
        &self,
        set: usize,
        uid: Uid,
        seen: Epoch,
        apply: impl FnOnce(&mut Numbers, Counter) -> Result<R, Refusal>,
    ) -> Result<(R, Epoch), Refusal> {
        let (section, slot) = self.state.lock().layout().locate(uid)?;
        self.with(set, section, seen, |numbers| apply(numbers, Counter::Uid(uid, slot)))
    }

    /// Applies a request to the counters of a section.
    fn with<R>(
        &self,
        set: usize,
        section: SectionId,
        seen: Epoch,
        apply: impl FnOnce(&mut Numbers) -> Result<R, Refusal>,
    ) -> Result<(R, Epoch), Refusal> {
        let mut state = self.state.lock();
        let epoch = state.serve(set, section, seen)?;
        Ok((apply(state.numbers(section))?, epoch))
    }

    /// Returns the section of a uid, or of a lane by its address.
    ///
    /// # Errors
    /// The refusal of a uid that the cluster does not have.
    pub fn section_of(&self, uid: Uid) -> Result<SectionId, Refusal> {
        Ok(self.state.lock().layout().locate(uid)?.0)
    }

    /// Returns the routes of a set that are newer than `version`; `None` if there are none.
    #[must_use]
    pub fn routes_since(&self, set: usize, version: RouteVersion) -> Option<RouteUpdate> {
        self.state.lock().sets[set].table.since(version)
    }

    /// Returns the version of a set's routes.
    #[must_use]
    pub fn route_version(&self, set: usize) -> RouteVersion {
        self.state.lock().sets[set].table.version()
    }

    /// Returns the records of all series and keyspaces.
    #[must_use]
    pub fn series(&self) -> std::sync::Arc<[Series]> {
        self.state.lock().sets[0].table.series().clone()
    }

    /// Creates a series. `named_lanes` is whether its callers name the lane, and `ahead_ms` the time by which its ids
    /// may be ahead of the clock.
    ///
    /// # Panics
    /// If the cluster has too many series.
    pub fn create_series(&self, name: &str, shape: Shape, named_lanes: bool, ahead_ms: u32) {
        let mut state = self.state.lock();
        let series = FakeSeries::new(name, shape, named_lanes);
        let lanes = series.lanes();
        state.append(name, SeriesShape { shape, named_lanes, ahead_ms }.to_bytes(), lanes);
        state.series.push(series);
    }

    /// Creates a keyspace, whose keys are hashed under `seed`. Returns the sections of its buckets.
    ///
    /// # Panics
    /// If the cluster has too many keyspaces.
    pub fn create_keyspace(&self, name: &str, seed: Seed) -> SectionRun {
        self.state.lock().append(name, Vec::new(), Lanes::of_keyspace(Hashing::new(seed)))
    }

    /// Returns the section of a key's bucket.
    ///
    /// # Panics
    /// If the cluster has no such keyspace.
    pub(super) fn bucket_of(&self, keyspace: &str, key: &[u8]) -> SectionId {
        let series = self.series();
        let found = series.iter().find(|series| series.name == keyspace && series.is_keyspace());
        let buckets = found.expect("a keyspace of the cluster").sections;
        SectionId(buckets.first.0 + u32::from(Bucket::of(key).index()))
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
        let section = self.state.lock().section_of(uid);
        self.assign_sections(set, &[(section, owner)]);
    }

    /// Assigns sections to the set with the index `set`, each to an owner in that set, under new epochs. No number is
    /// skipped.
    ///
    /// # Panics
    /// If the cluster has no such section.
    pub fn assign_sections(&self, set: usize, assigned: &[(SectionId, Option<usize>)]) {
        let mut state = self.state.lock();
        let mut sources = Vec::new();
        for (section, owner) in assigned {
            let home = &mut state.homes[section.0 as usize];
            sources.push(std::mem::replace(&mut home.set, set));
            home.route = Route::here(owner.map(node_id), home.route.epoch.next());
        }
        for other in 0..state.sets.len() {
            if other == set || state.sets[other].learns || sources.contains(&other) {
                state.update(other, assigned.iter().map(|(section, _)| *section));
            }
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

    /// Returns the sections that a server owns.
    #[must_use]
    pub fn sections_of(&self, set: usize, server: usize) -> Vec<SectionId> {
        let state = self.state.lock();
        let owned = (0..).zip(&state.homes).filter(|(_, home)| home.set == set);
        owned.filter(|(_, home)| home.route.owner == Some(node_id(server))).map(|(id, _)| SectionId(id)).collect()
    }

    /// Counts a stopped server of a set.
    pub fn stopped(&self, set: usize) {
        self.state.lock().sets[set].running -= 1;
    }

    /// Counts a server of a set that runs again after it was stopped.
    pub fn started(&self, set: usize) {
        self.state.lock().sets[set].running += 1;
    }

    /// Drops the exact counters of the uid's section, as a crash of the section's owner does.
    pub(super) fn crash(&self, uid: u64) {
        let section = self.state.lock().section_of(uid);
        self.crash_section(section);
    }

    /// Drops the exact counters of a section, as a crash of its owner does: every counter continues above all numbers
    /// that the section has allocated.
    ///
    /// # Panics
    /// If the cluster has no such section.
    pub fn crash_section(&self, section: SectionId) {
        let mut state = self.state.lock();
        let numbers = state.numbers(section);
        *numbers = numbers.taken_over();
    }
}
