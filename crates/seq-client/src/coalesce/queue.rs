//! The queue of calls to one node: pending calls, in-flight messages with their calls, and the outcome of each. No I/O
//! and no clock.
//!
//! Invariant: an enqueued call gets exactly one [`Outcome`], unless its caller dropped it. Until then it is either
//! pending or in one message; it never moves back, so it is sent at most once.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use futures::channel::oneshot;
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome as Response;
use tokio::time::Instant;
use tonic::Status;

use crate::allocation;

/// Limits of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Calls, pending and in flight; more of them wait for a permit.
    pub(crate) calls: usize,
    /// Calls in one message.
    pub(crate) message: usize,
    /// Messages in flight.
    pub(crate) in_flight: usize,
}

impl Bounds {
    pub(crate) const DEFAULT: Bounds = Bounds {
        // More concurrent requests to one node than a busy process makes; at some 200 bytes each they take 13 MiB.
        calls: 65_536,
        // The cost of a message is negligible next to a thousand items, and the first of them does not wait long for
        // the last.
        message: 1_024,
        // Half of the messages that a node accepts from a stream. A responsive node is far below it; for a slow one,
        // pending calls accumulate.
        in_flight: 256,
    };
}

/// A call for numbers of one uid.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) uid: u64,
    pub(crate) count: u32,
    /// Newest epoch of the uid's section that the caller has seen.
    pub(crate) epoch: u64,
    /// Version of the caller's routes.
    pub(crate) route_version: u64,
    pub(crate) deadline: Instant,
    /// `None` once the call is complete.
    pub(crate) reply: Option<oneshot::Sender<Outcome>>,
}

/// Routes of a response: one caller of the message adopts them.
pub(crate) type NewRoutes = Option<Box<v1::Routes>>;

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    Allocated {
        value: u64,
        prev: u64,
        epoch: u64,
        lost: u32,
        routes: NewRoutes,
    },
    Refused {
        item: Box<v1::ItemError>,
        routes: NewRoutes,
    },
    /// The stream ended without a response, before or after the call was sent.
    Failed {
        status: Status,
        sent: bool,
    },
    /// The deadline passed.
    TimedOut {
        sent: bool,
    },
    /// The response violates the protocol.
    Invalid(&'static str),
    /// The node does not implement streams.
    Unsupported,
}

/// Number of a stream; each opening of one increments it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// How a stream ended.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// It was open, and ended.
    Broke(Status),
    /// It never opened, and none of its messages left this process.
    NeverSent(Status),
    /// The node does not implement the method. It is not tried again before the instant.
    Unsupported { until: Instant },
    /// The client's runtime shut down; no further stream can be opened.
    RuntimeGone(Status),
}

/// The calls to one node.
#[derive(Debug)]
pub(crate) struct CallQueue {
    bounds: Bounds,
    pending: VecDeque<Call>,
    /// By tag. Calls are in the order of the message's items.
    in_flight: BTreeMap<u64, VecDeque<Call>>,
    next_tag: u64,
    generation: Generation,
    /// Whether the stream of this generation is open or being opened.
    open: bool,
    /// Whether the stream of this generation delivered a response.
    responded: bool,
    unsupported_until: Option<Instant>,
    /// Wakes the sender, if it found nothing to send.
    sender: Option<Waker>,
    /// When to check for expired calls: at or before the earliest deadline in the queue.
    timer: Option<Instant>,
}

/// Effects of enqueuing a call.
#[derive(Debug, Default)]
pub(crate) struct Enqueued {
    /// The stream to open.
    pub(crate) open: Option<Generation>,
    pub(crate) wake: Option<Waker>,
    /// The timer is due earlier than before.
    pub(crate) timer_moved: bool,
}

/// The next message of a stream.
#[derive(Debug)]
pub(crate) enum NextMessage {
    Ready(v1::NextStreamRequest),
    /// Nothing to send now; the waker is registered.
    Pending,
    /// The stream has ended: its generation is not the current one.
    Closed,
}

