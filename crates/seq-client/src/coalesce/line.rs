//! Who waits to be sent, who was sent and in which message, and what each is told. No I/O and no clock.
//!
//! Invariant: a call that joined is told one [`Outcome`], unless its caller went away. It is in one place until then: in line,
//! or in the one message that took it; it is never put back, so it is sent at most once.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use futures::channel::oneshot;
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome as Responded;
use tokio::time::Instant;
use tonic::Status;

use super::NewRoutes;
use crate::answer;

/// What a lane may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Calls in line and under way; more of them wait for room.
    pub(crate) calls: usize,
    /// Calls in one message.
    pub(crate) message: usize,
    /// Messages without an answer.
    pub(crate) under_way: usize,
}

impl Bounds {
    pub(crate) const DEFAULT: Bounds = Bounds {
        // More tasks than a busy process has that want a number of one node in the same moment; with some 200 bytes each
        // they take 13 MiB.
        calls: 65_536,
        // What a message costs is nothing beside a thousand items, and the first of them is not kept waiting for the last.
        message: 1_024,
        // Half of what a node holds of a stream. A node that answers is far below it; behind one that does not, calls gather.
        under_way: 256,
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
    /// `None` once it was told.
    pub(crate) told: Option<oneshot::Sender<Outcome>>,
}

/// What a call is told.
#[derive(Debug)]
pub(crate) enum Outcome {
    Given {
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
    /// The stream ended without an answer, after the call was sent or before.
    Failed {
        status: Status,
        sent: bool,
    },
    /// The deadline passed.
    Late {
        sent: bool,
    },
    /// The node answered something that is no answer.
    Bad(&'static str),
    /// The node does not know streams.
    NotServed,
}

/// One opening of the stream after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// How a stream ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It was open, and ended.
    Broke(Status),
    /// It never opened, and nothing that was handed to it left this process.
    NeverSent(Status),
    /// The node has no such service. Nobody asks it again before the instant.
    NotServed { until: Instant },
    /// The client's runtime is gone, and nobody is left to open another.
    Gone(Status),
}

/// The state of a lane.
#[derive(Debug)]
pub(crate) struct Line {
    bounds: Bounds,
    waiting: VecDeque<Call>,
    /// By tag. Calls stand in the order of the message's items.
    under_way: BTreeMap<u64, VecDeque<Call>>,
    next_tag: u64,
    generation: Generation,
    /// Whether somebody opens the stream of this generation or keeps it open.
    open: bool,
    /// Whether the stream of this generation answered anything.
    answered: bool,
    not_served_until: Option<Instant>,
    /// Who sends, when there was nothing to send.
    sender: Option<Waker>,
    /// When to look for calls that are late: not after any deadline in the line.
    timer: Option<Instant>,
}

/// What follows from a call that joins.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// The stream has to be opened.
    pub(crate) open: Option<Generation>,
    pub(crate) wake: Option<Waker>,
    /// The timer is due sooner than before.
    pub(crate) sooner: bool,
}

/// What there is to send.
#[derive(Debug)]
pub(crate) enum Gathered {
    Message(v1::NextStreamRequest),
    /// Nothing now; the waker is kept.
    Nothing,
    /// Nothing ever: the stream is not this line's any more.
    Over,
}

/// What follows from the end of a stream.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Whom to tell that it failed, and whether the call had been sent.
    pub(crate) failed: Vec<(Call, bool)>,
    /// The stream has to be opened again for those in line.
    pub(crate) open: Option<Generation>,
}

impl Line {
    pub(crate) fn new(bounds: Bounds) -> Line {
        Line {
            bounds,
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
            next_tag: 0,
            generation: Generation::default(),
            open: false,
            answered: false,
            not_served_until: None,
            sender: None,
            timer: None,
        }
    }

    /// Whether the node was found not to know streams lately.
    pub(crate) fn is_closed(&self, now: impl FnOnce() -> Instant) -> bool {
        self.not_served_until.is_some_and(|until| now() < until)
    }

    /// Puts a call at the end of the line.
    pub(crate) fn join(&mut self, call: Call) -> Joined {
        if self.waiting.len() >= 2 * self.bounds.calls {
            // Callers that are there are at most half of these; what the others left goes before it grows.
            self.waiting.retain(Call::is_wanted);
        }
        let sooner = self.timer.is_none_or(|timer| call.deadline < timer);
        if sooner {
            self.timer = Some(call.deadline);
        }
        self.waiting.push_back(call);
        let open = (!self.open).then(|| self.reopen());
        Joined { open, wake: self.sender.take(), sooner }
    }

    /// Makes a message of everybody in line, as far as it has room.
    pub(crate) fn gather(&mut self, generation: Generation, waker: &Waker, now: impl FnOnce() -> Instant) -> Gathered {
        if !self.open || generation != self.generation {
            return Gathered::Over;
        }
        while !self.waiting.is_empty() && self.under_way.len() < self.bounds.under_way {
            let mut calls = if self.waiting.len() <= self.bounds.message {
                let room = VecDeque::with_capacity(self.waiting.len());
                std::mem::replace(&mut self.waiting, room)
            } else {
                self.waiting.drain(..self.bounds.message).collect()
            };
            calls.retain(Call::is_wanted);
            if !calls.is_empty() {
                let tag = self.next_tag;
                self.next_tag += 1;
                let message = message(tag, &calls, now());
                self.under_way.insert(tag, calls);
                return Gathered::Message(message);
            }
        }
        if !self.sender.as_ref().is_some_and(|sender| sender.will_wake(waker)) {
            self.sender = Some(waker.clone());
        }
        Gathered::Nothing
    }

