//! The client's routes. They map each uid to its section, each section to its set and its owner, and each owner to its
//! address.
//!
//! Sections can migrate between the sets of a cluster. Therefore the routes of all sets of a cluster are merged into
//! one table, which has the cluster's layout ([`sections`]). Separately for each set, the directory keeps the addresses
//! of its nodes and the version of its own routes ([`set_routes`]). The uids of different clusters do not overlap.
//!
//! Readers load a snapshot of the directory without a lock. Responses bring newer routes, from which a new snapshot is
//! made. Invariants: the clusters of a directory do not overlap and are in the order of their uids. The list of sets
//! only grows, so the index of a set is valid in every later snapshot. The route version of a set and the epoch of a
//! section never fall.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use seq_core::keyspace::Bucket;
use seq_core::layout::SectionRun;
use seq_core::route::{RouteRun, RouteUpdate};
use seq_core::series::Series;
use seq_core::{Epoch, Layout, RouteVersion, SectionId, SetId, Uid};
use seq_proto::v1;

use place::Place;
use sections::{SectionRoute, Sections, SetIndex};
use series::KnownSeries;
use set_routes::SetRoutes;

pub(crate) mod place;
pub(crate) mod sections;
pub(crate) mod series;
pub(crate) mod set_routes;
#[cfg(test)]
mod tests;

/// Limit on the number of sets in a directory. It is the same as the limit in a store. The client's connection pool can
/// hold the addresses of this number of sets if the sets have the usual number of nodes, but not if each set has
/// [`seq_core::limits::MAX_NODES`] nodes.
pub(crate) const MAX_SETS: usize = seq_core::limits::MAX_SETS;

/// The newest directory, shared by all calls of a client.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    current: ArcSwap<Directory>,
    /// Lock that a writer holds. Only one writer runs at a time, because each writer builds the new directory from the
    /// current directory.
    writer: Mutex<()>,
}

/// A snapshot of every known set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// Clusters in order of uid, which do not overlap.
    clusters: Vec<Arc<Cluster>>,
    /// Sets of all clusters, in order of [`SetIndex`].
    sets: Vec<Arc<SetRoutes>>,
}

/// A cluster: a range of uids that several sets share, with the route of each of its sections.
#[derive(Clone, Debug)]
struct Cluster {
    layout: Layout,
    sections: Sections,
    /// Routes of the buckets of all keyspaces.
    buckets: Sections,
    /// The set that was the first to send this cluster's layout. Requests for a section without a route are sent to any
    /// node of this set, which forwards them.
    home: SetIndex,
    /// The series of the cluster, in the order of their creation. A cluster only adds series, so of two lists the
    /// longer one is newer.
    series: Arc<[Arc<KnownSeries>]>,
    /// Sections of the buckets of the keyspace of uids; `None` if none of the series is one.
    of_uids: Option<SectionRun>,
}

/// Statement, contained in a refusal, that a section has been in the set `set` since the epoch `since`. The section may
/// have moved to a further set in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) set: SetId,
    pub(crate) since: Epoch,
}

/// Changes made by the adoption of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Whether anything changed.
    pub(crate) any: bool,
    /// Whether addresses may have changed.
    pub(crate) addrs: bool,
}

/// Reason why a route table is not adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutesError {
    /// The message is not a route table.
    #[error(transparent)]
    Bad(#[from] seq_proto::convert::RoutesError),
    /// The received table contains only the changes since a version that this client does not have, or belongs to a set
    /// that this client does not know.
    #[error("the routes of set {set:?} build on a version that is not known here")]
    Mismatch {
        /// Name of the table's set.
        set: String,
    },
    /// The uids of the table overlap the uids of a known set that has a different layout. Therefore the two sets belong
    /// to different clusters, whose uids must not overlap.
    #[error("set {set:?} with uids {}..{} overlaps set {other:?} with uids {}..{}", uids.start, uids.end, other_uids.start, other_uids.end)]
    Overlap {
        /// Name of the table's set.
        set: String,
        /// The uids of its cluster.
        uids: Range<u64>,
        /// A set of the known cluster.
        other: String,
        /// The uids of the known cluster.
        other_uids: Range<u64>,
    },
    /// The client cannot hold more sets.
    #[error("set {set:?} is one more than the {MAX_SETS} a client holds")]
    TooManySets {
        /// Name of the table's set.
        set: String,
    },
}

