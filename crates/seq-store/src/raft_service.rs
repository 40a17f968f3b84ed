//! The Raft network's server side: who may speak is judged here, what is said goes to the Raft library.
//!
//! **Invariant:** no message reaches the library that another cluster sent, that is meant for another member, that is of
//! another format, or whose sender was removed or is known under another data directory.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use openraft::raft::TransferLeaderRequest;
use seq_proto::status;
use seq_proto::v1::raft_service_server::RaftService;
use seq_proto::v1::{self, HelloResponse, RaftMessage, SnapshotChunk};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::gate::Gate;
use crate::network::{self, SnapshotHeader, TransferLeader};
use crate::peers::{Identity, PeerRefusal, Peers};
use crate::standing::{self, Standing};
use crate::storage::{self, SharedState};
use crate::types::{Raft, Snapshot};

/// Largest snapshot a member takes: the most sections a set may have need 40 MiB.
const MAX_SNAPSHOT_BYTES: usize = 256 * 1024 * 1024;

/// How long the next part of a snapshot may take before the transfer is given up.
const CHUNK_PATIENCE: Duration = Duration::from_secs(5);

/// The service. Behind a closed gate it answers only `Hello`.
#[derive(Clone)]
pub(crate) struct RaftServer {
    pub(crate) me: Identity,
    pub(crate) gate: Gate<RaftDoor>,
    /// Ends the calls that would last as long as their caller.
    pub(crate) stopping: CancellationToken,
}

/// Where messages go.
pub(crate) struct RaftDoor {
    pub(crate) raft: Raft,
    pub(crate) state: SharedState,
    pub(crate) peers: Arc<Peers>,
}

impl RaftServer {
    /// Judges the sender, and gives the message to read.
    pub(crate) fn admit<Q: DeserializeOwned>(&self, message: &RaftMessage) -> Result<(&Raft, Q), Status> {
        let open = self.gate.get()?;
        self.me.check(message)?;
        match standing::judge(&open.raft, &open.state, message.from, message.membership) {
            Standing::Member => {}
            Standing::Removed => {
                return Err(PeerRefusal::Removed { cluster: self.me.cluster.clone(), id: message.from }.into());
            }
            Standing::Stranger | Standing::NoGroup => {
                return Err(PeerRefusal::UnknownMember { from: message.from }.into());
            }
        }
        open.peers.admit(message.from, message.nonce)?;
        let question = network::decode(&message.payload).map_err(|error| {
            let text = format!("message of {} bytes from store {}: {error}", message.payload.len(), message.from);
            status::with_reason(Code::InvalidArgument, "MALFORMED_MESSAGE", text, [], None)
        })?;
        Ok((&open.raft, question))
    }

    fn answer<A: Serialize, E: std::error::Error>(
        &self,
        to: u64,
        answer: Result<A, E>,
    ) -> Result<Response<RaftMessage>, Status> {
        self.say(to, answer).map(Response::new)
    }

    /// The message that carries an answer of the Raft library.
    pub(crate) fn say<A: Serialize, E: std::error::Error>(
        &self,
        to: u64,
        answer: Result<A, E>,
    ) -> Result<RaftMessage, Status> {
        let answer = answer.map_err(|error| {
            let text = format!("store {} does not take part: {error}", self.me.id);
            status::with_reason(Code::Unavailable, "RAFT_STOPPED", text, [], None)
        })?;
        Ok(self.me.message(to, 0, network::encode(&answer)))
    }
}

#[tonic::async_trait]
impl RaftService for RaftServer {
    async fn hello(&self, request: Request<RaftMessage>) -> Result<Response<HelloResponse>, Status> {
        let message = request.into_inner();
        // Not its format: a member that is upgraded is told later, by name, what it cannot say.
        self.me.check_sender(&message)?;
        // Behind a closed gate there is an empty directory: nobody is known.
        let (known_nonce, standing) = self.gate.peek().map_or((0, Standing::NoGroup), |open| {
            let standing = standing::judge(&open.raft, &open.state, message.from, message.membership);
            (open.peers.known(message.from), standing)
        });
        Ok(Response::new(HelloResponse { known_nonce, standing: v1::Standing::from(standing).into() }))
    }

    async fn append_entries(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (raft, question) = self.admit(&message)?;
        self.answer(message.from, raft.append_entries(question).await)
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
        let (raft, question) = self.admit(&message)?;
        self.answer(message.from, raft.vote(question).await)
    }

    async fn pre_vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (raft, question) = self.admit(&message)?;
        self.answer(message.from, raft.pre_vote(question).await)
    }

    async fn transfer_leader(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (raft, (vote, to, last)) = self.admit::<TransferLeader>(&message)?;
        let answer = raft.handle_transfer_leader(TransferLeaderRequest::new(vote, to, last)).await;
        self.answer(message.from, answer)
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<SnapshotChunk>>,
    ) -> Result<Response<RaftMessage>, Status> {
        let mut chunks = request.into_inner();
        let header = next(&mut chunks).await?.and_then(|chunk| chunk.header);
        let header = header.ok_or_else(|| malformed("the first message has no header".to_owned()))?;
        let (raft, (vote, meta)) = self.admit::<SnapshotHeader>(&header)?;
        let bytes = collect(&mut chunks).await?;
        // The library takes a failed installation for a broken disk and stops.
        storage::check_snapshot(&meta, &bytes).map_err(|error| malformed(error.to_string()))?;
        let answer = raft.install_full_snapshot(vote, Snapshot { meta, snapshot: bytes }).await;
        self.answer(header.from, answer)
    }
}

async fn next(chunks: &mut Streaming<SnapshotChunk>) -> Result<Option<SnapshotChunk>, Status> {
    let late = |_| Status::deadline_exceeded(format!("no part of the snapshot for {CHUNK_PATIENCE:?}"));
    tokio::time::timeout(CHUNK_PATIENCE, chunks.message()).await.map_err(late)?
}

async fn collect(chunks: &mut Streaming<SnapshotChunk>) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = next(chunks).await? {
        if bytes.len() + chunk.data.len() > MAX_SNAPSHOT_BYTES {
            let text = format!("a snapshot is at most {MAX_SNAPSHOT_BYTES} bytes");
            return Err(status::with_reason(Code::OutOfRange, "SNAPSHOT_TOO_LARGE", text, [], None));
        }
        bytes.extend_from_slice(&chunk.data);
    }
    Ok(bytes.freeze())
}

fn malformed(text: String) -> Status {
    status::with_reason(Code::InvalidArgument, "MALFORMED_SNAPSHOT", text, [], None)
}
