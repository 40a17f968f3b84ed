//! The client's routes: uid range -> set -> section -> owner -> address.
//!
//! Readers load a snapshot without a lock; newer routes arrive in responses. Invariants: the sets of a directory do not
//! overlap and are in order of uid; the route version of a set is monotonic.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use seq_core::route::{Adopted, Route, RouteTable, RouteUpdate};
use seq_core::{NodeId, Uid};
use seq_proto::v1;

/// Most sets in a directory. A pool does not hold the addresses of that many sets of [`seq_core::limits::MAX_NODES`]
/// nodes, but it does for sets of usual size.
pub(crate) const MAX_SETS: usize = 256;

/// The newest directory, shared by all calls of a client.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    current: ArcSwap<Directory>,
    /// Serializes writers: a new directory is built from the current one.
    writer: Mutex<()>,
    /// A response had changes to a table version that is not known here: the next request asks for the whole table.
    want_whole: AtomicBool,
}

/// A snapshot of every known set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// In order of uid, not overlapping.
    sets: Vec<Arc<SetRoutes>>,
}

/// One set's routes and the addresses of its nodes.
#[derive(Clone, Debug)]
pub(crate) struct SetRoutes {
    table: RouteTable,
    addrs: BTreeMap<NodeId, Arc<str>>,
    /// Every address that serves the set: its nodes, and the seeds that sent its routes. Never empty.
    hosts: Vec<Arc<str>>,
    /// The seeds among them.
    seeds: Vec<Arc<str>>,
}

