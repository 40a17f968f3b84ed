//! Connection admission: limits on the open connections of a node and on the time that a slow peer may block one.
//!
//! HTTP/2 pings detect dead peers. The timeouts here cover peers that are slow on purpose, in any protocol: one that
//! never completes a request, and one that never reads its responses.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use crate::connection::{Connection, Peer};

/// Limit on the connections of one node: 1,000 clients with a few each; an idle connection costs about 50 KB.
pub const MAX_CONNECTIONS: usize = 10_000;

/// File descriptors that each node reserves for other uses than clients: its log, data and snapshots, its port for
/// metrics and probes, and connections that are being accepted.
const OTHER_FILES: usize = 256;

/// Files of a thread with a runtime of its own: the runtime's event queue and its wake-up, the listening sockets, and
/// connections that are accepted before they are counted.
const FILES_PER_THREAD: usize = 8;

/// Fewest client connections that a node starts with.
const MIN_CONNECTIONS: usize = 64;

/// The share of a node's connections, one in so many, that no single address gets: other hosts can still connect when
/// one host has used up its limit. Small, because all clients may come through one proxy.
const RESERVED_SHARE: usize = 10;

/// Timeout until the first response on a connection: slightly longer than a request may be pending.
const FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout of a write that the peer does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// What a node needs files for beside its clients. Counted before clients get any, so that clients at their limit leave
/// the node its data, its probes and its connections to other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFiles {
    /// Most connections that it makes to other nodes.
    pub dials: usize,
    /// Threads that it serves with.
    pub threads: usize,
}

impl OwnFiles {
    fn count(self) -> usize {
        OTHER_FILES + self.dials + self.threads * FILES_PER_THREAD
    }

    /// How many client connections fit beside them into so many files.
    fn connections(self, node: &str, files: usize) -> Result<usize, FewFiles> {
        let left = files.saturating_sub(self.count()).min(MAX_CONNECTIONS);
        if left < MIN_CONNECTIONS {
            return Err(FewFiles { node: node.to_owned(), files, own: self.count() });
        }
        Ok(left)
    }
}

/// The process may open too few files for what a node does itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the process may open {files} files, and {node} needs {own} for its data, its threads and its connections to other \
     nodes, and {MIN_CONNECTIONS} for clients: raise the hard limit (LimitNOFILE, ulimit -Hn)"
)]
pub struct FewFiles {
    /// The node.
    pub node: String,
    /// Files that the process may open.
    pub files: usize,
    /// Those that the node needs for itself.
    pub own: usize,
}

/// The metrics of a node's connections.
#[derive(Clone)]
pub struct ConnectionMetrics {
    /// Open connections.
    pub open: Gauge,
    /// Connections closed at once, at a limit.
    pub refused: Counter,
}

impl ConnectionMetrics {
    /// Metrics that are recorded nowhere.
    #[must_use]
    pub fn none() -> ConnectionMetrics {
        ConnectionMetrics { open: Gauge::noop(), refused: Counter::noop() }
    }
}

/// Counts and limits the connections of one node. Clones share the count.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    node: String,
    most: usize,
    /// Limit on the connections of one address.
    most_of_address: usize,
    permits: Arc<Semaphore>,
    /// Number of connections by address, without zeros.
    addresses: Mutex<BTreeMap<IpAddr, usize>>,
    metrics: ConnectionMetrics,
}

impl Admission {
    /// Admits up to [`MAX_CONNECTIONS`], or as many as the open-file limit leaves beside the node's own files; at most
    /// nine tenths of them from one address.
    ///
    /// # Errors
    /// [`FewFiles`] when fewer than [`MIN_CONNECTIONS`] are left for clients.
    pub fn new(node: &str, own: OwnFiles, metrics: ConnectionMetrics) -> Result<Admission, FewFiles> {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        let most = own.connections(node, files.unwrap_or(usize::MAX))?;
        Ok(Admission::shared_out(node, most, metrics))
    }

    /// Admits up to `most` connections, at most nine tenths of them from one address.
    pub(crate) fn shared_out(node: &str, most: usize, metrics: ConnectionMetrics) -> Admission {
        Admission::with(node, most, most - most.div_ceil(RESERVED_SHARE), metrics)
    }

    /// Admits up to `most` connections, from any addresses.
    #[must_use]
    pub fn of(node: &str, most: usize, metrics: ConnectionMetrics) -> Admission {
        Admission::with(node, most, most, metrics)
    }

    /// Admits up to `most` connections, and up to `most_of_address` from one address.
    fn with(node: &str, most: usize, most_of_address: usize, metrics: ConnectionMetrics) -> Admission {
        let (permits, addresses) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Admission(Arc::new(Inner { node: node.to_owned(), most, most_of_address, permits, addresses, metrics }))
    }

    /// A permit for a connection from `peer`; `None` at a limit.
    #[must_use]
    pub fn admit(&self, peer: Option<IpAddr>) -> Option<Permit> {
        let inner = &self.0;
        let address = peer.map(host);
        let permit = inner.permits.clone().try_acquire_owned().ok().filter(|_| inner.admit_address(address));
        let Some(permit) = permit else {
            inner.metrics.refused.increment(1);
            return None;
        };
        inner.metrics.open.increment(1.0);
        Some(Permit { inner: inner.clone(), address, _permit: permit })
    }

    /// Name of the node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// Number of connections that are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.most - self.0.permits.available_permits()
    }

    /// Limit on open connections.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Admits a connection and enforces its timeouts; `None` at a limit.
    #[must_use]
    pub fn watch(&self, connection: Connection) -> Option<Watched> {
        let permit = self.admit(connection.peer().addr().map(|addr| addr.ip()))?;
        let opening = Some(Box::pin(tokio::time::sleep(FIRST_RESPONSE_TIMEOUT)));
        Some(Watched { connection, opening, stalled: None, _permit: permit })
    }
}

