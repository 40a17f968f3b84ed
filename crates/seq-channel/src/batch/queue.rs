//! The queue of calls to one node. It has the pending calls, the messages in flight with their calls, and decides the
//! outcome of each call. It has no I/O and no clock.
//!
//! Invariant: an enqueued call gets exactly one [`Outcome`], unless its caller dropped it. Until it gets its outcome,
//! the call is either pending, or in a single message that contains all its items in order. A call that was in a
//! message never becomes pending again, so a call is sent at most once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::channel::oneshot;
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome as MessageOutcome;
use tokio::time::Instant;
use tonic::Status;

use super::kind::{Kind, Lists};
use super::response::{Message, Response};

/// Limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Limit on the items of all calls together, pending and in flight.
    pub items: usize,
    /// Limit on the items in a message with several calls. A call with more items is sent in a message of its own.
    pub message: usize,
    /// Limit on the messages in flight.
    pub in_flight: usize,
}

impl Bounds {
    /// Limits for callers that each wait for their own response.
    pub const DEFAULT: Bounds = Bounds {
        // This is more than the number of concurrent calls of a busy process to one node. With about 200 bytes for each
        // item they take 13 MiB.
        items: 65_536,
        // With a thousand items in a message, the cost of the message itself is negligible, and the response to the
        // first item does not wait long for the last item.
        message: 1_024,
        // This is half of the number of messages in flight that a node accepts on a stream. If the node responds fast,
        // far fewer messages are in flight. If it is slow, further calls stay pending here.
        in_flight: 256,
    };
}

/// An item of a call. It requests numbers for one uid or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<C = u64> {
    /// The requested uid or key.
    pub counter: C,
    /// Number of requested numbers.
    pub count: u32,
    /// Newest epoch of the counter's section that the caller has seen; 0 for none.
    pub epoch: u64,
}

/// The items of a call, in order.
#[derive(Clone, Debug)]
pub enum CallItems<C = u64> {
    /// A single item.
    One(Item<C>),
    /// Several items, up to [`seq_core::limits::MAX_ITEMS`].
    Many(Box<[Item<C>]>),
}

/// A call for numbers of one or several uids or keys.
#[derive(Clone, Debug)]
pub struct Call<C = u64> {
    /// Items of the call, which are sent in one message and in this order.
    pub items: CallItems<C>,
    /// Number of times that servers have forwarded the call. If this process itself is a server that forwards the call
    /// now, this time counts too.
    pub hops: u32,
    /// Version of the caller's routes; `None` if the caller keeps no routes.
    pub route_version: Option<u64>,
    /// Time at which the caller stops waiting.
    pub deadline: Instant,
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Outcome {
    /// The node responded to each item.
    Response(Response),
    /// The node refused the whole message that contained the call.
    Refused(Box<v1::ItemError>),
    /// The stream ended before it delivered a response to the call.
    Failed {
        /// Status of the stream's end.
        status: Status,
        /// Whether the node may have processed the call.
        sent: bool,
    },
    /// The deadline passed.
    TimedOut {
        /// Whether the node may have processed the call, or may process it later.
        sent: bool,
    },
    /// The response violates the protocol.
    Invalid(&'static str),
    /// The node does not implement streams.
    Unsupported,
}

/// Number of a stream to the node. Each new stream gets the next number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// Kind of a stream's end.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// The stream was open and broke.
    Broke(Status),
    /// The node ended the stream with a status of success. In that case it has responded to every message that it
    /// processed.
    Closed(Status),
    /// The stream could not be opened, so the node processed none of its messages.
    NeverSent(Status),
    /// The node does not implement `NextStream`. No other stream to it is opened before `until`.
    Unsupported { until: Instant },
    /// The runtime of the batcher has shut down, so no further stream can be opened.
    RuntimeGone(Status),
}

/// The receiver of a call's outcome, and the call's deadline.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Number of the call's items.
    items: usize,
    deadline: Instant,
    /// Sender of the outcome; `None` once the call is complete.
    reply: Option<oneshot::Sender<Outcome>>,
}

