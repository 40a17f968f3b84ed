//! The Raft network's server side: sender and content of each message are checked here, then it goes to the Raft
//! library.
//!
//! **Invariant:** no message reaches the library that another cluster sent, that is meant for another member or another
//! data directory of this one, that is of another format, whose sender was removed or is another directory than the one
//! that the list of members names, or whose content [`crate::raft_validation`] refuses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::{SnapshotResponse, TransferLeaderRequest, VoteRequest};
use parking_lot::Mutex;
use seq_proto::v1::raft_service_server::RaftService;
use seq_proto::v1::{HelloRequest, HelloResponse, LogPosition, RaftMessage, SnapshotChunk};
use seq_proto::{Reason, status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::acknowledged::Acknowledged;
use crate::gate::Gate;
use crate::network::{self, Disowned, Disownment, Network, SnapshotHeader, TransferLeader};
use crate::nonce::{Fingerprint, Nonce};
use crate::peers::{Identity, PeerRefusal};
use crate::raft_validation::Validate;
use crate::standing::{self, Standing};
use crate::storage::{self, LogReader, SharedState};
use crate::types::{LeaderId, LogId, Raft, Snapshot, TypeConfig, Vote};

/// How long the next part of a snapshot may take before the transfer is given up.
const CHUNK_PATIENCE: Duration = Duration::from_secs(5);

/// Snapshots that may be received at the same time, one from each sender: that of an old leader, and that of the next
/// one. Each is held in memory until it is whole.
const MAX_SNAPSHOTS: usize = 2;

/// The service. Behind a closed gate it answers only `Hello`.
#[derive(Clone)]
pub(crate) struct RaftServer {
    pub(crate) me: Identity,
    /// Whether the data directory was empty when the process started.
    pub(crate) is_fresh: bool,
    pub(crate) gate: Gate<RaftDoor>,
    /// Ends the calls that would last as long as their caller.
    pub(crate) stopping: CancellationToken,
}

/// Where messages go.
pub(crate) struct RaftDoor {
    pub(crate) raft: Raft,
    state: SharedState,
    log: LogReader,
    acknowledged: Arc<Acknowledged>,
    disowned: Disowned,
    /// Senders of the snapshots that are being received.
    snapshots: Arc<Mutex<BTreeSet<u64>>>,
}

impl RaftDoor {
    pub(crate) fn new(raft: &Raft, state: &SharedState, log: &LogReader, network: &Network) -> RaftDoor {
        RaftDoor {
            raft: raft.clone(),
            state: state.clone(),
            log: log.clone(),
            acknowledged: network.acknowledged(),
            disowned: network.disowned(),
            snapshots: Arc::default(),
        }
    }

    /// What a sender is to the group. Whoever comes back without what it acknowledged to this member is refused.
    fn judge(&self, me: &Identity, from: u64, standing: Standing) -> Result<(), PeerRefusal> {
        let cluster = || me.cluster.clone();
        match standing {
            Standing::Member => match self.acknowledged.lost(from) {
                Some(lost) => Err(PeerRefusal::AcknowledgedDataLost { cluster: cluster(), id: from, lost }),
                None => Ok(()),
            },
            Standing::Removed => Err(PeerRefusal::Removed { cluster: cluster(), id: from }),
            Standing::OtherDirectory => Err(PeerRefusal::OtherDataDirectory { cluster: cluster(), id: from }),
            Standing::Stranger | Standing::NoGroup => Err(PeerRefusal::UnknownMember { from }),
        }
    }

    /// Whether no list of members and no entry has reached this member yet.
    fn is_groupless(&self) -> bool {
        let lists = self.raft.server_metrics();
        self.log.position().last.is_none() && lists.borrow_watched().membership_config.log_id().is_none()
    }

    /// Content that the library would take badly is refused, and named in the log.
    fn validate<Q: Validate>(&self, from: u64, request: &Q) -> Result<(), Status> {
        request.validate(from, &self.log).map_err(|invalid| {
            tracing::error!(store = from, %invalid, "a Raft message was refused");
            if invalid.is_lost_data() {
                self.disowned.send_replace(Some(Disownment::Contradicted(invalid.to_string())));
            }
            invalid.into()
        })
    }
}

impl RaftServer {
    /// Checks the sender and the content of a message, and gives the content.
    pub(crate) fn admit<Q: DeserializeOwned + Validate>(
        &self,
        message: &RaftMessage,
    ) -> Result<(&RaftDoor, Q), Status> {
        let open = self.gate.get()?;
        let nonce = self.me.check(message)?;
        let (from, directory) = (message.from, nonce.fingerprint());
        let standing = standing::judge(&open.raft, &open.state, from, directory, message.membership);
        open.judge(&self.me, from, standing)?;
        let request: Q = network::decode(&message.payload).map_err(|error| {
            let text = format!("message of {} bytes from store {from}: {error}", message.payload.len());
            Reason::MalformedMessage.status(text)
        })?;
        open.validate(from, &request)?;
        Ok((open, request))
    }

    /// The response to a request that was admitted.
    fn respond<A: Serialize, E: std::error::Error>(
        &self,
        request: &RaftMessage,
        answer: Result<A, E>,
    ) -> Result<Response<RaftMessage>, Status> {
        self.encode(&Sender::of(request)?, answer).map(Response::new)
    }

    /// The message that carries a response of the Raft library.
    pub(crate) fn encode<A: Serialize, E: std::error::Error>(
        &self,
        to: &Sender,
        answer: Result<A, E>,
    ) -> Result<RaftMessage, Status> {
        let answer = answer.map_err(|error| {
            let text = format!("store {} does not take part: {error}", self.me.id);
            status::with_reason(Code::Unavailable, Reason::RaftStopped, text, [], None)
        })?;
        Ok(self.me.message(to.id, to.directory, 0, network::encode(&answer)))
    }
}

/// Whom a response goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    id: u64,
    directory: Fingerprint,
}

