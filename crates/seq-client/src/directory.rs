//! The client's routes: uid -> section -> set and owner -> address.
//!
//! Sections migrate between the sets of a cluster, so the routes of all its sets are merged into one table of the
//! cluster's layout ([`sections`]); each set keeps its nodes and the version of its own routes ([`set_routes`]).
//! Clusters with other uids stand side by side.
//!
//! Readers load a snapshot without a lock; newer routes arrive in responses. Invariants: the clusters of a directory do
//! not overlap and are in order of uid; the list of sets only grows, so the index of a set is good for any snapshot;
//! the route version of a set and the route of a section are monotonic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use seq_core::route::RouteUpdate;
use seq_core::{Epoch, Layout, RouteVersion, SectionId, SetId, Uid};
use seq_proto::v1;

use sections::{SectionRoute, Sections, SetIndex};
use set_routes::SetRoutes;

pub(crate) mod sections;
pub(crate) mod set_routes;
#[cfg(test)]
mod tests;

/// Most sets in a directory: as many as a store knows. A pool does not hold the addresses of that many sets of
/// [`seq_core::limits::MAX_NODES`] nodes, but it does for sets of usual size.
pub(crate) const MAX_SETS: usize = seq_core::limits::MAX_SETS;

/// The newest directory, shared by all calls of a client.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    current: ArcSwap<Directory>,
    /// Serializes writers: a new directory is built from the current one.
    writer: Mutex<()>,
}

/// A snapshot of every known set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// In order of uid, not overlapping.
    clusters: Vec<Arc<Cluster>>,
    /// The sets of all clusters, in order of [`SetIndex`].
    sets: Vec<Arc<SetRoutes>>,
}

/// The uids of some sets, and where each section is.
#[derive(Clone, Debug)]
struct Cluster {
    layout: Layout,
    sections: Sections,
    /// The set that sent the layout first: any of its nodes forwards requests for a section without a route.
    home: SetIndex,
}

/// That a section is, or was, in a set since an epoch: as a refusal states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) set: SetId,
    pub(crate) since: Epoch,
}

/// What the adoption of routes changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Whether anything changed.
    pub(crate) any: bool,
    /// Whether addresses may have.
    pub(crate) addrs: bool,
}

/// Reason why a route table was not adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutesError {
    /// The message is not a route table.
    #[error(transparent)]
    Bad(#[from] seq_proto::convert::RoutesError),
    /// It holds changes to a version of the table that is not known here, or is of an unknown set.
    #[error("the routes of set {set:?} build on a version that is not known here")]
    Mismatch {
        /// Name of the table's set.
        set: String,
    },
    /// The uids overlap those of another set and are laid out in other sections: the sets are of two clusters.
    #[error("set {set:?} with uids {}..{} overlaps set {other:?} with uids {}..{}", uids.start, uids.end, other_uids.start, other_uids.end)]
    Overlap {
        /// Name of the table's set.
        set: String,
        /// The uids of its cluster.
        uids: Range<u64>,
        /// A set of the cluster known before.
        other: String,
        /// The uids of the known cluster.
        other_uids: Range<u64>,
    },
    /// More sets than a client holds.
    #[error("set {set:?} is one more than the {MAX_SETS} a client holds")]
    TooManySets {
        /// Name of the table's set.
        set: String,
    },
}

