//! How connections are made. One seam for every client: a simulation replaces the network here.

use std::fmt;
use std::sync::Arc;

use tonic::transport::{Channel, Endpoint};

/// Makes connections.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>);

impl Dial {
    /// Connections made by `connect` from an endpoint that has every option set. It must not block: a connection is
    /// made when it is first needed.
    pub fn new(connect: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Dial {
        Dial(Arc::new(connect))
    }

    /// TCP, without delay for small messages.
    #[must_use]
    pub fn tcp() -> Dial {
        Dial::new(|endpoint| endpoint.connect_lazy())
    }

    /// A connection to an endpoint, made when it is first needed.
    #[must_use]
    pub fn connect(&self, endpoint: Endpoint) -> Channel {
        (self.0)(endpoint)
    }
}

impl Default for Dial {
    fn default() -> Dial {
        Dial::tcp()
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}