/// Effects of the end of a stream.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The calls that fail, each with whether it had been sent.
    pub(crate) failed: Vec<(Call, bool)>,
    /// The stream to open for the pending calls.
    pub(crate) open: Option<Generation>,
}

impl CallQueue {
    pub(crate) fn new(bounds: Bounds) -> CallQueue {
        CallQueue {
            bounds,
            pending: VecDeque::new(),
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

    /// Whether the node was recently found not to implement streams.
    pub(crate) fn is_unsupported(&self, now: impl FnOnce() -> Instant) -> bool {
        self.unsupported_until.is_some_and(|until| now() < until)
    }

    /// Adds a pending call.
    pub(crate) fn enqueue(&mut self, call: Call) -> Enqueued {
        if self.pending.len() >= 2 * self.bounds.calls {
            // At most half of these have a caller that still waits; drops the others before the queue grows.
            self.pending.retain(Call::is_wanted);
        }
        let timer_moved = self.timer.is_none_or(|timer| call.deadline < timer);
        if timer_moved {
            self.timer = Some(call.deadline);
        }
        self.pending.push_back(call);
        let open = (!self.open).then(|| self.reopen());
        Enqueued { open, wake: self.sender.take(), timer_moved }
    }

    /// Builds a message of the pending calls, up to the limit of a message.
    pub(crate) fn next_message(
        &mut self,
        generation: Generation,
        waker: &Waker,
        now: impl FnOnce() -> Instant,
    ) -> NextMessage {
        if !self.open || generation != self.generation {
            return NextMessage::Closed;
        }
        while !self.pending.is_empty() && self.in_flight.len() < self.bounds.in_flight {
            let mut calls = if self.pending.len() <= self.bounds.message {
                let next = VecDeque::with_capacity(self.pending.len());
                std::mem::replace(&mut self.pending, next)
            } else {
                self.pending.drain(..self.bounds.message).collect()
            };
            calls.retain(Call::is_wanted);
            if !calls.is_empty() {
                let tag = self.next_tag;
                self.next_tag += 1;
                let message = message(tag, &calls, now());
                self.in_flight.insert(tag, calls);
                return NextMessage::Ready(message);
            }
        }
        if !self.sender.as_ref().is_some_and(|sender| sender.will_wake(waker)) {
            self.sender = Some(waker.clone());
        }
        NextMessage::Pending
    }

    /// Removes the calls of a message that got its response, and the sender's waker if calls are pending. `None`: no
    /// such message is in flight.
    pub(crate) fn take_message(&mut self, tag: u64) -> Option<(VecDeque<Call>, Option<Waker>)> {
        let calls = self.in_flight.remove(&tag)?;
        self.responded = true;
        let wake = if self.pending.is_empty() { None } else { self.sender.take() };
        Some((calls, wake))
    }

    /// Removes the calls whose deadline has passed, each with whether it was sent.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(oneshot::Sender<Outcome>, bool)> {
        let mut expired = Vec::new();
        let mut next: Option<Instant> = None;
        let mut expires = |call: &mut Call, sent: bool| {
            if !call.is_wanted() {
                return !sent;
            }
            if call.deadline <= now {
                expired.extend(call.reply.take().map(|reply| (reply, sent)));
                return true;
            }
            next = Some(next.map_or(call.deadline, |next| next.min(call.deadline)));
            false
        };
        self.pending.retain_mut(|call| !expires(call, false));
        // In-flight calls stay in place: a response refers to its items by index.
        self.in_flight.values_mut().flatten().for_each(|call| _ = expires(call, true));
        self.timer = next;
        expired
    }

    /// When to check for expired calls.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Ends a stream. The pending calls wait for the next one if this one delivered a response, and otherwise fail
    /// unsent: another node may be reachable.
    pub(crate) fn end(&mut self, generation: Generation, end: &StreamEnd) -> Ended {
        let mut ended = Ended::default();
        if !self.open || generation != self.generation {
            return ended;
        }
        self.open = false;
        self.sender = None;
        let was_sent = matches!(end, StreamEnd::Broke(_) | StreamEnd::RuntimeGone(_));
        let lost = std::mem::take(&mut self.in_flight).into_values().flatten();
        ended.failed.extend(lost.map(|call| (call, was_sent)));
        if let StreamEnd::Unsupported { until } = end {
            self.unsupported_until = Some(*until);
        }
        let again = self.responded && matches!(end, StreamEnd::Broke(_));
        if !again {
            ended.failed.extend(self.pending.drain(..).map(|call| (call, false)));
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
}

impl Call {
    /// Whether the caller still waits for the outcome.
    fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_canceled())
    }

    /// Completes the call; returns the outcome if the call is complete already or its caller dropped it.
    pub(crate) fn complete(&mut self, outcome: Outcome) -> Option<Outcome> {
        match self.reply.take() {
            Some(reply) => reply.send(outcome).err(),
            None => Some(outcome),
        }
    }
}

fn message(tag: u64, calls: &VecDeque<Call>, now: Instant) -> v1::NextStreamRequest {
    let mut request = v1::NextManyRequest {
        uids: Vec::with_capacity(calls.len()),
        counts: Vec::new(),
        // The oldest version of the callers; 0 requests the whole table.
        route_version: calls.iter().map(|call| call.route_version).min(),
        hops: 0,
        known_epochs: Vec::with_capacity(calls.len()),
    };
    let mut latest = now;
    for call in calls {
        request.uids.push(call.uid);
        request.known_epochs.push(call.epoch);
        latest = latest.max(call.deadline);
    }
    if calls.iter().any(|call| call.count != 1) {
        request.counts.extend(calls.iter().map(|call| call.count));
    }
    let timeout_ms = (latest - now).max(Duration::from_millis(1)).min(MAX_TIMEOUT).as_millis() as u32;
    v1::NextStreamRequest { tag, request: Some(request), timeout_ms, now_only: true }
}

/// The longest timeout of a message.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Completes every call of a message from its response.
pub(crate) fn complete(calls: VecDeque<Call>, response: Option<Response>) {
    match response {
        Some(Response::Response(response)) => complete_items(calls, response),
        Some(Response::Refusal(refusal)) => {
            for mut call in calls {
                call.complete(Outcome::Refused { item: Box::new(refusal.clone()), routes: None });
            }
        }
        None => complete_invalid(calls, "neither a response nor a refusal"),
    }
}

fn complete_items(mut calls: VecDeque<Call>, answer: v1::NextManyResponse) {
    let v1::NextManyResponse { values, prevs, epochs, errors, routes, lost } = answer;
    if [&values, &prevs, &epochs].iter().any(|list| list.len() != calls.len()) {
        return complete_invalid(calls, "lists of other lengths than the request's");
    }
    if errors.iter().any(|item| item.index as usize >= calls.len()) {
        return complete_invalid(calls, "an error of an item that was not sent");
    }
    let mut routes = routes.map(Box::new);
    for item in errors {
        let call = &mut calls[item.index as usize];
        let undelivered = call.complete(Outcome::Refused { item: Box::new(item), routes: routes.take() });
        routes = undelivered.and_then(Outcome::into_routes);
    }
    let lost: BTreeMap<_, _> = allocation::lost(lost.as_ref()).collect();
    let allocated = values.into_iter().zip(prevs).zip(epochs);
    for (index, (call, ((value, prev), epoch))) in calls.iter_mut().zip(allocated).enumerate() {
        // Refused and expired calls are complete already; the routes go to the first caller that still waits.
        let lost = lost.get(&index).copied().unwrap_or(0);
        let undelivered = call.complete(Outcome::Allocated { value, prev, epoch, lost, routes: routes.take() });
        routes = undelivered.and_then(Outcome::into_routes);
    }
}

fn complete_invalid(calls: VecDeque<Call>, what: &'static str) {
    for mut call in calls {
        call.complete(Outcome::Invalid(what));
    }
}

impl Outcome {
    fn into_routes(self) -> NewRoutes {
        match self {
            Outcome::Allocated { routes, .. } | Outcome::Refused { routes, .. } => routes,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
