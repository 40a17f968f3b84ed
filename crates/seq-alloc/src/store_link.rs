//! Calls to whichever member of the store leads, or to a follower that forwards them to it.
//!
//! Every call here may be repeated: a registration is recognised by its token, a renewal by its number, a raise is
//! absolute. So a call without an answer goes to the next member at once.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use seq_channel::Pool;
use seq_core::high_water::{HighWater, Mark, StoreBehind};
use seq_core::{Liveness, Revision};
use seq_proto::reason::{Reason, key};
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt;

/// Reasons that end the incarnation that sent the request: the store knows it no longer, or never did.
const SESSION_OVER: [Reason; 3] = [Reason::OtherIncarnation, Reason::OtherRenewal, Reason::UnknownNode];

type Control = ControlServiceClient<Channel>;

/// A question to the store.
pub(crate) trait Question: Clone + Send + Sync {
    type Answer: Send;

    /// Whether it moves the node's liveness counter.
    const COUNTS: bool;

    /// How far the store had come; `None` where the answer lacks it.
    fn mark(answer: &Self::Answer) -> Option<Mark>;

    fn put(self, to: Control, timeout: Duration)
    -> impl Future<Output = Result<Response<Self::Answer>, Status>> + Send;
}

macro_rules! question {
    ($request:ty => $answer:ty, $method:ident, $counts:literal, |$read:ident| $mark:expr) => {
        impl Question for $request {
            type Answer = $answer;

            const COUNTS: bool = $counts;

            fn mark($read: &$answer) -> Option<Mark> {
                $mark
            }

            async fn put(self, mut to: Control, timeout: Duration) -> Result<Response<$answer>, Status> {
                let mut request = Request::new(self);
                request.set_timeout(timeout);
                to.$method(request).await
            }
        }
    };
}

question!(v1::RegisterRequest => v1::RegisterResponse, register, false, |answer| {
    Some(mark(answer.revision, answer.liveness))
});
question!(v1::RenewRequest => v1::RenewResponse, renew, true, |answer| update_mark(answer.update.as_ref()));
question!(v1::RaiseCeilingsRequest => v1::RaiseCeilingsResponse, raise_ceilings, true, |answer| {
    update_mark(answer.update.as_ref())
});
question!(v1::TransferRequest => v1::TransferResponse, transfer, true, |answer| update_mark(answer.update.as_ref()));

fn update_mark(update: Option<&v1::OwnershipUpdate>) -> Option<Mark> {
    update.map(|update| mark(update.revision, update.liveness))
}

fn mark(revision: u64, liveness: u64) -> Mark {
    Mark { revision: Revision(revision), liveness: Liveness(liveness) }
}

/// Why the store did not answer a question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The incarnation that asked is over.
    #[error("the store no longer knows this incarnation of the node: {message}")]
    SessionOver {
        reason: String,
        message: String,
        /// The number on record that the refusal is about: an incarnation or a renewal; 0 where it is about none.
        current: u64,
        /// Address of the newest incarnation, where the refusal is about that.
        addr: String,
    },
    /// The leader refused.
    #[error("the store refused with {reason}: {message}")]
    Refused { reason: String, message: String, current: u64, addr: String },
    /// The store answered, from a state that lacks what it had answered before. Nothing of the response may be used.
    #[error(transparent)]
    Behind(#[from] StoreBehind),
    /// No member answered as the leader.
    #[error("no member of the store answered as its leader; the last one said {code:?}: {message}")]
    NoLeader { code: tonic::Code, message: String },
}

/// How long a member that did not respond is not called first, although the store says that it leads: meanwhile a
/// follower forwards the calls. A call that finds it silent again costs one timeout, a fifth of a lease, that often.
const AVOID_FOR: Duration = Duration::from_secs(10);

/// The members of the store and which one is called first.
#[derive(Debug)]
struct Members {
    /// As the leader stated them last, then those of the set file that it did not name.
    all: Vec<String>,
    /// Those of the set file.
    file: Vec<String>,
    /// The leader, or the follower that forwards to it.
    first: String,
    /// The member that did not respond last, and when.
    silent: Option<(String, Instant)>,
}

impl Members {
    fn new(file: Vec<String>) -> Members {
        let first = file.first().expect("a store has members").clone();
        Members { all: file.clone(), file, first, silent: None }
    }

    /// Takes in the store's own list, the leader first: members that were added since the set file was read are found
    /// by it, and a leader that can be reached again is called without the hop.
    fn learn(&mut self, stores: &[String]) {
        let Some(leader) = stores.first() else { return };
        let avoided = self.silent.as_ref().is_some_and(|(addr, at)| addr == leader && at.elapsed() < AVOID_FOR);
        if !avoided {
            self.first.clone_from(leader);
        }
        let rest = self.file.iter().filter(|addr| !stores.contains(addr));
        self.all = stores.iter().chain(rest).cloned().collect();
    }

    /// The member after `addr`, or the first one when `addr` is none of them.
    fn after(&self, addr: &str) -> String {
        let place = self.all.iter().position(|member| member == addr).map_or(0, |place| place + 1);
        self.all[place % self.all.len()].clone()
    }
}

