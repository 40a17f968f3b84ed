//! The Redis endpoint of an AllocSvr. Each uid is a Redis key, and INCR allocates its next number. If the settings name
//! a keyspace, each key of Redis that names neither a uid nor a series is a key of this keyspace. On a port for clients
//! of Redis Cluster, each key is a key of the keyspace, and clients send it to the owner of its slot (`cluster.rs`).
//!
//! One endpoint runs on each core, in the core's runtime and with its own listener, as for gRPC. A connection has a
//! limit on its memory, [`MAX_CONNECTION_BYTES`], and a timeout whenever the endpoint waits for the client. Numbers
//! only grow, so commands that would lower or remove a number are refused.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Release};
use std::time::Duration;

use seq_api::keys::Keyspace;
use seq_api::metrics::denied_requests;
use seq_api::node_events::NodeEvents;
use seq_api::service::SequenceService;
use seq_core::RouteVersion;
use seq_core::state::CreateSeries;
use seq_kit::admission::Admission;
use seq_kit::config::durations;
use seq_kit::connection::{Connection, Listener, paced};
use seq_kit::departure::Departure;
use seq_kit::memory::MemoryBudget;
use seq_kit::port::{Guard, Respond};
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::roles::Called;
use seq_tenant::Tenants;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::id_counts::IdCounts;
use crate::keys::{KeyRefusal, find_keyspace};
use crate::latency::Latency;

mod allocate;
mod auth;
mod cluster;
mod commands;
mod connection;
mod encode;
mod incr_batch;
pub mod parse;
mod tables;
mod transaction;

pub use cluster::ClusterNodes;

/// Limit on the bytes of a key's prefix. With this limit, ten thousand of the longest keys fit into
/// [`parse::MAX_COMMAND_BYTES`].
pub const MAX_PREFIX_BYTES: usize = 24;

/// Limit on the bytes of a password. It is the same as the limit of any argument.
pub const MAX_PASSWORD_BYTES: usize = parse::MAX_BULK_BYTES;

/// Limit on the memory of one connection in this process. It is enough for an incomplete command of the largest size,
/// the commands of a transaction, and the replies to the largest batch if the client does not read them. An idle
/// connection takes less than 1 KiB. The kernel's socket buffers are not included.
pub const MAX_CONNECTION_BYTES: usize = 3 << 20;

/// Settings of TCP keepalive: idle time before the first probe, interval of probes, and number of probes. With them, a
/// connection whose client has disappeared ends within a minute.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

seq_kit::options! {
    /// Options of a Redis port.
    #[derive(Clone, PartialEq, Eq)]
    pub struct RespConfig {
        /// Prefix of the uid in a key of the Redis port.
        pub prefix: String,
        /// Prefix of the name in a key of a series, as in "id:orders" or, with the lane, "id:media:1341"; empty: no key
        /// names a series.
        pub id_prefix: String,
        /// Name of the keyspace of all keys that name neither a uid nor a series by the prefixes above: such a key is a
        /// key of the keyspace, whole and unchanged, as in "conv:42"; empty: such keys are refused.
        pub keyspace: String,
        /// Password that clients must send (AUTH); empty: none.
        #[serde(with = "password")]
        pub password: Option<String>,
        /// Seconds without a command after which a connection is closed; 0: never.
        #[serde(rename = "idle_timeout_s", with = "durations::optional_s")]
        pub idle_timeout: Option<Duration>,
        /// Whether GET, MGET, EXISTS, TYPE and TTL accept an upper bound in place of the last number, after the crash
        /// of an owner and until the uid's next number. If not, they are refused in that state (-INEXACT).
        pub read_bounds: bool,
    }
}

/// An optional password; an empty text stands for none.
mod password {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(password: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(password.as_deref().unwrap_or_default())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        Ok(Some(String::deserialize(deserializer)?).filter(|password| !password.is_empty()))
    }
}

impl fmt::Debug for RespConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RespConfig { prefix, id_prefix, keyspace, password: _, idle_timeout, read_bounds } = self;
        let mut fields = f.debug_struct("RespConfig");
        fields.field("prefix", prefix).field("id_prefix", id_prefix).field("keyspace", keyspace);
        fields.field("idle_timeout", idle_timeout).field("read_bounds", read_bounds);
        fields.finish_non_exhaustive()
    }
}

