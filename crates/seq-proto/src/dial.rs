//! How connections are made. One seam for every client: a simulation replaces the network here.

use std::fmt;
use std::sync::Arc;

pub use seq_auth::ExpectedServer;
use tonic::transport::{Channel, Endpoint};

/// Makes a connection to an endpoint, where it finds the expected server.
type Connect = dyn Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync;

/// Makes connections to the servers that its user expects.
///
/// What keeps the connections of a dial keeps none of another: a pool has one, and an expectation for each address.
#[derive(Clone)]
pub struct Dial {
    connect: Arc<Connect>,
    /// Checked by dials over TLS; without TLS there is nothing to check.
    expected: ExpectedServer,
}

impl Dial {
    /// Connections made by `connect` from an endpoint that has every option set, without a check of the server. It must
    /// not block: a connection is made when it is first needed.
    pub fn new(connect: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Dial {
        Dial::checked(move |endpoint, _| connect(endpoint))
    }

    /// As [`Dial::new`], with a check that the server is the expected one, each time that a connection is made. Any
    /// server is expected before [`Dial::expecting`].
    pub fn checked(connect: impl Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync + 'static) -> Dial {
        Dial { connect: Arc::new(connect), expected: ExpectedServer::any() }
    }

    /// TCP, without delay for small messages.
    #[must_use]
    pub fn tcp() -> Dial {
        Dial::new(|endpoint| endpoint.connect_lazy())
    }

    /// The same connections, to another server than this dial expects.
    #[must_use]
    pub fn expecting(&self, expected: ExpectedServer) -> Dial {
        Dial { connect: self.connect.clone(), expected }
    }

    /// The server that is expected.
    #[must_use]
    pub fn expected(&self) -> &ExpectedServer {
        &self.expected
    }

    /// A connection to an endpoint, made when it is first needed.
    #[must_use]
    pub fn connect(&self, endpoint: Endpoint) -> Channel {
        (self.connect)(endpoint, &self.expected)
    }
}

impl Default for Dial {
    fn default() -> Dial {
        Dial::tcp()
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("expected", &self.expected).finish_non_exhaustive()
    }
}