impl Routes {
    /// Returns the newest snapshot. The returned guard must not be held across an await.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<Directory>> {
        self.current.load()
    }

    /// Adopts the routes that a set sent if they are newer than the known routes of this set. Returns which parts of
    /// the directory changed. `seed` is the sender of the routes if the sender is a seed.
    pub(crate) fn adopt(&self, routes: &v1::Routes, seed: Option<&Arc<str>>) -> Result<Change, RoutesError> {
        if !self.load().would_change(routes, seed) {
            return Ok(Change::default());
        }
        let whole = RouteUpdate::try_from(routes)?;
        let buckets = bucket_runs(&whole);
        // Calls for ids may be sent to any node, so the routes of the lanes' sections are left out.
        let update = whole.declared();
        let _writer = self.writer.lock();
        let mut directory = Directory::clone(&self.load());
        let change = directory.adopt(&update, &buckets, seed).inspect_err(|error| {
            if let (RoutesError::Mismatch { .. }, Some(set)) = (error, self.load().by_id(update.id)) {
                set.state().want_whole();
            }
        })?;
        if change.any {
            self.current.store(Arc::new(directory));
        }
        Ok(change)
    }

    /// Adopts claims, each together with a place in the claimed section. A claim is ignored if its epoch is not larger
    /// than the epoch of the section's known route.
    pub(crate) fn adopt_claims(&self, claims: &[(Place, Claim)]) {
        let is_news = |directory: &Directory, (place, claim): &(Place, Claim)| {
            claim.set != SetId(0) && directory.route_of(*place).is_some_and(|route| route.epoch < claim.since)
        };
        if !claims.iter().any(|claim| is_news(&self.load(), claim)) {
            return;
        }
        let _writer = self.writer.lock();
        let mut directory = Directory::clone(&self.load());
        for claim in claims {
            if is_news(&directory, claim) {
                directory.adopt_claim(claim.0, claim.1);
            }
        }
        self.current.store(Arc::new(directory));
    }
}

impl Directory {
    /// Returns the route of a uid's section; `None` if the uid is in no known cluster.
    #[inline]
    pub(crate) fn route(&self, uid: u64) -> Option<SectionRoute> {
        let (cluster, section) = self.locate(uid)?;
        let Cluster { layout, sections, buckets, home, .. } = &*self.clusters[cluster];
        let unknown = SectionRoute { epoch: Epoch(0), set: *home, owner: None, is_claim: false };
        let table = if section.0 < layout.sections() { sections } else { buckets };
        Some(table.get(section).unwrap_or(unknown))
    }

    /// Returns the route of the section at a place; `None` for a uid that is in no known cluster.
    #[inline]
    pub(crate) fn route_of(&self, place: Place) -> Option<SectionRoute> {
        match place {
            Place::Uid(uid) => self.route(uid),
            Place::Bucket { home, section } => {
                let unknown = SectionRoute { epoch: Epoch(0), set: home, owner: None, is_claim: false };
                Some(self.bucket(home, section).unwrap_or(unknown))
            }
        }
    }

    /// Returns the route of a bucket of a keyspace; `None` if it is not known. `home` is the set with which the series
    /// of the keyspace's cluster are returned.
    pub(crate) fn bucket(&self, home: SetIndex, bucket: SectionId) -> Option<SectionRoute> {
        self.clusters.iter().find(|cluster| cluster.home == home)?.buckets.get(bucket)
    }

    /// Returns the section of a uid; `None` if the uid is in no known cluster.
    pub(crate) fn section_of(&self, uid: u64) -> Option<SectionId> {
        self.locate(uid).map(|(_, section)| section)
    }

    /// Returns the layout of the first cluster, and the set that was the first to send this layout.
    pub(crate) fn home(&self) -> Option<(&Layout, &Arc<SetRoutes>)> {
        self.clusters.first().map(|cluster| (&cluster.layout, self.set(cluster.home)))
    }

