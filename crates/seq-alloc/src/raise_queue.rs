//! Queue of sections from the threads that take their numbers to the control loop.
//!
//! Bounded by the sections of the set, because each has one ticket. `seq_core::raises` has the main queue, with its
//! batches and retries. The control loop moves the sections from here into that queue, so that a thread that takes
//! numbers never waits for the creation of a batch.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_core::raises::RaiseQueue;
use seq_core::section::RaiseTicket;
use tokio::sync::Notify;

use crate::ownership::OwnedSection;

/// Sections to have their ceilings raised.
#[derive(Debug, Default)]
pub(crate) struct RaiseInbox {
    pending: Mutex<Vec<(Arc<OwnedSection>, RaiseTicket)>>,
    arrived: Notify,
}

impl RaiseInbox {
    /// Enqueues a section to have its ceiling raised.
    pub(crate) fn enqueue(&self, section: Arc<OwnedSection>, ticket: RaiseTicket) {
        self.pending.lock().push((section, ticket));
        self.arrived.notify_one();
    }

    /// Moves all sections into the main queue, oldest first.
    pub(crate) fn drain_into(&self, queue: &mut RaiseQueue<Arc<OwnedSection>>) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for (section, ticket) in pending {
            queue.enqueue(section, ticket);
        }
    }

    /// Waits until a section is enqueued after the last completed wait. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
