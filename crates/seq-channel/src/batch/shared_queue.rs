//! The queue of one node, shared by its callers and the stream task. Completes failed calls outside of the lock when a
//! stream ends or a deadline passes.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::queue::{Bounds, CallQueue, Generation, Outcome, StreamEnd};

/// Queue of one node, shared by its callers and the stream task.
#[derive(Debug)]
pub(super) struct SharedQueue {
    pub(super) calls: Mutex<CallQueue>,
    /// Notified when the queue's timer moves to an earlier instant.
    pub(super) timer_moved: Notify,
}

impl SharedQueue {
    /// Creates an empty queue.
    pub(super) fn new(bounds: Bounds) -> SharedQueue {
        SharedQueue { calls: Mutex::new(CallQueue::new(bounds)), timer_moved: Notify::new() }
    }

    /// Ends a stream and completes the calls that fail with it. Returns the generation of the stream to open next, if
    /// calls are pending.
    pub(super) fn end(&self, generation: Generation, end: StreamEnd) -> Option<Generation> {
        let ended = self.calls.lock().end(generation, &end);
        for (waiter, sent) in ended.failed {
            waiter.complete(match &end {
                StreamEnd::Broke(status)
                | StreamEnd::Closed(status)
                | StreamEnd::NeverSent(status)
                | StreamEnd::RuntimeGone(status) => Outcome::Failed { status: status.clone(), sent },
                StreamEnd::Unsupported { .. } => Outcome::Unsupported,
            });
        }
        ended.open
    }

    /// Completes the calls whose deadline has passed.
    pub(super) fn expire(&self, now: Instant) {
        let expired = self.calls.lock().expire(now);
        for (reply, sent) in expired {
            // Fails if the call was dropped in the meantime.
            _ = reply.send(Outcome::TimedOut { sent });
        }
    }
}
