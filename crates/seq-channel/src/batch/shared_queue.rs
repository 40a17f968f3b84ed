//! The queue of calls to one node, shared by the callers and the task of the stream. When a stream ends or a deadline
//! passes, the calls that fail are completed only after the lock has been released.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::kind::Kind;
use super::queue::{Bounds, CallQueue, Generation, Outcome, StreamEnd};

/// Queue of calls to one node, shared by the callers and the task of the stream.
#[derive(Debug)]
pub(super) struct SharedQueue<K: Kind> {
    pub(super) calls: Mutex<CallQueue<K>>,
    /// Notified when the queue's timer is moved to an earlier time.
    pub(super) timer_moved: Notify,
}

impl<K: Kind> SharedQueue<K> {
    /// Creates an empty queue.
    pub(super) fn new(kind: Arc<K>, bounds: Bounds) -> SharedQueue<K> {
        SharedQueue { calls: Mutex::new(CallQueue::new(kind, bounds)), timer_moved: Notify::new() }
    }

    /// Ends the stream of this generation, and completes the calls that fail with it. If other calls are still pending,
    /// returns the generation of the stream that has to be opened next.
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
