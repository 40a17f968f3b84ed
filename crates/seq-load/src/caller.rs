//! Functions that send one call each through the SDK, and record the call in the history of a test.
//!
//! **Invariant:** a function records the start of its call before it sends the request, and the end of the call after
//! the response arrived.
//!
//! The functions start no runtime. The implementation of [`History`] decides how concurrent calls share the history,
//! and which clock measures their times, so the functions work in real time and in a simulation.

use std::time::Duration;

use seq_client::{Allocation, CallError, Client, Current, Keyspace};
use seq_order::{Advancing, Checker, Outcome, User};
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tonic::Code;
use tonic::transport::Channel;

use crate::outcome::{UNKNOWN_ATTEMPTS, outcome, reading};

/// The history of all calls of a test.
pub trait History {
    /// Runs `f` on the order checker, with the current time.
    fn record<T>(&self, f: impl FnOnce(&mut Checker, Duration) -> T) -> T;

    /// Receives a call that has ended, after the checker has recorded the end of the call.
    fn on_end(&self, call: &Ended<'_>);
}

/// The history of a test whose users have a uid each.
pub trait UidHistory: History {
    /// Returns the uid of a user.
    fn uid(&self, user: User) -> u64;
}

/// The history of a test whose users are keys of a keyspace.
pub trait KeyHistory: History {
    /// Returns the key of a user.
    fn key(&self, user: User) -> String;
}

/// A call that ended.
#[derive(Debug)]
pub enum Ended<'a> {
    /// A request for numbers.
    Next {
        /// One user per item.
        users: &'a [User],
        /// Start and end of the call.
        times: (Duration, Duration),
        /// One result per item.
        results: &'a [Result<Allocation, CallError>],
    },
    /// A read of the last number.
    Current {
        /// User whose last number was read.
        user: User,
        /// Start and end of the call.
        times: (Duration, Duration),
        /// Number that was read, or the error.
        result: &'a Result<Current, CallError>,
    },
    /// An advance of a user.
    Advance {
        /// User that was advanced.
        user: User,
        /// The requested number.
        to: u64,
        /// Outcome for the order checker.
        outcome: Advancing,
    },
    /// A request for a number without the SDK.
    Direct,
}

/// Range of the targets of advances, relative to the largest number of the user, and the time limits of an advance.
#[derive(Clone, Copy, Debug)]
pub struct AdvanceRange {
    /// Distance from the user's largest number down to the lowest target.
    pub below: u64,
    /// Number of targets in the range, 1 or above. [`advance`] draws its target from the range at random.
    pub width: u64,
    /// Deadline of an advance.
    pub deadline: Duration,
    /// Pause between two attempts.
    pub pause: Duration,
}

/// Requests `count` numbers for each user, in one call.
pub async fn next(client: &Client, history: &impl UidHistory, users: &[User], count: u32) {
    let call = async || match users {
        [user] => Ok(vec![client.next_n(history.uid(*user), count).await]),
        users => {
            let uids = users.iter().map(|user| history.uid(*user));
            if count == 1 {
                client.next_many(&uids.collect::<Vec<_>>()).await
            } else {
                client.next_many_n(&uids.map(|uid| (uid, count)).collect::<Vec<_>>()).await
            }
        }
    };
    recorded_next(history, users, call).await;
}

/// Requests `count` numbers for each user, in one call for their keys.
pub async fn next_keys(keyspace: &Keyspace, history: &impl KeyHistory, users: &[User], count: u32) {
    let call = async || match users {
        [user] => Ok(vec![keyspace.next_n(history.key(*user), count).await]),
        users => {
            let keys: Vec<String> = users.iter().map(|user| history.key(*user)).collect();
            keyspace.next_many_n(&keys, count).await
        }
    };
    recorded_next(history, users, call).await;
}

