//! The route table of a set, its versions, and the updates between two versions. For each section the table has the
//! owner, or the other set that the section is in.
//!
//! Only the store's committed state decides on routes. Every other process has a copy of the table, which
//! [`RouteTable::adopt`] updates. An update that is not newer than the copy changes nothing, so a copy never goes back
//! to an older version.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::id::{Epoch, NodeId, RouteVersion, SectionId, SetId};
use crate::layout::Layout;
use crate::series::Series;

/// Route of a section. It has the section's owner and the epoch of the ownership, or the other set that the section is
/// in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The owner; `None` while the section has no owner, or is in another set.
    pub owner: Option<NodeId>,
    /// Epoch of the ownership; 0 if the section was never owned. If the section is in another set, the epoch under
    /// which it arrived there.
    pub epoch: Epoch,
    /// The other set that the section is in; `SetId(0)` if the section is in this set.
    pub away: SetId,
}

impl Route {
    /// Creates the route of a section in this set.
    #[must_use]
    pub fn here(owner: Option<NodeId>, epoch: Epoch) -> Route {
        Route { owner, epoch, away: SetId(0) }
    }

    /// Creates the route of a section that is in the other set `set` since the epoch `since`.
    #[must_use]
    pub fn away(set: SetId, since: Epoch) -> Route {
        Route { owner: None, epoch: since, away: set }
    }

    /// Returns the other set that the section is in; `None` if the section is in this set.
    #[must_use]
    pub fn other_set(&self) -> Option<SetId> {
        (self.away != SetId(0)).then_some(self.away)
    }
}

/// An AllocSvr that may own sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteNode {
    /// Name in the set file.
    pub name: String,
    /// Address of its gRPC port, "host:port".
    pub addr: String,
}

/// Another set of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSet {
    /// Name of the set.
    pub name: String,
    /// Addresses of gRPC ports of its AllocSvrs, "host:port".
    pub allocs: Vec<String>,
}

/// Neighbouring sections with the same route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRun {
    /// First section of the run.
    pub first: SectionId,
    /// Number of sections, 1 or above.
    pub sections: u32,
    /// The route of all these sections.
    pub route: Route,
}

/// A whole route table, or the changes of a route table since an earlier version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteUpdate {
    /// Name of the set.
    pub set: String,
    /// Id of the set.
    pub id: SetId,
    /// The cluster's uids and sections.
    pub layout: Layout,
    /// Version of the table after this update.
    pub version: RouteVersion,
    /// Version of the table to which the changes apply; 0 if the update is a whole table.
    pub base: RouteVersion,
    /// Every node of the set.
    pub nodes: BTreeMap<NodeId, RouteNode>,
    /// The other sets that were added or changed since the version `base`.
    pub sets: BTreeMap<SetId, RouteSet>,
    /// The routes that changed since the version `base`, in order of section, not overlapping.
    pub runs: Vec<RouteRun>,
    /// All series of the cluster, in the order of their lanes in the layout.
    pub series: Arc<[Series]>,
}

/// A copy of one set's routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTable {
    set: String,
    id: SetId,
    layout: Layout,
    version: RouteVersion,
    /// The other sets of the cluster, each with the version of the table that last changed the set's entry. A route may
    /// name a set that is missing here, until an update has the addresses of that set.
    sets: BTreeMap<SetId, (RouteSet, RouteVersion)>,
    /// Every node of the set. Invariant: every owner in `chunks` is here.
    nodes: BTreeMap<NodeId, RouteNode>,
    /// The routes of all sections, in order. The chunks are shared between copies of the table, so that a change of one
    /// section copies one chunk instead of the routes of all sections.
    chunks: Vec<Arc<Chunk>>,
    series: Arc<[Series]>,
}

/// Number of sections in a chunk. A chunk takes 8 KiB, and the largest set has 4,096 chunks.
const CHUNK: usize = 256;

/// Neighbouring sections' routes, each with the version that changed it last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    /// The highest version in the chunk.
    newest: RouteVersion,
    /// The routes, each with the version that last changed it. Entries past the last section are never written.
    routes: [(Route, RouteVersion); CHUNK],
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk { newest: RouteVersion(0), routes: [(Route::default(), RouteVersion(0)); CHUNK] }
    }
}

