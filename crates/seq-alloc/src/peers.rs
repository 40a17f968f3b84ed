//! Connections to the other nodes of a set. Each runtime that sends calls to these nodes has its own connections.
//!
//! A call is forwarded by the thread whose endpoint received it, and the same thread receives the response. So a
//! forwarded call never changes threads. The thread that renews the lease and raises ceilings has no work with
//! forwarded calls, however many there are.

use std::sync::Arc;

use parking_lot::RwLock;
use seq_channel::batch::{Batchers, Bounds, NodeBatcher};
use seq_channel::{Dial, Pool};
use tokio::runtime::{Handle, Id};

/// Limit on the number of runtimes that have their own connections. It is larger than the number of serving threads.
/// Further runtimes share the connections of the first runtime.
const MAX_RUNTIMES: usize = 256;

/// Limits on the items that a runtime forwards to a node.
pub(crate) const FORWARD_BOUNDS: Bounds = Bounds {
    // So many items are in 26 of the largest calls, or in the pipelined requests of some thousand connections. With 24
    // bytes for each item and 24 bytes for its response, they take 12 MiB. A node with more unanswered items is
    // unlikely to catch up.
    items: 262_144,
    ..Bounds::DEFAULT
};

/// Connections to the other nodes of one set.
#[derive(Debug)]
pub(crate) struct Peers {
    /// Number of connections from each runtime to each node.
    connections: usize,
    dial: Dial,
    /// Connections by runtime, in the order of the runtimes' first calls. There are so few entries that a linear search
    /// costs less than a hash.
    runtimes: RwLock<Vec<(Id, Arc<Connections>)>>,
}

/// Connections of one runtime.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Connections for separate requests.
    pub(crate) pool: Pool,
    /// Batchers for forwarded calls that share messages.
    batchers: Batchers,
}

impl Peers {
    pub(crate) fn new(connections: usize, dial: Dial) -> Peers {
        Peers { connections, dial, runtimes: RwLock::default() }
    }

    /// Returns the connections of the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn here(&self) -> Arc<Connections> {
        let runtime = Handle::current().id();
        let of = |all: &[(Id, Arc<Connections>)]| all.iter().find(|(of, _)| *of == runtime).map(|(_, of)| of.clone());
        if let Some(connections) = of(&self.runtimes.read()) {
            return connections;
        }
        let mut runtimes = self.runtimes.write();
        if runtimes.len() >= MAX_RUNTIMES {
            return runtimes[0].1.clone();
        }
        // Another thread of the same runtime may have created the connections between the two locks.
        of(&runtimes).unwrap_or_else(|| {
            let pool = Pool::with_dial(self.connections, self.dial.clone());
            let batchers = Batchers::new(FORWARD_BOUNDS, pool.clone());
            let connections = Arc::new(Connections { pool, batchers });
            runtimes.push((runtime, connections.clone()));
            connections
        })
    }
}

impl Connections {
    /// Returns the batcher for calls to `addr`, which is created if there is none. Whenever it creates a batcher, it
    /// drops the batchers and connections of addresses for which `is_node` returns false, because no node has such an
    /// address any more.
    pub(crate) fn batcher(&self, addr: &str, is_node: impl Fn(&str) -> bool) -> Arc<NodeBatcher> {
        self.batchers.get(addr).unwrap_or_else(|| {
            self.batchers.retain(&is_node);
            self.pool.retain(&is_node);
            self.batchers.get_or_create(addr)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_has_connections_of_its_own() {
        let peers = Peers::new(1, Dial::tcp());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (one, two) = (runtime(), runtime());
        one.block_on(async { peers.here().pool.get("127.0.0.1:1").unwrap() });
        assert_eq!(one.block_on(async { peers.here().pool.len() }), 1);
        assert_eq!(two.block_on(async { peers.here().pool.len() }), 0);
        assert_eq!(peers.runtimes.read().len(), 2);
    }

    #[tokio::test]
    async fn a_node_has_one_batcher_and_an_address_that_is_left_has_none() {
        let connections = Peers::new(1, Dial::tcp()).here();
        let (old, new) = ("127.0.0.1:1", "127.0.0.1:2");
        connections.pool.get(old).unwrap();
        let batcher = connections.batcher(old, |_| true);
        assert!(Arc::ptr_eq(&batcher, &connections.batcher(old, |_| true)));
        connections.batcher(new, |addr| addr == new);
        assert!(connections.batchers.get(old).is_none() && connections.pool.is_empty());
    }
}
