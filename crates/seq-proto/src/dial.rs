//! How connections are made. All clients use this module, so that a simulation can replace the network here.

use std::fmt;
use std::sync::Arc;

pub use seq_auth::ExpectedServer;
use tonic::transport::{Channel, Endpoint};

/// Makes a connection to an endpoint, if the expected server is there.
type Connect = dyn Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync;

/// Makes connections to the servers that its user expects.
///
/// Connections are not shared between dials: a pool has one dial, and one expectation for each address.
#[derive(Clone)]
pub struct Dial {
    connect: Arc<Connect>,
    /// The expected server, checked by dials over TLS. Without TLS there is nothing to check.
    expected: ExpectedServer,
}

impl Dial {
    /// Creates a dial that makes connections by `connect`, without a check of the server. The endpoint has every option
    /// set. `connect` must not block: a connection is opened when it is first needed.
    pub fn new(connect: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Dial {
        Dial::checked(move |endpoint, _| connect(endpoint))
    }

    /// Creates a dial as [`Dial::new`] does, but with a check that the server is the expected server, each time a
    /// connection is opened. Any server is expected before [`Dial::expecting`].
    pub fn checked(connect: impl Fn(Endpoint, &ExpectedServer) -> Channel + Send + Sync + 'static) -> Dial {
        Dial { connect: Arc::new(connect), expected: ExpectedServer::any() }
    }

    /// Creates a dial over TCP, without delay for small messages.
    #[must_use]
    pub fn tcp() -> Dial {
        Dial::new(|endpoint| endpoint.connect_lazy())
    }

    /// Returns a dial for the same connections that expects another server.
    #[must_use]
    pub fn expecting(&self, expected: ExpectedServer) -> Dial {
        Dial { connect: self.connect.clone(), expected }
    }

    /// Returns the expected server.
    #[must_use]
    pub fn expected(&self) -> &ExpectedServer {
        &self.expected
    }

    /// Returns a connection to an endpoint, opened when it is first needed.
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
