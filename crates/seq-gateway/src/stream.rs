//! Implements `NextStream`. Many messages of a stream are in flight at a time, and each gets its response as soon as
//! the response is complete.
//!
//! All messages that have arrived are processed as one batch, with one reading of the clock. Messages that have to wait
//! are completed separately and do not block other messages. When the endpoint shuts down, it reads no further message,
//! responds to all messages that were read, and then ends the stream.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{FuturesUnordered, Stream, StreamExt};
use prost::Message as _;
use seq_api::service::{Allocation, Call, DecodedItem, Item, ItemReply, Redirects, SequenceService, Via};
use seq_proto::convert::{self, Items};
use seq_proto::{status, v1};
use seq_tenant::{Caller, Session};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, Streaming};

use crate::batch_response;
use crate::handlers::Handlers;
use crate::memory::Memory;
use crate::timeout::Deadline;

/// Limit on the messages of a batch. It is large enough that the cost of the clock is negligible, and small enough that
/// the first response is sent while the data of the socket are still in the cache.
const MAX_BATCH: usize = 256;

/// Limit on the pending messages of one stream, as promised in proto/seqsvr/v1/sequence.proto. Further messages are not
/// read, so that the flow control of HTTP/2 slows the caller down.
const MAX_PENDING_MESSAGES: usize = 512;

/// Limit on the items of all pending messages of one stream, and on the items of a batch. It is twice the number of
/// items of a full message. So many items take 2 MiB.
const MAX_PENDING_ITEMS: usize = 2 * seq_core::limits::MAX_ITEMS;

/// Number of bytes in front of a message in its frame: the flag whether the message is compressed, and its length.
const FRAME_BYTES: usize = 5;

thread_local! {
    /// The buffers of a batch. They are in use only while the responses of a stream are polled, so a stream that waits
    /// holds no buffers.
    static BATCH: RefCell<Batch> = RefCell::default();
}

/// A message that waits, as a future that returns the number of its items and its response.
type Pending = Pin<Box<dyn Future<Output = (usize, v1::NextStreamResponse)> + Send>>;

/// The responses of one stream.
pub(crate) struct Responses<F: SequenceService> {
    handlers: Arc<Handlers<F>>,
    session: Session,
    memory: Memory,
    /// Messages of the caller; `None` after the caller has sent its last message, or after the endpoint began to shut
    /// down.
    messages: Option<Streaming<v1::NextStreamRequest>>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Number of bytes of the decoded messages, including their frames. It wraps around.
    decoded: usize,
    /// Largest number of bytes so far that had been received but not decoded. It is the size of the library's buffer
    /// for such bytes, which does not shrink.
    most_unread: usize,
    done: VecDeque<v1::NextStreamResponse>,
    pending: FuturesUnordered<Pending>,
    /// Number of items of the messages in `pending`.
    pending_items: usize,
    /// Number of items of the responses in `done`. It is reset to 0 only when all these responses have been taken.
    done_items: usize,
}

/// Messages that are processed together.
#[derive(Default)]
struct Batch {
    messages: Vec<Message>,
    items: Vec<DecodedItem>,
    results: Vec<ItemReply<Allocation>>,
}

struct Message {
    tag: u64,
    /// Indexes of its items in the batch.
    range: Range<usize>,
    route_version: Option<u64>,
    hops: u32,
    /// Protocol over which the message arrived, or [`Via::Forwarded`] if another node forwarded it.
    via: Via,
    /// Timeout of the caller, if the message states one.
    timeout: Option<Duration>,
    now_only: bool,
}

impl<F: SequenceService> Responses<F> {
    pub(crate) fn new(
        handlers: Arc<Handlers<F>>,
        session: Session,
        memory: Memory,
        messages: Streaming<v1::NextStreamRequest>,
    ) -> Responses<F> {
        let closing = Box::pin(handlers.closing.clone().cancelled_owned());
        Responses {
            handlers,
            session,
            memory,
            closing,
            messages: Some(messages),
            decoded: 0,
            most_unread: 0,
            done: VecDeque::new(),
            pending: FuturesUnordered::new(),
            pending_items: 0,
            done_items: 0,
        }
    }

    /// Reads messages that have arrived and adds them to the batch, until a limit on the messages or items of the batch
    /// or of the stream is reached. Returns whether any message was read.
    fn read_available(&mut self, batch: &mut Batch, context: &mut Context<'_>) -> Result<bool, Status> {
        let mut any = false;
        if self.messages.is_some() && self.closing.as_mut().poll(context).is_ready() {
            self.messages = None;
        }
        while let Some(messages) = &mut self.messages
            && batch.messages.len() < MAX_BATCH
            && self.pending.len() + batch.messages.len() < MAX_PENDING_MESSAGES
            && self.pending_items + batch.items.len() < MAX_PENDING_ITEMS
        {
            match messages.poll_next_unpin(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.messages = None,
                Poll::Ready(Some(message)) => {
                    let message = message.map_err(|status| status::unread(&status))?;
                    let tag = message.tag;
                    self.most_unread = self.most_unread.max(self.memory.received().wrapping_sub(self.decoded));
                    self.decoded = self.decoded.wrapping_add(FRAME_BYTES + message.encoded_len());
                    self.session.refresh()?;
                    let items = message.request.as_ref().map_or(0, |request| request.uids.len());
                    let fits = self.memory.add_items(items);
                    let added = fits.and_then(|()| batch.add(message, self.session.caller()));
                    if let Err(refusal) = added {
                        let refusal = v1::next_stream_response::Outcome::Refusal(status::to_item(0, &refusal));
                        self.done.push_back(v1::NextStreamResponse { tag, outcome: Some(refusal) });
                    }
                    any = true;
                }
            }
        }
        Ok(any)
    }

