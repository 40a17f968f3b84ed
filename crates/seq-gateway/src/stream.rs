//! `NextStream`: many messages under way at a time, those that are done answered at once.
//!
//! What has arrived is taken as one batch, with one look at the clock. Messages that must wait are set aside, and nobody
//! waits behind them. When the door closes nothing more is read, what was read is answered, and the stream ends.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{FuturesUnordered, Stream, StreamExt};
use seq_kit::frontend::{Allocation, Answered, Ask, Asked, Call, Frontend, Via};
use seq_proto::convert::{self, Items};
use seq_proto::{status, v1};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, Streaming};

use crate::calls::Sequence;
use crate::many;
use crate::timeout;

/// Messages taken as one batch: enough for the clock to cost nothing beside them, and so few that the first of them is
/// answered while the socket is still warm.
const MAX_BATCH: usize = 256;

/// Messages of one stream that are held at a time; proto/seqsvr/v1/sequence.proto promises it. The next ones are not read,
/// so HTTP/2 holds the caller back.
const MAX_HELD_MESSAGES: usize = 512;

/// Items of the messages that one stream holds, and of a batch: twice a full message, 2 MiB.
const MAX_HELD_ITEMS: usize = 2 * seq_core::limits::MAX_ITEMS;

/// A message that waits, and what it will be answered with.
type Held = Pin<Box<dyn Future<Output = (usize, v1::NextStreamResponse)> + Send>>;

/// The answers of one stream.
pub(crate) struct Answers<F: Frontend> {
    sequence: Arc<Sequence<F>>,
    /// `None` once the caller has sent its last message, or the door closes.
    messages: Option<Streaming<v1::NextStreamRequest>>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    batch: Batch,
    done: VecDeque<v1::NextStreamResponse>,
    held: FuturesUnordered<Held>,
    /// Of the messages in `held`.
    held_items: usize,
}

/// What is taken at once. Kept from batch to batch for its memory.
#[derive(Default)]
struct Batch {
    messages: Vec<Message>,
    asks: Vec<Asked>,
    answers: Vec<Answered<Allocation>>,
}

struct Message {
    tag: u64,
    /// Its part of the batch.
    items: Range<usize>,
    route_version: Option<u64>,
    hops: u32,
    timeout: Duration,
    now_only: bool,
}

impl<F: Frontend> Answers<F> {
    pub(crate) fn new(sequence: Arc<Sequence<F>>, messages: Streaming<v1::NextStreamRequest>) -> Answers<F> {
        let closing = Box::pin(sequence.closing.clone().cancelled_owned());
        Answers {
            sequence,
            closing,
            messages: Some(messages),
            batch: Batch::default(),
            done: VecDeque::new(),
            held: FuturesUnordered::new(),
            held_items: 0,
        }
    }

    /// Reads what has arrived. Answers whether there was anything.
    fn gather(&mut self, context: &mut Context<'_>) -> Result<bool, Status> {
        let mut some = false;
        if self.messages.is_some() && self.closing.as_mut().poll(context).is_ready() {
            self.messages = None;
        }
        while let Some(messages) = &mut self.messages
            && self.batch.messages.len() < MAX_BATCH
            && self.held.len() + self.batch.messages.len() < MAX_HELD_MESSAGES
            && self.held_items + self.batch.asks.len() < MAX_HELD_ITEMS
        {
            match messages.poll_next_unpin(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.messages = None,
                Poll::Ready(Some(message)) => {
                    let message = message.map_err(|status| status::unread(&status))?;
                    let tag = message.tag;
                    if let Err(refusal) = self.batch.add(message) {
                        let refusal = v1::next_stream_response::Outcome::Refusal(status::to_item(0, &refusal));
                        self.done.push_back(v1::NextStreamResponse { tag, outcome: Some(refusal) });
                    }
                    some = true;
                }
            }
        }
        Ok(some)
    }

    /// Answers what was gathered, or sets it aside.
    fn take(&mut self) {
        let Batch { messages, asks, answers } = &mut self.batch;
        if messages.is_empty() {
            return;
        }
        let _sample = self.sequence.latency.sample(Via::Stream);
        self.sequence.frontend.take_now(Via::Stream, asks, answers);
        for Message { tag, items, route_version, hops, timeout, now_only } in messages.drain(..) {
            let answers = &mut answers[items.clone()];
            if now_only || answers.iter().all(Option::is_some) {
                let answers = answers.iter_mut().map(Option::take);
                let answer = many::response(answers, self.sequence.newer_routes(route_version));
                self.done.push_back(respond(tag, answer));
            } else {
                let call = Call { deadline: timeout::after(timeout), hops, via: Via::Stream };
                let (asks, mut answers) = (asks[items].to_vec(), answers.to_vec());
                let sequence = self.sequence.clone();
                self.held_items += asks.len();
                self.held.push(Box::pin(async move {
                    sequence.frontend.take_rest(call, &asks, &mut answers).await;
                    assert!(answers.iter().all(Option::is_some), "every item is answered");
                    let answer = many::response(answers.into_iter(), sequence.newer_routes(route_version));
                    (asks.len(), respond(tag, answer))
                }));
            }
        }
        asks.clear();
        answers.clear();
    }
}

impl Batch {
    fn add(&mut self, message: v1::NextStreamRequest) -> Result<(), seq_core::Refusal> {
        let v1::NextStreamRequest { tag, ask, timeout_ms, now_only } = message;
        let v1::NextManyRequest { uids, counts, route_version, hops, known_epochs } = ask.unwrap_or_default();
        convert::check_hops(hops)?;
        let items = Items::new(&uids, &counts, &known_epochs)?;
        let start = self.asks.len();
        self.asks.extend(items.iter().map(|(uid, count, epoch)| Ok(Ask { uid, count: count?, epoch })));
        let timeout = match timeout_ms {
            0 => timeout::DEFAULT_TIMEOUT,
            millis => Duration::from_millis(millis.into()),
        };
        let items = start..self.asks.len();
        self.messages.push(Message { tag, items, route_version, hops, timeout, now_only });
        Ok(())
    }
}

fn respond(tag: u64, answer: v1::NextManyResponse) -> v1::NextStreamResponse {
    v1::NextStreamResponse { tag, outcome: Some(v1::next_stream_response::Outcome::Answer(answer)) }
}

impl<F: Frontend> Stream for Answers<F> {
    type Item = Result<v1::NextStreamResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(response) = this.done.pop_front() {
                return Poll::Ready(Some(Ok(response)));
            }
            match this.gather(context) {
                Ok(true) => {
                    this.take();
                    continue;
                }
                Ok(false) => {}
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
            match this.held.poll_next_unpin(context) {
                Poll::Ready(Some((items, response))) => {
                    this.held_items -= items;
                    return Poll::Ready(Some(Ok(response)));
                }
                Poll::Ready(None) if this.messages.is_none() => return Poll::Ready(None),
                _ => return Poll::Pending,
            }
        }
    }
}
