//! The batcher of one node: permits that bound its calls, their queue, and the task of its stream.

use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;
use seq_channel::Pool;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

use super::queue::{Bounds, Call, Enqueued, Generation, Outcome, StreamEnd};
use super::shared_queue::SharedQueue;
use super::stream;
use crate::node_client;

/// The batcher of one node. Dropping it aborts the task of its stream.
#[derive(Debug)]
pub(crate) struct NodeBatcher {
    addr: Arc<str>,
    pool: Pool,
    /// One permit per call. The caller holds it, so a dropped call releases it at once, in whatever state it is.
    permits: Semaphore,
    queue: Arc<SharedQueue>,
    /// The task of the newest stream; the one before it has ended.
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl NodeBatcher {
    pub(crate) fn new(addr: Arc<str>, bounds: Bounds, pool: Pool) -> NodeBatcher {
        NodeBatcher {
            addr,
            pool,
            permits: Semaphore::new(bounds.calls),
            queue: Arc::new(SharedQueue::new(bounds)),
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
    pub(crate) async fn send(&self, call: Call, outcome: oneshot::Receiver<Outcome>) -> Outcome {
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
            self.open(generation);
        }
        // The queue completes every call. One that it drops anyway is unexpected, and may have been sent.
        outcome
            .await
            .unwrap_or_else(|_| Outcome::Failed { status: stream::ended("the batcher dropped the call"), sent: true })
    }

    fn open(&self, generation: Generation) {
        match node_client::of(&self.pool, &self.addr) {
            Ok(client) => {
                // Held over the start: the task of the next stream cannot be stored before this one.
                let mut task = self.task.lock();
                *task = Some(stream::start(self.queue.clone(), generation, client, self.pool.runtime()));
            }
            Err(error) => {
                let end = StreamEnd::NeverSent(Status::unavailable(error.to_string()));
                _ = self.queue.end(generation, end);
            }
        }
    }
}