    /// Returns the route of a section of the first cluster; `None` if no set has sent a route for the section.
    pub(crate) fn merged(&self, section: SectionId) -> Option<SectionRoute> {
        self.clusters.first().and_then(|cluster| cluster.sections.get(section))
    }

    /// Returns the series of all clusters, each with the set that was the first to send the layout of the series'
    /// cluster.
    pub(crate) fn series(&self) -> impl Iterator<Item = (SetIndex, &Arc<KnownSeries>)> {
        self.clusters.iter().flat_map(|cluster| cluster.series.iter().map(|series| (cluster.home, series)))
    }

    /// Returns every set.
    pub(crate) fn sets(&self) -> &[Arc<SetRoutes>] {
        &self.sets
    }

    /// Returns the set with this index. The index may be from any snapshot.
    #[inline]
    pub(crate) fn set(&self, index: SetIndex) -> &Arc<SetRoutes> {
        &self.sets[usize::from(index.0)]
    }

    /// Returns the set with this id.
    pub(crate) fn by_id(&self, id: SetId) -> Option<&Arc<SetRoutes>> {
        self.sets.iter().find(|set| set.id() == id)
    }

    /// Returns the index of the set with this id.
    pub(crate) fn index_of(&self, id: SetId) -> Option<SetIndex> {
        self.sets.iter().position(|set| set.id() == id).map(|index| SetIndex(index as u16))
    }

    /// Returns the other sets of a set's cluster.
    pub(crate) fn others(&self, set: &SetRoutes) -> impl Iterator<Item = &Arc<SetRoutes>> {
        self.sets.iter().filter(move |other| other.id() != set.id() && other.layout() == set.layout())
    }

    /// Returns the uid ranges of all clusters, in order.
    pub(crate) fn uids(&self) -> impl Iterator<Item = Range<u64>> {
        self.clusters.iter().map(|cluster| cluster.layout.uids())
    }

    /// Returns whether no set is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Returns every address of every set.
    pub(crate) fn addrs(&self) -> BTreeSet<&str> {
        self.sets.iter().flat_map(|set| set.all_addrs()).map(|addr| &**addr).collect()
    }

    /// Returns a map from each address that routes assign to a set to the name of that set. If a set's own routes and
    /// the routes of another set assign an address to different sets, the set's own routes take precedence.
    pub(crate) fn sets_by_addr(&self) -> BTreeMap<&str, &str> {
        let named = || self.sets.iter().filter(|set| !set.name().is_empty());
        let learned = named().flat_map(|set| set.learned().map(|addr| (addr, set.name())));
        let nodes = named().flat_map(|set| set.nodes().map(|(_, addr)| (addr, set.name())));
        learned.chain(nodes).collect()
    }

    /// Returns the section of a uid and the index of its cluster. The section of a sparse uid is its bucket.
    #[inline]
    fn locate(&self, uid: u64) -> Option<(usize, SectionId)> {
        let after = self.clusters.partition_point(|cluster| cluster.layout.uids().start <= uid);
        let declared = after.checked_sub(1).and_then(|index| {
            let (section, _) = self.clusters[index].layout.locate(Uid(uid)).ok()?;
            Some((index, section))
        });
        if declared.is_some() { declared } else { self.locate_sparse(uid) }
    }

    /// Returns the bucket of a uid that no cluster declares, in the first cluster with a keyspace of uids.
    #[cold]
    fn locate_sparse(&self, uid: u64) -> Option<(usize, SectionId)> {
        let of_uids = |(index, cluster): (usize, &Arc<Cluster>)| Some((index, cluster.of_uids?.first));
        let (index, first) = self.clusters.iter().enumerate().find_map(of_uids)?;
        Some((index, SectionId(first.0 + u32::from(Bucket::of_uid(Uid(uid)).index()))))
    }

    /// Returns whether the routes are new to this client, or whether `seed` is a new address for their set. This is
    /// checked before the routes are converted or copied, because the routes in most responses are not new.
    fn would_change(&self, routes: &v1::Routes, seed: Option<&Arc<str>>) -> bool {
        self.by_id(SetId(routes.set_id))
            .is_none_or(|set| set.version.0 < routes.version || seed.is_some_and(|seed| !set.has_seed(seed)))
    }

