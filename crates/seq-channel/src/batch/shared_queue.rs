//! The queue of one node as its callers and the stream task share it: completes the calls that a stream's end or a
//! deadline fails, outside of the lock.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::queue::{Bounds, CallQueue, Generation, Outcome, StreamEnd};

/// The queue as shared by callers and the stream task.
#[derive(Debug)]
pub(super) struct SharedQueue {
    pub(super) calls: Mutex<CallQueue>,
    /// Notified when the queue's timer moves to an earlier instant.
    pub(super) timer_moved: Notify,
}

impl SharedQueue {
    /// No call yet.
    pub(super) fn new(bounds: Bounds) -> SharedQueue {
        SharedQueue { calls: Mutex::new(CallQueue::new(bounds)), timer_moved: Notify::new() }
    }

    /// Ends a stream and completes the calls that fail with it. Returns the generation to open next, if calls are
    /// pending.
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
            // Fails for a call that was dropped meanwhile.
            _ = reply.send(Outcome::TimedOut { sent });
        }
    }
}
