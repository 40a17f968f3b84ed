//! Pool of connections by address. A connection is made at its first use and is shared by all callers. It is dropped
//! when its address is no longer in any routes.
//!
//! Each node has a few connections, which are used in rotation. If a connection is broken, the next request on it
//! connects again. HTTP/2 pings detect a half-open connection, that is, one whose peer has disappeared. An address that
//! was recently unreachable is *suspect*: requests are sent to another address if possible.
//!
//! **Runtime:** the tokio runtime in which the pool was created drives every connection, even if other threads send the
//! requests. A server with one runtime for each core creates a pool in each of them, so that no request leaves its
//! core. Requests hang while the runtime of their pool is not running, and fail after it has shut down.
//!
//! ***Servers:** the caller states which server it expects at each address, e.g. an AllocSvr of a given set. When the
//! expectation for an address changes, the pool no longer returns connections that were made under the previous
//! expectation. With TLS, the server's certificate is checked against the expectation whenever a connection is made.
//!
//! **Tasks:** the pool owns the tasks of its connections. When the last handle of the pool is dropped, these tasks are
//! aborted. Requests in flight on the pool's channels then fail, and later requests cannot connect. If [`Pool::retain`]
//! drops an address, the tasks of its connections end when the last clones of their channels are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use crate::bearer::{Bearer, CallerChannel};
use crate::tasks::ConnectionTasks;
use crate::{Dial, ExpectedServer};

/// Default number of connections to a node. It is so large that the task of one connection does not limit the
/// throughput, and so small that 1,000 clients do not exhaust a node's file descriptors.
pub const CONNECTIONS: usize = 4;

/// Most connections to a node.
pub const MAX_CONNECTIONS: usize = 64;

/// Limit on the addresses in a pool. It is the number of nodes of four sets of the largest size.
pub const MAX_ADDRESSES: usize = 4 * seq_core::limits::MAX_NODES;

/// Timeout for making a connection. It is shorter than the time that two retransmissions of a SYN packet take, because
/// another node can serve the request instead.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of pings on a connection, even if the connection is idle. A half-open connection is detected within this
/// interval plus [`KEEP_ALIVE_TIMEOUT`]. This time is shorter than the time until the sections of a failed host have
/// new owners, so no request waits longer for the detection than for the new owner.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_millis(500);

/// Timeout of a ping. It is longer than the time for which a busy node may leave its sockets unread.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Time for which an address is suspect after a failure. After this time, the next request is sent to the address in
/// spite of the failure. So about one request per second is sent to a node that stays unreachable.
pub const SUSPECT_FOR: Duration = Duration::from_secs(1);

/// Connections by address. Clones are handles to the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connections: usize,
    /// Connector with which the pool makes connections. At each address without an entry in `expected`, the pool
    /// expects the server that this connector expects.
    dial: Dial,
    /// Expectations for single addresses.
    expected: RwLock<BTreeMap<Box<str>, ExpectedServer>>,
    bearer: Option<Bearer>,
    /// Tasks that drive the connections. Dropping the pool aborts them.
    tasks: ConnectionTasks,
    /// Origin of the pool's times, which are in milliseconds.
    made: Instant,
    /// Connections by address. The map is ordered for deterministic simulation: connections that end together, e.g.
    /// because the pool is dropped, end in a fixed order.
    nodes: RwLock<BTreeMap<Box<str>, Node>>,
}

#[derive(Debug)]
struct Node {
    /// The server that the channels accept.
    expected: ExpectedServer,
    channels: Box<[Channel]>,
    /// Round-robin counter.
    turn: AtomicUsize,
    /// Time until which the node is suspect, in milliseconds since `Inner::made`; 0 if it is not suspect.
    suspect_until_ms: AtomicU64,
}

/// Error of getting a connection to an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The address is not `host:port`.
    #[error("{addr:?} is not an address of the form host:port")]
    BadAddress {
        /// The requested address.
        addr: String,
    },
    /// The pool is full; see [`Pool::retain`].
    #[error("no room for {addr:?}: the pool holds {MAX_ADDRESSES} addresses")]
    Full {
        /// The requested address.
        addr: String,
    },
}

impl Pool {
    /// Creates a pool with [`CONNECTIONS`] connections to each node. The current runtime drives the connections.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    #[must_use]
    pub fn new() -> Pool {
        Pool::with_connections(CONNECTIONS)
    }

