//! How a member speaks to the others: Raft's messages, in postcard, over gRPC.
//!
//! **Invariant:** an answer counts only if it comes from the member it was asked of, with the data directory under which
//! that member is known. Every call has a deadline. Connections notice a silent peer within [`LinkTimes::keep_alive`]
//! twice, also while idle; otherwise a half-open connection would stop replication until the kernel gives up.
//!
//! What the other side does with a message is `raft_service`'s matter.

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
use seq_proto::dial::Dial;
use seq_proto::status;
use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::{HelloResponse, RaftMessage, SnapshotChunk};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::config::StoreTuning;
use crate::link_times::{LinkTimes, RoundTrips};
use crate::peers::{Identity, OTHER_DATA_DIRECTORY, Peers, REMOVED_MEMBER};
use crate::standing::OwnStanding;
use crate::types::{LogId, Member, Snapshot, SnapshotMeta, TypeConfig, Vote};

/// Largest message between members: a full batch of the largest entries, with room.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a snapshot in one message, so that heartbeats of other calls are not held up behind a large one.
const CHUNK_BYTES: usize = 1024 * 1024;

type Result<T, E = RPCError<TypeConfig>> = std::result::Result<T, E>;

/// What a connection is for. Heartbeats do not wait behind entries, nor entries behind a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Entries,
    Heartbeats,
    Snapshots,
}

/// Why this member can take no part any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disownment {
    /// The others know its id under another data directory.
    OtherDataDirectory(String),
    /// It was removed from the group.
    Removed(String),
}

/// Where it is told, once, that others refuse this member for good.
pub(crate) type Disowned = watch::Sender<Option<Disownment>>;

/// The way to all other members.
#[derive(Clone)]
pub(crate) struct Network {
    inner: Arc<Inner>,
}

struct Inner {
    me: Identity,
    peers: Arc<Peers>,
    dial: Dial,
    /// Addresses of the set file; newer than those of the group's own membership.
    addrs: BTreeMap<u64, String>,
    times: LinkTimes,
    /// Of the heartbeats.
    round_trips: Arc<RoundTrips>,
    channels: Mutex<BTreeMap<(u64, Purpose), (String, Channel)>>,
    standing: Arc<OwnStanding>,
    disowned: Disowned,
}

impl Network {
    pub(crate) fn new(
        me: Identity,
        peers: Arc<Peers>,
        dial: Dial,
        addrs: BTreeMap<u64, String>,
        times: LinkTimes,
    ) -> Network {
        let (channels, standing, disowned) = (Mutex::default(), Arc::default(), Disowned::new(None));
        let round_trips = Arc::default();
        Network { inner: Arc::new(Inner { me, peers, dial, addrs, times, round_trips, channels, standing, disowned }) }
    }

    /// What heartbeats take.
    pub(crate) fn round_trips(&self) -> Arc<RoundTrips> {
        self.inner.round_trips.clone()
    }

    /// What this member says of its own place in the group; to be told once the Raft library runs.
    pub(crate) fn standing(&self) -> Arc<OwnStanding> {
        self.inner.standing.clone()
    }

    /// Tells when another member refuses this one for good.
    pub(crate) fn disowned(&self) -> Disowned {
        self.inner.disowned.clone()
    }

