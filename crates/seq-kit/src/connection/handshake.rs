//! TLS handshakes in progress. Their time is limited here, their number by the seats of their port, and their bytes by
//! the library rustls.
//!
//! A handshake costs the server a signature and the check of a chain of certificates before the peer has proved
//! anything. A handshake message, such as the client's certificate chain, has at most 64 KiB, because rustls ends the
//! handshake if a message is longer. It also ends the handshake if it receives bytes that are not TLS. Its search for a
//! path from the certificate to an authority stops after six intermediate certificates and a fixed number of
//! signatures.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use seq_auth::{Accept, ClientCertificate, Credentials, Standing, TlsStream};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::refusal_log::RefusalLog;
use crate::unfinished::FINISH_TIMEOUT;

/// Security of the connections of a node's sockets.
#[derive(Clone)]
pub struct Tls {
    credentials: Credentials,
    clients: ClientCertificate,
    failures: RefusalLog,
}

impl Tls {
    /// Creates TLS with the node's certificate and the authorities of `credentials`. Handshakes that fail, or take
    /// longer than [`FINISH_TIMEOUT`], are counted in `failures`.
    #[must_use]
    pub fn new(credentials: Credentials, clients: ClientCertificate, failures: RefusalLog) -> Tls {
        Tls { credentials, clients, failures }
    }

    /// Returns the time at which the node's certificate expires, in seconds since 1970. After a renewal, this is the
    /// time of the new certificate once it is in use.
    #[must_use]
    pub fn certificate_not_after(&self) -> u64 {
        let not_after = self.credentials.certificate().not_after;
        not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Begins the handshake of an accepted socket.
    pub(super) fn begin(&self, stream: TcpStream) -> Handshake {
        Handshake {
            credentials: self.credentials.clone(),
            accept: self.credentials.accept(self.clients, stream),
            timeout: Box::pin(tokio::time::sleep(FINISH_TIMEOUT)),
            failures: self.failures.clone(),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// A connection after its handshake.
pub(super) struct Secure {
    pub(super) stream: TlsStream<TcpStream>,
    pub(super) standing: Standing,
}

/// A handshake in progress. Dropping it ends the connection.
pub(super) struct Handshake {
    credentials: Credentials,
    accept: Accept<TcpStream>,
    timeout: Pin<Box<Sleep>>,
    failures: RefusalLog,
}

impl Handshake {
    /// Returns the underlying socket; `None` once the handshake has failed.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        self.accept.get_ref()
    }

    /// Continues the handshake, which fails after its timeout.
    pub(super) fn poll(&mut self, peer: Option<SocketAddr>, cx: &mut Context<'_>) -> Poll<io::Result<Secure>> {
        let opened = match Pin::new(&mut self.accept).poll(cx) {
            Poll::Ready(opened) => opened.and_then(|stream| seq_auth::check_validity(&stream).map(|()| stream)),
            Poll::Pending => {
                std::task::ready!(self.timeout.as_mut().poll(cx));
                Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake is not complete"))
            }
        };
        let secure = opened.map(|stream| Secure { standing: self.credentials.follow(&stream), stream });
        Poll::Ready(secure.inspect_err(|error| {
            if let Some((event, suppressed)) = self.failures.count() {
                let peer = peer.map(tracing::field::display);
                tracing::warn!(event, peer, %error, suppressed, "TLS handshake failed");
            }
        }))
    }
}

#[cfg(test)]
mod tests;
