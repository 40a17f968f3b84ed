//! The simulated network in place of sockets: a server's listener and a client's dialler.
//!
//! The names of the hosts are the names in the set file, and every host serves on [`PORT`].

use std::io;

use hyper_util::rt::TokioIo;
use seq_kit::connection::Listener;
use tonic::transport::{Channel, Endpoint, Uri};
use turmoil::net::{TcpListener, TcpStream};

/// The port of every host.
pub const PORT: u16 = 7_000;

/// Returns the address of a host.
#[must_use]
pub fn addr(name: &str) -> String {
    format!("{name}:{PORT}")
}

/// Listens on the current host.
///
/// # Errors
/// If the host listens already.
pub async fn listen() -> io::Result<Listener> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    Ok(Listener::new(futures::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    })))
}

/// Returns a channel that connects from the current host when the first call is made.
pub fn dial(endpoint: Endpoint) -> Channel {
    endpoint.connect_with_connector_lazy(tower::service_fn(|to: Uri| async move {
        let (Some(host), Some(port)) = (to.host(), to.port_u16()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{to} has no host and port")));
        };
        Ok(TokioIo::new(TcpStream::connect((host, port)).await?))
    }))
}
