//! Implements `KeyService.NextStream`. Many messages of a stream are in flight at a time, and each gets its response as
//! soon as the response is complete. When the endpoint shuts down, it reads no further message, responds to all
//! messages that were read, and then ends the stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures::future::{Either, ready};
use futures::stream::{Stream, StreamExt};
use prost::Message as _;
use seq_api::service::{SequenceService, Via};
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::{status, v1};
use seq_tenant::Session;
use tonic::{Status, Streaming};

use crate::handlers::{Handlers, RequestContext};
use crate::memory::Memory;
use crate::timeout::Deadline;

/// Limit on the messages of one stream that are in flight, as promised in proto/seqsvr/v1/keys.proto. Further messages
/// are not read, so that the flow control of HTTP/2 slows the caller down.
const MAX_PENDING_MESSAGES: usize = 512;

/// Memory of the messages of one stream that are in flight.
#[derive(Clone)]
struct InFlight {
    memory: Memory,
    held: Arc<Held>,
}

#[derive(Default)]
struct Held {
    bytes: AtomicUsize,
    items: AtomicUsize,
}

/// The part of one message, which ends when the value is dropped.
struct Part {
    all: InFlight,
    bytes: usize,
    items: usize,
}

impl InFlight {
    /// Begins to count a message.
    fn add(&self, message: &v1::NextKeysMessage) -> Part {
        let items = message.request.as_ref().map_or(0, |request| request.keys.len() + request.raw_keys.len());
        let part = Part { all: self.clone(), bytes: message.encoded_len(), items };
        self.held.bytes.fetch_add(part.bytes, Relaxed);
        self.held.items.fetch_add(part.items, Relaxed);
        part
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let held = &self.all.held;
        let bytes = held.bytes.fetch_sub(self.bytes, Relaxed) - self.bytes;
        let items = held.items.fetch_sub(self.items, Relaxed) - self.items;
        self.all.memory.set_stream(bytes, items);
    }
}

impl<F: SequenceService> Handlers<F> {
    /// Returns the responses to the messages of a stream.
    pub(crate) fn key_stream(
        self: Arc<Self>,
        mut session: Session,
        memory: Memory,
        messages: Streaming<v1::NextKeysMessage>,
    ) -> impl Stream<Item = Result<v1::NextStreamResponse, Status>> + Send + 'static {
        let closing = Box::pin(self.closing.clone().cancelled_owned());
        let in_flight = InFlight { memory, held: Arc::default() };
        let respond = move |message: Result<v1::NextKeysMessage, Status>| {
            let message = message.map_err(|status| status::unread(&status));
            let message = message.and_then(|message| session.refresh().map(|()| message));
            let message = match message {
                Ok(message) => message,
                Err(status) => return Either::Left(ready(Err(status))),
            };
            let part = in_flight.add(&message);
            let v1::NextKeysMessage { tag, request, timeout_ms, now_only } = message;
            let timeout = Duration::from_millis(timeout_ms.into());
            let deadline = if timeout.is_zero() { Deadline::unstated() } else { Deadline::stated(timeout) };
            let (caller, memory) = (session.caller().clone(), part.all.memory.clone());
            let (handlers, context) = (self.clone(), RequestContext { deadline, via: Via::Stream, caller, memory });
            Either::Right(async move {
                let outcome = match handlers.next_keys_by(context, request.unwrap_or_default(), now_only).await {
                    Ok(response) => Outcome::Response(response),
                    Err(refusal) => Outcome::Refusal(refusal.item(0, deadline)),
                };
                drop(part);
                Ok(v1::NextStreamResponse { tag, outcome: Some(outcome) })
            })
        };
        messages.take_until(closing).map(respond).buffer_unordered(MAX_PENDING_MESSAGES)
    }
}
