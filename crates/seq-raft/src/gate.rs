//! Gate in front of a service that is loaded after its port is open. Until the gate opens, each call is refused with a
//! retry hint.
//!
//! A member needs this because, if it starts with an empty data directory, it must respond to the probes of other empty
//! members before it may join a group itself.

use std::sync::{Arc, OnceLock};

use seq_proto::Reason;
use tonic::Status;

/// Slot for a service that is set once. Clones share the slot, so they open together.
pub struct Gate<T>(Arc<OnceLock<T>>);

impl<T> Gate<T> {
    /// Creates a gate that has no service yet.
    #[must_use]
    pub fn closed() -> Gate<T> {
        Gate(Arc::default())
    }

    /// Opens the gate with `service`, which all clones of the gate return from then on.
    ///
    /// # Panics
    /// When the gate is already open.
    pub fn open(&self, service: T) {
        assert!(self.0.set(service).is_ok(), "a gate opens once");
    }

    /// Returns the service.
    ///
    /// # Errors
    /// `STARTING` while the gate is closed.
    pub fn get(&self) -> Result<&T, Status> {
        self.peek().ok_or_else(|| Reason::Starting.status("this member of the store is starting"))
    }

    /// Returns the service if the gate is open.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.0.get()
    }
}

impl<T> Clone for Gate<T> {
    fn clone(&self) -> Gate<T> {
        Gate(self.0.clone())
    }
}
