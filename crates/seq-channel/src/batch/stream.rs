//! The task between a queue of calls and a `NextStream`. It opens the stream, completes calls with the responses from
//! the stream, completes calls whose deadline has passed, and opens the stream again if it ended while calls are
//! pending.
//!
//! [`Messages`] builds a message only when the connection can send one. So the flow control of HTTP/2 limits the rate
//! of messages, and calls stay pending while the windows of the flow control are full.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use seq_proto::v1;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, Status};

use super::kind::Kind;
use super::queue::{self, Generation, NextMessage, StreamEnd};
use super::shared_queue::SharedQueue;
use crate::bearer::CallerChannel;
use crate::failure;

/// Time until the next attempt to open a stream to a node that does not implement streams. It is long, because only a
/// restart of the node can change that.
const UNSUPPORTED_FOR: Duration = Duration::from_secs(60);

/// Description of the cause for which a stream ended, if it ended without a status that could be returned to its calls.
#[derive(Debug, thiserror::Error)]
#[error("the stream ended: {0}")]
struct StreamEnded(String);

/// Starts the task for the stream of this generation. Dropping the returned handle aborts the task.
pub(super) fn start<K: Kind>(
    queue: Arc<SharedQueue<K>>,
    generation: Generation,
    channel: CallerChannel,
    runtime: &Handle,
) -> AbortOnDropHandle<()> {
    // The task's state is created before the task is spawned. If the runtime has shut down, it drops the future without
    // polling it, and `Task::drop` then ends the stream.
    let task = Task { queue, generation };
    AbortOnDropHandle::new(runtime.spawn(task.run(channel)))
}

/// Returns a status that callers treat as a connection failure.
pub(super) fn ended(reason: &str) -> Status {
    Status::from_error(Box::new(StreamEnded(reason.to_owned())))
}

struct Task<K: Kind> {
    queue: Arc<SharedQueue<K>>,
    generation: Generation,
}

impl<K: Kind> Task<K> {
    async fn run(mut self, channel: CallerChannel) {
        loop {
            let end = self.serve(channel.clone()).await;
            tracing::debug!(?end, "a stream ended");
            match self.queue.end(self.generation, end) {
                Some(generation) => self.generation = generation,
                None => return,
            }
        }
    }

    /// Runs a stream and the timer of the queue until the stream ends.
    async fn serve(&self, channel: CallerChannel) -> StreamEnd {
        let mut stream = pin!(run_stream(&self.queue, self.generation, channel));
        loop {
            let timer = self.queue.calls.lock().timer();
            let due = async {
                match timer {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                end = &mut stream => return end,
                () = due => self.queue.expire(Instant::now()),
                () = self.queue.timer_moved.notified() => {}
            }
        }
    }
}

impl<K: Kind> Drop for Task<K> {
    fn drop(&mut self) {
        // This has no effect if the task has already ended the generation.
        self.queue.end(self.generation, StreamEnd::RuntimeGone(ended("the batcher's runtime has shut down")));
    }
}

async fn run_stream<K: Kind>(queue: &Arc<SharedQueue<K>>, generation: Generation, channel: CallerChannel) -> StreamEnd {
    let messages = Messages { queue: queue.clone(), generation };
    let mut responses = match K::open(channel, messages).await {
        Ok(responses) => responses,
        Err(status) if failure::not_processed(&status) => return StreamEnd::NeverSent(status),
        Err(status) if status.code() == Code::Unimplemented && !failure::is_transport(&status) => {
            return StreamEnd::Unsupported { until: Instant::now() + UNSUPPORTED_FOR };
        }
        Err(status) => return StreamEnd::Broke(as_break(status)),
    };
    loop {
        match responses.message().await {
            Ok(Some(v1::NextStreamResponse { tag, outcome })) => {
                let taken = queue.calls.lock().take_message(tag);
                let Some((calls, wake)) = taken else {
                    return StreamEnd::Broke(ended("a response to a message that is not in flight"));
                };
                if let Some(waker) = wake {
                    waker.wake();
                }
                queue::complete(calls, outcome);
            }
            Ok(None) => return StreamEnd::Closed(ended("closed by the node")),
            Err(status) => return StreamEnd::Broke(as_break(status)),
        }
    }
}

/// Converts the status with which a server ended a stream. If the code of the status concerns the stream as a whole,
/// and not its calls, returns a status that callers treat as a connection failure. Otherwise returns the status
/// unchanged.
fn as_break(status: Status) -> Status {
    match status.code() {
        Code::Cancelled | Code::DeadlineExceeded | Code::Unknown | Code::Internal
            if !failure::is_transport(&status) =>
        {
            ended(status.message())
        }
        _ => status,
    }
}

/// The messages of a stream.
struct Messages<K: Kind> {
    queue: Arc<SharedQueue<K>>,
    generation: Generation,
}

impl<K: Kind> Stream for Messages<K> {
    type Item = K::Message;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<K::Message>> {
        match self.queue.calls.lock().next_message(self.generation, context.waker(), Instant::now) {
            NextMessage::Ready(message) => Poll::Ready(Some(message)),
            NextMessage::Pending => Poll::Pending,
            NextMessage::Closed => Poll::Ready(None),
        }
    }
}
