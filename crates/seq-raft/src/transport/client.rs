//! Sending side of the Raft transport. It sends the Raft library's requests to the other members over gRPC, encoded in
//! postcard.
//!
//! **Invariant:** a response is passed to the Raft library only if it comes from the member to which the request was
//! sent, if that member uses the data directory in the list of members, and if the content of the response is valid.
//! Every call has a deadline. A connection fails within twice [`LinkTimeouts::keep_alive`] after the other side falls
//! silent, even while no call is in progress. Otherwise a half-open connection would stop replication until the kernel
//! detects it.
//!
//! The receiving side is in the module `server`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use parking_lot::Mutex;
use seq_core::clock_offset::ClockOffset;
use seq_kit::wall_clock;
use seq_proto::dial::Dial;
use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::{ProbeRequest, ProbeResponse, RaftMessage, SnapshotChunk};
use seq_proto::{Reason, status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::acknowledged::Acknowledged;
use super::formats::ReportedFormats;
use super::identity::{Identity, PeerRefusal};
use super::link::{LinkTimeouts, RoundTrips, connect};
use super::validation::Validate;
use crate::eviction::{Eviction, Evictions};
use crate::membership_status::OwnMembership;
use crate::nonce::Fingerprint;
use crate::options::RaftOptions;
use crate::storage::LogReader;
use crate::types::{LogId, Member, Snapshot, TransferLeader, TypeConfig, Vote};

/// Maximum size of a message between members, in bytes. The limit is far above the size of the largest message that a
/// member sends, which carries one batch of log entries or one part of a snapshot.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of bytes of a snapshot in one message. It limits how long one large message delays other messages.
const CHUNK_BYTES: usize = 1024 * 1024;

type Result<T, E = RPCError<TypeConfig>> = std::result::Result<T, E>;

/// Purpose of a connection to another member. Each purpose has its own connection, so heartbeats are not delayed by
/// entries, and entries are not delayed by a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Entries,
    Heartbeats,
    Snapshots,
}

/// Connections to all other members. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Network {
    inner: Arc<Inner>,
}

struct Inner {
    me: Identity,
    log: LogReader,
    acknowledged: Arc<Acknowledged>,
    dial: Dial,
    /// Addresses of the members' ports for Raft, from the set file. They may be newer than the addresses in the
    /// replicated list of members.
    addrs: BTreeMap<u64, String>,
    timeouts: LinkTimeouts,
    /// Last round trip of a heartbeat to each member.
    round_trips: Arc<RoundTrips>,
    formats: Arc<ReportedFormats>,
    channels: Mutex<BTreeMap<(u64, Purpose), (String, Channel)>>,
    membership: Arc<OwnMembership>,
    evictions: Evictions,
}

impl Network {
    pub(crate) fn new(
        me: Identity,
        log: LogReader,
        dial: Dial,
        addrs: BTreeMap<u64, String>,
        timeouts: LinkTimeouts,
    ) -> Network {
        let (channels, membership, evictions) = (Mutex::default(), Arc::default(), Evictions::new(None));
        let (acknowledged, round_trips, formats) =
            (Arc::new(Acknowledged::new(log.clone())), Arc::default(), Arc::default());
        Network {
            inner: Arc::new(Inner {
                me,
                log,
                acknowledged,
                dial,
                addrs,
                timeouts,
                round_trips,
                formats,
                channels,
                membership,
                evictions,
            }),
        }
    }

    /// Returns the record of the acknowledgements that this member received.
    pub(crate) fn acknowledged(&self) -> Arc<Acknowledged> {
        self.inner.acknowledged.clone()
    }

    /// Returns the last round trips of heartbeats to the other members.
    pub(crate) fn round_trips(&self) -> Arc<RoundTrips> {
        self.inner.round_trips.clone()
    }

    /// Returns the newest format that each other member can read, as the member reported it.
    pub(crate) fn formats(&self) -> Arc<ReportedFormats> {
        self.inner.formats.clone()
    }

