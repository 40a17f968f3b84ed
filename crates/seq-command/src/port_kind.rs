//! Finds out the kind of the port at an address if the port did not respond as a command expects. If the user named a
//! wrong port of a node, the error can then state the kind of this port instead of the error of the TLS or HTTP/2
//! connection.
//!
//! **Invariant:** the requests with which this module probes a port change nothing. They are a status request,
//! `GET /livez` and `PING`.

use std::time::{Duration, Instant};

use seq_channel::{Access, Pool};
use seq_load::outcome::Chain;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{GetRoutesRequest, StatusRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Status};

use crate::exit::{Exit, Failure};
use crate::security;

/// Timeout of one probe. It can be short, because the server has just responded to another request or refused a
/// connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes that are read of the response to a probe. It suffices for the first line of the response.
const REPLY_BYTES: usize = 256;

/// A request to which any HTTP port responds.
const PROBE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n";

/// Kind of the server at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// The port of an AllocSvr or a proxy for callers.
    Alloc,
    /// The port of an AllocSvr for its peers.
    AllocPeers,
    /// The gRPC port of a StoreSvr.
    Store {
        /// Name of the StoreSvr.
        name: String,
        /// Name of its set.
        set: String,
        /// Addresses of the AllocSvrs of its set.
        allocs: Vec<String>,
    },
    /// The port of a node for metrics and probes.
    Metrics,
    /// A port that speaks the Redis protocol.
    Redis,
    /// A port with TLS, which the command dials without TLS.
    Tls,
    /// A port without TLS, which the command dials with TLS.
    Plaintext,
    /// A port with TLS that refuses the certificate of this command.
    Refuses {
        /// Name of the TLS alert, as the TLS library writes it.
        alert: String,
    },
    /// Another HTTP server.
    Http,
    /// Another gRPC server.
    Grpc,
    /// A server that does not speak HTTP/2.
    Other,
}

/// The port that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The gRPC port of an AllocSvr.
    Alloc,
    /// The gRPC port of any node.
    Node,
    /// A Redis port.
    Redis,
}

/// Identifies the server at `host:port` as [`identify`] does, but returns `None` if the identification takes until
/// `limit`, which is when the command must end. If the process at the address hangs, each probe waits for its whole
/// timeout.
pub async fn identify_until(addr: &str, limit: Instant) -> Option<PortKind> {
    tokio::time::timeout_at(limit.into(), identify(addr)).await.ok()?
}

/// Identifies the server at `host:port`. Returns `None` if no server responds within the timeout, or if the kind of the
/// server is unknown.
pub async fn identify(addr: &str) -> Option<PortKind> {
    // The pool is kept until the response has arrived, because dropping a pool closes its connections.
    let pool = security::pool();
    let mut admin = StatusServiceClient::new(pool.get(addr).ok()?);
    let status = match tokio::time::timeout(PROBE_TIMEOUT, admin.status(StatusRequest {})).await.ok()? {
        Ok(response) => {
            let response = response.into_inner();
            return Some(match response.role {
                Some(Role::Store(store)) => PortKind::Store {
                    name: response.node,
                    set: response.set,
                    allocs: store.allocs.into_iter().map(|alloc| alloc.addr).collect(),
                },
                _ if has_sequences(&pool, addr).await => PortKind::Alloc,
                _ => PortKind::AllocPeers,
            });
        }
        Err(status) => status,
    };
    match (security::is_tls(), speaks_tls(addr).await) {
        (true, Some(false)) => return Some(PortKind::Plaintext),
        // The probes without TLS cannot identify a service behind TLS. Only a refusal of the certificate can be
        // recognised.
        (true, _) => return refusal(addr).await,
        (false, Some(true)) => return Some(PortKind::Tls),
        (false, _) => {}
    }
    if status.message().starts_with("grpc-status header missing") {
        let reply = exchange(&Access::default(), addr, PROBE).await;
        let is_metrics = reply.is_some_and(|reply| reply.starts_with(b"HTTP/1.1 200"));
        return Some(if is_metrics { PortKind::Metrics } else { PortKind::Http });
    }
    if is_no_http2(&status) {
        return Some(if speaks_redis(addr).await { PortKind::Redis } else { PortKind::Other });
    }
    (status.code() == Code::Unimplemented).then_some(PortKind::Grpc)
}

/// Returns whether the gRPC service for callers is registered at the port.
async fn has_sequences(pool: &Pool, addr: &str) -> bool {
    let Ok(channel) = pool.get(addr) else { return false };
    let mut node = SequenceServiceClient::new(channel);
    let routes = node.get_routes(GetRoutesRequest { known_version: u64::MAX });
    let response = tokio::time::timeout(PROBE_TIMEOUT, routes).await;
    !matches!(response, Ok(Err(status)) if status.code() == Code::Unimplemented)
}

/// Returns whether the server at `host:port` responds to `PING` as a Redis server does, either with `PONG` or with a
/// demand for a password.
pub async fn speaks_redis(addr: &str) -> bool {
    let reply = exchange(&security::without_token(), addr, b"PING\r\n").await.unwrap_or_default();
    reply.starts_with(b"+PONG") || reply.starts_with(b"-NOAUTH")
}

