//! Access of a caller to the nodes of a cluster: with or without TLS, with or without a token.

use std::io;

use seq_auth::{ClientStream, ExpectedServer, Trust};
use seq_proto::dial::Dial;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use crate::bearer::Bearer;
use crate::pool::Pool;
use crate::tls;

/// A connection without a protocol, with or without TLS.
pub type Socket = Either<TcpStream, Box<ClientStream<TcpStream>>>;

/// The means by which a caller makes connections. Clones are equal.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Checks the nodes, and may present the caller's own certificate; without it there is no TLS.
    pub trust: Option<Trust>,
    /// Token of the requests for numbers.
    pub bearer: Option<Bearer>,
}

impl Access {
    /// Returns a connector for gRPC.
    #[must_use]
    pub fn dial(&self) -> Dial {
        self.trust.clone().map_or_else(Dial::tcp, tls::dial)
    }

    /// Creates a pool with `connections` connections to each node.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    #[must_use]
    pub fn pool(&self, connections: usize) -> Pool {
        Pool::of_caller(connections, self.dial(), self.bearer.clone())
    }

    /// Connects to `addr`, given as `host:port`, for a protocol that the caller implements; TLS negotiates `protocol`.
    /// Cancel safe: dropping the future ends the connection.
    ///
    /// # Errors
    /// The address is invalid, no process listens there, or the handshake fails.
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
