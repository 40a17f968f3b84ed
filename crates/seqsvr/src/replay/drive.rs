//! Sends a trace's messages, many at a time, and holds every answer against the history.
//!
//! A message is done when every member has a number. Members without one are asked for again, in a new call: the old one
//! stays in the history as "maybe". So the replay goes on over a server that is killed and started again, and gives up only
//! when nobody answers for the whole of its patience.
//!
//! Workers are plain futures on one thread: they share the state without a lock, and never across an `await`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use seq_core::Uid;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::trace::{Message, Trace};
use crate::traffic::{Answer, Failure, Latency, Reasons, Service};
use seq_order::{CallId, Checker, User};

#[cfg(test)]
mod tests;

/// First wait before a message's missing members are asked for again; a healthy server needs none.
const RETRY_FIRST: Duration = Duration::from_millis(20);

/// Longest wait: soon after a server is back it is used.
const RETRY_LONGEST: Duration = Duration::from_millis(500);

/// How messages are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Messages in flight, 1 or above.
    pub(crate) concurrency: usize,
    /// How much faster than recorded; `None` as fast as answers come.
    pub(crate) speed: Option<f64>,
    /// Messages sent in all.
    pub(crate) limit: usize,
    /// How long one message is tried.
    pub(crate) patience: Duration,
}

/// A replay under way.
#[derive(Debug)]
pub(crate) struct Drive<'a, S> {
    trace: &'a Trace,
    /// The uids of each group, as calls name them.
    uids: Vec<Vec<u64>>,
    service: S,
    pace: Pace,
    began: Instant,
    stopping: Cell<bool>,
    /// Signalled when no new message is to be sent: messages that are not due yet are dropped.
    stopped: Notify,
    next: Cell<usize>,
    state: RefCell<State>,
}

/// What is known so far.
#[derive(Debug)]
pub(crate) struct State {
    /// The history.
    pub(crate) checker: Checker,
    /// How long calls took.
    pub(crate) latency: Latency,
    /// Messages of which every member has a number.
    pub(crate) messages: u64,
    /// Calls sent again for members that got no number.
    pub(crate) retried: u64,
    /// Calls in which an item may have moved without an answer.
    pub(crate) unknown_calls: u64,
    /// Items without a number, by reason; each was asked for again.
    pub(crate) reasons: Reasons,
    /// Longest time from one answered call to the next.
    pub(crate) longest_silence: Duration,
    last_answer: Duration,
    /// Why the replay did not reach its end.
    pub(crate) gave_up: Option<GaveUp>,
}

/// A message that could not be delivered.
#[derive(Clone, Debug)]
pub(crate) struct GaveUp {
    /// A member without a number.
    pub(crate) uid: Uid,
    /// The last failure.
    pub(crate) failure: Rc<Failure>,
    /// How long it was tried.
    pub(crate) after: Duration,
}

impl<'a, S: Service> Drive<'a, S> {
    /// A replay of `trace` that has not begun; `checker` knows what its users were given before.
    pub(crate) fn new(trace: &'a Trace, service: S, pace: Pace, checker: Checker) -> Drive<'a, S> {
        let state = State {
            checker,
            latency: Latency::new(),
            messages: 0,
            retried: 0,
            unknown_calls: 0,
            reasons: Reasons::new(),
            longest_silence: Duration::ZERO,
            last_answer: Duration::ZERO,
            gave_up: None,
        };
        Drive {
            trace,
            uids: trace.groups.iter().map(|group| group.iter().map(|user| trace.uid(*user).0).collect()).collect(),
            service,
            pace,
            began: Instant::now(),
            stopping: Cell::new(false),
            stopped: Notify::new(),
            next: Cell::new(0),
            state: RefCell::new(state),
        }
    }

    /// Sends everything; completes when the last call has ended.
    pub(crate) async fn run(&self) {
        join_all((0..self.pace.concurrency).map(|_| self.work())).await;
    }

    /// Sends no new message; calls in flight end.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.stopped.notify_waiters();
    }

