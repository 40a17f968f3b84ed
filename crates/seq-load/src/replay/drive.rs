//! Sends the messages of a trace concurrently, and checks every reply against the history of all calls.
//!
//! A message is done when every member of its group has got a number for the message. If some members have no number
//! after a call, a new call requests numbers for them. The checker knows that the failed items of the earlier call may
//! have got numbers. So a replay continues while a server is killed and restarted. The replay ends early only if a
//! message fails with an error that no retry can remove, or still fails at the end of its timeout.
//!
//! Workers are futures on one thread, so they share the state of the replay without a lock. They never borrow the state
//! across an `await`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use seq_core::Uid;
use seq_order::{CallId, Checker, User};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::trace::{Message, Trace};
use crate::endpoint::Transport;
use crate::latency::Latency;
use crate::reply::{self, Failure, Reasons, Reply};
use crate::silence::Silence;

#[cfg(test)]
mod tests;

/// Backoff before the first retry of a message. Each further backoff of the message is twice as long, up to
/// [`RETRY_LONGEST`].
const RETRY_FIRST: Duration = Duration::from_millis(20);

/// Longest backoff between two retries of a message. It is short so that the replay soon uses a restarted server again.
const RETRY_LONGEST: Duration = Duration::from_millis(500);

/// Options of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Speed as a multiple of the recorded speed. If it is `None`, each message is sent as soon as a transport is free.
    pub speed: Option<f64>,
    /// Maximum number of messages to send.
    pub limit: usize,
    /// Time for which a failed message is retried.
    pub timeout: Duration,
}

/// A running replay.
#[derive(Debug)]
pub struct Drive<'a, T> {
    trace: &'a Trace,
    /// Uids of each group, in the form of requests.
    uids: Vec<Vec<u64>>,
    transports: RefCell<Vec<T>>,
    options: ReplayOptions,
    began: Instant,
    stopping: Cell<bool>,
    /// Notification, sent when the replay stops, to workers that wait until their message is due. Each of these workers
    /// drops its message.
    stopped: Notify,
    next: Cell<usize>,
    state: RefCell<State>,
}

/// Results so far.
#[derive(Debug)]
pub struct State {
    /// Order checker with the history.
    pub checker: Checker,
    /// Latency of the calls.
    pub latency: Latency,
    /// Number of messages whose members all have a number.
    pub messages: u64,
    /// Number of calls sent again for members without a number.
    pub retried: u64,
    /// Number of calls with a failed item whose counter may have advanced although the call got no number for the item.
    pub unknown_calls: u64,
    /// Number of failed items by reason, including items that got a number in a later call.
    pub reasons: Reasons,
    /// Time from one successful call to the next.
    pub silence: Silence,
    /// Failure that ended the replay.
    pub gave_up: Option<GaveUp>,
}

/// A message that failed permanently.
#[derive(Clone, Debug)]
pub struct GaveUp {
    /// A member without a number.
    pub uid: Uid,
    /// Last failure of the message.
    pub failure: Rc<Failure>,
    /// Time for which the message was retried.
    pub after: Duration,
}

impl<'a, T: Transport> Drive<'a, T> {
    /// Creates a replay of `trace` without starting it. Each of `transports` sends all members of a message in one
    /// call, so its batch size must not be below the size of the largest group. `checker` already has the high-water
    /// marks of earlier runs as floors.
    pub fn new(trace: &'a Trace, transports: Vec<T>, options: ReplayOptions, checker: Checker) -> Drive<'a, T> {
        let state = State {
            checker,
            latency: Latency::new(),
            messages: 0,
            retried: 0,
            unknown_calls: 0,
            reasons: Reasons::new(),
            silence: Silence::since(Duration::ZERO),
            gave_up: None,
        };
        Drive {
            trace,
            uids: trace.groups.iter().map(|group| group.iter().map(|user| trace.uid(*user).0).collect()).collect(),
            transports: RefCell::new(transports),
            options,
            began: Instant::now(),
            stopping: Cell::new(false),
            stopped: Notify::new(),
            next: Cell::new(0),
            state: RefCell::new(state),
        }
    }

    /// Sends all messages. Completes when the last call has ended.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the calls in flight.
    pub async fn run(&self) {
        join_all(self.transports.take().into_iter().map(|transport| self.work(transport))).await;
    }

    /// Stops sending messages; calls in flight complete.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.stopped.notify_waiters();
    }

