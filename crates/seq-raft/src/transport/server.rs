//! Receiving side of the Raft transport. It checks the sender and the content of each message, and then passes the
//! message to the Raft library.
//!
//! **Invariant:** a message does not reach the Raft library in any of these cases:
//!
//! * It comes from another cluster, or has another format.
//! * It is addressed to another member, or to another data directory of this member.
//! * Its sender was removed from the group, or does not use the data directory in the list of members.
//! * [`super::validation`] refuses its content.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::{SnapshotResponse, TransferLeaderRequest, VoteRequest};
use parking_lot::Mutex;
use seq_kit::connection::Peer;
use seq_kit::wall_clock;
use seq_proto::v1::raft_service_server::RaftService;
use seq_proto::v1::{LogPosition, ProbeRequest, ProbeResponse, RaftMessage, SnapshotChunk};
use seq_proto::{Reason, status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};

use super::acknowledged::Acknowledged;
use super::client::{self, Network};
use super::identity::{Identity, PeerRefusal};
use super::validation::Validate;
use crate::comparison::StateDigest;
use crate::eviction::{Eviction, Evictions};
use crate::gate::Gate;
use crate::membership_status::{self, MembershipStatus};
use crate::nonce::{Fingerprint, Nonce};
use crate::storage::{LogReader, Raft, Replica};
use crate::types::{LeaderId, LogId, Snapshot, SnapshotHeader, TransferLeader, TypeConfig, Vote};

/// Maximum time to wait for the next part of a snapshot. After this time, the transfer is cancelled.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of snapshots that are received at the same time, at most one from each sender. Two are possible
/// because a previous leader and the present leader may both send one. Each snapshot is held in memory until it is
/// complete.
const MAX_SNAPSHOTS: usize = 2;

/// Service that other members call. While its gate is closed, it responds only to `Probe`.
#[derive(Clone)]
pub struct RaftServer {
    pub(crate) me: Identity,
    /// Whether the data directory was empty when the process started.
    pub(crate) is_fresh: bool,
    pub(crate) gate: Gate<Receiver>,
    /// Token whose cancellation ends the calls that would otherwise last as long as their caller.
    pub(crate) stopping: CancellationToken,
}

/// State of the service when its gate is open. It holds the data against which messages are checked, and the Raft
/// library's handle that receives the messages.
pub(crate) struct Receiver {
    pub(crate) raft: Raft,
    replica: Arc<dyn Replica>,
    log: LogReader,
    acknowledged: Arc<Acknowledged>,
    evictions: Evictions,
    /// Raft ids of the senders of the snapshots that are being received.
    snapshots: Arc<Mutex<BTreeSet<u64>>>,
}

impl Receiver {
    pub(crate) fn new(raft: &Raft, replica: &Arc<dyn Replica>, log: &LogReader, network: &Network) -> Receiver {
        Receiver {
            raft: raft.clone(),
            replica: replica.clone(),
            log: log.clone(),
            acknowledged: network.acknowledged(),
            evictions: network.evictions(),
            snapshots: Arc::default(),
        }
    }

    /// Returns an error if the sender `from` is not a member according to `status`, or has lost data that it
    /// acknowledged to this member.
    fn check_sender(&self, me: &Identity, from: u64, status: MembershipStatus) -> Result<(), PeerRefusal> {
        let cluster = || me.cluster.clone();
        match status {
            MembershipStatus::Member => match self.acknowledged.lost(from) {
                Some(lost) => Err(PeerRefusal::AcknowledgedDataLost { cluster: cluster(), id: from, lost }),
                None => Ok(()),
            },
            MembershipStatus::Removed => Err(PeerRefusal::Removed { cluster: cluster(), id: from }),
            MembershipStatus::OtherDirectory => Err(PeerRefusal::OtherDataDirectory { cluster: cluster(), id: from }),
            MembershipStatus::UnknownMember | MembershipStatus::NoGroup => Err(PeerRefusal::UnknownMember { from }),
        }
    }