    /// Creates a pool with `connections` connections to each node. The number is clamped to the range `1 ..=`
    /// [`MAX_CONNECTIONS`].
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    #[must_use]
    pub fn with_connections(connections: usize) -> Pool {
        Pool::with_dial(connections, Dial::tcp())
    }

    /// Creates a pool with `connections` connections to each node, made by `dial`.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    #[must_use]
    pub fn with_dial(connections: usize, dial: Dial) -> Pool {
        Pool::of_caller(connections, dial, None)
    }

    /// Does the same as [`Pool::with_dial`], for a caller that sends the token `bearer` with its requests for numbers.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    #[must_use]
    pub fn of_caller(connections: usize, dial: Dial, bearer: Option<Bearer>) -> Pool {
        let inner = Inner {
            connections: connections.clamp(1, MAX_CONNECTIONS),
            dial,
            expected: RwLock::default(),
            bearer,
            tasks: ConnectionTasks::on(Handle::current()),
            made: Instant::now(),
            nodes: RwLock::default(),
        };
        Pool { inner: Arc::new(inner) }
    }

    /// Returns a connection to `addr`, given as `host:port`. Does not block, because the connection is made only when
    /// the first request is sent on it.
    ///
    /// # Errors
    /// [`PoolError`]. If the address is unreachable, this function succeeds, but requests on the connection fail.
    pub fn get(&self, addr: &str) -> Result<Channel, PoolError> {
        if let Some(node) = self.inner.nodes.read().get(addr) {
            return Ok(node.next());
        }
        // The lock is held until the node is inserted. So a concurrent call of `expect` either finds the node in the
        // map, or has ended before the node's connections are created.
        let mut nodes = self.inner.nodes.write();
        let node = self.inner.open(addr)?;
        if nodes.len() >= MAX_ADDRESSES && !nodes.contains_key(addr) {
            return Err(PoolError::Full { addr: addr.to_owned() });
        }
        Ok(nodes.entry(addr.into()).or_insert(node).next())
    }

    /// Does the same as [`Pool::get`], but requests on the returned channel carry the token that the pool was created
    /// with.
    ///
    /// # Errors
    /// As [`Pool::get`].
    pub fn get_for_caller(&self, addr: &str) -> Result<CallerChannel, PoolError> {
        Ok(CallerChannel::new(self.get(addr)?, self.inner.bearer.clone()))
    }

    /// Drops the addresses for which `keep` returns `false`. Requests in flight on their connections still run to
    /// completion.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.inner.nodes.write().retain(|addr, _| keep(addr));
    }

    /// Replaces the expectations of servers for single addresses. For all other addresses, the expectation of the
    /// pool's connector applies. Drops the addresses whose expectation has changed, and returns them. Requests in
    /// flight on their connections still run to completion.
    pub fn expect(&self, expected: BTreeMap<Box<str>, ExpectedServer>) -> Vec<Box<str>> {
        let mut nodes = self.inner.nodes.write();
        *self.inner.expected.write() = expected;
        let changed = nodes.iter().filter(|(addr, node)| self.inner.expected(addr) != node.expected);
        let changed: Vec<Box<str>> = changed.map(|(addr, _)| addr.clone()).collect();
        for addr in &changed {
            nodes.remove(addr);
        }
        changed
    }

    /// Marks `addr` as suspect, because it has just been unreachable.
    pub fn suspect(&self, addr: &str) {
        if let Some(node) = self.inner.nodes.read().get(addr) {
            node.suspect_until_ms.store(self.inner.now_ms() + SUSPECT_FOR.as_millis() as u64, Relaxed);
        }
    }

    /// Returns whether `addr` was recently unreachable.
    #[must_use]
    pub fn is_suspect(&self, addr: &str) -> bool {
        // The clock is read only for a node that has failed before, which is rare.
        self.inner.nodes.read().get(addr).is_some_and(|node| match node.suspect_until_ms.load(Relaxed) {
            0 => false,
            until => self.inner.now_ms() < until,
        })
    }

    /// Returns the runtime that drives the connections.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        self.inner.tasks.runtime()
    }

    /// Returns the number of addresses in the pool.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.nodes.read().len()
    }

    /// Returns whether the pool has no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Pool {
    fn default() -> Self {
        Pool::new()
    }
}