/// Error of an invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RespConfigError {
    /// The prefix is too long.
    #[error("a prefix of {bytes} bytes is longer than {MAX_PREFIX_BYTES}")]
    PrefixTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The prefix contains blanks or control characters, or ends with a digit. A key with such a prefix would be
    /// ambiguous.
    #[error("a prefix has no blanks, no control characters, and no digit at its end")]
    Prefix,
    /// A key could name both a uid and a series.
    #[error(
        "id_prefix {id_prefix:?} and prefix {prefix:?} begin alike, so a key could name a series or a uid: change id_prefix, \
         or leave it empty for a port without series"
    )]
    AmbiguousPrefix {
        /// Prefix of series.
        id_prefix: String,
        /// Prefix of uids.
        prefix: String,
    },
    /// No keyspace can have the name.
    #[error(
        "{name:?} names no keyspace: a name is 1 to {} characters of [a-z0-9_.-], and `seqsvr keyspace list` lists them",
        seq_core::limits::MAX_NAME_BYTES
    )]
    Keyspace {
        /// The name in the settings.
        name: String,
    },
    /// The password is too long, or contains bytes that some clients cannot send.
    #[error("a password is up to {MAX_PASSWORD_BYTES} bytes without blanks and control characters")]
    Password,
}

impl RespConfig {
    /// Returns the default settings.
    #[must_use]
    pub fn defaults() -> RespConfig {
        RespConfig {
            prefix: "seq:".to_owned(),
            id_prefix: "id:".to_owned(),
            keyspace: String::new(),
            password: None,
            idle_timeout: None,
            read_bounds: true,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`RespConfigError`].
    pub fn validate(&self) -> Result<(), RespConfigError> {
        let blank = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
        for prefix in [&self.prefix, &self.id_prefix] {
            let bytes = prefix.len();
            if bytes > MAX_PREFIX_BYTES {
                return Err(RespConfigError::PrefixTooLong { bytes });
            }
            if prefix.bytes().any(blank) || prefix.ends_with(|last: char| last.is_ascii_digit()) {
                return Err(RespConfigError::Prefix);
            }
        }
        if self.is_ambiguous() {
            let RespConfig { id_prefix, prefix, .. } = self.clone();
            return Err(RespConfigError::AmbiguousPrefix { id_prefix, prefix });
        }
        if !self.keyspace.is_empty() && CreateSeries::check_name(&self.keyspace).is_err() {
            return Err(RespConfigError::Keyspace { name: self.keyspace.clone() });
        }
        let bad = |password: &String| password.len() > MAX_PASSWORD_BYTES || password.bytes().any(blank);
        if self.password.as_ref().is_some_and(bad) { Err(RespConfigError::Password) } else { Ok(()) }
    }

    /// Returns whether a key could name both a series and a uid. If the prefix of uids is empty, their keys begin with
    /// a digit.
    fn is_ambiguous(&self) -> bool {
        let (uids, ids) = (self.prefix.as_str(), self.id_prefix.as_str());
        match (uids, ids) {
            (_, "") => false,
            ("", _) => ids.starts_with(|first: char| first.is_ascii_digit()),
            _ => uids.starts_with(ids) || ids.starts_with(uids),
        }
    }
}

/// State shared by the Redis endpoints of one node. Clones are handles to the same state.
#[derive(Clone)]
pub struct RespNode(Arc<Node>);

struct Node {
    config: RespConfig,
    /// The nodes that are shown to clients of Redis Cluster; `None` if the port is for other clients.
    cluster: Option<ClusterNodes>,
    /// Admission of connections.
    admission: Admission,
    auth_failures: auth::AuthFailures,
    /// Guard that may deny connections with TLS.
    guard: Guard,
    /// The tenants to which clients belong; `None` if every client may use every uid.
    tenants: Option<Tenants>,
    memory: MemoryBudget,
    departure: Departure,
    /// Id of the newest connection.
    last_id: AtomicU64,
    started: Instant,
}

impl RespNode {
    /// Creates the state of a node. `admission` counts the node's connections on all ports, and `memory` their memory.
    /// If there are `tenants`, each client must belong to one of them. Denied requests and wrong passwords are counted
    /// in the node's `events`.
    #[must_use]
    pub fn new(
        config: RespConfig,
        (admission, events): (Admission, &NodeEvents),
        tenants: Option<Tenants>,
        memory: MemoryBudget,
        departure: Departure,
    ) -> RespNode {
        RespNode::with((config, None), (admission, events), tenants, memory, departure)
    }

    /// Creates the state of a node, as [`RespNode::new`] does, for its port for clients of Redis Cluster. `nodes` are
    /// the nodes of the set that have such a port. On this port, each key is a key of the keyspace in `config`, also
    /// if it names a uid or a series on another port.
    #[must_use]
    pub fn of_cluster(
        (config, nodes): (RespConfig, ClusterNodes),
        (admission, events): (Admission, &NodeEvents),
        tenants: Option<Tenants>,
        memory: MemoryBudget,
        departure: Departure,
    ) -> RespNode {
        let config = RespConfig { id_prefix: String::new(), ..config };
        RespNode::with((config, Some(nodes)), (admission, events), tenants, memory, departure)
    }