/// The calls to one node.
#[derive(Debug)]
pub(super) struct CallQueue<K: Kind> {
    kind: Arc<K>,
    bounds: Bounds,
    pending: VecDeque<(Call<K::Counter>, Waiter)>,
    /// Items of the calls in `pending`.
    pending_items: usize,
    /// Calls of each message in flight, by the tag of the message. The calls of a message are in the order of their
    /// items.
    in_flight: BTreeMap<u64, Vec<Waiter>>,
    next_tag: u64,
    generation: Generation,
    /// Whether the stream of this generation is open or being opened.
    open: bool,
    /// Whether the stream of this generation has delivered a response.
    responded: bool,
    unsupported_until: Option<Instant>,
    /// Waker of the task that sends messages, if this task waits for the next message; otherwise `None`.
    sender: Option<Waker>,
    /// Time of the next check for calls whose deadline has passed. It is not later than the earliest deadline of any
    /// call in the queue.
    timer: Option<Instant>,
}

/// Effects of enqueuing a call.
#[derive(Debug, Default)]
pub(super) struct Enqueued {
    /// Generation of the stream that the caller has to open; `None` if a stream is already open or being opened.
    pub(super) open: Option<Generation>,
    pub(super) wake: Option<Waker>,
    /// Whether the timer is now due earlier than before this call.
    pub(super) timer_moved: bool,
}

/// The next message of a stream.
#[derive(Debug)]
pub(super) enum NextMessage<M> {
    Ready(M),
    /// There is no message to send now. The waker was stored, and is woken when there is a message.
    Pending,
    /// The stream has ended, because its generation is not the current generation.
    Closed,
}

/// Effects of the end of a stream.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The calls that failed with the stream, each with a flag that states whether the node may have processed the
    /// call.
    pub(super) failed: Vec<(Waiter, bool)>,
    /// Generation of the stream that has to be opened for the pending calls; `None` if no call is pending.
    pub(super) open: Option<Generation>,
}

impl<K: Kind> CallQueue<K> {
    pub(super) fn new(kind: Arc<K>, bounds: Bounds) -> CallQueue<K> {
        CallQueue {
            kind,
            bounds,
            pending: VecDeque::new(),
            pending_items: 0,
            in_flight: BTreeMap::new(),
            next_tag: 0,
            generation: Generation::default(),
            open: false,
            responded: false,
            unsupported_until: None,
            sender: None,
            timer: None,
        }
    }

    /// Returns whether the node recently reported that it does not implement streams. In that case, no stream to it is
    /// opened for now.
    pub(super) fn is_unsupported(&self, now: impl FnOnce() -> Instant) -> bool {
        self.unsupported_until.is_some_and(|until| now() < until)
    }

    /// Adds a pending call.
    pub(super) fn enqueue(&mut self, call: Call<K::Counter>, reply: oneshot::Sender<Outcome>) -> Enqueued {
        if self.pending_items >= 2 * self.bounds.items {
            // The permits limit the items whose callers still wait to half of this number. So at least half of the
            // pending items belong to calls that their callers dropped. These calls are removed, so that the queue does
            // not grow further.
            self.retain_pending(|waiter| waiter.is_wanted());
        }
        let timer_moved = self.timer.is_none_or(|timer| call.deadline < timer);
        if timer_moved {
            self.timer = Some(call.deadline);
        }
        let waiter = Waiter { items: call.items.len(), deadline: call.deadline, reply: Some(reply) };
        self.pending_items += waiter.items;
        self.pending.push_back((call, waiter));
        let open = (!self.open).then(|| self.reopen());
        Enqueued { open, wake: self.sender.take(), timer_moved }
    }