/// Outcome of [`RouteTable::adopt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The table is newer now.
    Newer,
    /// The table is unchanged, because the update is not newer than the table.
    NotNewer,
    /// The table is unchanged, because the update cannot be applied. The caller requests the whole table. The update
    /// may be malformed, may belong to another set or layout, or may have changes since a version that is newer than
    /// the table. If it is not a whole table, it may lack a node that the table has.
    Mismatch,
}

impl RouteTable {
    /// Creates a table from a whole update; `None` if the update is not whole, has sections past the end of its layout,
    /// or names an owner that is not among its nodes.
    #[must_use]
    pub fn from_whole(update: &RouteUpdate) -> Option<RouteTable> {
        if update.base != RouteVersion(0) || !update.fits() {
            return None;
        }
        let mut table = RouteTable {
            set: update.set.clone(),
            id: update.id,
            layout: update.layout.clone(),
            version: update.version,
            sets: BTreeMap::new(),
            nodes: update.nodes.clone(),
            chunks: alloc::vec![Arc::default(); chunks_of(&update.layout)],
            series: update.series.clone(),
        };
        table.write(update);
        Some(table)
    }

    /// Applies an update if it is newer than the table. The table never goes back to an older version.
    #[must_use = "a mismatch means that the whole table must be fetched"]
    pub fn adopt(&mut self, update: &RouteUpdate) -> Adopted {
        if update.id != self.id || update.layout.declared() != self.layout.declared() || !update.fits() {
            return Adopted::Mismatch;
        }
        if update.version <= self.version {
            return Adopted::NotNewer;
        }
        if update.base == RouteVersion(0) {
            // The update names every section. A restored set begins without nodes, numbers them anew, and may have lost
            // lanes.
            let Some(mut whole) = RouteTable::from_whole(update) else { return Adopted::Mismatch };
            whole.layout.learn_seeds(&self.layout);
            *self = whole;
            return Adopted::Newer;
        }
        // A node that is gone may own sections that the update does not name.
        let gone = self.nodes.keys().any(|id| !update.nodes.contains_key(id));
        // A layout only grows, so a newer version does not have a shorter one.
        let mut layout = self.layout.clone();
        let grows = layout.adopt(&update.layout).is_ok() && layout == update.layout;
        if update.base > self.version || gone || !grows {
            return Adopted::Mismatch;
        }
        self.version = update.version;
        self.chunks.resize_with(chunks_of(&layout), Arc::default);
        self.layout = layout;
        self.nodes.clone_from(&update.nodes);
        self.series.clone_from(&update.series);
        self.write(update);
        Adopted::Newer
    }

    /// Adopts the seeds of keyspaces that this process does not know from an update, which need not be newer than the
    /// table: the routes of a peer have no seeds, and the store may respond with the same version later. Returns
    /// whether there were any.
    pub fn learn_seeds(&mut self, update: &RouteUpdate) -> bool {
        update.id == self.id && self.layout.learn_seeds(&update.layout)
    }