/// Sends a request for numbers of each user, and records it.
async fn recorded_next(
    history: &impl History,
    users: &[User],
    call: impl AsyncFnOnce() -> Result<Vec<Result<Allocation, CallError>>, CallError>,
) {
    let (id, sent) = history.record(|checker, now| (checker.start(now, users.iter().copied()), now));
    let results = call().await.unwrap_or_else(|error| vec![Err(error); users.len()]);
    let ended = history.record(|checker, now| {
        checker.end(id, now, results.iter().map(outcome));
        now
    });
    history.on_end(&Ended::Next { users, times: (sent, ended), results: &results });
}

/// Requests the last number of a user.
pub async fn current(client: &Client, history: &impl UidHistory, user: User) {
    recorded_current(history, user, async || client.current(history.uid(user)).await).await;
}

/// Requests the last number of a user's key.
pub async fn current_key(keyspace: &Keyspace, history: &impl KeyHistory, user: User) {
    recorded_current(history, user, async || keyspace.current(history.key(user)).await).await;
}

/// Sends a request for the last number of a user, and records it.
async fn recorded_current(history: &impl History, user: User, call: impl AsyncFnOnce() -> Result<Current, CallError>) {
    let (id, sent) = history.record(|checker, now| (checker.start_read(now, [user]), now));
    let result = call().await;
    let ended = history.record(|checker, now| {
        checker.end_read(id, now, [reading(&result)]);
        now
    });
    history.on_end(&Ended::Current { user, times: (sent, ended), result: &result });
}

/// Advances a user to a random number near the user's largest number. Sends the request to one random node after
/// another until a node advances the user or refuses because the user's counter is past the target. Repeated requests
/// are safe because a repeated advance has no further effect.
pub async fn advance(nodes: &[Channel], history: &impl UidHistory, user: User, range: AdvanceRange) {
    let (id, to) = history.record(|checker, now| {
        let to = checker.floor(user).saturating_sub(range.below) + fastrand::u64(..range.width);
        (checker.start_advance(now, user, to), to)
    });
    let request = v1::AdvanceRequest { uid: Some(history.uid(user)), to: Some(to), ..v1::AdvanceRequest::default() };
    let attempts = async {
        loop {
            let node = nodes[fastrand::usize(..nodes.len())].clone();
            match SequenceServiceClient::new(node).advance(request).await {
                Ok(_) => return Advancing::Done,
                Err(status) if status.code() == Code::FailedPrecondition => return Advancing::Past,
                Err(_) => tokio::time::sleep(range.pause).await,
            }
        }
    };
    let outcome = tokio::time::timeout(range.deadline, attempts).await.unwrap_or(Advancing::Failed);
    history.record(|checker, now| checker.end_advance(id, now, outcome));
    history.on_end(&Ended::Advance { user, to, outcome });
}

/// Requests a number from `node` without the SDK, so without routes and retries, like a client that ignores changes of
/// owner.
pub async fn next_directly(node: Channel, history: &impl UidHistory, user: User, deadline: Duration) {
    let id = history.record(|checker, now| checker.start(now, [user]));
    let request = v1::NextRequest { uid: Some(history.uid(user)), count: 1, ..v1::NextRequest::default() };
    let response = tokio::time::timeout(deadline, SequenceServiceClient::new(node).next(request)).await;
    let outcome = match response {
        Ok(Ok(response)) => {
            let v1::NextResponse { value, prev, lost, .. } = response.into_inner();
            Outcome::Given { value, prev, count: 1, lost: lost.unwrap_or(0) }
        }
        Ok(Err(_)) | Err(_) => Outcome::Maybe { lost: UNKNOWN_ATTEMPTS },
    };
    history.record(|checker, now| checker.end(id, now, [outcome]));
    history.on_end(&Ended::Direct);
}

/// Repeats `call` in a closed loop until `is_over` returns true. The next call starts when the previous call has ended
/// and a pause of the length `pause()` has passed.
pub async fn closed_loop(is_over: impl Fn() -> bool, pause: impl Fn() -> Duration, mut call: impl AsyncFnMut()) {
    while !is_over() {
        call().await;
        tokio::time::sleep(pause()).await;
    }
}
