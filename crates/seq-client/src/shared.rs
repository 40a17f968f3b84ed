//! State that all calls of a client share: the connections, the batchers, and the routes with the retry budget of each
//! set.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use seq_channel::batch::{Batchers, Bounds, Keys};
use seq_channel::{ExpectedServer, Pool};
use seq_proto::v1;
use tokio::time::Instant;

use crate::directory::Routes;

/// State that all calls of a client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) routes: Routes,
    pub(crate) seeds: Vec<Arc<str>>,
    /// Batchers of calls; `None` if coalescing is off, so that every call is a unary request.
    pub(crate) batchers: Option<Batchers>,
    /// Batchers of calls for keys; `None` if coalescing is off.
    pub(crate) key_batchers: Option<KeyBatchers>,
    /// Time of the last fetch of routes from the seeds. The lock is held during the fetch.
    pub(crate) refreshed: tokio::sync::Mutex<Option<Instant>>,
    /// Whether a server is accepted only if it is an AllocSvr. If the routes state the server's address for a set, the
    /// AllocSvr must also belong to that set.
    pub(crate) allocs_only: bool,
    /// Lock that is held while the connections are adjusted to the addresses in the newest routes, so that an
    /// adjustment to older routes never comes last.
    pub(crate) addrs: Mutex<()>,
}

impl Shared {
    /// Adopts the routes in a response from the address `from`. If the routes are invalid, logs and ignores them,
    /// because the rest of the response is valid.
    pub(crate) fn adopt(&self, routes: Option<&v1::Routes>, from: &str) {
        let Some(routes) = routes else { return };
        match self.routes.adopt(routes, None) {
            Ok(change) if change.addrs => self.follow_addrs(),
            Ok(_) => {}
            Err(error) => tracing::warn!(from, %error, "routes in a response were not adopted"),
        }
    }

    /// Closes the connections to addresses that are no longer in the routes of any set, and to addresses that now
    /// belong to another set than before.
    pub(crate) fn follow_addrs(&self) {
        let _addrs = self.addrs.lock();
        let directory = self.routes.load();
        let moved = if self.allocs_only {
            let sets = directory.sets_by_addr().into_iter();
            self.pool.expect(sets.map(|(addr, set)| (addr.into(), ExpectedServer::alloc().of_set(set))).collect())
        } else {
            Vec::new()
        };
        let addrs = directory.addrs();
        let used = |addr: &str| addrs.contains(addr) || self.seeds.iter().any(|seed| &**seed == addr);
        self.pool.retain(used);
        let keep = |addr: &str| used(addr) && !moved.iter().any(|moved| **moved == *addr);
        if let Some(batchers) = &self.batchers {
            batchers.retain(keep);
        }
        if let Some(batchers) = &self.key_batchers {
            batchers.by_keyspace.read().values().for_each(|batchers| batchers.retain(keep));
        }
    }
}

/// The batchers of calls for keys, by keyspace. A cluster has few keyspaces, and only known keyspaces get batchers.
#[derive(Debug)]
pub(crate) struct KeyBatchers {
    bounds: Bounds,
    pool: Pool,
    by_keyspace: RwLock<BTreeMap<Arc<str>, Arc<Batchers<Keys>>>>,
}

impl KeyBatchers {
    pub(crate) fn new(bounds: Bounds, pool: Pool) -> KeyBatchers {
        KeyBatchers { bounds, pool, by_keyspace: RwLock::default() }
    }

    /// Returns the batchers of a keyspace.
    pub(crate) fn of_keyspace(&self, name: &str) -> Arc<Batchers<Keys>> {
        if let Some(batchers) = self.by_keyspace.read().get(name) {
            return batchers.clone();
        }
        let name: Arc<str> = name.into();
        let new = || Arc::new(Batchers::of_kind(Keys(name.clone()), self.bounds, self.pool.clone()));
        self.by_keyspace.write().entry(name.clone()).or_insert_with(new).clone()
    }
}
