//! Batching of calls for numbers: concurrent calls share the messages of one `NextStream` per node.
//!
//! A round trip costs a hundred times as much as a number. There is no batching delay: a call that finds the queue
//! empty is sent at once, and calls that arrive while the sender is busy form its next message. On a runtime with a
//! single thread, a message has all calls that the tasks enqueued in one turn.
//!
//! No call waits for the items of another: messages set `now_only`, and an item that would have to wait, or that
//! another node owns, is refused with `WOULD_WAIT`. Its caller sends it again as a unary request.
//!
//! The SDK coalesces its calls with this module (docs/adr/0009-coalescing.md), and AllocSvrs forward with it
//! (docs/adr/0012-forwarding-over-streams.md).
//!
//! Modules, each using only earlier modules: [`response`] is a call's part of a response; [`queue`] has the pending and
//! the in-flight calls, without any I/O; [`shared_queue`] shares the queue between callers and stream; [`stream`] is
//! the task between queue and wire; [`node_batcher`] is the entry point for the calls to one node, and owns its task.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::pool::Pool;

mod node_batcher;
mod queue;
mod response;
mod shared_queue;
mod stream;

pub use node_batcher::{NodeBatcher, QueueFull};
pub use queue::{Bounds, Call, CallItems, Item, Outcome};
pub use response::{Allocated, Response};

/// The batchers of a pool, by address of the node; the first call to a node creates its batcher.
#[derive(Debug)]
pub struct Batchers {
    bounds: Bounds,
    pool: Pool,
    by_addr: RwLock<BTreeMap<Arc<str>, Arc<NodeBatcher>>>,
}

impl Batchers {
    /// Creates an empty collection; the batchers' streams use connections of `pool`.
    #[must_use]
    pub fn new(bounds: Bounds, pool: Pool) -> Batchers {
        Batchers { bounds, pool, by_addr: RwLock::default() }
    }

    /// Returns the batcher of a node, given as `host:port`, if there is one.
    #[must_use]
    pub fn get(&self, addr: &str) -> Option<Arc<NodeBatcher>> {
        self.by_addr.read().get(addr).cloned()
    }

    /// Returns the batcher of a node, given as `host:port`; creates it if there is none. [`Batchers::retain`] bounds
    /// their number.
    pub fn get_or_create(&self, addr: &str) -> Arc<NodeBatcher> {
        if let Some(batcher) = self.get(addr) {
            return batcher;
        }
        let addr: Arc<str> = addr.into();
        let new = || Arc::new(NodeBatcher::new(addr.clone(), self.bounds, self.pool.clone()));
        self.by_addr.write().entry(addr.clone()).or_insert_with(new).clone()
    }

    /// Drops the batchers of addresses for which `keep` returns `false`. Their calls run to completion.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.by_addr.write().retain(|addr, _| keep(addr));
    }
}
