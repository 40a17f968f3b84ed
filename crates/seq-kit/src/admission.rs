//! Connection admission. It limits the number of open connections of a node, and the time for which a slow peer may
//! keep a connection occupied.
//!
//! HTTP/2 pings detect dead peers. The timeouts here are against peers that are slow on purpose, in any protocol: a
//! peer that never completes a request, and a peer that never reads its responses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use seq_auth::{Identity, Role};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::{Connection, Peer};
use crate::refusal_log::RefusalLog;
use crate::unfinished::host;

mod watched;

pub use watched::Watched;

/// Limit on the connections of one node. It is enough for 1,000 clients with a few connections each, and for the
/// connections that are reserved for nodes and operators. An idle connection without TLS costs 9 to 22 KB.
pub const MAX_CONNECTIONS: usize = 12_000;

/// Divisor of the number of a node's connections. One connection in `NODES_SHARE` is not available to callers. It is
/// reserved for handshakes, whose number [`crate::unfinished`] limits, and for other nodes and operators.
const NODES_SHARE: usize = 4;

/// File descriptors that each node reserves for purposes other than client connections: its log, its data and
/// snapshots, its port for metrics and probes, and connections that are being accepted.
const OTHER_FILES: usize = 256;

/// File descriptors that each thread with its own runtime needs: for the runtime's event queue and wake-up, for
/// listening sockets, and for connections that are accepted but not counted yet.
const FILES_PER_THREAD: usize = 8;

/// Smallest limit on client connections with which a node starts.
const MIN_CONNECTIONS: usize = 64;

/// Divisor of the number of connections of callers, and of the number of connections of nodes. A single address may
/// have all of them except one in `RESERVED_SHARE`. So other hosts can still connect when one host has reached its
/// limit. This reserve is small, because all clients may come through one proxy, which is one address.
const RESERVED_SHARE: usize = 10;

/// Time within which the first response on a connection must be sent. It is slightly longer than the time for which a
/// request may be pending.
const FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout of a write that the peer does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Counts of open files that a node needs for itself, in addition to the connections of its clients. They are
/// subtracted from the limit on open files first. So the node keeps its data, its probes and its connections to other
/// nodes even if clients use all remaining files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFiles {
    /// Largest number of connections that the node makes to other nodes.
    pub dials: usize,
    /// Threads with which the node serves.
    pub threads: usize,
}

impl OwnFiles {
    fn count(self) -> usize {
        OTHER_FILES + self.dials + self.threads * FILES_PER_THREAD
    }

    /// Returns the number of client connections that are possible if the process may open `files` files and the files
    /// counted in `self` are reserved for the node itself.
    fn connections(self, node: &str, files: usize) -> Result<usize, FewFiles> {
        let left = files.saturating_sub(self.count()).min(MAX_CONNECTIONS);
        if left < MIN_CONNECTIONS {
            return Err(FewFiles { node: node.to_owned(), files, own: self.count() });
        }
        Ok(left)
    }
}

/// Error of a node whose process may not open enough files for the node itself and for the minimum number of client
/// connections.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the process may open {files} files, and {node} needs {own} for its data, its threads and its connections to other \
     nodes, and {MIN_CONNECTIONS} for clients: raise the hard limit (LimitNOFILE, ulimit -Hn)"
)]
pub struct FewFiles {
    /// The node.
    pub node: String,
    /// Number of files that the process may open.
    pub files: usize,
    /// Number of files that the node needs for itself.
    pub own: usize,
}

/// The metrics of a node's connections.
#[derive(Clone)]
pub struct ConnectionMetrics {
    /// Open connections.
    pub open: Gauge,
    /// Connections closed at once because a limit was reached.
    pub refused: Counter,
    /// Connections ended because their peers sent too many frames that belong to no request.
    pub flooded: RefusalLog,
}

impl ConnectionMetrics {
    /// Returns metrics that are recorded nowhere.
    #[must_use]
    pub fn none() -> ConnectionMetrics {
        ConnectionMetrics { open: Gauge::noop(), refused: Counter::noop(), flooded: RefusalLog::none() }
    }
}

/// Counter and limit of the connections of one node. Clones share the counts.
#[derive(Clone)]
pub struct Admission {
    inner: Arc<Inner>,
    /// Whether connections without an identity are counted as connections of nodes and operators.
    is_for_nodes: bool,
}

struct Inner {
    node: String,
    most: usize,
    /// Limit on the connections of callers.
    most_callers: usize,
    /// Divisor of each limit. A single address may have all of the connections under the limit except one in `share`.
    share: usize,
    permits: Arc<Semaphore>,
    counts: Mutex<Counts>,
    metrics: ConnectionMetrics,
}

/// Counts of the connections whose handshake has ended, so that the kind of their sender is known.
#[derive(Default)]
struct Counts {
    callers: usize,
    /// Number of connections by kind and address. Entries that would be 0 are removed.
    addresses: BTreeMap<(Kind, IpAddr), usize>,
}

/// The kind of a connection's sender. It decides which limit applies to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A client, a proxy, or a sender without a certificate.
    Caller,
    /// A node or an operator.
    Node,
}

impl Admission {
    /// Creates an admission of at most [`MAX_CONNECTIONS`] connections. The number is lower if the limit on open files,
    /// minus the node's own files, is lower. At most three quarters of the admitted number may be connections of
    /// callers. At most nine tenths of these three quarters may be connections of callers at one address.
    ///
    /// # Errors
    /// [`FewFiles`] if fewer than [`MIN_CONNECTIONS`] connections are left for clients.
    pub fn new(node: &str, own: OwnFiles, metrics: ConnectionMetrics) -> Result<Admission, FewFiles> {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        let most = own.connections(node, files.unwrap_or(usize::MAX))?;
        Ok(Admission::with(node, most, most - most / NODES_SHARE, RESERVED_SHARE, metrics))
    }

