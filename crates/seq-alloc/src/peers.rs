//! Connections to the other nodes of the set, apart for each runtime that calls.
//!
//! A forwarded call is carried by the thread of the endpoint that it came to, out and back: it changes no thread, and however
//! much is forwarded, the thread that renews and raises does none of it.

use parking_lot::RwLock;
use seq_channel::{Dial, Pool};
use tokio::runtime::{Handle, Id};

/// Most runtimes with connections of their own: more threads than serve. Later ones share with the first.
const MAX_RUNTIMES: usize = 256;

#[derive(Debug)]
pub(crate) struct Peers {
    /// To each node, of each runtime.
    connections: usize,
    dial: Dial,
    /// In the order in which the runtimes first called. A handful, so looking through them costs less than a hash.
    pools: RwLock<Vec<(Id, Pool)>>,
}

impl Peers {
    pub(crate) fn new(connections: usize, dial: Dial) -> Peers {
        Peers { connections, dial, pools: RwLock::default() }
    }

    /// The connections of the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn here(&self) -> Pool {
        let runtime = Handle::current().id();
        let of = |pools: &[(Id, Pool)]| pools.iter().find(|(of, _)| *of == runtime).map(|(_, pool)| pool.clone());
        if let Some(pool) = of(&self.pools.read()) {
            return pool;
        }
        let mut pools = self.pools.write();
        if pools.len() >= MAX_RUNTIMES {
            return pools[0].1.clone();
        }
        // Another thread of the same runtime may have been here meanwhile.
        of(&pools).unwrap_or_else(|| {
            let pool = Pool::with_dial(self.connections, self.dial.clone());
            pools.push((runtime, pool.clone()));
            pool
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
        one.block_on(async { peers.here().get("127.0.0.1:1").unwrap() });
        assert_eq!(one.block_on(async { peers.here().len() }), 1);
        assert_eq!(two.block_on(async { peers.here().len() }), 0);
        assert_eq!(peers.pools.read().len(), 2);
    }
}
