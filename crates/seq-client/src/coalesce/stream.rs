//! The task between a line and a `NextStream`: opens it, hands answers out, tells who is late, and opens it again while
//! somebody is in line.
//!
//! What is sent is gathered by [`Messages`], which the connection polls when it has room: HTTP/2's windows are the
//! back-pressure, and while they are shut calls gather.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::lane::Ends;
use super::line::{self, End, Gathered, Generation};
use crate::pool;

/// How long a node that does not know streams is not asked for one: it must be restarted to learn them.
const NOT_SERVED_FOR: Duration = Duration::from_secs(60);

/// A stream that ended without a word about the calls in it.
#[derive(Debug, thiserror::Error)]
#[error("the stream ended: {0}")]
struct StreamEnded(String);

/// Starts the task of one generation.
pub(super) fn start(
    ends: Arc<Ends>,
    generation: Generation,
    client: SequenceServiceClient<Channel>,
    runtime: &Handle,
) -> AbortHandle {
    // Made here: a runtime that is gone drops the task without a look at it.
    let task = Task { ends, generation };
    runtime.spawn(task.run(client)).abort_handle()
}

/// The failure of a connection, as far as callers are concerned.
pub(super) fn ended(why: &str) -> Status {
    Status::from_error(Box::new(StreamEnded(why.to_owned())))
}

struct Task {
    ends: Arc<Ends>,
    generation: Generation,
}

impl Task {
    async fn run(mut self, client: SequenceServiceClient<Channel>) {
        loop {
            let end = self.talk(client.clone()).await;
            tracing::debug!(?end, "a stream ended");
            match self.ends.end(self.generation, end) {
                Some(generation) => self.generation = generation,
                None => return,
            }
        }
    }

    /// Keeps one stream open, beside the clock.
    async fn talk(&self, client: SequenceServiceClient<Channel>) -> End {
        let mut talking = pin!(talk(&self.ends, self.generation, client));
        loop {
            let timer = self.ends.line.lock().timer();
            let late = async {
                match timer {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                end = &mut talking => return end,
                () = late => self.ends.expire(Instant::now()),
                () = self.ends.sooner.notified() => {}
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // After an end that the task has seen this changes nothing.
        self.ends.end(self.generation, End::Gone(ended("the client's runtime is gone")));
    }
}

async fn talk(ends: &Arc<Ends>, generation: Generation, mut client: SequenceServiceClient<Channel>) -> End {
    let messages = Messages { ends: ends.clone(), generation };
    let mut answers = match client.next_stream(messages).await {
        Ok(answers) => answers.into_inner(),
        Err(status) if pool::not_processed(&status) => return End::NeverSent(status),
        Err(status) if status.code() == Code::Unimplemented && !pool::is_transport(&status) => {
            return End::NotServed { until: Instant::now() + NOT_SERVED_FOR };
        }
        Err(status) => return End::Broke(as_break(status)),
    };
    loop {
        match answers.message().await {
            Ok(Some(v1::NextStreamResponse { tag, outcome })) => {
                let answered = ends.line.lock().answered(tag);
                let Some((calls, wake)) = answered else {
                    return End::Broke(ended("an answer to a message that was not sent"));
                };
                if let Some(waker) = wake {
                    waker.wake();
                }
                line::tell(calls, outcome);
            }
            Ok(None) => return End::Broke(ended("the node closed it")),
            Err(status) => return End::Broke(as_break(status)),
        }
    }
}

/// Codes that a server gives to a stream, and not to the calls in it.
fn as_break(status: Status) -> Status {
    match status.code() {
        Code::Cancelled | Code::DeadlineExceeded | Code::Unknown | Code::Internal if !pool::is_transport(&status) => {
            ended(status.message())
        }
        _ => status,
    }
}

/// What one stream sends.
struct Messages {
    ends: Arc<Ends>,
    generation: Generation,
}

impl Stream for Messages {
    type Item = v1::NextStreamRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<v1::NextStreamRequest>> {
        match self.ends.line.lock().gather(self.generation, context.waker(), Instant::now) {
            Gathered::Message(message) => Poll::Ready(Some(message)),
            Gathered::Nothing => Poll::Pending,
            Gathered::Over => Poll::Ready(None),
        }
    }
}