    /// Returns the access to the newest list of members in this member's own log. The list is available once the Raft
    /// library runs.
    pub(crate) fn membership(&self) -> Arc<OwnMembership> {
        self.inner.membership.clone()
    }

    /// Returns the channel for the reason why this member must stop. A reason is sent through it when another member
    /// refuses this member permanently.
    pub(crate) fn evictions(&self) -> Evictions {
        self.inner.evictions.clone()
    }

    fn peer(&self, id: u64, member: &Member, purpose: Purpose) -> Peer {
        let addr = self.inner.addrs.get(&id).unwrap_or(&member.raft_addr).clone();
        Peer { inner: self.inner.clone(), id, addr, directory: member.fingerprint, purpose }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Member) -> Peer {
        self.peer(target, node, Purpose::Entries)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Member) -> Peer {
        self.peer(target, node, Purpose::Heartbeats)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Member) -> Peer {
        self.peer(target, node, Purpose::Snapshots)
    }
}

/// Client with which this member sends requests to one other member.
pub(crate) struct Peer {
    inner: Arc<Inner>,
    id: u64,
    addr: String,
    /// Fingerprint of the other member's data directory, from the list of members.
    directory: Fingerprint,
    purpose: Purpose,
}

/// Creator of messages to one other member.
pub(crate) struct Sender {
    inner: Arc<Inner>,
    to: u64,
    directory: Fingerprint,
}

impl Sender {
    pub(crate) fn message(&self, payload: Bytes) -> RaftMessage {
        self.inner.me.message(self.to, self.directory, self.inner.membership.number(), payload)
    }
}

