//! Request coalescing: concurrent calls for numbers share the messages of one `NextStream` per node.
//!
//! A round trip costs a hundred times as much as a number, so concurrent calls are batched. There is no batching delay:
//! a call that finds the queue empty is sent at once, and calls that arrive while the sender is busy are its next
//! message. No call waits for the item of another: messages set `now_only`, and an item that would have to wait is
//! refused with `WOULD_WAIT` and retried as a unary request, with all its remaining time.
//!
//! Only the first attempt of a call, to the owner, is coalesced. Retries and requests to a node that forwards are unary
//! (docs/adr/0009-coalescing.md).
//!
//! Modules, each using only those before it: [`queue`] holds the pending and the in-flight calls, without any I/O;
//! [`shared_queue`] is the queue as callers and stream share it; [`stream`] is the task between queue and wire;
//! [`node_batcher`] is the entry point for the calls to one node, and owns its task.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use seq_channel::Pool;

mod node_batcher;
mod queue;
mod shared_queue;
mod stream;

use node_batcher::NodeBatcher;

pub(crate) use queue::{Bounds, Call, Outcome};

/// The batchers of a client, by address of the node; created by the first call to it.
#[derive(Debug)]
pub(crate) struct Batchers {
    bounds: Bounds,
    pool: Pool,
    by_addr: RwLock<BTreeMap<Arc<str>, Arc<NodeBatcher>>>,
}

/// The batcher of a uid's owner, and the route information that the call carries.
#[derive(Debug)]
pub(crate) struct StreamTarget {
    pub(crate) batcher: Arc<NodeBatcher>,
    /// Version of the routes that chose the owner.
    pub(crate) route_version: u64,
    /// Epoch of the uid's section in them.
    pub(crate) epoch: u64,
}

impl Batchers {
    /// No batcher yet; their streams use connections of `pool`.
    pub(crate) fn new(bounds: Bounds, pool: Pool) -> Batchers {
        Batchers { bounds, pool, by_addr: RwLock::default() }
    }

    /// The batcher of a node.
    pub(crate) fn get(&self, addr: &Arc<str>) -> Arc<NodeBatcher> {
        if let Some(batcher) = self.by_addr.read().get(addr) {
            return batcher.clone();
        }
        let new = || Arc::new(NodeBatcher::new(addr.clone(), self.bounds, self.pool.clone()));
        self.by_addr.write().entry(addr.clone()).or_insert_with(new).clone()
    }

    /// Drops the batchers of addresses for which `keep` is false. Their calls run to completion.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.by_addr.write().retain(|addr, _| keep(addr));
    }
}