    /// Processes the messages of the batch. Each message is either completed or moved to `pending`.
    fn process(&mut self, batch: &mut Batch) {
        let Batch { messages, items, results } = batch;
        if messages.is_empty() {
            return;
        }
        for of_one in messages.chunk_by(|one, next| one.via == next.via) {
            let (first, last) = (&of_one[0], &of_one[of_one.len() - 1]);
            let _sample = self.handlers.latency.sample(first.via);
            self.handlers.service.try_next_batch(first.via, &items[first.range.start..last.range.end], results);
        }
        for Message { tag, range, route_version, hops, via, timeout, now_only } in messages.drain(..) {
            let results = &mut results[range.clone()];
            if now_only || results.iter().all(Option::is_some) {
                self.done_items += results.len();
                let results = results.iter_mut().map(Option::take);
                let response = batch_response::encode(results, None, self.handlers.newer_routes(route_version));
                self.done.push_back(respond(tag, response));
            } else {
                let deadline = timeout.map_or_else(Deadline::unstated, Deadline::stated);
                let call = Call { deadline: deadline.at, hops, redirects: Redirects::Forward, via };
                let (items, mut results) = (items[range].to_vec(), results.to_vec());
                let handlers = self.handlers.clone();
                self.pending_items += items.len();
                self.pending.push(Box::pin(async move {
                    handlers.service.complete_batch(call, &items, &mut results).await;
                    assert!(results.iter().all(Option::is_some), "every item has a result");
                    let response = batch_response::encode(
                        results.into_iter(),
                        Some(deadline),
                        handlers.newer_routes(route_version),
                    );
                    (items.len(), respond(tag, response))
                }));
            }
        }
        items.clear();
        results.clear();
        self.state_memory();
    }

    /// Sets the memory that is counted for the stream. It is called after a batch was processed and after responses
    /// were taken.
    fn state_memory(&self) {
        // Both buffers grow by doubling.
        let buffers = self.most_unread.next_power_of_two() + self.done.capacity() * size_of::<v1::NextStreamResponse>();
        self.memory.set_stream(buffers, self.pending_items + self.done_items);
    }
}

impl Batch {
    fn clear(&mut self) {
        self.messages.clear();
        self.items.clear();
        self.results.clear();
    }

    fn add(&mut self, message: v1::NextStreamRequest, caller: &Caller) -> Result<(), seq_core::Refusal> {
        let v1::NextStreamRequest { tag, request, timeout_ms, now_only } = message;
        let v1::NextManyRequest { uids, counts, route_version, hops, known_epochs } = request.unwrap_or_default();
        convert::check_hops(hops)?;
        let items = Items::new(&uids, &counts, &known_epochs)?;
        let start = self.items.len();
        self.items.extend(items.iter().map(|(uid, count, epoch)| Ok(Item { uid, count: count?, epoch })));
        caller.admit(&mut self.items[start..]);
        let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into()));
        let range = start..self.items.len();
        let via = if hops == 0 { Via::Stream } else { Via::Forwarded };
        self.messages.push(Message { tag, range, route_version, hops, via, timeout, now_only });
        Ok(())
    }
}

fn respond(tag: u64, response: v1::NextManyResponse) -> v1::NextStreamResponse {
    v1::NextStreamResponse { tag, outcome: Some(v1::next_stream_response::Outcome::Response(response)) }
}

impl<F: SequenceService> Stream for Responses<F> {
    type Item = Result<v1::NextStreamResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(response) = this.done.pop_front() {
                if this.done.is_empty() && this.done_items > 0 {
                    this.done_items = 0;
                    this.state_memory();
                }
                return Poll::Ready(Some(Ok(response)));
            }
            let read = BATCH.with_borrow_mut(|batch| {
                // A panic may have left messages in the batch.
                batch.clear();
                let read = this.read_available(batch, context);
                if let Ok(true) = read {
                    this.process(batch);
                }
                read
            });
            match read {
                Ok(true) => continue,
                Ok(false) => {}
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
            match this.pending.poll_next_unpin(context) {
                Poll::Ready(Some((items, response))) => {
                    this.pending_items -= items;
                    this.state_memory();
                    return Poll::Ready(Some(Ok(response)));
                }
                Poll::Ready(None) if this.messages.is_none() => return Poll::Ready(None),
                _ => return Poll::Pending,
            }
        }
    }
}