impl Sender {
    /// Of a request that was admitted.
    pub(crate) fn of(request: &RaftMessage) -> Result<Sender, Status> {
        let nonce = Nonce::from_bytes(&request.nonce).ok_or(PeerRefusal::NoNonce { from: request.from })?;
        Ok(Sender { id: request.from, directory: nonce.fingerprint() })
    }
}

#[tonic::async_trait]
impl RaftService for RaftServer {
    async fn hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        let hello = request.into_inner();
        let directory = self.me.check_hello(&hello)?;
        let Some(open) = self.gate.peek() else {
            // One that was not empty belongs to a group, or may: it says so once it is loaded.
            if !self.is_fresh {
                return Err(starting());
            }
            return Ok(Response::new(hello_response(Standing::NoGroup, None)));
        };
        let standing = standing::judge(&open.raft, &open.state, hello.from, directory, hello.membership);
        if standing == Standing::OtherDirectory || (standing == Standing::Member && !hello.starting) {
            open.judge(&self.me, hello.from, standing)?;
        }
        if standing == Standing::Member && hello.starting {
            let last = hello.last_log.map(read_position);
            open.acknowledged.check(hello.from, hello.vote_term, last).map_err(|lost| {
                let cluster = self.me.cluster.clone();
                PeerRefusal::AcknowledgedDataLost { cluster, id: hello.from, lost }
            })?;
        }
        let mine = open.is_groupless().then(|| self.me.fingerprint());
        Ok(Response::new(hello_response(standing, mine)))
    }

    async fn append_entries(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (open, append) = self.admit(&message)?;
        self.respond(&message, open.raft.append_entries(append).await)
    }

    type AppendStreamStream = BoxStream<'static, Result<RaftMessage, Status>>;

    async fn append_stream(
        &self,
        request: Request<Streaming<RaftMessage>>,
    ) -> Result<Response<Self::AppendStreamStream>, Status> {
        Ok(Response::new(self.append_each(request.into_inner())?.boxed()))
    }

    async fn vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (open, vote) = self.admit::<VoteRequest<TypeConfig>>(&message)?;
        let vote = open.without_undue_transfer(message.from, vote);
        self.respond(&message, open.raft.vote(vote).await)
    }

    async fn pre_vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (open, vote) = self.admit(&message)?;
        self.respond(&message, open.raft.pre_vote(vote).await)
    }

    async fn transfer_leader(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (open, (vote, to, last)) = self.admit::<TransferLeader>(&message)?;
        let answer = open.raft.handle_transfer_leader(TransferLeaderRequest::new(vote, to, last)).await;
        self.respond(&message, answer)
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<SnapshotChunk>>,
    ) -> Result<Response<RaftMessage>, Status> {
        let mut chunks = request.into_inner();
        let header = next(&mut chunks).await?.and_then(|chunk| chunk.header);
        let header = header.ok_or_else(|| malformed("the first message has no header".to_owned()))?;
        let (open, (vote, meta, length)) = self.admit::<SnapshotHeader>(&header)?;
        if let Some(own) = open.needs_no_snapshot(&vote, meta.last_log_id.as_ref()) {
            return self.respond(&header, Ok::<_, std::convert::Infallible>(own));
        }
        let _receiving = Receiving::begin(&open.snapshots, header.from)?;
        let bytes = collect(&mut chunks, length).await?;
        // The library takes a failed installation for a broken disk and stops.
        storage::check_snapshot(&meta, &bytes).map_err(|error| malformed(error.to_string()))?;
        let answer = open.raft.install_full_snapshot(vote, Snapshot { meta, snapshot: bytes }).await;
        self.respond(&header, answer)
    }
}