    /// Returns the number of messages done, for a progress bar.
    pub fn messages_done(&self) -> u64 {
        self.state.borrow().messages
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Consumes the replay and returns its results.
    pub fn into_state(self) -> State {
        self.state.into_inner()
    }

    async fn work(&self, mut transport: T) {
        while let Some(message) = self.take() {
            if let Some(speed) = self.options.speed {
                let first = self.trace.messages[0].second;
                let due = Duration::from_secs_f64((message.second - first) as f64 / speed);
                // No other worker runs between the check of `stopping` in `take` and the first poll of `notified`, so
                // no notification is lost.
                tokio::select! {
                    () = tokio::time::sleep_until(self.began + due) => {}
                    () = self.stopped.notified() => return,
                }
            }
            if !self.deliver(&mut transport, message).await {
                self.stop();
            }
        }
    }

    fn take(&self) -> Option<&'a Message> {
        let at = self.next.get();
        if self.stopping.get() || at >= self.options.limit {
            return None;
        }
        self.next.set(at + 1);
        self.trace.messages.get(at)
    }

    /// Sends a message, and retries it until every member has a number. Returns whether the replay can continue.
    async fn deliver(&self, transport: &mut T, message: &Message) -> bool {
        let members = self.trace.members(message);
        let replies = self.call(transport, members, &self.uids[message.group as usize]).await;
        let Some((mut missing, mut failure)) = missing(members, &replies) else {
            self.state.borrow_mut().messages += 1;
            return true;
        };
        let since = Instant::now();
        let mut wait = RETRY_FIRST;
        while failure.retryable && since.elapsed() < self.options.timeout && !self.stopping.get() {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_LONGEST);
            self.state.borrow_mut().retried += 1;
            let uids: Vec<u64> = missing.iter().map(|user| self.trace.uid(*user).0).collect();
            let replies = self.call(transport, &missing, &uids).await;
            match self::missing(&missing, &replies) {
                Some(rest) => (missing, failure) = rest,
                None => {
                    self.state.borrow_mut().messages += 1;
                    return true;
                }
            }
        }
        // If the loop ended because the replay was stopped, this message did not end the replay, so it is not reported
        // as the cause.
        if !failure.retryable || since.elapsed() >= self.options.timeout {
            let gave_up = GaveUp { uid: self.trace.uid(missing[0]), failure, after: since.elapsed() };
            self.state.borrow_mut().gave_up.get_or_insert(gave_up);
        }
        false
    }

    /// Sends a call for `users`. Records the start of the call in the history before the request is sent, and the end
    /// after the replies have arrived.
    async fn call(&self, transport: &mut T, users: &[User], uids: &[u64]) -> Vec<Reply> {
        let sent = self.began.elapsed();
        let call = self.state.borrow_mut().checker.start(sent, users.iter().copied());
        let mut replies = Vec::with_capacity(uids.len());
        transport.round(uids, &mut replies).await;
        let now = self.began.elapsed();
        self.state.borrow_mut().end(call, (sent, now), &replies);
        replies
    }
}

impl State {
    fn end(&mut self, call: CallId, (sent, now): (Duration, Duration), replies: &[Reply]) {
        self.checker.end(call, now, replies.iter().map(Reply::outcome));
        self.latency.record(now - sent);
        reply::count_failures(&mut self.reasons, replies);
        let is_lost = |reply: &Reply| matches!(reply, Reply::Failed(failure) if failure.lost > 0);
        self.unknown_calls += u64::from(replies.iter().any(is_lost));
        if replies.iter().any(|reply| matches!(reply, Reply::Given { .. })) {
            self.silence.end(now);
        }
    }
}

/// Returns the users that got no number, and one of their failures. If any of them has a failure that no retry can
/// remove, that failure is returned. Returns `None` if every user got a number.
fn missing(users: &[User], replies: &[Reply]) -> Option<(Vec<User>, Rc<Failure>)> {
    let mut missing = Vec::new();
    let mut worst: Option<&Rc<Failure>> = None;
    for (user, reply) in users.iter().zip(replies) {
        if let Reply::Failed(failure) = reply {
            missing.push(*user);
            if worst.is_none_or(|worst| worst.retryable && !failure.retryable) {
                worst = Some(failure);
            }
        }
    }
    worst.map(|worst| (missing, worst.clone()))
}
