//! Connections to the leaders of other sets' stores. The members of a store are tried one after the other, at the
//! addresses that their set has stated.
//!
//! A request is sent only to a store whose certificate has the name of its set, as this set's log states the name. If
//! the log contains no name of that set yet, for example because an operator typed the address, any store of the
//! cluster is accepted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_core::store_calls::{AttemptFailure, StoreMembers};
use seq_core::{SetId, limits};
use seq_kit::telemetry::traces;
use seq_proto::dial::ExpectedServer;
use seq_proto::reason::{Reason, key};
use seq_proto::status;
use seq_proto::v1::inter_set_service_client::InterSetServiceClient;
use seq_raft::RaftHandle;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::replicated_set::{SetState, read_state};

/// Timeout of a request to one member of another set's store. It is long enough for a commit in that set, even if a CPU
/// core is busy.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections to all other sets, by the set's id. The connection to a set is created when it is first used, and
/// created again when the set states other addresses or another name.
pub(crate) struct SetLinks {
    raft: RaftHandle<SetState>,
    links: Mutex<BTreeMap<SetId, Arc<SetLink>>>,
    origin: Instant,
}

/// Connection to the store of one other set.
struct SetLink {
    /// Addresses of the store's members, as their set states them.
    stores: Vec<String>,
    /// Identity that the server at each address must have.
    expected: ExpectedServer,
    members: Mutex<StoreMembers<String>>,
    channels: Mutex<BTreeMap<String, Channel>>,
    /// Time at which a member of the store last responded.
    responded: Mutex<Option<Instant>>,
}

impl SetLink {
    /// # Panics
    /// If `stores` is empty.
    fn new(stores: Vec<String>, expected: ExpectedServer) -> SetLink {
        let members = Mutex::new(StoreMembers::new(stores.clone()));
        SetLink { stores, expected, members, channels: Mutex::default(), responded: Mutex::default() }
    }
}

/// Client for one member of another set's store.
pub(crate) type Member = InterSetServiceClient<Channel>;

impl SetLinks {
    pub(crate) fn new(raft: RaftHandle<SetState>) -> SetLinks {
        SetLinks { raft, links: Mutex::default(), origin: Instant::now() }
    }

    /// Sends a request to the leader of another set's store, and returns the response. Tries each member once, and also
    /// the leader that a member names.
    ///
    /// # Errors
    /// The leader's error; `UNAVAILABLE` without a reason if no leader responded; `UNKNOWN_SET` if no member of that
    /// store is known.
    pub(crate) async fn call<Q: Clone, A>(
        &self,
        set: SetId,
        request: Q,
        method: impl AsyncFn(Member, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Status> {
        let link = self
            .link(set)
            .ok_or_else(|| Reason::UnknownSet.status(format!("no member of the store of set {set} is known")))?;
        self.call_link(&link, request, method).await
    }

    /// Sends a request like [`SetLinks::call`], but to a store whose set is not known yet. `stores` are the addresses
    /// of the store's members, and `expected` is the identity that they must have.
    ///
    /// # Errors
    /// The errors of [`SetLinks::call`].
    pub(crate) async fn call_at<Q: Clone, A>(
        &self,
        expected: ExpectedServer,
        stores: &[String],
        request: Q,
        method: impl AsyncFn(Member, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Status> {
        self.call_link(&SetLink::new(stores.to_vec(), expected), request, method).await
    }

    async fn call_link<Q: Clone, A>(
        &self,
        link: &SetLink,
        request: Q,
        method: impl AsyncFn(Member, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Status> {
        let mut call = link.members.lock().begin();
        // The last error that came from the leader. Members that are tried after the leader refuse only because they do
        // not lead, so their errors are less useful.
        let mut of_leader = None;
        loop {
            let addr = call.member().clone();
            let refusal = match self.attempt(link, &addr, request.clone(), &method).await {
                Ok(response) => {
                    *link.responded.lock() = Some(Instant::now());
                    link.members.lock().on_response(&call);
                    return Ok(response);
                }
                Err(refusal) => refusal,
            };
            let failure = match status::known_reason(&refusal) {
                Some(Reason::NotLeader) => AttemptFailure::NotLeader(status::metadata(&refusal, key::LEADER)),
                Some(_) if !is_transient(&refusal) => return Err(refusal),
                Some(_) => {
                    of_leader = Some(refusal.clone());
                    AttemptFailure::Unavailable
                }
                None => AttemptFailure::NoResponse,
            };
            if !link.members.lock().on_failure(&mut call, failure, self.origin.elapsed()) {
                return Err(of_leader.unwrap_or_else(|| no_leader(&addr, &refusal)));
            }
        }
    }

    async fn attempt<Q, A>(
        &self,
        link: &SetLink,
        addr: &str,
        request: Q,
        method: &impl AsyncFn(Member, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Status> {
        let member = self.member(link, addr)?;
        let mut request = Request::new(request);
        request.set_timeout(ATTEMPT_TIMEOUT);
        traces::inject(request.metadata_mut());
        match tokio::time::timeout(ATTEMPT_TIMEOUT, method(member, request)).await {
            Ok(response) => response.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("{addr} did not respond within {ATTEMPT_TIMEOUT:?}"))),
        }
    }

    fn member(&self, link: &SetLink, addr: &str) -> Result<Member, Status> {
        let mut channels = link.channels.lock();
        let channel = match channels.get(addr) {
            Some(channel) => channel.clone(),
            None => {
                let channel = self.raft.connect_expecting(addr, link.expected.clone());
                let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
                channels.insert(addr.to_owned(), channel.clone());
                channel
            }
        };
        Ok(member(channel))
    }

    /// Returns the connection to a set, or `None` while the set has stated no addresses.
    fn link(&self, set: SetId) -> Option<Arc<SetLink>> {
        let (stores, name) = read_state(self.raft.state(), |state| {
            let facts = state.sets.get(&set)?.facts.as_ref()?;
            Some((facts.stores.clone(), facts.name.clone()))
        })?;
        if stores.is_empty() {
            return None;
        }
        let mut links = self.links.lock();
        let expected = ExpectedServer::store().of_set(&name);
        if let Some(link) = links.get(&set).filter(|link| link.stores == stores && link.expected == expected) {
            return Some(link.clone());
        }
        let link = Arc::new(SetLink::new(stores, expected));
        links.insert(set, link.clone());
        Some(link)
    }

    /// Returns the time since a member of the set's store last responded to this member, or `None` if no member ever
    /// responded.
    pub(crate) fn responded(&self, set: SetId) -> Option<Duration> {
        let link = self.links.lock().get(&set)?.clone();
        let responded = *link.responded.lock();
        responded.map(|at| at.elapsed())
    }
}

/// Returns a client on a channel, with the size limits of messages between sets.
pub(crate) fn member(channel: Channel) -> Member {
    InterSetServiceClient::new(channel)
        .max_decoding_message_size(limits::MAX_RESPONSE_BYTES)
        .max_encoding_message_size(limits::MAX_REQUEST_BYTES)
}

/// Returns the error of a call in which no member responded as the leader.
fn no_leader(addr: &str, last: &Status) -> Status {
    let why = last.message();
    Status::unavailable(format!("no member of its store responds as the leader; the last one, {addr}: {why}"))
}

/// Returns whether the request may succeed at another member, or at the same member later.
fn is_transient(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Aborted)
}