    /// Creates an admission of at most `most` connections, without further limits for a kind of sender or for an
    /// address.
    #[must_use]
    pub fn of(node: &str, most: usize, metrics: ConnectionMetrics) -> Admission {
        Admission::with(node, most, most, usize::MAX, metrics)
    }

    fn with(node: &str, most: usize, most_callers: usize, share: usize, metrics: ConnectionMetrics) -> Admission {
        let (permits, counts) = (Arc::new(Semaphore::new(most)), Mutex::default());
        let node = node.to_owned();
        let inner = Arc::new(Inner { node, most, most_callers, share, permits, counts, metrics });
        Admission { inner, is_for_nodes: false }
    }

    /// Returns the same admission, for a port that serves nodes or operators. On such a port, connections without TLS
    /// are counted as connections of nodes and operators, although their senders prove no identity.
    #[must_use]
    pub fn for_nodes(self) -> Admission {
        Admission { is_for_nodes: true, ..self }
    }

    /// Returns a permit for a connection; `None` if a limit is reached. While the handshake is in progress, the kind of
    /// the sender is unknown, so only the limit on all connections applies.
    #[must_use]
    pub fn admit(&self, connection: &Connection) -> Option<Permit> {
        let mut permit = self.permit()?;
        permit.settle(connection).then_some(permit)
    }

    fn permit(&self) -> Option<Permit> {
        let Ok(permit) = self.inner.permits.clone().try_acquire_owned() else {
            self.inner.metrics.refused.increment(1);
            return None;
        };
        self.inner.metrics.open.increment(1.0);
        Some(Permit { admission: self.clone(), counted: None, _permit: permit })
    }

    /// Counts a connection that is closed because its peer sent too many frames. Logs the first such connection, and
    /// then at most one a minute.
    pub(crate) fn flooded(&self, peer: Option<SocketAddr>) {
        if let Some((event, suppressed)) = self.inner.metrics.flooded.count() {
            let (node, peer) = (self.node(), peer.map(tracing::field::display));
            tracing::warn!(
                event,
                node,
                peer,
                suppressed,
                "ended a connection: too many HTTP/2 frames that belong to no request"
            );
        }
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.inner.node
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.most - self.inner.permits.available_permits()
    }

    /// Returns the limit on the open connections of callers.
    #[must_use]
    pub fn most_callers(&self) -> usize {
        self.inner.most_callers
    }

    /// Returns the kind of the peer of a connection whose handshake has ended.
    fn kind(&self, peer: &Peer) -> Kind {
        match peer.identity().map(Identity::role) {
            Some(Role::Store | Role::Alloc | Role::Operator) => Kind::Node,
            None if self.is_for_nodes => Kind::Node,
            _ => Kind::Caller,
        }
    }
}

impl Inner {
    /// Counts a connection with a sender of this kind and at this address, if that is within the limits. Returns
    /// whether it was counted.
    fn count(&self, kind: Kind, address: Option<IpAddr>) -> bool {
        let is_caller = kind == Kind::Caller;
        let most = if is_caller { self.most_callers } else { self.most };
        let mut counts = self.counts.lock();
        let of_address =
            address.and_then(|address| counts.addresses.get(&(kind, address))).copied().unwrap_or_default();
        if of_address >= most - most / self.share || is_caller && counts.callers >= most {
            return false;
        }
        if let Some(address) = address {
            counts.addresses.insert((kind, address), of_address + 1);
        }
        counts.callers += usize::from(is_caller);
        true
    }

    /// Removes a connection from the counts.
    fn release(&self, kind: Kind, address: Option<IpAddr>) {
        let mut counts = self.counts.lock();
        counts.callers -= usize::from(kind == Kind::Caller);
        let Some(address) = address else { return };
        if let Some(count) = counts.addresses.get_mut(&(kind, address)) {
            *count -= 1;
            if *count == 0 {
                counts.addresses.remove(&(kind, address));
            }
        }
    }
}

/// The permit of a connection. It is released when it is dropped.
pub struct Permit {
    admission: Admission,
    /// Kind and address under which the connection is counted; `None` during its handshake.
    counted: Option<(Kind, Option<IpAddr>)>,
    _permit: OwnedSemaphorePermit,
}

impl Permit {
    fn is_settled(&self) -> bool {
        self.counted.is_some()
    }

    /// Counts the connection under the kind of its sender as soon as the handshake has ended. Has no effect if the
    /// connection is already counted. Returns `false` if the connection must be closed because a limit for this kind is
    /// reached.
    pub fn settle(&mut self, connection: &Connection) -> bool {
        self.is_settled() || connection.is_opening() || self.count(connection.peer())
    }

    fn count(&mut self, peer: &Peer) -> bool {
        let inner = &self.admission.inner;
        let (kind, address) = (self.admission.kind(peer), peer.addr().map(|addr| host(addr.ip())));
        let is_admitted = inner.count(kind, address);
        match is_admitted {
            true => self.counted = Some((kind, address)),
            false => inner.metrics.refused.increment(1),
        }
        is_admitted
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let inner = &self.admission.inner;
        if let Some((kind, address)) = self.counted {
            inner.release(kind, address);
        }
        inner.metrics.open.decrement(1.0);
    }
}

#[cfg(test)]
mod tests;