    /// Returns an error if the name in the sender's certificate is not the name of the member `from`. If this member's
    /// list does not name the id `from` yet, the name is not checked, because the sender's data directory was checked.
    fn check_holder(&self, from: u64, holder: Option<&str>) -> Result<(), PeerRefusal> {
        let Some(holder) = holder else { return Ok(()) };
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let named = metrics.membership_config.membership().get_node(&from);
        match named.filter(|member| member.name != holder) {
            Some(member) => {
                let (name, holder) = (member.name.clone(), holder.to_owned());
                Err(PeerRefusal::OtherHolder { from, name, holder })
            }
            None => Ok(()),
        }
    }

    /// Returns whether this member has received no list of members and no log entry yet.
    fn is_groupless(&self) -> bool {
        let lists = self.raft.server_metrics();
        self.log.position().last.is_none() && lists.borrow_watched().membership_config.log_id().is_none()
    }

    /// Returns an error, and logs it, if the content of a message would violate an assumption of the Raft library. If
    /// the content proves that committed entries were lost elsewhere, also makes this member stop.
    fn validate<Q: Validate>(&self, from: u64, request: &Q) -> Result<(), Status> {
        request.validate(from, &self.log).map_err(|invalid| {
            tracing::error!(store = from, %invalid, "a Raft message was refused");
            if invalid.is_lost_data() {
                self.evictions.send_replace(Some(Eviction::Contradicted(invalid.to_string())));
            }
            invalid.into()
        })
    }
}

impl RaftServer {
    /// Checks the sender and the content of a message, and returns the decoded content. `holder` is the name in the
    /// sender's certificate.
    pub(crate) fn admit<Q: DeserializeOwned + Validate>(
        &self,
        message: &RaftMessage,
        holder: Option<&str>,
    ) -> Result<(&Receiver, Q), Status> {
        let open = self.gate.get()?;
        let nonce = self.me.check(message)?;
        let (from, directory) = (message.from, nonce.fingerprint());
        let status = membership_status::status_of(&open.raft, &*open.replica, from, directory, message.membership);
        open.check_sender(&self.me, from, status)?;
        open.check_holder(from, holder)?;
        let request: Q = client::decode(&message.payload).map_err(|error| {
            let text = format!("message of {} bytes from store {from}: {error}", message.payload.len());
            Reason::MalformedMessage.status(text)
        })?;
        open.validate(from, &request)?;
        Ok((open, request))
    }

    /// Creates the response to a request that was checked.
    fn respond<A: Serialize, E: std::error::Error>(
        &self,
        request: &RaftMessage,
        response: Result<A, E>,
    ) -> Result<Response<RaftMessage>, Status> {
        self.encode(&Sender::of(request)?, response).map(Response::new)
    }

    fn probe_response(&self, status: MembershipStatus, mine: Option<Fingerprint>) -> ProbeResponse {
        let fingerprint = mine.map(|mine| mine.bytes().to_vec()).unwrap_or_default();
        let newest_format = self.me.newest_format.into();
        ProbeResponse {
            status: status.to_wire().into(),
            fingerprint,
            newest_format,
            digests: Vec::new(),
            clock_ms: wall_clock::now_ms(),
        }
    }

    /// Creates the message that carries a response of the Raft library to the sender `to`.
    pub(crate) fn encode<A: Serialize, E: std::error::Error>(
        &self,
        to: &Sender,
        response: Result<A, E>,
    ) -> Result<RaftMessage, Status> {
        let response = response.map_err(|error| {
            let text = format!("store {} does not take part: {error}", self.me.id);
            status::with_reason(Code::Unavailable, Reason::RaftStopped, text, [], None)
        })?;
        Ok(self.me.message(to.id, to.directory, 0, client::encode(&response)))
    }
}

