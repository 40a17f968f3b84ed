//! Batching of calls for numbers. Concurrent calls to a node share the messages of one `NextStream` to this node.
//!
//! Calls share messages because processing a message takes a hundred times as long as the allocation of a number. But
//! no call is delayed to fill a message. A call is sent at once if the queue is empty. Calls that arrive while the
//! sender is busy are sent together in the next message. On a runtime with a single thread, all calls that tasks
//! enqueue in one turn of the event loop are in one message.
//!
//! No call waits for the items of another call. Messages set `now_only`, so the node refuses an item with `WOULD_WAIT`
//! if the item would have to wait there, or if another node owns its section. The caller of the item then sends it
//! again in a unary request.
//!
//! The SDK coalesces its calls with this module (docs/adr/0009-coalescing.md), and AllocSvrs forward calls with it
//! (docs/adr/0012-forwarding-over-streams.md).
//!
//! The stream is one of uids or one of the keys of a keyspace, with the same machinery.
//!
//! Each module uses only modules before it in this list. [`kind`] has what differs between these kinds of streams. [`response`] is the part of a response that belongs to one
//! call. [`queue`] has the pending calls and the calls in flight, without any I/O. [`shared_queue`] shares the queue
//! between the callers and the stream. [`stream`] is the task between the queue and the connection. [`node_batcher`] is
//! the entry point for the calls to one node, and owns the task of its stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::pool::Pool;

mod kind;
mod node_batcher;
mod queue;
mod response;
mod shared_queue;
mod stream;

pub use kind::{Keys, Kind, Uids};
pub use node_batcher::{NodeBatcher, QueueFull};
pub use queue::{Bounds, Call, CallItems, Item, Outcome};
pub use response::{Allocated, Response};

/// The batchers of a pool, by address of the node. The first call to a node creates its batcher.
#[derive(Debug)]
pub struct Batchers<K: Kind = Uids> {
    kind: Arc<K>,
    bounds: Bounds,
    pool: Pool,
    by_addr: RwLock<BTreeMap<Arc<str>, Arc<NodeBatcher<K>>>>,
}

impl Batchers {
    /// Creates an empty collection. The streams of the batchers will use connections of `pool`.
    #[must_use]
    pub fn new(bounds: Bounds, pool: Pool) -> Batchers {
        Batchers::of_kind(Uids, bounds, pool)
    }
}

impl<K: Kind> Batchers<K> {
    /// Creates an empty collection of batchers of this kind, as [`Batchers::new`] does of those of uids.
    #[must_use]
    pub fn of_kind(kind: K, bounds: Bounds, pool: Pool) -> Batchers<K> {
        Batchers { kind: Arc::new(kind), bounds, pool, by_addr: RwLock::default() }
    }

    /// Returns the batcher for the node at `addr`, given as `host:port`; `None` if there is no batcher for it.
    #[must_use]
    pub fn get(&self, addr: &str) -> Option<Arc<NodeBatcher<K>>> {
        self.by_addr.read().get(addr).cloned()
    }

    /// Returns the batcher for the node at `addr`, given as `host:port`. Creates it if there is none. The number of
    /// batchers is not limited here, so the caller has to drop unused batchers with [`Batchers::retain`].
    pub fn get_or_create(&self, addr: &str) -> Arc<NodeBatcher<K>> {
        if let Some(batcher) = self.get(addr) {
            return batcher;
        }
        let addr: Arc<str> = addr.into();
        let new = || Arc::new(NodeBatcher::new(addr.clone(), self.kind.clone(), self.bounds, self.pool.clone()));
        self.by_addr.write().entry(addr.clone()).or_insert_with(new).clone()
    }

    /// Drops the batchers of addresses for which `keep` returns `false`. Calls in these batchers still run to
    /// completion.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.by_addr.write().retain(|addr, _| keep(addr));
    }
}
