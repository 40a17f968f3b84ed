//! How a caller reaches the nodes of a cluster: over TLS or without it, with a token or without one.

use std::io;

use seq_auth::{ClientStream, ExpectedServer, Trust};
use seq_proto::dial::Dial;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use crate::bearer::Bearer;
use crate::pool::Pool;
use crate::tls;

/// A connection without a protocol, over TLS or without it.
pub type Socket = Either<TcpStream, Box<ClientStream<TcpStream>>>;

/// What a caller makes its connections with. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Checks the nodes, and may have a certificate of its own; without it there is no TLS.
    pub trust: Option<Trust>,
    /// The token that requests for numbers carry.
    pub bearer: Option<Bearer>,
}

impl Access {
    /// Makes connections of gRPC.
    #[must_use]
    pub fn dial(&self) -> Dial {
        self.trust.clone().map_or_else(Dial::tcp, tls::dial)
    }

    /// A pool with so many connections to each node.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn pool(&self, connections: usize) -> Pool {
        Pool::of_caller(connections, self.dial(), self.bearer.clone())
    }

    /// Connects to `addr`, as `host:port`, for a protocol that its user speaks by itself; TLS negotiates `protocol`.
    /// Cancel safe: dropped, it ends the connection.
    ///
    /// # Errors
    /// The address is none, nothing listens there, or the handshake fails.
    pub async fn connect(&self, addr: &str, protocol: Option<&'static [u8]>) -> io::Result<Socket> {
        match &self.trust {
            None => tls::tcp(addr).await.map(Either::Left),
            Some(trust) => {
                let connected = tls::connect(trust, addr, &ExpectedServer::any(), protocol).await;
                connected.map(|stream| Either::Right(Box::new(stream)))
            }
        }
    }
}
