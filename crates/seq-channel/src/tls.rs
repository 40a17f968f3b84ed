//! Connections over TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use seq_auth::{ClientStream, ExpectedServer, Trust};
use seq_proto::dial::Dial;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::Instant;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::Authority;
use tonic::transport::Endpoint;

/// The application protocol of gRPC.
const HTTP2: &[u8] = b"h2";

/// Time after which the next address of a host is tried in parallel with the previous address. The value is the default
/// of RFC 8305.
const STAGGER: Duration = Duration::from_millis(250);

/// Minimum interval between two log lines of a connector about servers that it did not accept. Without this limit there
/// would be about one line each second for each such address, because the connection is tried again at that rate.
const REPEAT_EVERY: Duration = Duration::from_secs(60);

/// Returns a connector over TLS. The connector presents the certificate in `trust`, if there is one. It accepts only
/// servers of the cluster that are expected at their address and whose certificate has the host in this address. After
/// a reload of the certificate files, new connections use the new certificate.
#[must_use]
pub fn dial(trust: impl Into<Trust>) -> Dial {
    dial_via(trust.into(), None)
}

/// Returns a connector like [`dial()`] that connects to the address `via` for every server, instead of the server's own
/// address. If `trust` is `None`, the connector does not use TLS.
#[must_use]
pub fn via(trust: Option<impl Into<Trust>>, via: &str) -> Dial {
    let via: Arc<str> = via.into();
    match trust {
        Some(trust) => dial_via(trust.into(), Some(via)),
        None => Dial::new(move |endpoint: Endpoint| {
            let via = via.clone();
            endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let via = via.clone();
                async move { tcp(&via).await.map(TokioIo::new) }
            }))
        }),
    }
}

fn dial_via(trust: Trust, via: Option<Arc<str>>) -> Dial {
    Dial::checked(move |endpoint: Endpoint, expected: &ExpectedServer| {
        let (trust, expected, refusals) = (trust.clone(), expected.clone(), Arc::new(Refusals::default()));
        let via = via.clone();
        endpoint.connect_with_connector_lazy(tower::service_fn(move |to: Uri| {
            let (trust, expected, refusals) = (trust.clone(), expected.clone(), refusals.clone());
            let via = via.clone();
            async move {
                let addr = to.authority().map(Authority::as_str).unwrap_or_default();
                let at = via.as_deref().unwrap_or(addr);
                let connected = connect_via(&trust, at, addr, &expected, Some(HTTP2)).await;
                connected.inspect_err(|error| refusals.log(error)).map(TokioIo::new)
            }
        }))
    })
}

/// Connects to the expected server at `addr`, given as `host:port`, over TLS. If another server is found there, the
/// error names its identity, the expectation and the address.
pub(crate) async fn connect(
    trust: &Trust,
    addr: &str,
    expected: &ExpectedServer,
    protocol: Option<&'static [u8]>,
) -> io::Result<ClientStream<TcpStream>> {
    connect_via(trust, addr, addr, expected, protocol).await
}

/// Does the same as [`connect`], but connects to the address `via`. The server there must have a certificate for
/// `addr`.
async fn connect_via(
    trust: &Trust,
    via: &str,
    addr: &str,
    expected: &ExpectedServer,
    protocol: Option<&'static [u8]>,
) -> io::Result<ClientStream<TcpStream>> {
    let stream = tcp(via).await?;
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let connected = trust.connect(host, expected, stream, protocol).await;
    connected.map_err(|failed| match seq_auth::rejection(&failed) {
        Some(rejected) => {
            let refused = ServerRefused { addr: addr.to_owned(), rejected: rejected.clone() };
            io::Error::new(io::ErrorKind::PermissionDenied, refused)
        }
        None => failed,
    })
}

/// Error of a connector that did not accept the server at an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{addr}: {rejected}")]
pub struct ServerRefused {
    /// The address as `host:port`.
    pub addr: String,
    /// The reason for which the server was not accepted, with the identity in its certificate.
    pub rejected: seq_auth::Rejected,
}

/// Rate limit on the log lines of one connector about servers that it did not accept.
#[derive(Debug, Default)]
struct Refusals {
    /// Time of the last log line.
    logged: Mutex<Option<Instant>>,
}

impl Refusals {
    /// Logs that a server was not accepted. The first such error is logged at once, and later errors at most once every
    /// [`REPEAT_EVERY`]. Does nothing for other errors, which the callers log.
    fn log(&self, error: &io::Error) {
        let Some(refused) = error.get_ref().and_then(|cause| cause.downcast_ref::<ServerRefused>()) else { return };
        let mut logged = self.logged.lock();
        if logged.is_some_and(|at| at.elapsed() < REPEAT_EVERY) {
            return;
        }
        *logged = Some(Instant::now());
        let ServerRefused { addr, rejected } = refused;
        tracing::warn!(addr, %rejected, "refused the server at an address");
    }
}

/// Connects to `addr`, given as `host:port`. If the host has several addresses, tries the next address as soon as an
/// attempt has failed or has taken longer than [`STAGGER`], in parallel with earlier attempts. Uses the first
/// connection that succeeds (RFC 8305).
pub(crate) async fn tcp(addr: &str) -> io::Result<TcpStream> {
    let mut left = by_turns(lookup_host(addr).await?.collect()).into_iter().peekable();
    let (mut attempts, mut failed) = (FuturesUnordered::new(), None);
    let stream = loop {
        match left.next() {
            Some(next) => attempts.push(TcpStream::connect(next)),
            None if attempts.is_empty() => {
                let none = || io::Error::new(io::ErrorKind::NotFound, "its host has no address");
                return Err(failed.unwrap_or_else(none));
            }
            None => {}
        }
        let staggered = async {
            match left.peek() {
                Some(_) => tokio::time::sleep(STAGGER).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => break stream,
                Err(error) => failed = failed.or(Some(error)),
            },
            () = staggered => {}
        }
    };
    // Without this option, a small message could wait 40 ms for the acknowledgement of the previous message.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Orders addresses so that IPv4 and IPv6 addresses alternate, beginning with the kind of the first address.
fn by_turns(addrs: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addrs.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addrs.into_iter().partition(|addr| addr.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests;
