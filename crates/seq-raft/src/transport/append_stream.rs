//! Pipelined replication. The leader makes one long-lasting call to each follower, in which many messages are in flight
//! at the same time.
//!
//! The leader sends a batch of entries as soon as the batch is in its own log, without waiting until the follower has
//! synced the previous batch. So the follower's disk is not idle during a round trip, and the batches that arrive
//! during one sync share the next sync. Responses arrive in the order of the messages, each after the entries of its
//! message are durable on the follower.
//!
//! **Invariant:** each message is checked as if it were a call of its own. If a response is outstanding and does not
//! arrive, the call ends within twice the timeout of one batch.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, future, stream};
use openraft::errors::RPCError;
use openraft::network::RPCTypes;
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult};
use parking_lot::Mutex;
use seq_proto::v1::RaftMessage;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::client::{self, Peer};
use super::server::{RaftServer, Sender};
use crate::types::{TypeConfig, Vote};

type Outcome = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

impl Peer {
    /// Records the member's acknowledgement in `response`. `vote` is the vote under which this member leads. Returns an
    /// error if the member lacks entries that it had acknowledged.
    fn record(&self, vote: Option<Vote>, response: StreamAppendResult<TypeConfig>) -> Outcome {
        match (&response, vote) {
            (Ok(last), Some(vote)) => self.on_append(vote, *last),
            (Err(StreamAppendError::Conflict(at)), Some(vote)) => self.check_conflict(vote, Some(*at))?,
            _ => {}
        }
        Ok(response)
    }

    /// Begins a call that sends `batches` to the member, and returns the stream of its responses. The stream ends after
    /// an error.
    ///
    /// The connection is first used when the first batch is available. If the follower is unreachable, the Raft library
    /// pauses before it sends the next batch, so this member also pauses before it connects again.
    pub(crate) async fn append_all(
        &self,
        batches: impl Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
        timeout: Duration,
    ) -> Result<impl Stream<Item = Outcome> + Send + '_, RPCError<TypeConfig>> {
        // The stream is fused, because it may contain no batch at all. The call is then empty.
        let mut batches = batches.fuse();
        let first = batches.next().await;
        let vote = first.as_ref().map(|batch| batch.vote);
        let batches = stream::iter(first).chain(batches);
        let sent = Arc::new(AtomicU64::new(0));
        let (counted, sender) = (sent.clone(), self.sender());
        let messages = batches.map(move |batch| {
            counted.fetch_add(1, Ordering::Relaxed);
            sender.message(client::encode(&batch))
        });
        let late = || self.timed_out(RPCTypes::AppendEntries, timeout);
        let mut client = self.client()?;
        let begun = tokio::time::timeout(timeout, client.append_stream(messages)).await.map_err(|_| late())?;
        let responses = begun.map_err(|status| self.refused(&status))?.into_inner();
        Ok(stream::unfold(Some((responses, 0)), move |state| {
            let sent = sent.clone();
            async move {
                let (mut responses, received) = state?;
                let outcome = loop {
                    let outstanding = sent.load(Ordering::Relaxed) > received;
                    match tokio::time::timeout(timeout, responses.message()).await {
                        // No message was sent within the timeout, because there was nothing to append.
                        Err(_) if !outstanding => {}
                        Err(_) => break Err(self.timed_out(RPCTypes::AppendEntries, timeout).into()),
                        Ok(Ok(Some(response))) => {
                            break self.read(response).and_then(|response| self.record(vote, response));
                        }
                        Ok(Ok(None)) => return None,
                        Ok(Err(status)) => break Err(self.refused(&status)),
                    }
                };
                let next = outcome.is_ok().then_some((responses, received + 1));
                Some((outcome, next))
            }
        }))
    }
}

/// State that the receiving and the responding side of a call share.
#[derive(Default)]
struct Call {
    /// The sender that the last message names.
    from: Option<Sender>,
    /// Error with which a message was refused. It is sent after the responses to all earlier messages.
    refusal: Option<Status>,
}

impl RaftServer {
    /// Appends the entries in `messages` to this member's log, and returns the responses. `holder` is the name in the
    /// sender's certificate. The responses end after the last message, after the first refused message, or when this
    /// member stops.
    pub(crate) fn append_each(
        &self,
        messages: Streaming<RaftMessage>,
        holder: Option<String>,
    ) -> Result<impl Stream<Item = Result<RaftMessage, Status>> + Send + 'static + use<>, Status> {
        let call = Arc::new(Mutex::new(Call::default()));
        let raft = self.gate.get()?.raft.clone();
        let batches = stream::unfold((messages, self.clone(), call.clone()), move |(mut messages, server, call)| {
            let holder = holder.clone();
            async move {
                // If the connection to the sender has failed, no process can receive a response.
                let message = messages.message().await.ok()??;
                let admitted =
                    server.admit(&message, holder.as_deref()).and_then(|(_, batch)| Ok((Sender::of(&message)?, batch)));
                match admitted {
                    Ok((sender, batch)) => {
                        call.lock().from = Some(sender);
                        Some((batch, (messages, server, call)))
                    }
                    Err(refusal) => {
                        call.lock().refusal = Some(refusal);
                        None
                    }
                }
            }
        });
        // A stopping member ends the call, and does not wait for a leader that has nothing to send.
        let batches = batches.take_until(self.stopping.clone().cancelled_owned());
        let (sender, mut queue) = mpsc::channel(1);
        let server = self.clone();
        // The Raft library's stream borrows the handle `raft`, so one future owns both. It runs while the responses are
        // read.
        let append = async move {
            let mut responses = pin!(raft.stream_append(batches));
            while let Some(response) = responses.next().await {
                let to = call.lock().from.expect("a response follows a message");
                if sender.send(server.encode(&to, response)).await.is_err() {
                    return;
                }
            }
            let refusal = call.lock().refusal.take();
            if let Some(refusal) = refusal {
                // The caller may no longer wait for the refusal.
                let _ = sender.send(Err(refusal)).await;
            }
        };
        let responses = stream::poll_fn(move |cx| queue.poll_recv(cx)).map(Some);
        let appending = stream::once(append).map(|()| None);
        Ok(stream::select(responses, appending).filter_map(future::ready))
    }
}
