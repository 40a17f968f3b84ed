//! Identifies what listens at an address that did not respond as a command expects: a user who named the wrong port of
//! a node gets its name instead of the transport's error.
//!
//! **Invariant:** the probes change nothing: a status request, `GET /livez` and `PING`.

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

/// Timeout of one probe: the address has just responded to something else, or refused it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit on the bytes of a probe's reply that are read: its first line.
const REPLY_BYTES: usize = 256;

/// A request that any HTTP port responds to.
const PROBE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n";

/// What listens at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// The port of an AllocSvr or a proxy for callers.
    Alloc,
    /// The port of an AllocSvr for its peers.
    AllocPeers,
    /// The gRPC port of a StoreSvr, with the addresses of its set's AllocSvrs.
    Store {
        /// Name of the StoreSvr.
        name: String,
        /// Name of its set.
        set: String,
        /// Addresses of the AllocSvrs of its set.
        allocs: Vec<String>,
    },
    /// The port for metrics and probes of a node.
    Metrics,
    /// A port that speaks the Redis protocol.
    Redis,
    /// A port with TLS, reached without it.
    Tls,
    /// A port without TLS, reached with it.
    Plaintext,
    /// A port with TLS that refuses the certificate of this command, with the name of the alert.
    Refuses {
        /// The TLS alert, as the library names it.
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

/// As [`identify`], within a time limit of the command: a process that hangs responds to no probe either.
pub async fn identify_until(addr: &str, limit: Instant) -> Option<PortKind> {
    tokio::time::timeout_at(limit.into(), identify(addr)).await.ok()?
}

/// Identifies what listens at `host:port`; `None` if nothing does, or it does not respond in time.
pub async fn identify(addr: &str) -> Option<PortKind> {
    // Held until the response: a pool that is dropped closes its connections.
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
        // What it has behind the handshake is not known.
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

/// Whether the service of callers is registered.
async fn has_sequences(pool: &Pool, addr: &str) -> bool {
    let Ok(channel) = pool.get(addr) else { return false };
    let mut node = SequenceServiceClient::new(channel);
    let routes = node.get_routes(GetRoutesRequest { known_version: u64::MAX });
    let response = tokio::time::timeout(PROBE_TIMEOUT, routes).await;
    !matches!(response, Ok(Err(status)) if status.code() == Code::Unimplemented)
}

/// Whether a server at `host:port` replies to `PING` as Redis does, with or without a password.
pub async fn speaks_redis(addr: &str) -> bool {
    let reply = exchange(&security::without_token(), addr, b"PING\r\n").await.unwrap_or_default();
    reply.starts_with(b"+PONG") || reply.starts_with(b"-NOAUTH")
}

/// Whether a server at `host:port` has TLS; `None` where it does not respond. A server that has it refuses other bytes
/// with an alert (RFC 8446, section 6: content type 21, legacy version 3.x).
pub async fn speaks_tls(addr: &str) -> Option<bool> {
    let reply = exchange(&Access::default(), addr, PROBE).await?;
    Some(matches!(*reply, [21, 3, ..]))
}

/// Returns the refusal of this command's certificate by the server at `host:port`; `None` where it accepts the
/// connection, or there is no TLS.
pub async fn refusal(addr: &str) -> Option<PortKind> {
    if !security::is_tls() {
        return None;
    }
    let probe = async {
        let mut stream = security::without_token().connect(addr, None).await?;
        // Nothing is sent, so an accepted connection stays silent until the time of the probe is over.
        stream.read(&mut [0]).await
    };
    let outcome = tokio::time::timeout(PROBE_TIMEOUT, probe).await.ok()?;
    seq_auth::alert(&outcome.err()?).map(|alert| PortKind::Refuses { alert })
}

/// Whether the peer broke the connection because it does not speak HTTP/2.
fn is_no_http2(status: &Status) -> bool {
    let text = Chain(status).to_string();
    text.contains("http2 error") || text.contains("h2 protocol error")
}

/// Sends bytes and returns the first bytes of the reply.
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
    /// What is wrong with the address, as a sentence without it; `None` if it is a port that the command can use.
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

    /// The failure of a command at an address that has the wrong port.
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
                "name the port for clients of Redis: `redis` of an [[alloc]] in the set file".to_owned()
            }
        };
        Some(Failure::new(Exit::Usage, format!("{addr} {}", self.mismatch(needed)?)).hint(hint))
    }
}
