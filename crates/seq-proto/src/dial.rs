//! Creation of connections. All clients use this module, so that a simulation can replace the network here.

use std::fmt;
use std::sync::Arc;

pub use seq_auth::ExpectedServer;
use tonic::transport::{Channel, Endpoint};

/// Function that creates a connection to an endpoint. The connection accepts only the expected server.
type Connect = dyn Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync;

/// Connector. It creates connections, and, over TLS, checks that each of them leads to the server that its user
/// expects.
///
/// Two connectors share no connections. A pool has one connector, and one expected server for each address.
#[derive(Clone)]
pub struct Dial {
    connect: Arc<Connect>,
    /// The expected server. Over TLS, each connection checks that its server is the expected one. Without TLS, there is
    /// nothing to check.
    expected: ExpectedServer,
}

impl Dial {
    /// Creates a connector that creates connections with `connect` and does not check the server. The endpoint that is
    /// passed to `connect` has all its options set. `connect` must not block, because a connection is opened only when
    /// it is first needed.
    pub fn new(connect: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Dial {
        Dial::checked(move |endpoint, _| connect(endpoint))
    }

    /// Creates a connector like [`Dial::new`] whose `connect` also checks, each time a connection is opened, that the
    /// server is the expected server. Any server is expected until [`Dial::expecting`] is called.
    pub fn checked(connect: impl Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync + 'static) -> Dial {
        Dial { connect: Arc::new(connect), expected: ExpectedServer::any() }
    }

    /// Creates a connector over TCP. Its connections send small messages without delay.
    #[must_use]
    pub fn tcp() -> Dial {
        Dial::new(|endpoint| endpoint.connect_lazy())
    }

    /// Returns a connector that creates connections in the same way and expects the server `expected`.
    #[must_use]
    pub fn expecting(&self, expected: ExpectedServer) -> Dial {
        Dial { connect: self.connect.clone(), expected }
    }

    /// Returns the expected server.
    #[must_use]
    pub fn expected(&self) -> &ExpectedServer {
        &self.expected
    }

    /// Returns a connection to an endpoint. It is opened when it is first needed.
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
