//! Connections over TLS.

use std::io;

use hyper_util::rt::TokioIo;
use seq_auth::{ClientStream, Trust};
use seq_proto::dial::Dial;
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::Authority;
use tonic::transport::Endpoint;

/// The application protocol of gRPC.
const HTTP2: &[u8] = b"h2";

/// Makes connections over TLS, with the certificate of `trust` where it has one, to nodes of its cluster only. A node is at
/// the host that its address names. What is read again from the files counts for the next connection.
#[must_use]
pub fn dial(trust: impl Into<Trust>) -> Dial {
    let trust = trust.into();
    Dial::new(move |endpoint: Endpoint| {
        let trust = trust.clone();
        endpoint.connect_with_connector_lazy(tower::service_fn(move |to: Uri| {
            let trust = trust.clone();
            async move {
                let addr = to.authority().map(Authority::as_str).unwrap_or_default();
                connect(&trust, addr, Some(HTTP2)).await.map(TokioIo::new)
            }
        }))
    })
}

/// Connects to `addr`, as `host:port`, over TLS.
pub(crate) async fn connect(
    trust: &Trust,
    addr: &str,
    protocol: Option<&'static [u8]>,
) -> io::Result<ClientStream<TcpStream>> {
    let stream = tcp(addr).await?;
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    trust.connect(host.trim_start_matches('[').trim_end_matches(']'), stream, protocol).await
}

/// Connects to `addr`, as `host:port`.
pub(crate) async fn tcp(addr: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    // A small message could otherwise wait 40 ms for the acknowledgement of the one before it.
    stream.set_nodelay(true)?;
    Ok(stream)
}