    /// Builds the next message from pending calls, up to the limit on the items in a message. `generation` is the
    /// generation of the stream that asks for the message. If there is no message to send, stores `waker`.
    pub(super) fn next_message(
        &mut self,
        generation: Generation,
        waker: &Waker,
        now: impl FnOnce() -> Instant,
    ) -> NextMessage<K::Message> {
        if !self.open || generation != self.generation {
            return NextMessage::Closed;
        }
        if self.in_flight.len() < self.bounds.in_flight {
            let mut message = MessageBuilder::new(self.pending_items.min(self.bounds.message));
            let mut waiters = Vec::with_capacity(self.pending.len().min(self.bounds.message));
            while let Some((call, waiter)) = self.pending.pop_front() {
                if waiter.is_wanted() {
                    let bytes: usize = call.items.as_slice().iter().map(|item| K::key_bytes(&item.counter)).sum();
                    let is_full = message.counters.len() + waiter.items > self.bounds.message
                        || message.key_bytes + bytes > MAX_KEYS_BYTES;
                    if !waiters.is_empty() && is_full {
                        self.pending.push_front((call, waiter));
                        break;
                    }
                    self.pending_items -= waiter.items;
                    message.key_bytes += bytes;
                    message.add(call);
                    waiters.push(waiter);
                } else {
                    self.pending_items -= waiter.items;
                }
            }
            if !waiters.is_empty() {
                let tag = self.next_tag;
                self.next_tag += 1;
                self.in_flight.insert(tag, waiters);
                return NextMessage::Ready(message.build(&*self.kind, tag, now()));
            }
        }
        if !self.sender.as_ref().is_some_and(|sender| sender.will_wake(waker)) {
            self.sender = Some(waker.clone());
        }
        NextMessage::Pending
    }

    /// Removes the message with this tag, which got its response, from the messages in flight. Returns its calls, and,
    /// if calls are pending, the sender's waker. Returns `None` if no message with this tag is in flight.
    pub(super) fn take_message(&mut self, tag: u64) -> Option<(Vec<Waiter>, Option<Waker>)> {
        let calls = self.in_flight.remove(&tag)?;
        self.responded = true;
        let wake = if self.pending.is_empty() { None } else { self.sender.take() };
        Some((calls, wake))
    }

    /// Removes the calls whose deadline has passed. Returns the senders of their outcomes, each with a flag that states
    /// whether the call was sent.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(oneshot::Sender<Outcome>, bool)> {
        let mut expired = Vec::new();
        let mut next: Option<Instant> = None;
        let mut stays = |waiter: &mut Waiter, sent: bool| {
            if !waiter.is_wanted() {
                return false;
            }
            if waiter.deadline <= now {
                expired.extend(waiter.reply.take().map(|reply| (reply, sent)));
                return false;
            }
            next = Some(next.map_or(waiter.deadline, |next| next.min(waiter.deadline)));
            true
        };
        self.retain_pending(|waiter| stays(waiter, false));
        // Calls in flight keep their place in the list of their message, because a response refers to the items of a
        // message by index.
        self.in_flight.values_mut().flatten().for_each(|waiter| _ = stays(waiter, true));
        self.timer = next;
        expired
    }

    /// Returns the time of the next check for calls whose deadline has passed.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Ends the stream of this generation. The calls in its messages fail. If the stream delivered a response before it
    /// broke, the pending calls stay pending for the next stream. Otherwise they fail as not sent, because the callers
    /// may be able to reach another node.
    pub(super) fn end(&mut self, generation: Generation, end: &StreamEnd) -> Ended {
        let mut ended = Ended::default();
        if !self.open || generation != self.generation {
            return ended;
        }
        self.open = false;
        self.sender = None;
        let was_sent = matches!(end, StreamEnd::Broke(_) | StreamEnd::RuntimeGone(_));
        let lost = std::mem::take(&mut self.in_flight).into_values().flatten();
        ended.failed.extend(lost.map(|waiter| (waiter, was_sent)));
        if let StreamEnd::Unsupported { until } = end {
            self.unsupported_until = Some(*until);
        }
        let again = self.responded && matches!(end, StreamEnd::Broke(_));
        if !again {
            ended.failed.extend(self.pending.drain(..).map(|(_, waiter)| (waiter, false)));
            self.pending_items = 0;
        }
        if !self.pending.is_empty() {
            ended.open = Some(self.reopen());
        }
        ended
    }

    fn reopen(&mut self) -> Generation {
        self.generation.0 += 1;
        self.open = true;
        self.responded = false;
        self.generation
    }

    fn retain_pending(&mut self, mut keep: impl FnMut(&mut Waiter) -> bool) {
        let items = &mut self.pending_items;
        self.pending.retain_mut(|(_, waiter)| {
            let kept = keep(waiter);
            *items -= if kept { 0 } else { waiter.items };
            kept
        });
    }
}

