//! State shared by all calls of a client: connections, routes, retry budget, batchers.

use std::sync::Arc;

use seq_channel::Pool;
use seq_channel::batch::Batchers;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::directory::Routes;

/// State shared by all calls of a client.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) routes: Routes,
    pub(crate) seeds: Vec<Arc<str>>,
    pub(crate) budget: Budget,
    /// `None` when coalescing is off: every call is a unary request.
    pub(crate) batchers: Option<Batchers>,
    /// When the routes were last fetched from the seeds again. Locked during the fetch.
    pub(crate) refreshed: tokio::sync::Mutex<Option<Instant>>,
}

impl Shared {
    /// Closes the connections to addresses that are in no route table any more.
    pub(crate) fn drop_unused_addrs(&self) {
        let directory = self.routes.load();
        let used = |addr: &str| directory.has_addr(addr) || self.seeds.iter().any(|seed| &**seed == addr);
        self.pool.retain(used);
        if let Some(batchers) = &self.batchers {
            batchers.retain(used);
        }
    }
}