    fn with(
        (config, cluster): (RespConfig, Option<ClusterNodes>),
        (admission, events): (Admission, &NodeEvents),
        tenants: Option<Tenants>,
        memory: MemoryBudget,
        departure: Departure,
    ) -> RespNode {
        let auth_failures = auth::AuthFailures::new(admission.node(), events);
        let denied = denied_requests(admission.node(), events);
        let respond: Respond = |_, status| status.clone().into_http();
        // The name of the set is empty, because the rights of the Redis port do not depend on the set.
        let guard = Guard::new(|_, caller| Called::REDIS.check(caller, ""), respond, denied);
        let (last_id, started) = (AtomicU64::new(0), Instant::now());
        RespNode(Arc::new(Node {
            config,
            cluster,
            admission,
            auth_failures,
            guard,
            tenants,
            memory,
            departure,
            last_id,
            started,
        }))
    }
}

impl Node {
    /// Returns the name of the mode that the port has in Redis.
    fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }
}

/// State shared by the connections of one endpoint.
struct Endpoint<F> {
    service: F,
    latency: Latency,
    id_counts: Arc<IdCounts>,
    node: Arc<Node>,
    /// The table of slots that the port shows to clients of Redis Cluster.
    newest: cluster::Newest,
    /// Whether connections must end. It is set before `stop` is cancelled, which wakes the waiting connections.
    stopping: AtomicBool,
    stop: CancellationToken,
}

impl<F: SequenceService> Endpoint<F> {
    /// Returns whether the node has no routes yet. Without routes, the node knows no owner and serves no section.
    fn has_no_routes(&self) -> bool {
        self.service.route_version() == RouteVersion(0)
    }

    /// Returns the keyspace in the settings of the port; `Ok(None)` if they name none.
    ///
    /// # Errors
    /// [`KeyRefusal::UnknownKeyspace`], [`KeyRefusal::NoRoutes`].
    fn keyspace(&self) -> Result<Option<Arc<Keyspace>>, KeyRefusal> {
        let name = &self.node.config.keyspace;
        if name.is_empty() { Ok(None) } else { find_keyspace(&self.service, name).map(Some) }
    }
}

/// Serves `service` on `listener`, with tasks in `group` on the current runtime, until the group shuts down.
///
/// # Errors
/// If the listener cannot be registered with the runtime.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn serve<F: SequenceService>(
    service: F,
    node: &RespNode,
    set: &str,
    listener: impl Into<Listener>,
    group: &TaskGroup,
) -> io::Result<()> {
    let mut incoming = Box::pin(listener.into().incoming()?.then(paced));
    let shutdown = group.token();
    let (latency, node) = (Latency::new(set), node.0.clone());
    let (stopping, stop) = (AtomicBool::new(false), CancellationToken::new());
    let id_counts = IdCounts::start(set, group);
    let newest = cluster::Newest::default();
    let endpoint = Arc::new(Endpoint { service, latency, id_counts, node, newest, stopping, stop });
    let tasks = group.clone();
    group.spawn("redis endpoint", Kind::Critical, async move {
        loop {
            let accepted = tokio::select! {
                accepted = incoming.next() => accepted,
                () = shutdown.cancelled() => break,
            };
            let Some(accepted) = accepted else { break };
            let Ok(connection) = accepted else { continue };
            tasks.spawn("redis connection", Kind::Disposable, serve_one(endpoint.clone(), connection));
        }
        endpoint.stopping.store(true, Release);
        endpoint.stop.cancel();
    });
    Ok(())
}

/// Ends a connection that exceeds a limit on connections, with the error that Redis sends in this case.
async fn refuse(mut stream: Connection) {
    // The send buffer of a new socket has space for this text. If it has no space, a longer wait is not worthwhile.
    let refused = stream.write_all(b"-ERR max number of clients reached\r\n");
    let _ = tokio::time::timeout(connection::LINGER, refused).await;
}

async fn serve_one<F: SequenceService>(endpoint: Arc<Endpoint<F>>, mut stream: Connection) {
    let Some(mut permit) = endpoint.node.admission.admit(&stream) else { return refuse(stream).await };
    // The wait can be cancelled, so that a handshake in progress does not delay a shutdown.
    let opened = tokio::select! {
        opened = stream.open() => opened,
        () = endpoint.stop.cancelled() => return,
    };
    if let Err(error) = opened {
        tracing::debug!(peer = ?stream.peer().addr(), %error, "connection not opened");
        return;
    }
    if !permit.settle(&stream) {
        return refuse(stream).await;
    }
    let may_send_token = endpoint.node.tenants.is_some() && stream.peer().identity().is_none();
    if stream.is_secure()
        && !may_send_token
        && let Err(status) = endpoint.node.guard.check("", Some(stream.peer()))
    {
        let refused = format!("-NOPERM {}\r\n", status.message());
        let _ = tokio::time::timeout(connection::LINGER, stream.write_all(refused.as_bytes())).await;
        return;
    }
    let (idle, every, tries) = KEEPALIVE;
    if let Err(error) = stream.keep_alive(idle, every, tries) {
        tracing::debug!(%error, "TCP keep-alive could not be set");
    }
    connection::Client::new(endpoint, stream).run().await;
}
