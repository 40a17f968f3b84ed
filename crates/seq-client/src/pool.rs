//! Connections by address: dialled on first use, shared by all callers, forgotten when no route names the address.
//!
//! A node has a few connections and callers are spread over them in turn. A connection that breaks is dialled again by the
//! next call; one that goes silent is found by HTTP/2 pings. An address that could not be reached lately is *suspect*: who
//! has a choice goes elsewhere.
//!
//! **Runtime:** every connection of a pool is driven by the tokio runtime the pool was made on, whichever thread calls.
//! A server with a runtime per core makes a pool on each, so that no call leaves its core. Calls hang while that runtime is
//! not running, and fail once it is gone.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub use seq_proto::dial::Dial;

/// Connections to one node: enough that one connection's task is not the bottleneck, few enough that 1,000 clients do not
/// exhaust a node's files.
pub const CONNECTIONS: usize = 4;

/// Most connections to one node that may be asked for.
pub const MAX_CONNECTIONS: usize = 64;

/// Most addresses in a pool: the nodes of four full sets.
pub const MAX_ADDRESSES: usize = 4 * seq_core::limits::MAX_NODES;

/// How long a dial may take: two SYN retransmissions do not fit, and another node can answer instead.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between pings of a connection, also of an idle one; a half-open connection is found within this and
/// [`KEEP_ALIVE_TIMEOUT`], before a lost host's sections have a new owner, so that nobody waits longer than for the owner.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_millis(500);

/// How long a ping may stay unanswered: longer than a busy node is away from its sockets.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long an address stays suspect after a failure: one caller a second finds out whether it is back.
pub const SUSPECT_FOR: Duration = Duration::from_secs(1);

/// Connections by address. Clones are handles on the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connections: usize,
    dial: Dial,
    runtime: Handle,
    /// Times in this pool are milliseconds since this instant.
    made: Instant,
    /// In order: when connections end together, as they do with the pool, each run of a simulation ends them alike.
    nodes: RwLock<BTreeMap<Box<str>, Node>>,
}

#[derive(Debug)]
struct Node {
    channels: Box<[Channel]>,
    /// Whose turn it is.
    turn: AtomicUsize,
    /// Until when the node is suspect, in milliseconds of the pool's time; 0 while it is not.
    suspect_until_ms: AtomicU64,
}

/// Why there is no connection to an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The address is not `host:port`.
    #[error("{addr:?} is not an address of the form host:port")]
    BadAddress {
        /// The address asked for.
        addr: String,
    },
    /// The pool holds as many addresses as it may; see [`Pool::retain`].
    #[error("no room for {addr:?}: the pool holds {MAX_ADDRESSES} addresses")]
    Full {
        /// The address asked for.
        addr: String,
    },
}

impl Pool {
    /// A pool with [`CONNECTIONS`] connections to each node, driven by the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new() -> Pool {
        Pool::with_connections(CONNECTIONS)
    }

    /// A pool with `connections` connections to each node, brought into `1 ..=` [`MAX_CONNECTIONS`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn with_connections(connections: usize) -> Pool {
        Pool::with_dial(connections, Dial::tcp())
    }

    /// A pool with `connections` connections to each node, made by `dial`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn with_dial(connections: usize, dial: Dial) -> Pool {
        let inner = Inner {
            connections: connections.clamp(1, MAX_CONNECTIONS),
            dial,
            runtime: Handle::current(),
            made: Instant::now(),
            nodes: RwLock::default(),
        };
        Pool { inner: Arc::new(inner) }
    }

    /// A connection to `addr`, as `host:port`. Does not wait: the first call on it dials.
    ///
    /// # Errors
    /// [`PoolError`]; an address that nobody answers on is an error of the call instead.
    pub fn get(&self, addr: &str) -> Result<Channel, PoolError> {
        if let Some(node) = self.inner.nodes.read().get(addr) {
            return Ok(node.next());
        }
        let node = self.inner.open(addr)?;
        let mut nodes = self.inner.nodes.write();
        if nodes.len() >= MAX_ADDRESSES && !nodes.contains_key(addr) {
            return Err(PoolError::Full { addr: addr.to_owned() });
        }
        Ok(nodes.entry(addr.into()).or_insert(node).next())
    }

    /// Forgets the addresses that `keep` does not want. Calls on their connections run to their end.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.inner.nodes.write().retain(|addr, _| keep(addr));
    }

    /// Notes that `addr` could not be reached just now.
    pub fn suspect(&self, addr: &str) {
        if let Some(node) = self.inner.nodes.read().get(addr) {
            node.suspect_until_ms.store(self.inner.now_ms() + SUSPECT_FOR.as_millis() as u64, Relaxed);
        }
    }

    /// Whether `addr` could not be reached lately.
    #[must_use]
    pub fn is_suspect(&self, addr: &str) -> bool {
        // The clock is read only for the rare node that has failed before.
        self.inner.nodes.read().get(addr).is_some_and(|node| match node.suspect_until_ms.load(Relaxed) {
            0 => false,
            until => self.inner.now_ms() < until,
        })
    }

    /// The runtime that drives the connections.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    /// Number of addresses in the pool.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.nodes.read().len()
    }

    /// Whether the pool holds no address.
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

/// Whether a server certainly did not process a failed call: the dial failed, the connection closed before the call was sent,
/// or the server said so, as one does that ends (GOAWAY with an earlier last stream, or REFUSED_STREAM). Repeating such a call
/// costs nothing.
#[must_use]
pub fn not_processed(status: &Status) -> bool {
    causes(status).any(|error| {
        error.is::<tonic::ConnectError>()
            || error.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_canceled() || error.is_closed())
            || error.downcast_ref::<h2::Error>().is_some_and(left_out)
    })
}

