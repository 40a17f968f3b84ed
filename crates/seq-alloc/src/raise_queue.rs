//! Queue from the threads that allocate numbers to the control loop. Its entries are the sections whose ceilings have
//! to be raised.
//!
//! The queue has at most as many entries as the set has sections, because a section is in the queue only once, with its
//! only ticket. `seq_core::raises` has the main queue, which makes batches of sections and retries them. The control
//! loop moves the sections from this queue to the main queue, so that a thread that allocates numbers never waits while
//! a batch is made.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_core::raises::RaiseQueue;
use seq_core::section::RaiseTicket;
use tokio::sync::Notify;

use crate::ownership::OwnedSection;

/// Sections whose ceilings have to be raised.
#[derive(Debug, Default)]
pub(crate) struct RaiseInbox {
    pending: Mutex<Vec<(Arc<OwnedSection>, RaiseTicket)>>,
    arrived: Notify,
}

impl RaiseInbox {
    /// Enqueues a section so that its ceiling is raised.
    pub(crate) fn enqueue(&self, section: Arc<OwnedSection>, ticket: RaiseTicket) {
        self.pending.lock().push((section, ticket));
        self.arrived.notify_one();
    }

    /// Moves all sections from this queue to `queue`, the main queue, in the order in which they were enqueued.
    pub(crate) fn drain_into(&self, queue: &mut RaiseQueue<Arc<OwnedSection>>) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for (section, ticket) in pending {
            queue.enqueue(section, ticket);
        }
    }

    /// Waits until a section has been enqueued since the previous wait completed. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