/// The way to the store. Who responded is remembered from call to call.
#[derive(Debug)]
pub(crate) struct StoreLink {
    pool: Pool,
    members: Mutex<Members>,
    timeout: Duration,
    /// The newest response received, over all incarnations of this process.
    high_water: Mutex<HighWater>,
}

impl StoreLink {
    /// A link to a store's members.
    ///
    /// # Panics
    /// Without members.
    pub(crate) fn new(pool: Pool, members: Vec<String>, timeout: Duration) -> StoreLink {
        StoreLink { pool, members: Mutex::new(Members::new(members)), timeout, high_water: Mutex::default() }
    }

    /// Takes in where the store's members are, as an answer of the leader states it.
    pub(crate) fn learn(&self, stores: &[String]) {
        self.members.lock().learn(stores);
    }

    /// Asks the leader, trying every member once where it is not known, and one more that a member names.
    pub(crate) async fn call<Q: Question>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        let (mut addr, mut attempts) = {
            let members = self.members.lock();
            (members.first.clone(), members.all.len() + 1)
        };
        loop {
            // Read before the request is sent: the response must be read from a later state.
            let seen = self.seen();
            let status = match self.attempt(&addr, question.clone()).await {
                Ok(answer) => {
                    if let Some(mark) = Q::mark(&answer) {
                        self.high_water.lock().on_response(seen, mark, Q::COUNTS)?;
                    }
                    self.members.lock().first = addr;
                    return Ok(answer);
                }
                Err(status) => status,
            };
            let message = status.message().to_owned();
            let mut members = self.members.lock();
            let named = match status::reason(&status) {
                Some(reason) if reason == Reason::NotLeader => leader_of(&status).filter(|leader| *leader != addr),
                Some(reason) if SESSION_OVER.iter().any(|over| reason == *over) => {
                    let (current, addr) = about(&status);
                    return Err(StoreError::SessionOver { reason, message, current, addr });
                }
                Some(reason) if !is_passing(&status) => {
                    let (current, addr) = about(&status);
                    return Err(StoreError::Refused { reason, message, current, addr });
                }
                Some(_) => None,
                None => {
                    members.silent = Some((addr.clone(), Instant::now()));
                    None
                }
            };
            addr = named.unwrap_or_else(|| members.after(&addr));
            // The next call starts where this one would have gone on.
            members.first.clone_from(&addr);
            drop(members);
            attempts -= 1;
            if attempts == 0 {
                return Err(StoreError::NoLeader { code: status.code(), message });
            }
        }
    }

    /// The newest response received.
    pub(crate) fn seen(&self) -> Mark {
        self.high_water.lock().mark()
    }

    async fn attempt<Q: Question>(&self, addr: &str, question: Q) -> Result<Q::Answer, Status> {
        let channel = self.pool.get(addr).map_err(|error| Status::unavailable(error.to_string()))?;
        let control =
            ControlServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        match tokio::time::timeout(self.timeout, question.put(control, self.timeout)).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("{addr} did not answer within {:?}", self.timeout))),
        }
    }
}

/// Whether another member, or the same one later, may answer.
fn is_passing(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Aborted)
}

fn leader_of(status: &Status) -> Option<String> {
    metadata(status, key::LEADER).filter(|leader| !leader.is_empty())
}

/// The number on record and the address that a refusal is about.
fn about(status: &Status) -> (u64, String) {
    let current = metadata(status, key::CURRENT).and_then(|current| current.parse().ok());
    (current.unwrap_or(0), metadata(status, key::ADDR).unwrap_or_default())
}

fn metadata(status: &Status, key: &str) -> Option<String> {
    status.get_error_details().error_info()?.metadata.get(key).cloned()
}

/// Waits between failed rounds: doubling, bounded, and spread so that nodes do not come back in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, next: min }
    }

    /// The next wait: between half of the current step and all of it.
    pub(crate) fn wait(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.max);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Starts over, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_leader_that_is_silent_to_this_node_is_called_by_way_of_a_follower_and_tried_again() {
        let mut members = Members::new(addrs(&["s1", "s2", "s3"]));
        members.silent = Some(("s1".to_owned(), Instant::now()));
        members.first = members.after("s1");
        members.learn(&addrs(&["s1", "s2", "s3"]));
        assert_eq!(members.first, "s2", "the follower that forwarded goes on doing so");
        members.silent = Some(("s1".to_owned(), Instant::now() - AVOID_FOR));
        members.learn(&addrs(&["s1", "s2", "s3"]));
        assert_eq!(members.first, "s1");
    }

    #[test]
    fn members_that_the_set_file_does_not_name_are_found() {
        let mut members = Members::new(addrs(&["s1", "s2", "s3"]));
        members.learn(&addrs(&["s5", "s4", "s6"]));
        assert_eq!(members.first, "s5");
        assert_eq!(members.all, addrs(&["s5", "s4", "s6", "s1", "s2", "s3"]));
        assert_eq!(members.after("s5"), "s4");
        assert_eq!(members.after("s3"), "s5");
        members.learn(&[]);
        assert_eq!(members.first, "s5", "an answer of an older store says nothing");
    }
}
