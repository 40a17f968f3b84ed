//! Connections over TLS.

use std::io;

use hyper_util::rt::TokioIo;
use seq_auth::{ClientStream, Trust};
use seq_proto::dial::Dial;
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
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
            async move { connect(&trust, &to).await.map(TokioIo::new) }
        }))
    })
}

async fn connect(trust: &Trust, to: &Uri) -> io::Result<ClientStream<TcpStream>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("{to} has no host and port"));
    let (Some(host), Some(port)) = (to.host(), to.port_u16()) else { return Err(invalid()) };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await?;
    // A small message could otherwise wait 40 ms for the acknowledgement of the one before it.
    stream.set_nodelay(true)?;
    trust.connect(host, stream, Some(HTTP2)).await
}