    fn peer(&self, id: u64, member: &Member, purpose: Purpose) -> Peer {
        let addr = self.inner.addrs.get(&id).unwrap_or(&member.addr).clone();
        Peer { inner: self.inner.clone(), id, addr, purpose }
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

/// The way to one member.
pub(crate) struct Peer {
    inner: Arc<Inner>,
    id: u64,
    addr: String,
    purpose: Purpose,
}

/// Writes messages to one member.
pub(crate) struct Sender {
    inner: Arc<Inner>,
    to: u64,
}

impl Sender {
    pub(crate) fn message(&self, payload: Bytes) -> RaftMessage {
        self.inner.me.message(self.to, self.inner.standing.number(), payload)
    }
}

impl Peer {
    pub(crate) fn client(&self) -> Result<RaftServiceClient<Channel>> {
        let mut channels = self.inner.channels.lock();
        let key = (self.id, self.purpose);
        let channel = match channels.get(&key) {
            Some((addr, channel)) if *addr == self.addr => channel.clone(),
            _ => {
                let channel = connect(&self.inner.dial, &self.addr, self.inner.times)
                    .map_err(|error| Unreachable::new(&error))?;
                channels.insert(key, (self.addr.clone(), channel.clone()));
                channel
            }
        };
        Ok(RaftServiceClient::new(channel)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
            .max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// One call: encode, send, check who answered, decode.
    async fn call<Q, A, F>(
        &self,
        action: RPCTypes,
        timeout: Duration,
        question: &Q,
        send: impl FnOnce(RaftServiceClient<Channel>, Request<RaftMessage>) -> F,
    ) -> Result<A>
    where
        Q: Serialize,
        A: DeserializeOwned,
        F: Future<Output = Result<tonic::Response<RaftMessage>, Status>>,
    {
        let message = self.message(encode(question));
        let answer = tokio::time::timeout(timeout, send(self.client()?, Request::new(message))).await;
        let answer = answer.map_err(|_| self.timed_out(action, timeout))?;
        self.read(answer.map_err(|status| self.refused(&status))?.into_inner())
    }

    /// What writes messages to that member, also while another task waits for its answers.
    pub(crate) fn sender(&self) -> Sender {
        Sender { inner: self.inner.clone(), to: self.id }
    }

    fn message(&self, payload: Bytes) -> RaftMessage {
        self.sender().message(payload)
    }

    pub(crate) fn read<A: DeserializeOwned>(&self, answer: RaftMessage) -> Result<A> {
        let checked = self.inner.me.check(&answer).and_then(|()| self.inner.peers.admit(self.id, answer.nonce));
        if answer.from != self.id {
            let text = format!("store {} answered in place of store {}", answer.from, self.id);
            return Err(Unreachable::from_string(text).into());
        }
        checked.map_err(|refusal| Unreachable::new(&refusal))?;
        decode(&answer.payload).map_err(|error| NetworkError::new(&error).into())
    }

    pub(crate) fn timed_out(&self, action: RPCTypes, timeout: Duration) -> Timeout<TypeConfig> {
        Timeout { action, id: self.inner.me.id, target: self.id, timeout }
    }

    pub(crate) fn refused(&self, status: &Status) -> RPCError<TypeConfig> {
        let why = status.message().to_owned();
        let disownment = match status::reason(status).as_deref() {
            Some(OTHER_DATA_DIRECTORY) => Some(Disownment::OtherDataDirectory(why)),
            Some(REMOVED_MEMBER) => Some(Disownment::Removed(why)),
            _ => None,
        };
        if disownment.is_some() {
            self.inner.disowned.send_replace(disownment);
        }
        Unreachable::from_string(format!("store {} at {}: {}", self.id, self.addr, status.message())).into()
    }

    async fn send_snapshot(&self, vote: Vote, snapshot: Snapshot) -> Result<SnapshotResponse<TypeConfig>> {
        let payload = encode(&(vote, &snapshot.meta));
        let header = SnapshotChunk { header: Some(self.message(payload)), data: Bytes::new() };
        let mut rest = snapshot.snapshot;
        let body = std::iter::from_fn(move || {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            (!chunk.is_empty()).then_some(SnapshotChunk { header: None, data: chunk })
        });
        let chunks = futures::stream::iter(std::iter::once(header).chain(body));
        let answer = self.client()?.install_snapshot(chunks).await.map_err(|status| self.refused(&status))?;
        self.read(answer.into_inner())
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>> {
        let timeout = if rpc.entries.is_empty() { option.hard_ttl() } else { self.inner.times.append };
        self.call(RPCTypes::AppendEntries, timeout, &rpc, |mut client, message| async move {
            client.append_entries(message).await
        })
        .await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        let patience = self.inner.times.append;
        // A heartbeat is a call of one message; the library gives it up when the next one is due.
        let mut measurement = (self.purpose == Purpose::Heartbeats).then(|| self.inner.round_trips.begin(self.id));
        let mut measured = move |error: Option<&RPCError<TypeConfig>>| {
            let lost = error.is_some_and(|error| !matches!(error, RPCError::Timeout(_)));
            match measurement.take() {
                Some(measurement) if lost => measurement.discard(),
                _ => {}
            }
        };
        Box::pin(async move {
            match self.append_all(input, patience).await {
                Ok(outcomes) => Ok(outcomes.inspect(move |outcome| measured(outcome.as_ref().err())).boxed()),
                Err(error) => {
                    measured(Some(&error));
                    Err(error)
                }
            }
        })
    }

    async fn vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> Result<VoteResponse<TypeConfig>> {
        self.call(
            RPCTypes::Vote,
            option.soft_ttl(),
            &rpc,
            |mut client, message| async move { client.vote(message).await },
        )
        .await
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
        let question: TransferLeader = (*req.from_leader(), *req.to_node_id(), req.last_log_id().copied());
        self.call(RPCTypes::TransferLeader, option.soft_ttl(), &question, |mut client, message| async move {
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
            answer = self.send_snapshot(vote, snapshot) => answer.map_err(StreamingError::from),
        }
    }
}

/// What `TransferLeader` carries; the library's own type has no encoding.
pub(crate) type TransferLeader = (Vote, u64, Option<LogId>);

/// What the first chunk of a snapshot carries.
pub(crate) type SnapshotHeader = (Vote, SnapshotMeta);

pub(crate) fn encode(value: &impl Serialize) -> Bytes {
    postcard::to_stdvec(value).expect("encoding into memory does not fail").into()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}

/// A connection to another member.
pub(crate) fn connect(dial: &Dial, addr: &str, times: LinkTimes) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))?
        .connect_timeout(times.connect)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(times.keep_alive)
        .keep_alive_timeout(times.keep_alive)
        .keep_alive_while_idle(true);
    Ok(dial.connect(endpoint))
}

/// Asks other members whether they know this one's id under another data directory, and what it is to their group.
pub(crate) async fn hello(
    me: &Identity,
    membership: u64,
    dial: &Dial,
    others: impl IntoIterator<Item = (u64, String)>,
    timeout: Duration,
) -> Vec<(u64, Result<HelloResponse, Status>)> {
    // Members whose links are slow have their own times; a greeting is over before a ping of these could be missed.
    let times = LinkTimes::new(&StoreTuning::DEFAULTS);
    let ask = |(id, addr): (u64, String)| async move {
        let call = async {
            let channel = connect(dial, &addr, times).map_err(|error| Status::unavailable(error.to_string()))?;
            let answer = RaftServiceClient::new(channel).hello(me.message(id, membership, Bytes::new())).await?;
            Ok(answer.into_inner())
        };
        let answer = tokio::time::timeout(timeout, call).await;
        (id, answer.unwrap_or_else(|_| Err(Status::new(Code::DeadlineExceeded, "no answer"))))
    };
    futures::future::join_all(others.into_iter().map(ask)).await
}