impl Peer {
    /// Returns the gRPC client for the other member. Returns an error if that member has lost data that it acknowledged
    /// to this member, because such a member must not follow this leader. The other member gets the reason when it
    /// requests a vote from this member.
    pub(crate) fn client(&self) -> Result<RaftServiceClient<Channel>> {
        if let Some(lost) = self.inner.acknowledged.lost(self.id) {
            return Err(
                Unreachable::from_string(format!("store {} lacks what it acknowledged: {lost}", self.id)).into()
            );
        }
        let mut channels = self.inner.channels.lock();
        let key = (self.id, self.purpose);
        let channel = match channels.get(&key) {
            Some((addr, channel)) if *addr == self.addr => channel.clone(),
            _ => {
                let channel = connect(&self.inner.dial, &self.addr, self.inner.timeouts)
                    .map_err(|error| Unreachable::new(&error))?;
                channels.insert(key, (self.addr.clone(), channel.clone()));
                channel
            }
        };
        Ok(RaftServiceClient::new(channel)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
            .max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Makes one call to the other member. Encodes and sends the request, checks the sender of the response, and
    /// decodes the response.
    async fn call<Q, A, F>(
        &self,
        action: RPCTypes,
        timeout: Duration,
        request: &Q,
        send: impl FnOnce(RaftServiceClient<Channel>, Request<RaftMessage>) -> F,
    ) -> Result<A>
    where
        Q: Serialize,
        A: DeserializeOwned + Validate,
        F: Future<Output = Result<tonic::Response<RaftMessage>, Status>>,
    {
        let message = self.message(encode(request));
        let response = tokio::time::timeout(timeout, send(self.client()?, Request::new(message))).await;
        let response = response.map_err(|_| self.timed_out(action, timeout))?;
        self.read(response.map_err(|status| self.refused(&status))?.into_inner())
    }

    /// Returns a creator of messages to the other member. It can be used while another task waits for responses.
    pub(crate) fn sender(&self) -> Sender {
        Sender { inner: self.inner.clone(), to: self.id, directory: self.directory }
    }

    fn message(&self, payload: Bytes) -> RaftMessage {
        self.sender().message(payload)
    }

    /// Checks the sender and the content of a response, and returns the content.
    pub(crate) fn read<A: DeserializeOwned + Validate>(&self, response: RaftMessage) -> Result<A> {
        let nonce = self.inner.me.check(&response).map_err(|refusal| Unreachable::new(&refusal))?;
        if response.from != self.id {
            let text = format!("store {} responded in place of store {}", response.from, self.id);
            return Err(Unreachable::from_string(text).into());
        }
        if nonce.fingerprint() != self.directory {
            let other = PeerRefusal::OtherDataDirectory { cluster: self.inner.me.cluster.clone(), id: self.id };
            return Err(Unreachable::new(&other).into());
        }
        self.inner.formats.on_response(self.id, response.newest_format);
        let content: A = decode(&response.payload).map_err(|error| NetworkError::new(&error))?;
        content.validate(self.id, &self.inner.log).map_err(|invalid| {
            tracing::error!(store = self.id, %invalid, "a Raft response was refused");
            Unreachable::new(&invalid)
        })?;
        Ok(content)
    }

    /// Records that the other member has the log of this leader up to the entry `last`. `vote` is the vote under which
    /// this member leads.
    pub(crate) fn on_append(&self, vote: Vote, last: Option<LogId>) {
        self.inner.acknowledged.on_append(self.id, vote, last);
    }

    /// Returns an error if the other member lacks the entry `at` although it had acknowledged it. Without this error,
    /// the Raft library would silently send the entry again.
    pub(crate) fn check_conflict(&self, vote: Vote, at: Option<LogId>) -> Result<()> {
        match at {
            Some(at) if self.inner.acknowledged.on_conflict(self.id, vote, at) => {
                let text = format!("store {} lacks {at}, which it acknowledged", self.id);
                Err(Unreachable::from_string(text).into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn timed_out(&self, action: RPCTypes, timeout: Duration) -> Timeout<TypeConfig> {
        Timeout { action, id: self.inner.me.id, target: self.id, timeout }
    }

    pub(crate) fn refused(&self, status: &Status) -> RPCError<TypeConfig> {
        let why = status.message().to_owned();
        let eviction = match status::known_reason(status) {
            Some(Reason::OtherDataDirectory) => Some(Eviction::OtherDataDirectory(why)),
            Some(Reason::RemovedMember) => Some(Eviction::Removed(why)),
            Some(Reason::AcknowledgedDataLost) => Some(Eviction::AcknowledgedDataLost(why)),
            _ => None,
        };
        if eviction.is_some() {
            self.inner.evictions.send_replace(eviction);
        }
        Unreachable::from_string(format!("store {} at {}: {}", self.id, self.addr, status.message())).into()
    }

    async fn send_snapshot(&self, vote: Vote, snapshot: Snapshot) -> Result<SnapshotResponse<TypeConfig>> {
        let (meta, length) = (snapshot.meta, snapshot.snapshot.len() as u64);
        let payload = encode(&(vote, &meta, length));
        let header = SnapshotChunk { header: Some(self.message(payload)), data: Bytes::new() };
        let mut rest = snapshot.snapshot;
        let body = std::iter::from_fn(move || {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            (!chunk.is_empty()).then_some(SnapshotChunk { header: None, data: chunk })
        });
        let chunks = futures::stream::iter(std::iter::once(header).chain(body));
        let response = self.client()?.install_snapshot(chunks).await.map_err(|status| self.refused(&status))?;
        let response: SnapshotResponse<TypeConfig> = self.read(response.into_inner())?;
        if response.vote == vote {
            self.on_append(vote, meta.last_log_id);
        }
        Ok(response)
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>> {
        let timeout = if rpc.entries.is_empty() { option.hard_ttl() } else { self.inner.timeouts.append };
        let response = self
            .call(RPCTypes::AppendEntries, timeout, &rpc, |mut client, message| async move {
                client.append_entries(message).await
            })
            .await?;
        match &response {
            AppendEntriesResponse::Success => {
                let last = rpc.entries.last().map(|entry| entry.log_id).or(rpc.prev_log_id);
                self.on_append(rpc.vote, last);
            }
            AppendEntriesResponse::PartialSuccess(last) => self.on_append(rpc.vote, *last),
            AppendEntriesResponse::Conflict => self.check_conflict(rpc.vote, rpc.prev_log_id)?,
            AppendEntriesResponse::HigherVote(_) => {}
        }
        Ok(response)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        let timeout = self.inner.timeouts.append;
        // A heartbeat is a call with one message. The Raft library cancels the call when the next heartbeat is due.
        let mut measurement = (self.purpose == Purpose::Heartbeats).then(|| self.inner.round_trips.begin(self.id));
        let mut measured = move |error: Option<&RPCError<TypeConfig>>| {
            let lost = error.is_some_and(|error| !matches!(error, RPCError::Timeout(_)));
            match measurement.take() {
                Some(measurement) if lost => measurement.discard(),
                _ => {}
            }
        };
        Box::pin(async move {
            match self.append_all(input, timeout).await {
                Ok(outcomes) => Ok(outcomes.inspect(move |outcome| measured(outcome.as_ref().err())).boxed()),
                Err(error) => {
                    measured(Some(&error));
                    Err(error)
                }
            }
        })
    }

    async fn vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> Result<VoteResponse<TypeConfig>> {
        let response: VoteResponse<TypeConfig> =
            self.call(RPCTypes::Vote, option.soft_ttl(), &rpc, |mut client, message| async move {
                client.vote(message).await
            })
            .await?;
        if response.vote_granted {
            self.inner.acknowledged.on_vote(self.id, response.vote.leader_id.term);
        }
        Ok(response)
    }

    async fn pre_vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> Result<VoteResponse<TypeConfig>> {
        self.call(RPCTypes::Vote, option.soft_ttl(), &rpc, |mut client, message| async move {
            client.pre_vote(message).await
        })
        .await
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>> {
        let request: TransferLeader = (*req.from_leader(), *req.to_node_id(), req.last_log_id().copied());
        self.call(RPCTypes::TransferLeader, option.soft_ttl(), &request, |mut client, message| async move {
            client.transfer_leader(message).await
        })
        .await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let timeout = option.hard_ttl();
        tokio::select! {
            closed = cancel => Err(closed.into()),
            () = tokio::time::sleep(timeout) => Err(self.timed_out(RPCTypes::InstallSnapshot, timeout).into()),
            response = self.send_snapshot(vote, snapshot) => response.map_err(StreamingError::from),
        }
    }
}

pub(crate) fn encode(value: &impl Serialize) -> Bytes {
    postcard::to_stdvec(value).expect("encoding into memory does not fail").into()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}

/// Response to a probe, with the measured difference of the clocks.
pub(crate) struct Probed {
    pub(crate) response: ProbeResponse,
    /// Difference between the clock of the responding member and the clock of this member; `None` if the responding
    /// member runs an older release.
    pub(crate) clock: Option<ClockOffset>,
}

/// Sends a probe to each of the members in `others`, given by Raft id and address, at the same time. `request` returns
/// the probe for a Raft id, and `timeout` limits each response. Returns the responses in the order of `others`.
pub(crate) async fn probe(
    request: impl Fn(u64) -> ProbeRequest,
    dial: &Dial,
    others: impl IntoIterator<Item = (u64, String)>,
    timeout: Duration,
) -> Vec<(u64, Result<Probed, Status>)> {
    // These timeouts also suffice for slow links, because a probe ends before it could miss the response to a ping.
    let timeouts = LinkTimeouts::new(&RaftOptions::DEFAULTS);
    let send = |(id, addr): (u64, String)| {
        let request = request(id);
        let call = async move {
            let channel = connect(dial, &addr, timeouts).map_err(|error| Status::unavailable(error.to_string()))?;
            let (sent_ms, since) = (wall_clock::now_ms(), Instant::now());
            let response = RaftServiceClient::new(channel).probe(request).await?.into_inner();
            let clock = ClockOffset::measure(response.clock_ms, sent_ms, since.elapsed());
            Ok(Probed { response, clock })
        };
        async move {
            let response = tokio::time::timeout(timeout, call).await;
            (id, response.unwrap_or_else(|_| Err(Status::new(Code::DeadlineExceeded, "no response"))))
        }
    };
    futures::future::join_all(others.into_iter().map(send)).await
}
