//! Making of connections. All clients use this module, so that a simulation can replace the network here.

use std::fmt;
use std::sync::Arc;

pub use seq_auth::ExpectedServer;
use tonic::transport::{Channel, Endpoint};

/// Function that makes a connection to an endpoint, if the expected server is at the endpoint.
type Connect = dyn Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync;

/// Maker of connections to the servers that its user expects.
///
/// Dials do not share connections. A pool has one dial, and one expectation for each address.
#[derive(Clone)]
pub struct Dial {
    connect: Arc<Connect>,
    /// The expected server. Dials over TLS check it. Without TLS there is nothing to check.
    expected: ExpectedServer,
}

impl Dial {
    /// Creates a dial that makes connections by `connect` and does not check the server. All options of the endpoint
    /// passed to `connect` are already set. `connect` must not block, because a connection is opened only when it is
    /// first needed.
    pub fn new(connect: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Dial {
        Dial::checked(move |endpoint, _| connect(endpoint))
    }

    /// Creates a dial like [`Dial::new`] that also checks, each time a connection is opened, that the server is the
    /// expected one. Until [`Dial::expecting`] is called, any server is expected.
    pub fn checked(connect: impl Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync + 'static) -> Dial {
        Dial { connect: Arc::new(connect), expected: ExpectedServer::any() }
    }

    /// Creates a dial over TCP that does not delay small messages.
    #[must_use]
    pub fn tcp() -> Dial {
        Dial::new(|endpoint| endpoint.connect_lazy())
    }

    /// Returns a dial that makes the same connections and expects another server.
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