impl Inner {
    /// Counts a connection of an address. Returns whether it is within the limit.
    fn admit_address(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address else { return true };
        let mut addresses = self.addresses.lock();
        let count = addresses.entry(address).or_default();
        let admitted = *count < self.most_of_address;
        *count += usize::from(admitted);
        admitted
    }

    /// Decrements the count of an address.
    fn release(&self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        let mut addresses = self.addresses.lock();
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }
}

/// The unit of the per-address limit: for IPv6 the /64 network, because a host has all its addresses.
pub(crate) fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        v4 => v4,
    }
}

/// The permit of a connection; released on drop.
pub struct Permit {
    inner: Arc<Inner>,
    address: Option<IpAddr>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inner.release(self.address);
        self.inner.metrics.open.decrement(1.0);
    }
}

/// A connection that ends when its peer exceeds a timeout.
pub struct Watched {
    connection: Connection,
    /// Runs until the first response.
    opening: Option<Pin<Box<Sleep>>>,
    /// Runs while a write is blocked.
    stalled: Option<Pin<Box<Sleep>>>,
    _permit: Permit,
}

impl Watched {
    /// Ends the connection when a write was blocked for too long.
    fn written(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if self.opening.take().is_some() {
                self.connection.peer().requested();
            }
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        stalled.as_mut().poll(cx).map(|()| Err(timed_out("the peer does not read")))
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.connection).poll_read(cx, into);
        if let (Poll::Pending, Some(opening)) = (&read, &mut this.opening) {
            return opening.as_mut().poll(cx).map(|()| Err(timed_out("no request to respond to within the timeout")));
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.connection).poll_write(cx, bytes);
        this.written(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.connection).poll_write_vectored(cx, parts);
        this.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_shutdown(cx)
    }
}

impl Connected for Watched {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.connection.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn watched() -> (Admission, Watched, DuplexStream) {
        let (near, far) = duplex(64);
        let admission = Admission::of("a1", 1, ConnectionMetrics::none());
        let watched = admission.watch(Connection::other(near)).unwrap();
        (admission, watched, far)
    }

    #[tokio::test]
    async fn a_permit_is_released_when_its_connection_ends() {
        let (admission, watched, _far) = watched();
        assert_eq!(admission.count(), 1);
        assert!(admission.admit(None).is_none());
        drop(watched);
        assert_eq!(admission.count(), 0);
        assert!(admission.admit(None).is_some());
    }

    #[test]
    fn clients_get_the_files_that_the_node_does_not_need_itself() {
        let connections = |files, dials, threads| OwnFiles { dials, threads }.connections("a1", files);
        assert_eq!(connections(usize::MAX, 6_800, 17), Ok(MAX_CONNECTIONS));
        assert_eq!(connections(1_024, 9, 3), Ok(1_024 - 256 - 9 - 24));
        // Seventeen threads, each with two connections to each of a hundred nodes.
        assert_eq!(connections(4_096, 3_400, 17), Ok(4_096 - 256 - 3_400 - 136));
        assert_eq!(connections(256 + 10 + 64, 10, 0), Ok(MIN_CONNECTIONS));
        let error = connections(2_048, 3_400, 17).unwrap_err();
        assert_eq!(error, FewFiles { node: "a1".into(), files: 2_048, own: 3_792 });
        assert!(error.to_string().contains("LimitNOFILE"), "{error}");
    }

    #[test]
    fn one_address_does_not_get_every_permit() {
        let admission = Admission::with("a1", 5, 3, ConnectionMetrics::none());
        let admit = |address: &str| admission.admit(Some(address.parse().unwrap()));
        let mut permits: Vec<_> = (0..3).filter_map(|_| admit("10.0.0.1")).collect();
        assert_eq!(permits.len(), 3);
        assert!(admit("10.0.0.1").is_none() && admit("::ffff:10.0.0.1").is_none(), "its share is used up");
        permits.extend(admit("2001:db8::1"));
        permits.extend(admit("2001:db8::2:1"));
        assert_eq!(admission.count(), 5);
        assert!(admit("10.0.0.2").is_none(), "all are used up");
        permits.truncate(2);
        permits.extend(["10.0.0.2", "10.0.0.1", "10.0.0.2"].into_iter().filter_map(admit));
        assert_eq!(admission.count(), 5, "permits are released, for every address");
        drop(permits);
        assert!(admission.0.addresses.lock().is_empty(), "addresses without connections are removed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_completes_a_request_is_disconnected() {
        let (_admission, mut watched, mut far) = watched();
        let dribbling = async {
            loop {
                far.write_all(b"x").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let reading = async {
            let mut byte = [0];
            loop {
                if let Err(error) = watched.read_exact(&mut byte).await {
                    return error;
                }
            }
        };
        let error = tokio::select! {
            error = reading => error,
            () = dribbling => unreachable!("it dribbles for ever"),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_response_may_be_idle() {
        let (_admission, mut watched, _far) = watched();
        watched.write_all(b"answer").await.unwrap();
        let mut byte = [0];
        tokio::time::timeout(FIRST_RESPONSE_TIMEOUT * 10, watched.read_exact(&mut byte)).await.expect_err("it waits");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_disconnected() {
        let (_admission, mut watched, mut far) = watched();
        watched.write_all(&[1; 64]).await.unwrap();
        let mut some = [0; 32];
        tokio::time::sleep(WRITE_TIMEOUT * 2).await;
        far.read_exact(&mut some).await.unwrap();
        let error = watched.write_all(&[1; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