    /// Adopts routes of sections of uids, and `buckets`, the routes of buckets in the same message.
    fn adopt(
        &mut self,
        update: &RouteUpdate,
        buckets: &[RouteRun],
        seed: Option<&Arc<str>>,
    ) -> Result<Change, RoutesError> {
        let mismatch = || RoutesError::Mismatch { set: update.set.clone() };
        // A set is added only if a seed sent its routes, so that each set has an address to which requests can be sent.
        if self.by_id(update.id).is_none() && seed.is_none() {
            return Err(mismatch());
        }
        let known = self.by_id(update.id).map_or(RouteVersion(0), |set| set.version);
        let is_newer = update.version > known;
        if is_newer && (update.base > known || (update.base > RouteVersion(0) && self.cluster(update).is_none())) {
            return Err(mismatch());
        }
        if is_newer {
            self.check_overlap(update)?;
        }
        let Some(index) = self.index_or_insert(update.id, &update.layout) else {
            return Err(RoutesError::TooManySets { set: update.set.clone() });
        };
        let set = Arc::make_mut(&mut self.sets[usize::from(index.0)]);
        let mut change = Change::default();
        if let Some(seed) = seed.filter(|seed| !set.has_seed(seed)) {
            set.add_seed(seed);
            change = Change { any: true, addrs: true };
        }
        if is_newer {
            let left = (set.layout != update.layout).then(|| set.layout.clone());
            change = Change { any: true, addrs: set.adopt(update) || change.addrs };
            if let Some(left) = left {
                self.leave(&left, &update.layout);
            }
            change.addrs |= self.adopt_sections(index, update, buckets);
        }
        Ok(change)
    }

    fn adopt_claim(&mut self, place: Place, claim: Claim) -> Option<()> {
        let (cluster, section) = match place {
            Place::Uid(uid) => self.locate(uid)?,
            Place::Bucket { home, section } => {
                (self.clusters.iter().position(|cluster| cluster.home == home)?, section)
            }
        };
        let layout = self.clusters[cluster].layout.clone();
        let set = self.index_or_insert(claim.set, &layout)?;
        let route = SectionRoute { epoch: claim.since, set, owner: None, is_claim: true };
        let run = Some((section, 1, route));
        let (of_uids, of_buckets) = if section.0 < layout.sections() { (run, None) } else { (None, run) };
        self.merge(cluster, of_uids, of_buckets);
        Some(())
    }

    /// Merges the routes that the set with the index `own` sent into the routes of its cluster, including this set's
    /// statements about the routes and addresses of other sets. Returns whether an address changed.
    fn adopt_sections(&mut self, own: SetIndex, update: &RouteUpdate, buckets: &[RouteRun]) -> bool {
        let cluster = self.cluster(update).unwrap_or_else(|| self.add_cluster(own, &update.layout));
        let mut addrs_changed = false;
        for (id, set) in update.sets.iter().filter(|(id, _)| **id != update.id) {
            if let Some(index) = self.index_or_insert(*id, &update.layout) {
                addrs_changed |= Arc::make_mut(&mut self.sets[usize::from(index.0)]).learn(&set.name, &set.allocs);
            }
        }
        let mut merged = |run: &RouteRun| {
            let set = match run.route.other_set() {
                Some(id) => self.index_or_insert(id, &update.layout),
                None => Some(own),
            };
            let is_claim = set != Some(own);
            // If the section is in a set that is not known yet and the number of sets is at its limit, this route is
            // left out. The section then keeps its former route, and nodes forward requests for it.
            let route = set.map(|set| SectionRoute { epoch: run.route.epoch, set, owner: run.route.owner, is_claim });
            route.map(|route| (run.first, run.sections, route))
        };
        let routes: Vec<_> = update.runs.iter().filter_map(&mut merged).collect();
        let buckets: Vec<_> = buckets.iter().filter_map(merged).collect();
        self.merge(cluster, routes, buckets);
        if update.series.len() >= self.clusters[cluster].series.len() {
            let cluster = Arc::make_mut(&mut self.clusters[cluster]);
            cluster.series = series::decoded(&update.series);
            let of_uids = |series: &&Series| series.lanes.keys.is_some_and(|keys| keys.has_uids());
            cluster.of_uids = update.series.iter().find(of_uids).map(|series| series.sections);
        }
        addrs_changed
    }

