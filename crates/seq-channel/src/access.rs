//! Access of a caller to the nodes of a cluster, with or without TLS, and with or without a tenant's token.

use std::io;

use seq_auth::{ClientStream, ExpectedServer, Trust};
use seq_proto::dial::Dial;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use crate::bearer::Bearer;
use crate::pool::Pool;
use crate::tls;

/// A connection without an application protocol, with or without TLS.
pub type Socket = Either<TcpStream, Box<ClientStream<TcpStream>>>;

/// Settings with which a caller connects to nodes, and the token that it sends. Clones are equal to the original.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Trust with which the certificates of nodes are checked. It may also contain the caller's own certificate. `None`
    /// for connections without TLS.
    pub trust: Option<Trust>,
    /// Token that is sent with requests for numbers; `None` to send no token.
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

    /// Opens a connection to `addr`, given as `host:port`, for a caller that itself implements the application
    /// protocol. If the connection uses TLS, its handshake negotiates `protocol`. Cancel safe: dropping the future
    /// closes the connection.
    ///
    /// # Errors
    /// The address is invalid, no process listens at it, or the handshake fails.
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
