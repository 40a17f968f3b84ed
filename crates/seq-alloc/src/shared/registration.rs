//! The parts of this node's registration with the store that tasks other than `session` use.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seq_core::owner::Session;
use seq_core::{Incarnation, NodeId};
use tokio::sync::Notify;

/// State of the registration, which only `session` writes, and the requests of other tasks for a renewal.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    /// Id of the node, the same in every incarnation; 0 before the first registration.
    node: AtomicU32,
    /// Newest incarnation of this process; 0 before the first registration. It never falls.
    last_incarnation: AtomicU64,
    /// Cause for which this node cannot use the responses of the store; `None` if it can use them.
    fault: Mutex<Option<String>>,
    renewal_requested: Notify,
    grant_requested: Notify,
}

impl Registration {
    /// Adopts a new session.
    pub(crate) fn begin(&self, session: Session) {
        self.node.store(session.node.0, Relaxed);
        self.last_incarnation.fetch_max(session.incarnation.0, Relaxed);
    }

    /// Returns the id of the node; `NodeId(0)` before the first registration.
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Relaxed))
    }

    /// Returns the newest incarnation of this process; `Incarnation(0)` before the first registration.
    pub(crate) fn last_incarnation(&self) -> Incarnation {
        Incarnation(self.last_incarnation.load(Relaxed))
    }

    /// Returns the cause for which this node can use no response of the store; `None` if it can use them.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    pub(crate) fn note_fault(&self, fault: Option<String>) {
        *self.fault.lock() = fault;
    }

    /// Requests a renewal, e.g. because the routes of this node proved stale. The renewal is sent as soon as the
    /// shortest interval between two renewals allows it.
    pub(crate) fn request_renewal(&self) {
        self.renewal_requested.notify_one();
    }

    /// Waits until a renewal has been requested. Completes at once if a request was made since the previous wait
    /// completed. Cancel safe.
    pub(crate) async fn renewal_requested(&self) {
        self.renewal_requested.notified().await;
    }

    /// Requests a renewal that is sent at once, because the store's response will grant the section of a committed
    /// handover to this node.
    pub(crate) fn request_grant(&self) {
        self.grant_requested.notify_one();
    }

    /// Waits until [`Registration::request_grant`] has been called. Completes at once if a request was made since the
    /// previous wait completed. Cancel safe.
    pub(crate) async fn grant_requested(&self) {
        self.grant_requested.notified().await;
    }
}