/// Reason why a route table was not adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutesError {
    /// The message is not a route table.
    #[error(transparent)]
    Bad(#[from] seq_proto::convert::RoutesError),
    /// It holds changes to a version of the table that is not known here.
    #[error("the routes of set {set:?} build on a version that is not known here")]
    Mismatch {
        /// Name of the table's set.
        set: String,
    },
    /// Two sets claim the same uids.
    #[error("set {set:?} with uids {}..{} overlaps set {other:?} with uids {}..{}", uids.start, uids.end, other_uids.start, other_uids.end)]
    Overlap {
        /// Name of the table's set.
        set: String,
        /// That set's uids.
        uids: Range<u64>,
        /// The set known before.
        other: String,
        /// The known set's uids.
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
    pub(crate) fn load(&self) -> Guard<Arc<Directory>> {
        self.current.load()
    }

    /// Adopts newer routes; returns whether anything changed. `seed` is the seed that sent them, if one did.
    pub(crate) fn adopt(&self, routes: &v1::Routes, seed: Option<&Arc<str>>) -> Result<bool, RoutesError> {
        if !self.load().would_change(routes, seed) {
            return Ok(false);
        }
        let update = RouteUpdate::try_from(routes)?;
        let _writer = self.writer.lock();
        let mut directory = Directory::clone(&self.load());
        let changed = directory.adopt(&update, seed).inspect_err(|error| {
            if matches!(error, RoutesError::Mismatch { .. }) {
                self.want_whole.store(true, Relaxed);
            }
        })?;
        if changed {
            self.current.store(Arc::new(directory));
        }
        Ok(changed)
    }

    /// The route version in a request to `set`; 0 asks for the whole table.
    pub(crate) fn known_version(&self, set: &SetRoutes) -> u64 {
        // Almost all calls only read the flag; the one that clears it writes.
        if self.want_whole.load(Relaxed) && self.want_whole.swap(false, Relaxed) { 0 } else { set.table.version().0 }
    }
}

impl Directory {
    /// The index of the set of a uid.
    pub(crate) fn set_of(&self, uid: u64) -> Option<usize> {
        let after = self.sets.partition_point(|set| set.table.layout().uids().start <= uid);
        let index = after.checked_sub(1)?;
        self.sets[index].table.layout().uids().contains(&uid).then_some(index)
    }

    /// The uid ranges of all sets, in order.
    pub(crate) fn uids(&self) -> impl Iterator<Item = Range<u64>> {
        self.sets.iter().map(|set| set.table.layout().uids())
    }

    /// A set by its index in this snapshot.
    pub(crate) fn set(&self, index: usize) -> &Arc<SetRoutes> {
        &self.sets[index]
    }

    /// Whether no set is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether any set has a node or seed at `addr`.
    pub(crate) fn has_addr(&self, addr: &str) -> bool {
        self.sets.iter().any(|set| set.hosts.iter().any(|host| &**host == addr))
    }

    /// A cheap check before anything is converted or copied: most responses hold nothing new.
    fn would_change(&self, routes: &v1::Routes, seed: Option<&Arc<str>>) -> bool {
        self.index_of(&routes.set).is_none_or(|index| {
            let set = &self.sets[index];
            set.table.version().0 < routes.version || seed.is_some_and(|seed| !set.seeds.contains(seed))
        })
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.sets.iter().position(|set| set.table.set() == name)
    }

    fn adopt(&mut self, update: &RouteUpdate, seed: Option<&Arc<str>>) -> Result<bool, RoutesError> {
        let known = self.index_of(&update.set);
        let mut seeds = known.map_or_else(Vec::new, |index| self.sets[index].seeds.clone());
        let new_seed = seed.filter(|seed| !seeds.contains(seed)).cloned();
        let seed_changed = new_seed.is_some();
        seeds.extend(new_seed);

        let mut newer = known.is_none();
        let table = match known {
            // Only a seed adds a set, so that every set has a host; other responses are about the set of their request.
            None => seed.and_then(|_| RouteTable::from_whole(update)),
            Some(index) => {
                let mut table = self.sets[index].table.clone();
                match table.adopt(update) {
                    Adopted::Newer => {
                        newer = true;
                        Some(table)
                    }
                    Adopted::NotNewer => Some(table),
                    // The layout of the set changed: accepted only with a whole and newer table.
                    Adopted::Mismatch if update.version > table.version() => {
                        newer = true;
                        RouteTable::from_whole(update)
                    }
                    Adopted::Mismatch => Some(table),
                }
            }
        };
        let table = table.ok_or_else(|| RoutesError::Mismatch { set: update.set.clone() })?;
        if !newer && !seed_changed {
            return Ok(false);
        }
        self.check(&table, known)?;
        let set = Arc::new(SetRoutes::new(table, seeds));
        match known {
            Some(index) => self.sets[index] = set,
            None => self.sets.push(set),
        }
        self.sets.sort_by_key(|set| set.table.layout().uids().start);
        Ok(true)
    }

    /// Checks a table against the other sets.
    fn check(&self, table: &RouteTable, known: Option<usize>) -> Result<(), RoutesError> {
        let uids = table.layout().uids();
        for (index, other) in self.sets.iter().enumerate() {
            let other_uids = other.table.layout().uids();
            if Some(index) != known && uids.start < other_uids.end && other_uids.start < uids.end {
                let (set, other) = (table.set().to_owned(), other.table.set().to_owned());
                return Err(RoutesError::Overlap { set, uids, other, other_uids });
            }
        }
        if known.is_none() && self.sets.len() >= MAX_SETS {
            return Err(RoutesError::TooManySets { set: table.set().to_owned() });
        }
        Ok(())
    }
}

impl SetRoutes {
    fn new(table: RouteTable, seeds: Vec<Arc<str>>) -> SetRoutes {
        let addrs: BTreeMap<NodeId, Arc<str>> =
            table.nodes().iter().map(|(id, node)| (*id, Arc::from(node.addr.as_str()))).collect();
        let mut hosts: Vec<Arc<str>> = addrs.values().cloned().collect();
        for seed in &seeds {
            if !hosts.contains(seed) {
                hosts.push(seed.clone());
            }
        }
        SetRoutes { table, addrs, hosts, seeds }
    }

    /// The route of a uid of this set; without an owner while its section is unserved.
    #[inline]
    pub(crate) fn route(&self, uid: u64) -> Route {
        let located = self.table.layout().locate(Uid(uid));
        located.ok().and_then(|(section, _)| self.table.get(section)).unwrap_or_default()
    }

    /// The address of a uid's owner.
    pub(crate) fn owner(&self, uid: u64) -> Option<&Arc<str>> {
        self.addr(self.route(uid).owner?)
    }

    /// The address of a node.
    pub(crate) fn addr(&self, node: NodeId) -> Option<&Arc<str>> {
        self.addrs.get(&node)
    }

    /// The target of a request: the owner unless it is suspect or excluded, else a random other host, which forwards,
    /// with the same condition, else one that is not excluded, else any.
    pub(crate) fn host(
        &self,
        owner: Option<NodeId>,
        excluded: Option<&str>,
        is_suspect: impl Fn(&str) -> bool,
    ) -> Arc<str> {
        let is_excluded = |host: &str| Some(host) == excluded;
        let is_good = |host: &&Arc<str>| !is_excluded(host) && !is_suspect(host);
        if let Some(owner) = owner.and_then(|owner| self.addrs.get(&owner)).filter(is_good) {
            return owner.clone();
        }
        let (back, front) = self.hosts.split_at(fastrand::usize(..self.hosts.len()));
        let hosts = || front.iter().chain(back);
        let host = hosts().find(is_good).or_else(|| hosts().find(|host| !is_excluded(host))).or_else(|| hosts().next());
        host.expect("a set has a host").clone()
    }
}

#[cfg(test)]
mod tests;
