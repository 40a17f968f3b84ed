//! The queue of one node, shared by its callers and the task of its stream. When a stream ends or a deadline passes,
//! failed calls are completed after the lock has been released.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::queue::{Bounds, CallQueue, Generation, Outcome, StreamEnd};

/// Queue of one node, shared by its callers and the task of its stream.
#[derive(Debug)]
pub(super) struct SharedQueue {
    pub(super) calls: Mutex<CallQueue>,
    /// Notified when the queue's timer is moved to an earlier time.
    pub(super) timer_moved: Notify,
}

impl SharedQueue {
    /// Creates an empty queue.
    pub(super) fn new(bounds: Bounds) -> SharedQueue {
        SharedQueue { calls: Mutex::new(CallQueue::new(bounds)), timer_moved: Notify::new() }
    }

    /// Ends a stream, and completes the calls that fail with it. If calls are still pending, returns the generation of
    /// the stream to open next.
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
            // Fails if the caller dropped the call in the meantime.
            _ = reply.send(Outcome::TimedOut { sent });
        }
    }
}