/// Returns whether the server at `host:port` uses TLS, or `None` if it does not respond. A server with TLS responds to
/// a request without TLS with a TLS alert (RFC 8446, section 6), whose first bytes are the content type 21 and the
/// version 3.
pub async fn speaks_tls(addr: &str) -> Option<bool> {
    let reply = exchange(&Access::default(), addr, PROBE).await?;
    Some(matches!(*reply, [21, 3, ..]))
}

/// Returns [`PortKind::Refuses`] if the server at `host:port` refuses the certificate of this command. Returns `None`
/// if the server accepts the certificate, or if the command's connections use no TLS.
pub async fn refusal(addr: &str) -> Option<PortKind> {
    if !security::is_tls() {
        return None;
    }
    let probe = async {
        let mut stream = security::without_token().connect(addr, None).await?;
        // The probe sends nothing, so a server that accepts the connection sends nothing either, and the probe times
        // out.
        stream.read(&mut [0]).await
    };
    let outcome = tokio::time::timeout(PROBE_TIMEOUT, probe).await.ok()?;
    seq_auth::alert(&outcome.err()?).map(|alert| PortKind::Refuses { alert })
}

/// Returns whether a call failed because the server does not speak HTTP/2.
fn is_no_http2(status: &Status) -> bool {
    let text = Chain(status).to_string();
    text.contains("http2 error") || text.contains("h2 protocol error")
}

/// Sends bytes and returns the first bytes of the response.
async fn exchange(access: &Access, addr: &str, request: &[u8]) -> Option<Vec<u8>> {
    let exchange = async {
        let mut stream = access.connect(addr, None).await.ok()?;
        stream.write_all(request).await.ok()?;
        stream.flush().await.ok()?;
        let mut reply = vec![0; REPLY_BYTES];
        let length = stream.read(&mut reply).await.ok()?;
        reply.truncate(length);
        Some(reply)
    };
    tokio::time::timeout(PROBE_TIMEOUT, exchange).await.ok()?
}

impl PortKind {
    /// Returns the reason why a command that needs `needed` cannot use the port. The text is the predicate of a
    /// sentence about the address. Returns `None` if the command can use the port.
    pub fn mismatch(&self, needed: Needed) -> Option<String> {
        Some(match (self, needed) {
            (PortKind::Alloc | PortKind::AllocPeers | PortKind::Store { .. }, Needed::Node)
            | (PortKind::Alloc, Needed::Alloc)
            | (PortKind::Redis, Needed::Redis) => return None,
            (PortKind::Alloc, Needed::Redis) => "is the gRPC port of an AllocSvr".to_owned(),
            (PortKind::AllocPeers, _) => "is the port of an AllocSvr for its peers".to_owned(),
            (PortKind::Store { name, set, .. }, _) => format!("is store {name} of set {set}"),
            (PortKind::Metrics, _) => "is a port for metrics and probes".to_owned(),
            (PortKind::Tls, _) => "has TLS".to_owned(),
            (PortKind::Plaintext, _) => "has no TLS".to_owned(),
            (PortKind::Refuses { alert }, _) => format!("refuses the certificate {} ({alert})", security::identity()),
            (PortKind::Redis, _) => "is a port for clients of Redis".to_owned(),
            (PortKind::Http, _) => "is an HTTP server of another kind".to_owned(),
            (PortKind::Grpc, _) => "is a gRPC server of another kind".to_owned(),
            (PortKind::Other, _) => "does not speak HTTP/2".to_owned(),
        })
    }

    /// Returns the failure of a command that needs `needed` but was given the port at `addr`. Returns `None` if the
    /// command can use the port.
    pub fn failure(&self, addr: &str, needed: Needed) -> Option<Failure> {
        let hint = match (self, needed) {
            (PortKind::Store { allocs, .. }, Needed::Alloc) if !allocs.is_empty() => {
                let urls: Vec<String> = allocs.iter().map(|alloc| format!("http://{alloc}")).collect();
                format!("name an AllocSvr of the set with --addr: {}", urls.join(", "))
            }
            (PortKind::Tls, _) => {
                "write https:// before the address; --certs and --identity name the certificate".to_owned()
            }
            (PortKind::Plaintext, _) => "write http:// before the address".to_owned(),
            (PortKind::Refuses { .. }, _) => {
                "`seqsvr cert show` shows the certificates here, `seqsvr cert issue` makes \
                                              another one; --certs and --identity name others"
                    .to_owned()
            }
            (_, Needed::Alloc) => {
                "name the gRPC port of an AllocSvr: `addr` of an [[alloc]] in the set file".to_owned()
            }
            (_, Needed::Node) => "name the gRPC port of a node: its `addr` in the set file".to_owned(),
            (_, Needed::Redis) => {
                "name the port for clients of Redis: `redis` or `redis_cluster` of an [[alloc]] in the set file"
                    .to_owned()
            }
        };
        Some(Failure::new(Exit::Usage, format!("{addr} {}", self.mismatch(needed)?)).hint(hint))
    }
}