    /// Messages done, for a progress bar.
    pub(crate) fn messages_done(&self) -> u64 {
        self.state.borrow().messages
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the replay.
    pub(crate) fn into_state(self) -> State {
        self.state.into_inner()
    }

    async fn work(&self) {
        while let Some(message) = self.take() {
            if let Some(speed) = self.pace.speed {
                let first = self.trace.messages[0].second;
                let due = Duration::from_secs_f64((message.second - first) as f64 / speed);
                // Nothing that could stop the replay runs between the check in `take` and the first poll here.
                tokio::select! {
                    () = tokio::time::sleep_until(self.began + due) => {}
                    () = self.stopped.notified() => return,
                }
            }
            if !self.deliver(message).await {
                self.stop();
            }
        }
    }

    fn take(&self) -> Option<&'a Message> {
        let at = self.next.get();
        if self.stopping.get() || at >= self.pace.limit {
            return None;
        }
        self.next.set(at + 1);
        self.trace.messages.get(at)
    }

    /// Calls until every member has a number. Answers whether the replay can go on.
    async fn deliver(&self, message: &Message) -> bool {
        let members = self.trace.members(message);
        let answers = self.call(members, &self.uids[message.group as usize]).await;
        let Some((mut missing, mut failure)) = missing(members, &answers) else {
            self.state.borrow_mut().messages += 1;
            return true;
        };
        let since = Instant::now();
        let mut wait = RETRY_FIRST;
        while failure.retryable && since.elapsed() < self.pace.patience && !self.stopping.get() {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_LONGEST);
            self.state.borrow_mut().retried += 1;
            let uids: Vec<u64> = missing.iter().map(|user| self.trace.uid(*user).0).collect();
            let answers = self.call(&missing, &uids).await;
            match self::missing(&missing, &answers) {
                Some(rest) => (missing, failure) = rest,
                None => {
                    self.state.borrow_mut().messages += 1;
                    return true;
                }
            }
        }
        // Whoever is stopped by another's failure has none of its own to tell.
        if !failure.retryable || since.elapsed() >= self.pace.patience {
            let gave_up = GaveUp { uid: self.trace.uid(missing[0]), failure, after: since.elapsed() };
            self.state.borrow_mut().gave_up.get_or_insert(gave_up);
        }
        false
    }

    /// One call, noted in the history before it is sent and after it ended.
    async fn call(&self, users: &[User], uids: &[u64]) -> Vec<Answer> {
        let sent = self.began.elapsed();
        let call = self.state.borrow_mut().checker.start(sent, users.iter().copied());
        let answers = self.service.next_many(uids).await;
        let now = self.began.elapsed();
        self.state.borrow_mut().end(call, (sent, now), &answers);
        answers
    }
}

impl State {
    fn end(&mut self, call: CallId, (sent, now): (Duration, Duration), answers: &[Answer]) {
        self.checker.end(call, now, answers.iter().map(Answer::outcome));
        self.latency.record(now - sent);
        let mut lost = 0;
        let mut given = 0;
        for answer in answers {
            match answer {
                Answer::Given { .. } => given += 1,
                Answer::Failed(failure) => {
                    lost += failure.lost;
                    match self.reasons.get_mut(&failure.reason) {
                        Some(count) => *count += 1,
                        None => drop(self.reasons.insert(failure.reason.clone(), 1)),
                    }
                }
            }
        }
        self.unknown_calls += u64::from(lost > 0);
        if given > 0 {
            self.longest_silence = self.longest_silence.max(now - self.last_answer);
            self.last_answer = now;
        }
    }
}

/// The users without a number, with the failure of the worst of them: one that cannot be retried before all others.
fn missing(users: &[User], answers: &[Answer]) -> Option<(Vec<User>, Rc<Failure>)> {
    let mut missing = Vec::new();
    let mut worst: Option<&Rc<Failure>> = None;
    for (user, answer) in users.iter().zip(answers) {
        if let Answer::Failed(failure) = answer {
            missing.push(*user);
            if worst.is_none_or(|worst| worst.retryable && !failure.retryable) {
                worst = Some(failure);
            }
        }
    }
    worst.map(|worst| (missing, worst.clone()))
}