impl<C> CallItems<C> {
    /// Returns the items.
    #[must_use]
    pub fn as_slice(&self) -> &[Item<C>] {
        match self {
            CallItems::One(item) => std::slice::from_ref(item),
            CallItems::Many(items) => items,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.as_slice().len()
    }
}

impl Waiter {
    /// Returns whether the caller still waits for the outcome.
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_canceled())
    }

    /// Sends the outcome to the caller, unless the call is already complete or its caller has dropped it.
    pub(super) fn complete(self, outcome: Outcome) {
        if let Some(reply) = self.reply {
            _ = reply.send(outcome);
        }
    }
}

/// Limit on the bytes of the keys of a message with several calls, as in unary requests of the SDK: half of the largest
/// request that a server reads.
const MAX_KEYS_BYTES: usize = 128 * 1024;

/// A message under construction.
struct MessageBuilder<C> {
    counters: Vec<C>,
    key_bytes: usize,
    epochs: Vec<u64>,
    counts: Vec<u32>,
    hops: u32,
    route_version: Option<u64>,
    /// Latest deadline of any of the calls.
    deadline: Option<Instant>,
}

impl<C> MessageBuilder<C> {
    fn new(items: usize) -> MessageBuilder<C> {
        MessageBuilder {
            counters: Vec::with_capacity(items),
            key_bytes: 0,
            epochs: Vec::with_capacity(items),
            counts: Vec::new(),
            hops: 0,
            route_version: None,
            deadline: None,
        }
    }

    fn add(&mut self, call: Call<C>) {
        match call.items {
            CallItems::One(item) => self.add_item(item),
            CallItems::Many(items) => items.into_iter().for_each(|item| self.add_item(item)),
        }
        self.hops = self.hops.max(call.hops);
        self.route_version = match (self.route_version, call.route_version) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.deadline = self.deadline.max(Some(call.deadline));
    }

    fn add_item(&mut self, item: Item<C>) {
        if item.count != 1 && self.counts.is_empty() {
            self.counts.resize(self.counters.len(), 1);
            self.counts.push(item.count);
        } else if !self.counts.is_empty() {
            self.counts.push(item.count);
        }
        self.counters.push(item.counter);
        self.epochs.push(item.epoch);
    }

    fn build<K: Kind<Counter = C>>(mut self, kind: &K, tag: u64, now: Instant) -> K::Message {
        if self.epochs.iter().all(|epoch| *epoch == 0) {
            self.epochs.clear();
        }
        let left = self.deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(now));
        let timeout_ms = left.clamp(Duration::from_millis(1), MAX_TIMEOUT).as_millis() as u32;
        let MessageBuilder { counters, counts, epochs, hops, route_version, .. } = self;
        kind.message(tag, timeout_ms, Lists { counters, counts, epochs, hops, route_version })
    }
}

/// Longest timeout of a message.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Completes every call of a message with the message's outcome. If the outcome is a response, each call gets its part
/// of the response.
pub(super) fn complete(calls: Vec<Waiter>, outcome: Option<MessageOutcome>) {
    let invalid = match outcome {
        Some(MessageOutcome::Response(response)) => {
            match Message::checked(response, calls.iter().map(|call| call.items).sum()) {
                Ok(message) => {
                    let mut start = 0;
                    for call in calls {
                        let end = start + call.items;
                        call.complete(Outcome::Response(message.part(start..end)));
                        start = end;
                    }
                    return;
                }
                Err(what) => what,
            }
        }
        Some(MessageOutcome::Refusal(refusal)) => {
            calls.into_iter().for_each(|call| call.complete(Outcome::Refused(Box::new(refusal.clone()))));
            return;
        }
        None => "neither a response nor a refusal",
    };
    calls.into_iter().for_each(|call| call.complete(Outcome::Invalid(invalid)));
}

#[cfg(test)]
mod tests;
