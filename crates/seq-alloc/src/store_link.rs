//! Sends requests to the leader of the store, directly or through a follower that forwards them to the leader.
//!
//! `seq_core::store_calls` decides to which member a request is sent, and how often. This module makes the attempts. It
//! compares the store's progress in each response with the progress in earlier responses, to detect a store that lost
//! entries, before the response is used.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use seq_channel::Pool;
use seq_core::high_water::{HighWater, Mark, StoreBehind};
use seq_core::store_calls::{AttemptFailure, StoreMembers};
use seq_core::{Liveness, Revision, SectionId};
use seq_kit::telemetry::traces;
use seq_proto::reason::{Reason, key};
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt;

/// Reasons of refusals that end the incarnation which sent the request, because the store no longer knows the
/// incarnation, never knew it, or has the report that its process has ended.
const SESSION_OVER: [Reason; 4] =
    [Reason::OtherIncarnation, Reason::OtherRenewal, Reason::ProcessDied, Reason::UnknownNode];

type Control = ControlServiceClient<Channel>;

/// Request to the store.
pub(crate) trait StoreRequest: Clone + Send + Sync {
    type Response: Send;

    /// Whether the store increments the node's liveness counter when it applies the request.
    const COUNTS: bool;

    /// Time for which the store may wait for another server before it responds. It is added to the timeout of the
    /// request.
    const WAITS: Duration = Duration::ZERO;

    /// Returns the progress of the store when it made the response; `None` if the response does not state it.
    fn mark(response: &Self::Response) -> Option<Mark>;

