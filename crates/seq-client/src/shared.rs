//! State shared by all calls of a client: connections, routes with the retry budget of each set, batchers.

use std::sync::Arc;

use seq_channel::Pool;
use seq_channel::batch::Batchers;
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
    /// When the routes were last fetched from the seeds again. Locked during the fetch.
    pub(crate) refreshed: tokio::sync::Mutex<Option<Instant>>,
}

impl Shared {
    /// Adopts the routes of a response. Invalid routes are logged and otherwise ignored: the response itself is valid.
    pub(crate) fn adopt(&self, routes: Option<&v1::Routes>, from: &str) {
        let Some(routes) = routes else { return };
        match self.routes.adopt(routes, None) {
            Ok(change) if change.addrs => self.drop_unused_addrs(),
            Ok(_) => {}
            Err(error) => tracing::warn!(from, %error, "routes in a response were not adopted"),
        }
    }

    /// Closes the connections to addresses that are in no route table any more.
    pub(crate) fn drop_unused_addrs(&self) {
        let directory = self.routes.load();
        let addrs = directory.addrs();
        let used = |addr: &str| addrs.contains(addr) || self.seeds.iter().any(|seed| &**seed == addr);
        self.pool.retain(used);
        if let Some(batchers) = &self.batchers {
            batchers.retain(used);
        }
    }
}