/// Sender of a request, to which the response is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    id: u64,
    directory: Fingerprint,
}

impl Sender {
    /// Returns the sender of a request that was checked.
    pub(crate) fn of(request: &RaftMessage) -> Result<Sender, Status> {
        let nonce = Nonce::from_bytes(&request.nonce).ok_or(PeerRefusal::NoNonce { from: request.from })?;
        Ok(Sender { id: request.from, directory: nonce.fingerprint() })
    }
}

#[tonic::async_trait]
impl RaftService for RaftServer {
    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let probe = request.into_inner();
        let directory = self.me.check_probe(&probe)?;
        let Some(open) = self.gate.peek() else {
            // A data directory that is not empty belongs to a group or may belong to one. Its list of members is known
            // once the data is loaded.
            if !self.is_fresh {
                return Err(starting());
            }
            return Ok(Response::new(self.probe_response(MembershipStatus::NoGroup, None)));
        };
        let status = membership_status::status_of(&open.raft, &*open.replica, probe.from, directory, probe.membership);
        let is_member = status == MembershipStatus::Member;
        if status == MembershipStatus::OtherDirectory || (is_member && !probe.starting) {
            open.check_sender(&self.me, probe.from, status)?;
        }
        if is_member && probe.starting {
            let last = probe.last_log.map(read_position);
            open.acknowledged.check(probe.from, probe.vote_term, last).map_err(|lost| {
                let cluster = self.me.cluster.clone();
                PeerRefusal::AcknowledgedDataLost { cluster, id: probe.from, lost }
            })?;
        }
        let (newest, format) = (open.replica.newest_of(probe.newest_format), open.replica.format());
        if is_member && newest < format {
            return Err(PeerRefusal::Outdated { from: probe.from, newest, format }.into());
        }
        let mine = open.is_groupless().then(|| self.me.fingerprint());
        let mut response = self.probe_response(status, mine);
        if is_member {
            open.replica.digests().hear(probe.from, probe.digests);
            response.digests = open.replica.digests().kept().into_iter().map(StateDigest::into_wire).collect();
        }
        Ok(Response::new(response))
    }

    async fn append_entries(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let (holder, message) = (holder(&request), request.into_inner());
        let (open, append) = self.admit(&message, holder.as_deref())?;
        self.respond(&message, open.raft.append_entries(append).await)
    }

    type AppendStreamStream = BoxStream<'static, Result<RaftMessage, Status>>;

    async fn append_stream(
        &self,
        request: Request<Streaming<RaftMessage>>,
    ) -> Result<Response<Self::AppendStreamStream>, Status> {
        let holder = holder(&request);
        Ok(Response::new(self.append_each(request.into_inner(), holder)?.boxed()))
    }

    async fn vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let (holder, message) = (holder(&request), request.into_inner());
        let (open, vote) = self.admit::<VoteRequest<TypeConfig>>(&message, holder.as_deref())?;
        let vote = open.without_undue_transfer(message.from, vote);
        self.respond(&message, open.raft.vote(vote).await)
    }

    async fn pre_vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let (holder, message) = (holder(&request), request.into_inner());
        let (open, vote) = self.admit(&message, holder.as_deref())?;
        self.respond(&message, open.raft.pre_vote(vote).await)
    }

    async fn transfer_leader(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let (holder, message) = (holder(&request), request.into_inner());
        let (open, (vote, to, last)) = self.admit::<TransferLeader>(&message, holder.as_deref())?;
        let response = open.raft.handle_transfer_leader(TransferLeaderRequest::new(vote, to, last)).await;
        self.respond(&message, response)
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<SnapshotChunk>>,
    ) -> Result<Response<RaftMessage>, Status> {
        let (holder, mut chunks) = (holder(&request), request.into_inner());
        let header = next(&mut chunks).await?.and_then(|chunk| chunk.header);
        let header = header.ok_or_else(|| malformed("the first message has no header".to_owned()))?;
        let (open, (vote, meta, length)) = self.admit::<SnapshotHeader>(&header, holder.as_deref())?;
        if let Some(own) = open.needs_no_snapshot(&vote, meta.last_log_id.as_ref()) {
            return self.respond(&header, Ok::<_, std::convert::Infallible>(own));
        }
        let _receiving = Receiving::begin(&open.snapshots, header.from)?;
        let bytes = collect(&mut chunks, length).await?;
        // The snapshot is decoded before the Raft library installs it, because the library takes a failed installation
        // for a broken disk and stops.
        drop(open.replica.clone().decode_snapshot(&meta, &bytes).map_err(|error| malformed(error.to_string()))?);
        let response = open.raft.install_full_snapshot(vote, Snapshot { meta, snapshot: bytes }).await;
        self.respond(&header, response)
    }
}

