//! The batcher for the calls to one node. It has permits that limit the number of items, the queue of the calls, and
//! the task of the stream.

use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;

use super::kind::{Kind, Uids};
use super::queue::{Bounds, Call, Enqueued, Generation, Outcome, StreamEnd};
use super::shared_queue::SharedQueue;
use super::stream;
use crate::pool::Pool;

/// The batcher of one node. Dropping it aborts the task of its stream.
#[derive(Debug)]
pub struct NodeBatcher<K: Kind = Uids> {
    addr: Arc<str>,
    pool: Pool,
    /// Limit on the items of all calls together.
    items: usize,
    /// Permits, one for each item. The future of a call holds the call's permits, so a call that is dropped releases
    /// them at once, in any state.
    permits: Semaphore,
    queue: Arc<SharedQueue<K>>,
    /// Task of the newest stream. The tasks of earlier streams have ended.
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Error of a call that was not enqueued, because its items would exceed the limit on items. No item was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{items} items for one node are pending or in flight already")]
pub struct QueueFull {
    /// Limit on the items of all calls together.
    pub items: usize,
}

impl<K: Kind> NodeBatcher<K> {
    pub(super) fn new(addr: Arc<str>, kind: Arc<K>, bounds: Bounds, pool: Pool) -> NodeBatcher<K> {
        NodeBatcher {
            addr,
            pool,
            items: bounds.items,
            permits: Semaphore::new(bounds.items),
            queue: Arc::new(SharedQueue::new(kind, bounds)),
            task: Mutex::new(None),
        }
    }

    /// Returns the node's address.
    #[must_use]
    pub fn addr(&self) -> &Arc<str> {
        &self.addr
    }

    /// Enqueues a call and waits for its outcome. If fewer permits are free than the call has items, waits for them
    /// first.
    ///
    /// Cancel safe: if the future is dropped while the call is still pending, the call is not sent. If the call has
    /// been sent, its outcome is discarded.
    pub async fn send(&self, call: Call<K::Counter>) -> Outcome {
        let items = call.items.len() as u32;
        let permit = match self.permits.try_acquire_many(items) {
            Ok(permit) => permit,
            Err(_) => match tokio::time::timeout_at(call.deadline, self.permits.acquire_many(items)).await {
                Ok(permit) => permit.expect("the semaphore of a batcher is never closed"),
                Err(_) => return Outcome::TimedOut { sent: false },
            },
        };
        self.enqueue(call, permit).await
    }

    /// Does the same as [`NodeBatcher::send`], but never waits for permits. It is cancel safe in the same way.
    ///
    /// # Errors
    /// [`QueueFull`] if fewer permits are free than the call has items.
    pub async fn try_send(&self, call: Call<K::Counter>) -> Result<Outcome, QueueFull> {
        match self.permits.try_acquire_many(call.items.len() as u32) {
            Ok(permit) => Ok(self.enqueue(call, permit).await),
            Err(_) => Err(QueueFull { items: self.items }),
        }
    }

    async fn enqueue(&self, call: Call<K::Counter>, _permit: SemaphorePermit<'_>) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        let Enqueued { open, wake, timer_moved } = {
            let mut calls = self.queue.calls.lock();
            if calls.is_unsupported(Instant::now) {
                return Outcome::Unsupported;
            }
            calls.enqueue(call, reply)
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
        // The queue completes every call. If it nevertheless drops a call, the call may have been sent.
        outcome
            .await
            .unwrap_or_else(|_| Outcome::Failed { status: stream::ended("the batcher dropped the call"), sent: true })
    }

    fn open(&self, generation: Generation) {
        match self.pool.get_for_caller(&self.addr) {
            Ok(channel) => {
                // The lock is held until the task is stored, so that the task of the next stream cannot be stored
                // before this task.
                let mut task = self.task.lock();
                *task = Some(stream::start(self.queue.clone(), generation, channel, self.pool.runtime()));
            }
            Err(error) => {
                let end = StreamEnd::NeverSent(Status::unavailable(error.to_string()));
                _ = self.queue.end(generation, end);
            }
        }
    }
}
