//! The way of a section from the thread that takes its numbers to the control loop.
//!
//! Bounded by the sections of the set: each has one ticket. The queue proper, with its batches and retries, is
//! `seq_core::raises`; this one is emptied into it, so that a thread that takes numbers never waits for a batch being
//! made.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_core::raises::RaiseQueue;
use seq_core::section::RaiseTicket;
use tokio::sync::Notify;

use crate::ownership::OwnedSection;

#[derive(Debug, Default)]
pub(crate) struct RaiseInbox {
    pending: Mutex<Vec<(Arc<OwnedSection>, RaiseTicket)>>,
    arrived: Notify,
}

impl RaiseInbox {
    /// Has a section raised.
    pub(crate) fn enqueue(&self, section: Arc<OwnedSection>, ticket: RaiseTicket) {
        self.pending.lock().push((section, ticket));
        self.arrived.notify_one();
    }

    /// Moves what is here into the queue, oldest first.
    pub(crate) fn drain_into(&self, queue: &mut RaiseQueue<Arc<OwnedSection>>) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for (section, ticket) in pending {
            queue.enqueue(section, ticket);
        }
    }

    /// Completes after a section was enqueued since the last call completed. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}