impl Receiver {
    /// Returns the response to a snapshot that covers no new entries or comes from a replaced leader. The response is
    /// sent without reading the snapshot's body. Returns `None` if the snapshot is needed.
    fn needs_no_snapshot(&self, vote: &Vote, last: Option<&LogId>) -> Option<SnapshotResponse<TypeConfig>> {
        let own = self.log.position();
        let replaced = own.vote.filter(|own| vote < own);
        // The Raft library gives the same response if this member already follows the sender and its committed entries
        // cover the snapshot.
        let covered = own.vote.filter(|followed| followed == vote && own.committed.as_ref() >= last);
        replaced.or(covered).map(SnapshotResponse::new)
    }

    /// Clears the transfer flag of a vote request, unless the sender may use this flag. With the flag, the sender
    /// states that the leader has transferred leadership to it, and the library then grants a vote although the leader
    /// is alive. Only a voter may use the flag, and only in the term that directly follows the greatest term that this
    /// member knows. Any other candidate must wait until the leader's lease in the Raft library has expired.
    fn without_undue_transfer(&self, from: u64, vote: VoteRequest<TypeConfig>) -> VoteRequest<TypeConfig> {
        let metrics = self.raft.server_metrics();
        let voter = metrics.borrow_watched().membership_config.membership().voter_ids().any(|id| id == from);
        let own = self.log.position().vote.map_or(0, |vote| vote.leader_id.term);
        let due = voter && vote.vote.leader_id.term == own + 1;
        VoteRequest { leadership_transfer: vote.leadership_transfer && due, ..vote }
    }
}

/// Guard for a snapshot that is being received. It removes the sender from `senders` when it is dropped.
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

/// Returns the name in the certificate of a request's sender, or `None` without TLS.
fn holder<T>(request: &Request<T>) -> Option<String> {
    let identity = request.extensions().get::<Peer>().and_then(Peer::identity);
    identity.map(|identity| identity.name().to_owned())
}

fn read_position(position: LogPosition) -> LogId {
    LogId::new(LeaderId { term: position.term, node_id: position.leader }, position.index)
}

fn starting() -> Status {
    // The error has no retry hint, because other members retry on their own schedule.
    status::with_reason(Code::Unavailable, Reason::Starting, "this member of the store is starting".into(), [], None)
}

async fn next(chunks: &mut Streaming<SnapshotChunk>) -> Result<Option<SnapshotChunk>, Status> {
    let late = |_| Status::deadline_exceeded(format!("no part of the snapshot for {CHUNK_TIMEOUT:?}"));
    tokio::time::timeout(CHUNK_TIMEOUT, chunks.message()).await.map_err(late)?
}

/// Reads the body of a snapshot, which must have exactly `length` bytes. The caller has checked that `length` is not
/// too large. The buffer grows only as data arrives.
async fn collect(chunks: &mut Streaming<SnapshotChunk>, length: u64) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    let other =
        |found: usize| malformed(format!("the body has {found} bytes or more, and the header announces {length}"));
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