impl Inner {
    /// Returns the server that is expected at an address.
    fn expected(&self, addr: &str) -> ExpectedServer {
        self.expected.read().get(addr).unwrap_or_else(|| self.dial.expected()).clone()
    }

    fn open(&self, addr: &str) -> Result<Node, PoolError> {
        let bad = || PoolError::BadAddress { addr: addr.to_owned() };
        if addr.len() > seq_core::limits::MAX_ADDR_BYTES {
            return Err(bad());
        }
        let endpoint = Endpoint::from_shared(format!("http://{addr}")).map_err(|_| bad())?;
        // The text must be exactly a host and a port, because a user, path or query would change the target.
        let uri = endpoint.uri();
        let exact = uri.authority().is_some_and(|authority| authority.as_str() == addr && !addr.contains('@'));
        if !exact || uri.port_u16().is_none_or(|port| port == 0) || uri.host().is_none_or(str::is_empty) {
            return Err(bad());
        }
        let endpoint = endpoint
            .executor(self.tasks.spawner())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let expected = self.expected(addr);
        let dial = self.dial.expecting(expected.clone());
        Ok(Node {
            expected,
            channels: (0..self.connections).map(|_| dial.connect(endpoint.clone())).collect(),
            turn: AtomicUsize::new(0),
            suspect_until_ms: AtomicU64::new(0),
        })
    }

    fn now_ms(&self) -> u64 {
        // The time starts at 1, because 0 means "never".
        self.made.elapsed().as_millis() as u64 + 1
    }
}

impl Node {
    fn next(&self) -> Channel {
        let turn = self.turn.fetch_add(1, Relaxed);
        self.channels[turn % self.channels.len()].clone()
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1;
    use seq_proto::v1::sequence_service_client::SequenceServiceClient;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn an_address_is_opened_once_and_dropped_when_not_retained() {
        let pool = Pool::with_connections(2);
        for _ in 0..3 {
            pool.get("127.0.0.1:7100").unwrap();
            pool.get("node-2:7100").unwrap();
        }
        assert_eq!(pool.len(), 2);
        pool.retain(|addr| addr == "node-2:7100");
        assert_eq!(pool.len(), 1);
    }

    #[tokio::test]
    async fn bad_addresses_are_refused_by_name() {
        let pool = Pool::new();
        let long = format!("{}:1", "a".repeat(300));
        for addr in
            ["", "host", "host:", ":1", "host:0", "host:65536", "host:1/x", "a@host:1", "host:1?x", "h h:1", &long]
        {
            assert_eq!(pool.get(addr).unwrap_err(), PoolError::BadAddress { addr: addr.to_owned() });
        }
        pool.get("[::1]:7100").unwrap();
    }

    #[tokio::test]
    async fn the_pool_is_bounded() {
        let pool = Pool::with_connections(1);
        for port in 1..=MAX_ADDRESSES {
            pool.get(&format!("127.0.0.1:{port}")).unwrap();
        }
        assert!(matches!(pool.get("127.0.0.2:1"), Err(PoolError::Full { .. })));
        pool.get("127.0.0.1:1").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspect_address_recovers_after_a_while() {
        let pool = Pool::new();
        pool.get("127.0.0.1:7100").unwrap();
        assert!(!pool.is_suspect("127.0.0.1:7100"));
        pool.suspect("127.0.0.1:7100");
        assert!(pool.is_suspect("127.0.0.1:7100"));
        tokio::time::advance(SUSPECT_FOR).await;
        assert!(!pool.is_suspect("127.0.0.1:7100"));
    }

    #[tokio::test]
    async fn dropping_the_pool_closes_its_connections() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Pool::with_connections(1);
        let channel = pool.get(&listener.local_addr().unwrap().to_string()).unwrap();
        let mut client = SequenceServiceClient::new(channel);
        let (call, dropped) = (client.get_routes(v1::GetRoutesRequest { known_version: 0 }), async {
            let (mut connection, _) = listener.accept().await.unwrap();
            connection.read_exact(&mut [0; 24]).await.unwrap();
            drop(pool);
            // Returns at the end of the connection.
            let _ = connection.read_to_end(&mut Vec::new()).await;
        });
        let failed = tokio::join!(call, dropped).0.unwrap_err();
        assert!(crate::is_transport(&failed), "{failed:?}");
        assert!(client.get_routes(v1::GetRoutesRequest { known_version: 0 }).await.is_err());
    }
}