impl Routes {
    /// The newest snapshot. Must not be held across an await.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<Directory>> {
        self.current.load()
    }

    /// Adopts newer routes; returns what changed. `seed` is the seed that sent them, if one did.
    pub(crate) fn adopt(&self, routes: &v1::Routes, seed: Option<&Arc<str>>) -> Result<Change, RoutesError> {
        if !self.load().would_change(routes, seed) {
            return Ok(Change::default());
        }
        let update = RouteUpdate::try_from(routes)?;
        let _writer = self.writer.lock();
        let mut directory = Directory::clone(&self.load());
        let change = directory.adopt(&update, seed).inspect_err(|error| {
            if let (RoutesError::Mismatch { .. }, Some(set)) = (error, self.load().by_id(update.id)) {
                set.state().want_whole();
            }
        })?;
        if change.any {
            self.current.store(Arc::new(directory));
        }
        Ok(change)
    }

    /// Adopts the claims that sections of uids are in other sets, where nothing newer is known.
    pub(crate) fn adopt_claims(&self, claims: &[(u64, Claim)]) {
        let is_news = |directory: &Directory, (uid, claim): &(u64, Claim)| {
            claim.set != SetId(0) && directory.route(*uid).is_some_and(|route| route.epoch < claim.since)
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
    /// The route of a uid's section; `None` outside every cluster.
    #[inline]
    pub(crate) fn route(&self, uid: u64) -> Option<SectionRoute> {
        let (cluster, section) = self.locate(uid)?;
        let Cluster { sections, home, .. } = &*self.clusters[cluster];
        let unknown = SectionRoute { epoch: Epoch(0), set: *home, owner: None, is_claim: false };
        Some(sections.get(section).unwrap_or(unknown))
    }

    /// The section of a uid in its cluster; `None` outside every cluster.
    pub(crate) fn section_of(&self, uid: u64) -> Option<SectionId> {
        self.locate(uid).map(|(_, section)| section)
    }

    /// The layout of the first cluster, and the set that sent it first.
    pub(crate) fn home(&self) -> Option<(&Layout, &Arc<SetRoutes>)> {
        self.clusters.first().map(|cluster| (&cluster.layout, self.set(cluster.home)))
    }

    /// The route of a section of the first cluster; `None` where no set sent one.
    pub(crate) fn merged(&self, section: SectionId) -> Option<SectionRoute> {
        self.clusters.first().and_then(|cluster| cluster.sections.get(section))
    }

    /// Every set.
    pub(crate) fn sets(&self) -> &[Arc<SetRoutes>] {
        &self.sets
    }

    /// The set of an index in any snapshot.
    #[inline]
    pub(crate) fn set(&self, index: SetIndex) -> &Arc<SetRoutes> {
        &self.sets[usize::from(index.0)]
    }

    /// A set by its id.
    pub(crate) fn by_id(&self, id: SetId) -> Option<&Arc<SetRoutes>> {
        self.sets.iter().find(|set| set.id() == id)
    }

    /// The index of a set.
    pub(crate) fn index_of(&self, id: SetId) -> Option<SetIndex> {
        self.sets.iter().position(|set| set.id() == id).map(|index| SetIndex(index as u16))
    }

    /// The other sets of a set's cluster.
    pub(crate) fn others(&self, set: &SetRoutes) -> impl Iterator<Item = &Arc<SetRoutes>> {
        self.sets.iter().filter(move |other| other.id() != set.id() && other.layout() == set.layout())
    }

    /// The uid ranges of all clusters, in order.
    pub(crate) fn uids(&self) -> impl Iterator<Item = Range<u64>> {
        self.clusters.iter().map(|cluster| cluster.layout.uids())
    }

    /// Whether no set is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Every address of every set.
    pub(crate) fn addrs(&self) -> BTreeSet<&str> {
        self.sets.iter().flat_map(|set| set.all_addrs()).map(|addr| &**addr).collect()
    }

    /// The name of the set at each address that routes state for one. A set's own routes know its nodes better than
    /// those of other sets do.
    pub(crate) fn sets_by_addr(&self) -> BTreeMap<&str, &str> {
        let named = || self.sets.iter().filter(|set| !set.name().is_empty());
        let learned = named().flat_map(|set| set.learned().map(|addr| (addr, set.name())));
        let nodes = named().flat_map(|set| set.nodes().map(|(_, addr)| (addr, set.name())));
        learned.chain(nodes).collect()
    }

    #[inline]
    fn locate(&self, uid: u64) -> Option<(usize, SectionId)> {
        let after = self.clusters.partition_point(|cluster| cluster.layout.uids().start <= uid);
        let index = after.checked_sub(1)?;
        self.clusters[index].layout.locate(Uid(uid)).ok().map(|(section, _)| (index, section))
    }

    /// A cheap check before anything is converted or copied: most responses hold nothing new.
    fn would_change(&self, routes: &v1::Routes, seed: Option<&Arc<str>>) -> bool {
        self.by_id(SetId(routes.set_id))
            .is_none_or(|set| set.version.0 < routes.version || seed.is_some_and(|seed| !set.has_seed(seed)))
    }

    fn adopt(&mut self, update: &RouteUpdate, seed: Option<&Arc<str>>) -> Result<Change, RoutesError> {
        let mismatch = || RoutesError::Mismatch { set: update.set.clone() };
        // Only a seed, or a known set, adds a set, so that every set has a host.
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
            change.addrs |= self.adopt_sections(index, update);
        }
        Ok(change)
    }

    fn adopt_claim(&mut self, uid: u64, claim: Claim) -> Option<()> {
        let (cluster, section) = self.locate(uid)?;
        let layout = self.clusters[cluster].layout.clone();
        let set = self.index_or_insert(claim.set, &layout)?;
        let route = SectionRoute { epoch: claim.since, set, owner: None, is_claim: true };
        self.merge(cluster, [(section, 1, route)]);
        Some(())
    }

    /// Merges the routes of a set that is newer than known, and what it knows of other sets. Returns whether an address
    /// changed.
    fn adopt_sections(&mut self, own: SetIndex, update: &RouteUpdate) -> bool {
        let cluster = self.cluster(update).unwrap_or_else(|| self.add_cluster(own, &update.layout));
        let mut addrs_changed = false;
        for (id, set) in update.sets.iter().filter(|(id, _)| **id != update.id) {
            if let Some(index) = self.index_or_insert(*id, &update.layout) {
                addrs_changed |= Arc::make_mut(&mut self.sets[usize::from(index.0)]).learn(&set.name, &set.allocs);
            }
        }
        let mut routes = Vec::with_capacity(update.runs.len());
        for run in &update.runs {
            let set = match run.route.other_set() {
                Some(id) => self.index_or_insert(id, &update.layout),
                None => Some(own),
            };
            let is_claim = set != Some(own);
            // A claim for one set more than a client holds is left out: the section keeps its route, and nodes forward.
            let route = set.map(|set| SectionRoute { epoch: run.route.epoch, set, owner: run.route.owner, is_claim });
            routes.extend(route.map(|route| (run.first, run.sections, route)));
        }
        self.merge(cluster, routes);
        addrs_changed
    }

    fn merge(&mut self, cluster: usize, runs: impl IntoIterator<Item = (SectionId, u32, SectionRoute)>) {
        let Directory { clusters, sets } = self;
        let sections = &mut Arc::make_mut(&mut clusters[cluster]).sections;
        let id = |set: SetIndex| sets[usize::from(set.0)].id().0;
        for (first, count, route) in runs {
            sections.merge(first, count, route, id);
        }
    }

    /// The index of the cluster with the layout of an update.
    fn cluster(&self, update: &RouteUpdate) -> Option<usize> {
        self.clusters.iter().position(|cluster| cluster.layout == update.layout)
    }

    fn add_cluster(&mut self, home: SetIndex, layout: &Layout) -> usize {
        let start = layout.uids().start;
        let at = self.clusters.partition_point(|cluster| cluster.layout.uids().start < start);
        let sections = Sections::new(layout.sections());
        self.clusters.insert(at, Arc::new(Cluster { layout: layout.clone(), sections, home }));
        at
    }

    /// Removes the cluster that a set left for another layout, unless another set has sent routes of it. Sets that only
    /// others named follow.
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

    /// Checks the layout of an update against those of the other sets that have sent routes. Sets with the same layout
    /// are of one cluster.
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

    /// The index of a set; adds it, without routes or addresses, if it is new. `None`: there is no room.
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
