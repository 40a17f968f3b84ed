//! A service that listens before it can answer: until it is opened, calls are told to come again.
//!
//! A member that starts with an empty data directory must be able to tell other empty members that it knows nobody, before
//! it may become part of anything itself.

use seq_proto::Reason;
use std::sync::{Arc, OnceLock};
use tonic::Status;

/// Holds a service back. Clones open together.
pub(crate) struct Gate<T>(Arc<OnceLock<T>>);

impl<T> Gate<T> {
    pub(crate) fn closed() -> Gate<T> {
        Gate(Arc::default())
    }

    /// Lets calls in, once.
    pub(crate) fn open(&self, service: T) {
        assert!(self.0.set(service).is_ok(), "a gate opens once");
    }

    /// The service, or the refusal while there is none.
    pub(crate) fn get(&self) -> Result<&T, Status> {
        self.peek().ok_or_else(|| Reason::Starting.status("this member of the store is starting"))
    }

    /// The service, where it is open.
    pub(crate) fn peek(&self) -> Option<&T> {
        self.0.get()
    }
}

impl<T> Clone for Gate<T> {
    fn clone(&self) -> Gate<T> {
        Gate(self.0.clone())
    }
}