    /// Returns the changes of the table after the version `since`; `None` if the table is not newer. If `since` is 0,
    /// returns the whole table.
    #[must_use]
    pub fn since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        if since >= self.version {
            return None;
        }
        let changed = (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.newest > since).flat_map(|(index, chunk)| {
            let first: u32 = index * CHUNK as u32;
            chunk.routes.iter().zip(first..).filter(|((_, version), _)| *version > since)
        });
        Some(RouteUpdate {
            set: self.set.clone(),
            id: self.id,
            layout: self.layout.clone(),
            version: self.version,
            base: since,
            nodes: self.nodes.clone(),
            sets: self.sets_since(since),
            runs: runs(changed.map(|((route, _), section)| (SectionId(section), *route))),
            series: self.series.clone(),
        })
    }

    /// Returns the route of a section; `None` if the layout has no such section.
    #[inline]
    #[must_use]
    pub fn get(&self, section: SectionId) -> Option<Route> {
        if section.0 >= self.layout.sections() {
            return None;
        }
        let section = section.0 as usize;
        self.chunks.get(section / CHUNK).map(|chunk| chunk.routes[section % CHUNK].0)
    }

    /// Returns a node by its id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&RouteNode> {
        self.nodes.get(&id)
    }

    /// Returns every node of the set, in order of id.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<NodeId, RouteNode> {
        &self.nodes
    }

    /// Returns the set's name.
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set
    }

    /// Returns the set's id.
    #[must_use]
    pub fn id(&self) -> SetId {
        self.id
    }

    /// Returns another set by its id.
    #[must_use]
    pub fn other_set(&self, id: SetId) -> Option<&RouteSet> {
        self.sets.get(&id).map(|(set, _)| set)
    }

    /// Returns the other sets that are known.
    pub fn other_sets(&self) -> impl Iterator<Item = (SetId, &RouteSet)> {
        self.sets.iter().map(|(id, (set, _))| (*id, set))
    }

    /// Returns the cluster's uids and sections.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the series of the cluster, in the order of their lanes in the layout.
    #[must_use]
    pub fn series(&self) -> &Arc<[Series]> {
        &self.series
    }

    /// Returns the table's version.
    #[must_use]
    pub fn version(&self) -> RouteVersion {
        self.version
    }

    fn sets_since(&self, since: RouteVersion) -> BTreeMap<SetId, RouteSet> {
        let changed = self.sets.iter().filter(|(_, (_, version))| *version > since);
        changed.map(|(id, (set, _))| (*id, set.clone())).collect()
    }

    fn write(&mut self, update: &RouteUpdate) {
        self.set.clone_from(&update.set);
        self.sets.extend(update.sets.iter().map(|(id, set)| (*id, (set.clone(), update.version))));
        for run in &update.runs {
            let (mut at, end) = (run.first.0 as usize, run.first.0 as usize + run.sections as usize);
            while at < end {
                let (index, first) = (at / CHUNK, at % CHUNK);
                let last = (first + end - at).min(CHUNK);
                let chunk = Arc::make_mut(&mut self.chunks[index]);
                chunk.newest = update.version;
                chunk.routes[first..last].fill((run.route, update.version));
                at += last - first;
            }
        }
    }
}

/// Returns the number of chunks with the sections of a layout.
fn chunks_of(layout: &Layout) -> usize {
    (layout.sections() as usize).div_ceil(CHUNK)
}

impl RouteUpdate {
    /// Returns this update without the sections of lanes, for a process that locates no lanes. The layout is reduced to
    /// the part that the set files declare, and the routes are reduced to the sections in this part. The series are
    /// unchanged.
    #[must_use]
    pub fn declared(self) -> RouteUpdate {
        let layout = self.layout.declared();
        let runs = self.runs.into_iter().filter_map(|run| {
            let sections = layout.sections().checked_sub(run.first.0)?.min(run.sections);
            (sections > 0).then_some(RouteRun { sections, ..run })
        });
        RouteUpdate { runs: runs.collect(), layout, ..self }
    }

    /// Returns whether the runs are in order and within the layout, every owner is among the nodes, and only sections
    /// in this set have owners.
    fn fits(&self) -> bool {
        let mut end = 0u64;
        self.runs.iter().all(|run| {
            let first = u64::from(run.first.0);
            let in_order = run.sections > 0 && first >= end;
            end = first + u64::from(run.sections);
            let Route { owner, away, .. } = run.route;
            let known = owner.is_none_or(|owner| away == SetId(0) && self.nodes.contains_key(&owner));
            in_order && end <= u64::from(self.layout.sections()) && known
        })
    }
}

/// Joins neighbouring sections with the same route into runs. `routes` must be in order of section.
pub fn runs(routes: impl Iterator<Item = (SectionId, Route)>) -> Vec<RouteRun> {
    let mut runs: Vec<RouteRun> = Vec::new();
    for (section, route) in routes {
        match runs.last_mut() {
            Some(run) if run.route == route && run.first.0 + run.sections == section.0 => run.sections += 1,
            _ => runs.push(RouteRun { first: section, sections: 1, route }),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