impl RaftDoor {
    /// The response to a snapshot that brings nothing new, or whose leader was replaced: its body is not read.
    fn needs_no_snapshot(&self, vote: &Vote, last: Option<&LogId>) -> Option<SnapshotResponse<TypeConfig>> {
        let own = self.log.position();
        let replaced = own.vote.filter(|own| vote < own);
        // As the library answers it: this leader is followed already, and what is committed here covers the snapshot.
        let covered = own.vote.filter(|followed| followed == vote && own.committed.as_ref() >= last);
        replaced.or(covered).map(SnapshotResponse::new)
    }

    /// A vote that a transfer of leadership asks for is given although the leader is alive. That makes sense only for a
    /// voter, in the term right after the one in which this member follows the leader; any other candidate waits for
    /// the leader's end.
    fn without_undue_transfer(&self, from: u64, vote: VoteRequest<TypeConfig>) -> VoteRequest<TypeConfig> {
        let metrics = self.raft.server_metrics();
        let voter = metrics.borrow_watched().membership_config.membership().voter_ids().any(|id| id == from);
        let own = self.log.position().vote.map_or(0, |vote| vote.leader_id.term);
        let due = voter && vote.vote.leader_id.term == own + 1;
        VoteRequest { leadership_transfer: vote.leadership_transfer && due, ..vote }
    }
}

/// A snapshot that is being received.
struct Receiving {
    senders: Arc<Mutex<BTreeSet<u64>>>,
    from: u64,
}

impl Receiving {
    fn begin(senders: &Arc<Mutex<BTreeSet<u64>>>, from: u64) -> Result<Receiving, Status> {
        let mut receiving = senders.lock();
        if receiving.len() >= MAX_SNAPSHOTS || !receiving.insert(from) {
            let text = format!("a snapshot of store {from}, or {MAX_SNAPSHOTS} of others, are being received already");
            return Err(Reason::SnapshotUnderWay.status(text));
        }
        Ok(Receiving { senders: senders.clone(), from })
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.senders.lock().remove(&self.from);
    }
}

fn hello_response(standing: Standing, mine: Option<Fingerprint>) -> HelloResponse {
    let fingerprint = mine.map(|mine| mine.bytes().to_vec()).unwrap_or_default();
    HelloResponse { standing: standing.to_wire().into(), fingerprint }
}

fn read_position(position: LogPosition) -> LogId {
    LogId::new(LeaderId { term: position.term, node_id: position.leader }, position.index)
}

fn starting() -> Status {
    // No retry hint: peers retry by their own schedule.
    status::with_reason(Code::Unavailable, Reason::Starting, "this member of the store is starting".into(), [], None)
}

async fn next(chunks: &mut Streaming<SnapshotChunk>) -> Result<Option<SnapshotChunk>, Status> {
    let late = |_| Status::deadline_exceeded(format!("no part of the snapshot for {CHUNK_PATIENCE:?}"));
    tokio::time::timeout(CHUNK_PATIENCE, chunks.message()).await.map_err(late)?
}

/// Reads a body of exactly `length` bytes, which was bounded before. What is reserved grows with what arrives.
async fn collect(chunks: &mut Streaming<SnapshotChunk>, length: u64) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    let other = |found: usize| malformed(format!("the body has {found} bytes or more, and the header says {length}"));
    while let Some(chunk) = next(chunks).await? {
        if (bytes.len() + chunk.data.len()) as u64 > length {
            return Err(other(bytes.len() + chunk.data.len()));
        }
        bytes.extend_from_slice(&chunk.data);
    }
    if bytes.len() as u64 != length {
        return Err(other(bytes.len()));
    }
    Ok(bytes.freeze())
}

fn malformed(text: String) -> Status {
    Reason::MalformedSnapshot.status(text)
}