/// Whether the other side said that it did not process the stream. Only streams after the last one that a GOAWAY names fail with
/// it; the others run on, and fail as the connection does.
fn left_out(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || refused)
}

/// Whether a failed call ended in the connection, before any server answered it. A refusal by a server is not.
#[must_use]
pub fn is_transport(status: &Status) -> bool {
    // What a server sends has no source: only errors made on this side carry one.
    status.source().is_some()
}

/// Whether a failed call ended because its connection broke, rather than because its time was over.
#[must_use]
pub fn is_broken(status: &Status) -> bool {
    is_transport(status) && !caused_by::<tonic::TimeoutExpired>(status)
}

/// Whether an error of type `E` stands behind a status.
pub(crate) fn caused_by<E: Error + 'static>(status: &Status) -> bool {
    causes(status).any(|error| error.is::<E>())
}

/// What stands behind a status, the nearest first.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&error| error.source())
}

impl Inner {
    fn open(&self, addr: &str) -> Result<Node, PoolError> {
        let bad = || PoolError::BadAddress { addr: addr.to_owned() };
        if addr.len() > seq_core::limits::MAX_ADDR_BYTES {
            return Err(bad());
        }
        let endpoint = Endpoint::from_shared(format!("http://{addr}")).map_err(|_| bad())?;
        // Exactly host and port: no user, path or query that would change where the calls go.
        let uri = endpoint.uri();
        let exact = uri.authority().is_some_and(|authority| authority.as_str() == addr && !addr.contains('@'));
        if !exact || uri.port_u16().is_none_or(|port| port == 0) || uri.host().is_none_or(str::is_empty) {
            return Err(bad());
        }
        let endpoint = endpoint
            .executor(OnRuntime(self.runtime.clone()))
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        Ok(Node {
            channels: (0..self.connections).map(|_| self.dial.connect(endpoint.clone())).collect(),
            turn: AtomicUsize::new(0),
            suspect_until_ms: AtomicU64::new(0),
        })
    }

    fn now_ms(&self) -> u64 {
        // From 1, so that 0 can mean "never".
        self.made.elapsed().as_millis() as u64 + 1
    }
}

impl Node {
    fn next(&self) -> Channel {
        let turn = self.turn.fetch_add(1, Relaxed);
        self.channels[turn % self.channels.len()].clone()
    }
}

/// Runs the tasks that drive connections on the pool's runtime. They end with the last clone of their channel, so nobody
/// has to wait for them.
struct OnRuntime(Handle);

impl hyper::rt::Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for OnRuntime {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(task);
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1;
    use seq_proto::v1::sequence_service_client::SequenceServiceClient;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn an_address_is_opened_once_and_forgotten_when_unwanted() {
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
    async fn suspicion_passes() {
        let pool = Pool::new();
        pool.get("127.0.0.1:7100").unwrap();
        assert!(!pool.is_suspect("127.0.0.1:7100"));
        pool.suspect("127.0.0.1:7100");
        assert!(pool.is_suspect("127.0.0.1:7100"));
        tokio::time::advance(SUSPECT_FOR).await;
        assert!(!pool.is_suspect("127.0.0.1:7100"));
    }

    /// A server that reads a call and then sends these frames and closes, or closes at once. What the call comes to.
    async fn answered_by(frames: impl Fn([u8; 4]) -> Vec<u8> + Send + 'static) -> Status {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Pool::with_connections(1);
        let channel = pool.get(&listener.local_addr().unwrap().to_string()).unwrap();
        let server = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let stream = until_called(&mut connection).await;
            connection.write_all(&frames(stream)).await.unwrap();
            // Its end follows what was written.
            connection.shutdown().await.unwrap();
            let _ = connection.read_to_end(&mut Vec::new()).await;
        };
        let mut client = SequenceServiceClient::new(channel);
        let call = client.next(v1::NextRequest { uid: 1, count: 1, ..v1::NextRequest::default() });
        tokio::join!(call, server).0.unwrap_err()
    }

    /// Reads a connection's preface and frames up to the headers of a call; its stream.
    async fn until_called(connection: &mut tokio::net::TcpStream) -> [u8; 4] {
        // Settings without a value.
        connection.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        connection.read_exact(&mut [0; 24]).await.unwrap();
        loop {
            let mut head = [0; 9];
            connection.read_exact(&mut head).await.unwrap();
            let [a, b, c, kind, _, stream @ ..] = head;
            connection.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize]).await.unwrap();
            if kind == 1 {
                return stream;
            }
        }
    }

    #[tokio::test]
    async fn a_call_that_a_server_says_it_did_not_process_is_known_as_one() {
        // GOAWAY without an error, with 0 as the last stream that was processed.
        let left_out = answered_by(|_| vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await;
        assert!(not_processed(&left_out), "{left_out:?}");
        let refused = answered_by(|[a, b, c, d]| vec![0, 0, 4, 3, 0, a, b, c, d, 0, 0, 0, 7]).await;
        assert!(not_processed(&refused), "{refused:?}");
    }

    #[tokio::test]
    async fn a_call_whose_connection_broke_may_have_been_processed() {
        // GOAWAY that names the call's own stream, then the end.
        let cut = answered_by(|[a, b, c, d]| vec![0, 0, 8, 7, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0]).await;
        assert!(!not_processed(&cut) && is_broken(&cut), "{cut:?}");
        let closed = answered_by(|_| Vec::new()).await;
        assert!(!not_processed(&closed) && is_broken(&closed), "{closed:?}");
        let cancelled = answered_by(|[a, b, c, d]| vec![0, 0, 4, 3, 0, a, b, c, d, 0, 0, 0, 8]).await;
        assert!(!not_processed(&cancelled), "{cancelled:?}");
    }
}
