//! Calls to whichever member of the store leads.
//!
//! Every call here may be repeated: a registration is recognised by its token, a renewal by its number, a raise is
//! absolute. So a call without an answer goes to the next member at once.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use seq_client::pool::Pool;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::{status, v1};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt;

/// The reason of a member that does not lead; its metadata may name the leader.
const NOT_LEADER: &str = "NOT_LEADER";

/// Reasons that end the life that asked: the store knows it no longer, or never did.
const LIFE_OVER: [&str; 3] = ["OTHER_INCARNATION", "OTHER_RENEWAL", "UNKNOWN_NODE"];

type Control = ControlServiceClient<Channel>;

/// A question to the store.
pub(crate) trait Question: Clone + Send + Sync {
    type Answer: Send;

    fn put(self, to: Control, timeout: Duration)
    -> impl Future<Output = Result<Response<Self::Answer>, Status>> + Send;
}

macro_rules! question {
    ($request:ty => $answer:ty, $method:ident) => {
        impl Question for $request {
            type Answer = $answer;

            async fn put(self, mut to: Control, timeout: Duration) -> Result<Response<$answer>, Status> {
                let mut request = Request::new(self);
                request.set_timeout(timeout);
                to.$method(request).await
            }
        }
    };
}

question!(v1::RegisterRequest => v1::RegisterResponse, register);
question!(v1::RenewRequest => v1::RenewResponse, renew);
question!(v1::RaiseCeilingsRequest => v1::RaiseCeilingsResponse, raise_ceilings);
question!(v1::TransferRequest => v1::TransferResponse, transfer);

/// Why the store did not answer a question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The life that asked is over.
    #[error("the store no longer knows this life of the node: {message}")]
    LifeOver { message: String },
    /// The leader refused.
    #[error("the store refused with {reason}: {message}")]
    Refused { reason: String, message: String },
    /// No member answered as the leader.
    #[error("no member of the store answered as its leader; the last one said {code:?}: {message}")]
    NoLeader { code: tonic::Code, message: String },
}

/// The way to the store. The leader is remembered from call to call.
#[derive(Debug)]
pub(crate) struct StoreLink {
    pool: Pool,
    members: Vec<String>,
    leader: Mutex<String>,
    timeout: Duration,
}

impl StoreLink {
    /// A link to a store's members.
    ///
    /// # Panics
    /// Without members.
    pub(crate) fn new(pool: Pool, members: Vec<String>, timeout: Duration) -> StoreLink {
        let leader = Mutex::new(members.first().expect("a store has members").clone());
        StoreLink { pool, members, leader, timeout }
    }

    /// Asks the leader, trying every member once where it is not known, and one more that a member names.
    pub(crate) async fn call<Q: Question>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        let mut addr = self.leader.lock().clone();
        let mut attempts = self.members.len() + 1;
        loop {
            let status = match self.attempt(&addr, question.clone()).await {
                Ok(answer) => {
                    *self.leader.lock() = addr;
                    return Ok(answer);
                }
                Err(status) => status,
            };
            let message = status.message().to_owned();
            let named = match status::reason(&status) {
                Some(reason) if reason == NOT_LEADER => leader_of(&status).filter(|leader| *leader != addr),
                Some(reason) if LIFE_OVER.contains(&reason.as_str()) => return Err(StoreError::LifeOver { message }),
                Some(reason) if !is_passing(&status) => return Err(StoreError::Refused { reason, message }),
                _ => None,
            };
            addr = named.unwrap_or_else(|| self.after(&addr));
            // The next call starts where this one would have gone on.
            self.leader.lock().clone_from(&addr);
            attempts -= 1;
            if attempts == 0 {
                return Err(StoreError::NoLeader { code: status.code(), message });
            }
        }
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

    /// The member after `addr`, or the first one when `addr` is none of them.
    fn after(&self, addr: &str) -> String {
        let place = self.members.iter().position(|member| member == addr).map_or(0, |place| place + 1);
        self.members[place % self.members.len()].clone()
    }
}

/// Whether another member, or the same one later, may answer.
fn is_passing(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Aborted)
}

fn leader_of(status: &Status) -> Option<String> {
    let details = status.get_error_details();
    details.error_info()?.metadata.get("leader").filter(|leader| !leader.is_empty()).cloned()
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
