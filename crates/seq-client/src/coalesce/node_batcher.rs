//! The batcher of one node: permits that bound its calls, their queue, and the task of its stream.

use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::Status;

use super::queue::{Bounds, Call, CallQueue, Enqueued, Generation, Outcome, StreamEnd};
use super::stream;
use crate::attempts::Shared;

/// The batcher of one node. Dropping it closes its stream.
#[derive(Debug)]
pub(crate) struct NodeBatcher {
    addr: Arc<str>,
    /// One permit per call. The caller holds it, so a dropped call releases it at once, in whatever state it is.
    permits: Semaphore,
    queue: Arc<SharedQueue>,
    task: Mutex<Option<AbortHandle>>,
}

/// The queue as shared by callers and the stream task.
#[derive(Debug)]
pub(crate) struct SharedQueue {
    pub(super) calls: Mutex<CallQueue>,
    /// Notified when the queue's timer moves to an earlier instant.
    pub(super) timer_moved: Notify,
}

impl NodeBatcher {
    pub(crate) fn new(addr: Arc<str>, bounds: Bounds) -> NodeBatcher {
        NodeBatcher {
            addr,
            permits: Semaphore::new(bounds.calls),
            queue: Arc::new(SharedQueue { calls: Mutex::new(CallQueue::new(bounds)), timer_moved: Notify::new() }),
            task: Mutex::new(None),
        }
    }

    /// The node's address.
    pub(crate) fn addr(&self) -> &Arc<str> {
        &self.addr
    }

    /// Enqueues a call and waits for its outcome, which arrives on `outcome`. Waits for a permit first when all are
    /// taken.
    ///
    /// Cancel safe: a dropped call that is still pending is not sent; the reply to one that was sent is discarded.
    pub(crate) async fn send(&self, shared: &Shared, call: Call, outcome: oneshot::Receiver<Outcome>) -> Outcome {
        let _permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => match tokio::time::timeout_at(call.deadline, self.permits.acquire()).await {
                Ok(permit) => permit.expect("the semaphore of a batcher is never closed"),
                Err(_) => return Outcome::TimedOut { sent: false },
            },
        };
        let Enqueued { open, wake, timer_moved } = {
            let mut calls = self.queue.calls.lock();
            if calls.is_unsupported(Instant::now) {
                return Outcome::Unsupported;
            }
            calls.enqueue(call)
        };
        if let Some(waker) = wake {
            waker.wake();
        }
        if timer_moved {
            self.queue.timer_moved.notify_one();
        }
        if let Some(generation) = open {
            self.open(shared, generation);
        }
        // The queue completes every call. One that it drops anyway is unexpected, and may have been sent.
        outcome
            .await
            .unwrap_or_else(|_| Outcome::Failed { status: stream::ended("the batcher dropped the call"), sent: true })
    }

    fn open(&self, shared: &Shared, generation: Generation) {
        match shared.client(&self.addr) {
            Ok(client) => {
                let task = stream::start(self.queue.clone(), generation, client, shared.pool.runtime());
                *self.task.lock() = Some(task);
            }
            Err(error) => {
                let end = StreamEnd::NeverSent(Status::unavailable(error.to_string()));
                _ = self.queue.end(generation, end);
            }
        }
    }
}

impl Drop for NodeBatcher {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

impl SharedQueue {
    /// Ends a stream and completes the calls that fail with it. Returns the generation to open next, if calls are
    /// pending.
    pub(super) fn end(&self, generation: Generation, end: StreamEnd) -> Option<Generation> {
        let ended = self.calls.lock().end(generation, &end);
        for (mut call, sent) in ended.failed {
            call.complete(match &end {
                StreamEnd::Broke(status) | StreamEnd::NeverSent(status) | StreamEnd::RuntimeGone(status) => {
                    Outcome::Failed { status: status.clone(), sent }
                }
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