    /// Takes the calls of an answered message out, and the sender that was waiting for room. `None`: no such message.
    pub(crate) fn answered(&mut self, tag: u64) -> Option<(VecDeque<Call>, Option<Waker>)> {
        let calls = self.under_way.remove(&tag)?;
        self.answered = true;
        let wake = if self.waiting.is_empty() { None } else { self.sender.take() };
        Some((calls, wake))
    }

    /// Takes everybody out whose deadline has passed, each with whether it was sent.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(oneshot::Sender<Outcome>, bool)> {
        let mut late = Vec::new();
        let mut next: Option<Instant> = None;
        let mut is_late = |call: &mut Call, sent: bool| {
            if !call.is_wanted() {
                return !sent;
            }
            if call.deadline <= now {
                late.extend(call.told.take().map(|told| (told, sent)));
                return true;
            }
            next = Some(next.map_or(call.deadline, |next| next.min(call.deadline)));
            false
        };
        self.waiting.retain_mut(|call| !is_late(call, false));
        // Their places stay: an answer names its items by place.
        self.under_way.values_mut().flatten().for_each(|call| _ = is_late(call, true));
        self.timer = next;
        late
    }

    /// When to look for late calls.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Ends a stream. Those in line wait for the next one if this one was any good, and fail unsent if not: there may be
    /// somebody else to ask.
    pub(crate) fn end(&mut self, generation: Generation, end: &End) -> Ended {
        let mut ended = Ended::default();
        if !self.open || generation != self.generation {
            return ended;
        }
        self.open = false;
        self.sender = None;
        let was_sent = matches!(end, End::Broke(_) | End::Gone(_));
        let lost = std::mem::take(&mut self.under_way).into_values().flatten();
        ended.failed.extend(lost.map(|call| (call, was_sent)));
        if let End::NotServed { until } = end {
            self.not_served_until = Some(*until);
        }
        let again = self.answered && matches!(end, End::Broke(_));
        if !again {
            ended.failed.extend(self.waiting.drain(..).map(|call| (call, false)));
        }
        if !self.waiting.is_empty() {
            ended.open = Some(self.reopen());
        }
        ended
    }

    fn reopen(&mut self) -> Generation {
        self.generation.0 += 1;
        self.open = true;
        self.answered = false;
        self.generation
    }
}

impl Call {
    /// Whether somebody still waits for it.
    fn is_wanted(&self) -> bool {
        self.told.as_ref().is_some_and(|told| !told.is_canceled())
    }

    /// Tells it; gives the outcome back when nobody listens.
    pub(crate) fn tell(&mut self, outcome: Outcome) -> Option<Outcome> {
        match self.told.take() {
            Some(told) => told.send(outcome).err(),
            None => Some(outcome),
        }
    }
}

fn message(tag: u64, calls: &VecDeque<Call>, now: Instant) -> v1::NextStreamRequest {
    let mut ask = v1::NextManyRequest {
        uids: Vec::with_capacity(calls.len()),
        counts: Vec::new(),
        // The oldest of what they know; 0 asks for the whole table.
        route_version: calls.iter().map(|call| call.route_version).min(),
        hops: 0,
        known_epochs: Vec::with_capacity(calls.len()),
    };
    let mut latest = now;
    for call in calls {
        ask.uids.push(call.uid);
        ask.known_epochs.push(call.epoch);
        latest = latest.max(call.deadline);
    }
    if calls.iter().any(|call| call.count != 1) {
        ask.counts.extend(calls.iter().map(|call| call.count));
    }
    let timeout_ms = (latest - now).max(Duration::from_millis(1)).min(MAX_TIMEOUT).as_millis() as u32;
    v1::NextStreamRequest { tag, ask: Some(ask), timeout_ms, now_only: true }
}

/// The longest time that a message may state.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Tells every call of a message what came of it.
pub(crate) fn tell(calls: VecDeque<Call>, responded: Option<Responded>) {
    match responded {
        Some(Responded::Answer(answer)) => tell_answer(calls, answer),
        Some(Responded::Refusal(refusal)) => {
            for mut call in calls {
                call.tell(Outcome::Refused { item: Box::new(refusal.clone()), routes: None });
            }
        }
        None => tell_bad(calls, "neither an answer nor a refusal"),
    }
}

fn tell_answer(mut calls: VecDeque<Call>, answer: v1::NextManyResponse) {
    let v1::NextManyResponse { values, prevs, epochs, errors, routes, lost } = answer;
    if [&values, &prevs, &epochs].iter().any(|list| list.len() != calls.len()) {
        return tell_bad(calls, "lists of other lengths than the request's");
    }
    if errors.iter().any(|item| item.index as usize >= calls.len()) {
        return tell_bad(calls, "an error of an item that was not sent");
    }
    let mut routes = routes.map(Box::new);
    for item in errors {
        let call = &mut calls[item.index as usize];
        let untold = call.tell(Outcome::Refused { item: Box::new(item), routes: routes.take() });
        routes = untold.and_then(Outcome::into_routes);
    }
    let lost: BTreeMap<_, _> = answer::lost(lost.as_ref()).collect();
    let given = values.into_iter().zip(prevs).zip(epochs);
    for (index, (call, ((value, prev), epoch))) in calls.iter_mut().zip(given).enumerate() {
        // Whoever was refused, or was late, has been told; the routes go to somebody who listens.
        let lost = lost.get(&index).copied().unwrap_or(0);
        let untold = call.tell(Outcome::Given { value, prev, epoch, lost, routes: routes.take() });
        routes = untold.and_then(Outcome::into_routes);
    }
}

fn tell_bad(calls: VecDeque<Call>, what: &'static str) {
    for mut call in calls {
        call.tell(Outcome::Bad(what));
    }
}

impl Outcome {
    fn into_routes(self) -> NewRoutes {
        match self {
            Outcome::Given { routes, .. } | Outcome::Refused { routes, .. } => routes,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
