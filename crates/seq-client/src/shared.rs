//! State shared by all calls of a client: connections, routes with the retry budget of each set, batchers.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_channel::batch::Batchers;
use seq_channel::{ExpectedServer, Pool};
use seq_proto::v1;
use tokio::time::Instant;

use crate::directory::Routes;

/// State shared by all calls of a client.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) routes: Routes,
    pub(crate) seeds: Vec<Arc<str>>,
    /// `None` when coalescing is off: every call is a unary request.
    pub(crate) batchers: Option<Batchers>,
    /// When routes were last refreshed from the seeds. Locked during the fetch.
    pub(crate) refreshed: tokio::sync::Mutex<Option<Instant>>,
    /// Whether only AllocSvrs are accepted as nodes, each of the set that the routes state for its address.
    pub(crate) allocs_only: bool,
    /// Held while the connections follow the addresses of the newest routes, so that older routes cannot replace them.
    pub(crate) addrs: Mutex<()>,
}

impl Shared {
    /// Adopts the routes of a response. Logs invalid routes and ignores them otherwise: the response itself is valid.
    pub(crate) fn adopt(&self, routes: Option<&v1::Routes>, from: &str) {
        let Some(routes) = routes else { return };
        match self.routes.adopt(routes, None) {
            Ok(change) if change.addrs => self.follow_addrs(),
            Ok(_) => {}
            Err(error) => tracing::warn!(from, %error, "routes in a response were not adopted"),
        }
    }

    /// Closes the connections to addresses that left every route table or now belong to another set.
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
        if let Some(batchers) = &self.batchers {
            batchers.retain(|addr| used(addr) && !moved.iter().any(|moved| **moved == *addr));
        }
    }
}
