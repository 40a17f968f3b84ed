//! Connections over TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use seq_auth::{ClientStream, ExpectedServer, Trust};
use seq_proto::dial::Dial;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::Authority;
use tonic::transport::Endpoint;

/// The application protocol of gRPC.
const HTTP2: &[u8] = b"h2";

/// Interval of log lines about an address with an unexpected server: a dialer tries again about once per second as long
/// as the fault lasts.
const REPEAT_EVERY: Duration = Duration::from_secs(60);

/// Returns a connector over TLS, which presents the certificate of `trust`, if any, and accepts only the expected
/// servers of its cluster, at the host that the address names. A reload of the files takes effect for new connections.
#[must_use]
pub fn dial(trust: impl Into<Trust>) -> Dial {
    let trust = trust.into();
    Dial::checked(move |endpoint: Endpoint, expected: &ExpectedServer| {
        let (trust, expected, refusals) = (trust.clone(), expected.clone(), Arc::new(Refusals::default()));
        endpoint.connect_with_connector_lazy(tower::service_fn(move |to: Uri| {
            let (trust, expected, refusals) = (trust.clone(), expected.clone(), refusals.clone());
            async move {
                let addr = to.authority().map(Authority::as_str).unwrap_or_default();
                let connected = connect(&trust, addr, &expected, Some(HTTP2)).await;
                connected.inspect_err(|error| refusals.log(error)).map(TokioIo::new)
            }
        }))
    })
}

/// Connects to the expected server at `addr`, given as `host:port`, over TLS. The error for an unexpected server names
/// the server, the expectation and the address.
pub(crate) async fn connect(
    trust: &Trust,
    addr: &str,
    expected: &ExpectedServer,
    protocol: Option<&'static [u8]>,
) -> io::Result<ClientStream<TcpStream>> {
    let stream = tcp(addr).await?;
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

/// Error of a dialer that did not accept the server at an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{addr}: {rejected}")]
pub struct ServerRefused {
    /// The address as `host:port`.
    pub addr: String,
    /// The reason, with the identity in the server's certificate.
    pub rejected: seq_auth::Rejected,
}

/// Rate limit of the log lines about refused servers of one channel.
#[derive(Debug, Default)]
struct Refusals {
    /// Time of the last line.
    logged: Mutex<Option<Instant>>,
}

impl Refusals {
    /// Logs the refusal of a server, at first at once and then every [`REPEAT_EVERY`]. The callers log other errors.
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

/// Connects to `addr`, given as `host:port`.
pub(crate) async fn tcp(addr: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    // A small message could otherwise wait 40 ms for the acknowledgement of the previous message.
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests;