    fn send(
        self,
        to: Control,
        timeout: Duration,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;
}

macro_rules! store_request {
    ($request:ty => $response:ty, $method:ident, $counts:literal, |$read:ident| $mark:expr $(, waits $waits:expr)?) => {
        impl StoreRequest for $request {
            type Response = $response;

            const COUNTS: bool = $counts;

            $(const WAITS: Duration = $waits;)?

            fn mark($read: &$response) -> Option<Mark> {
                $mark
            }

            async fn send(self, mut to: Control, timeout: Duration) -> Result<Response<$response>, Status> {
                let mut request = Request::new(self);
                request.set_timeout(timeout);
                traces::inject(request.metadata_mut());
                to.$method(request).await
            }
        }
    };
}

store_request!(v1::RegisterRequest => v1::RegisterResponse, register, false, |response| {
    Some(mark(response.revision, response.liveness))
});
store_request!(v1::RenewRequest => v1::RenewResponse, renew, true, |response| update_mark(response.update.as_ref()));
store_request!(v1::RaiseCeilingsRequest => v1::RaiseCeilingsResponse, raise_ceilings, true, |response| {
    update_mark(response.update.as_ref())
});
store_request!(v1::TransferRequest => v1::TransferResponse, transfer, true, |response| update_mark(response.update.as_ref()));
// The response has an update if one of the handovers is committed.
store_request!(v1::TransferManyRequest => v1::TransferManyResponse, transfer_many, true, |response| {
    update_mark(response.update.as_ref())
});
store_request!(
    v1::DepartRequest => v1::DepartResponse, depart, true, |response| update_mark(response.update.as_ref()),
    waits ARRIVAL_TIMEOUT
);

store_request!(v1::ReportLossRequest => v1::ReportLossResponse, report_loss, false, |_response| None);
store_request!(v1::ReportDeathRequest => v1::ReportDeathResponse, report_death, false, |_response| None);

/// Limit on how long the store waits for a departed section to arrive at the other set. After this time the store
/// responds even if the section has not arrived.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

fn update_mark(update: Option<&v1::OwnershipUpdate>) -> Option<Mark> {
    update.map(|update| mark(update.revision, update.liveness))
}

fn mark(revision: u64, liveness: u64) -> Mark {
    Mark { revision: Revision(revision), liveness: Liveness(liveness) }
}

/// Cause for which a call has no usable response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// End of the incarnation that sent the request.
    #[error("the store no longer knows this incarnation of the node: {message}")]
    SessionOver {
        reason: String,
        message: String,
        /// Incarnation or renewal that the store has on record, if the refusal names it; otherwise 0.
        current: u64,
        /// Address of the node's newest incarnation, if the refusal names it; otherwise empty.
        addr: String,
    },
    /// Refusal of the leader.
    #[error("the store refused with {reason}: {message}")]
    Refused { reason: String, message: String, current: u64, addr: String },
    /// Refusal of a raise, because the ceiling of `section` would rise too fast.
    #[error("{message}")]
    TooFast {
        section: SectionId,
        /// Time after which the store accepts the raise.
        after: Duration,
        message: String,
    },
    /// Response of a store whose state lacks entries that earlier responses covered. No part of the response may be
    /// used.
    #[error(transparent)]
    Behind(#[from] StoreBehind),
    /// Lack of a response, because no member responded as the leader.
    #[error("no member of the store responded as its leader; the last one failed with {code:?}: {message}")]
    NoLeader { code: tonic::Code, message: String },
}

impl StoreError {
    /// Returns whether the store's release does not know the method of the request.
    pub(crate) fn is_unknown_method(&self) -> bool {
        match self {
            // A port with TLS refuses methods that its release does not know by the role of the caller.
            StoreError::Refused { reason, .. } => *reason == Reason::UnknownMethod || *reason == Reason::RoleDenied,
            StoreError::NoLeader { code, .. } => *code == tonic::Code::Unimplemented,
            StoreError::SessionOver { .. } | StoreError::TooFast { .. } | StoreError::Behind(_) => false,
        }
    }
}

/// Connections to the store's members. A request is first sent to the member that responded last, and then to the other
/// members.
#[derive(Debug)]
pub(crate) struct StoreLink {
    pool: Pool,
    members: Mutex<StoreMembers<String>>,
    /// Addresses of the members, with the leader's first, as stated by the leader's most recent response; empty before
    /// the first such response.
    reported: Mutex<Vec<String>>,
    /// Timeout of one attempt.
    timeout: Duration,
    /// Origin of the times in `members`.
    origin: Instant,
    /// Progress of the store in the newest response received. It is kept over all incarnations of this process.
    high_water: Mutex<HighWater>,
}

impl StoreLink {
    /// Creates a link to a store's members.
    ///
    /// # Panics
    /// If `members` is empty.
    pub(crate) fn new(pool: Pool, members: Vec<String>, timeout: Duration) -> StoreLink {
        let (members, high_water) = (Mutex::new(StoreMembers::new(members)), Mutex::default());
        StoreLink { pool, members, reported: Mutex::default(), timeout, origin: Instant::now(), high_water }
    }

    /// Adopts the addresses of the store's members from a response of the leader. The leader's address is the first.
    pub(crate) fn adopt_members(&self, stores: Vec<String>) {
        self.members.lock().adopt(&stores, self.origin.elapsed());
        if !stores.is_empty() {
            *self.reported.lock() = stores;
        }
    }

    /// Returns the addresses of the store's members, with the leader's first, as stated by the leader's most recent
    /// response; empty before the first such response.
    pub(crate) fn reported_members(&self) -> Vec<String> {
        self.reported.lock().clone()
    }

    /// Sends a request to the leader, with as many attempts as `seq_core::store_calls` decides, and returns the
    /// response.
    pub(crate) async fn call<Q: StoreRequest>(&self, request: Q) -> Result<Q::Response, StoreError> {
        let mut call = self.members.lock().begin();
        loop {
            // The progress is read before the request is sent, because a response from a state with less progress shows
            // a loss of entries.
            let seen = self.seen();
            let status = match self.attempt(call.member(), request.clone()).await {
                Ok(response) => {
                    if let Some(mark) = Q::mark(&response) {
                        self.high_water.lock().on_response(seen, mark, Q::COUNTS)?;
                    }
                    self.members.lock().on_response(&call);
                    return Ok(response);
                }
                Err(status) => status,
            };
            let failure = failure(&status)?;
            if !self.members.lock().on_failure(&mut call, failure, self.origin.elapsed()) {
                return Err(StoreError::NoLeader { code: status.code(), message: status.message().to_owned() });
            }
        }
    }