    /// Merges the routes of sections of uids, and the routes of buckets.
    fn merge(
        &mut self,
        cluster: usize,
        runs: impl IntoIterator<Item = (SectionId, u32, SectionRoute)>,
        of_buckets: impl IntoIterator<Item = (SectionId, u32, SectionRoute)>,
    ) {
        let Directory { clusters, sets } = self;
        let Cluster { sections, buckets, .. } = Arc::make_mut(&mut clusters[cluster]);
        let id = |set: SetIndex| sets[usize::from(set.0)].id().0;
        for (first, count, route) in runs {
            sections.merge(first, count, route, id);
        }
        for (first, count, route) in of_buckets {
            buckets.extend_to(first.0 + count);
            buckets.merge(first, count, route, id);
        }
    }

    /// Returns the index of the cluster that has the same layout as `update`.
    fn cluster(&self, update: &RouteUpdate) -> Option<usize> {
        self.clusters.iter().position(|cluster| cluster.layout == update.layout)
    }

    fn add_cluster(&mut self, home: SetIndex, layout: &Layout) -> usize {
        let start = layout.uids().start;
        let at = self.clusters.partition_point(|cluster| cluster.layout.uids().start < start);
        let (sections, buckets) = (Sections::new(layout.sections()), Sections::new(0));
        let (layout, series) = (layout.clone(), [].into());
        self.clusters.insert(at, Arc::new(Cluster { layout, sections, buckets, home, series, of_uids: None }));
        at
    }

    /// Removes the cluster with the layout `left`, after a set changed from this layout to `layout`. Does nothing if
    /// another set has sent routes with the layout `left`. Sets that are known only from the statements of other sets
    /// get the layout `layout`.
    fn leave(&mut self, left: &Layout, layout: &Layout) {
        let stays = |set: &Arc<SetRoutes>| set.version > RouteVersion(0) && *set.layout() == *left;
        if self.sets.iter().any(stays) {
            return;
        }
        self.clusters.retain(|cluster| cluster.layout != *left);
        for set in self.sets.iter_mut().filter(|set| *set.layout() == *left) {
            Arc::make_mut(set).layout.clone_from(layout);
        }
    }

    /// Checks that the uids of an update do not overlap the uids of another set that has sent routes with a different
    /// layout. Sets with the same layout belong to the same cluster.
    fn check_overlap(&self, update: &RouteUpdate) -> Result<(), RoutesError> {
        let uids = update.layout.uids();
        let overlaps = |other: &SetRoutes| {
            let other_uids = other.layout().uids();
            let sent = other.version > RouteVersion(0) && other.id() != update.id;
            sent && *other.layout() != update.layout && uids.start < other_uids.end && other_uids.start < uids.end
        };
        match self.sets.iter().find(|other| overlaps(other)) {
            None => Ok(()),
            Some(other) => Err(RoutesError::Overlap {
                set: update.set.clone(),
                uids,
                other: other.name().to_owned(),
                other_uids: other.layout().uids(),
            }),
        }
    }

    /// Returns the index of the set with this id. If the list of sets does not have this set, adds it without routes
    /// and addresses. Returns `None` if the number of sets is at its limit.
    fn index_or_insert(&mut self, id: SetId, layout: &Layout) -> Option<SetIndex> {
        if let Some(index) = self.index_of(id) {
            return Some(index);
        }
        if self.sets.len() >= MAX_SETS {
            return None;
        }
        self.sets.push(Arc::new(SetRoutes::new(id, layout.clone())));
        Some(SetIndex((self.sets.len() - 1) as u16))
    }
}

/// Returns the routes of the buckets of all keyspaces in an update.
fn bucket_runs(update: &RouteUpdate) -> Vec<RouteRun> {
    let mut runs = Vec::new();
    for (_, SectionRun { first, sections }) in update.layout.keyspaces() {
        for run in &update.runs {
            let from = run.first.max(first);
            let end = (run.first.0 + run.sections).min(first.0 + sections);
            if from.0 < end {
                runs.push(RouteRun { first: from, sections: end - from.0, ..*run });
            }
        }
    }
    runs
}