    /// Returns the progress of the store in the newest response received.
    pub(crate) fn seen(&self) -> Mark {
        self.high_water.lock().mark()
    }

    async fn attempt<Q: StoreRequest>(&self, addr: &str, request: Q) -> Result<Q::Response, Status> {
        let channel = self.pool.get(addr).map_err(|error| Status::unavailable(error.to_string()))?;
        let control =
            ControlServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let timeout = self.timeout + Q::WAITS;
        match tokio::time::timeout(timeout, request.send(control, timeout)).await {
            Ok(response) => response.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("{addr} did not respond within {timeout:?}"))),
        }
    }
}

/// Decodes the outcome of one of several handovers that the store was requested to commit. If the response has no such
/// outcome, the handover may be committed.
///
/// # Errors
/// The refusal of the handover.
pub(crate) fn committed(outcome: Option<&v1::StepOutcome>) -> Result<(), StoreError> {
    let Some(v1::StepOutcome { reason, message, current }) = outcome.cloned() else {
        let message = "the response has no outcome of the handover".to_owned();
        return Err(StoreError::NoLeader { code: tonic::Code::Unknown, message });
    };
    if reason.is_empty() {
        return Ok(());
    }
    let addr = String::new();
    if SESSION_OVER.iter().any(|over| reason == *over) {
        return Err(StoreError::SessionOver { reason, message, current, addr });
    }
    Err(StoreError::Refused { reason, message, current, addr })
}

/// Returns the kind of failure of an attempt, which decides the member for the next attempt.
///
/// # Errors
/// The error of the whole call, if no further attempt can help.
fn failure(status: &Status) -> Result<AttemptFailure<String>, StoreError> {
    let Some(reason) = status::reason(status) else { return Ok(AttemptFailure::NoResponse) };
    let message = status.message().to_owned();
    if reason == Reason::NotLeader {
        return Ok(AttemptFailure::NotLeader(leader_of(status)));
    }
    if let Some(too_fast) = too_fast(status, &reason) {
        return Err(too_fast);
    }
    let (current, addr) = about(status);
    if SESSION_OVER.iter().any(|over| reason == *over) {
        return Err(StoreError::SessionOver { reason, message, current, addr });
    }
    if is_transient(status) {
        return Ok(AttemptFailure::Unavailable);
    }
    Err(StoreError::Refused { reason, message, current, addr })
}

/// Decodes the refusal of a raise because the ceiling would rise too fast. Returns `None` if the status is another
/// refusal, or if it names no section.
fn too_fast(status: &Status, reason: &str) -> Option<StoreError> {
    if *reason != Reason::RaiseTooFast {
        return None;
    }
    let section = metadata(status, key::SECTION)?.parse().ok()?;
    let after = status::retry_after(status).unwrap_or_default();
    Some(StoreError::TooFast { section: SectionId(section), after, message: status.message().to_owned() })
}

/// Returns whether a retry of the request at another member, or later at the same member, may succeed.
fn is_transient(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Aborted)
}

fn leader_of(status: &Status) -> Option<String> {
    metadata(status, key::LEADER).filter(|leader| !leader.is_empty())
}

/// Returns the incarnation or renewal on record and the address that a refusal names; 0 and an empty address if it
/// names none.
fn about(status: &Status) -> (u64, String) {
    let current = metadata(status, key::CURRENT).and_then(|current| current.parse().ok());
    (current.unwrap_or(0), metadata(status, key::ADDR).unwrap_or_default())
}

fn metadata(status: &Status, key: &str) -> Option<String> {
    status.get_error_details().error_info()?.metadata.get(key).cloned()
}
