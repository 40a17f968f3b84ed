//! Entries on their way to a follower: one long call, many messages under way.
//!
//! The leader sends a batch as soon as it is in its own log; it does not wait until the follower has synced the batch before.
//! So the follower's disk is never idle for a round trip, and what gathers during one sync shares the next. Answers
//! come in the order of the messages, each after its entries are durable.
//!
//! **Invariant:** each message is judged like a call of its own, and a call on which an answer is owed and none comes ends
//! within twice the time that one batch may take.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, future, stream};
use openraft::errors::RPCError;
use openraft::network::RPCTypes;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use parking_lot::Mutex;
use seq_proto::v1::RaftMessage;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::network::{self, Peer};
use crate::raft_service::RaftServer;
use crate::types::TypeConfig;

type Outcome = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

impl Peer {
    /// Begins a call that carries `batches`, and gives the answers. The first one that is an error is the last one.
    ///
    /// The call begins with the first batch: that is what the library holds back from a follower that cannot be reached, and
    /// without it such a follower would be dialled without a pause.
    pub(crate) async fn append_all(
        &self,
        batches: impl Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
        patience: Duration,
    ) -> Result<impl Stream<Item = Outcome> + Send + '_, RPCError<TypeConfig>> {
        // Fused, because none may come: then the call carries nothing.
        let mut batches = batches.fuse();
        let first = batches.next().await;
        let batches = stream::iter(first).chain(batches);
        let sent = Arc::new(AtomicU64::new(0));
        let (counted, sender) = (sent.clone(), self.sender());
        let messages = batches.map(move |batch| {
            counted.fetch_add(1, Ordering::Relaxed);
            sender.message(network::encode(&batch))
        });
        let late = || self.timed_out(RPCTypes::AppendEntries, patience);
        let mut client = self.client()?;
        let begun = tokio::time::timeout(patience, client.append_stream(messages)).await.map_err(|_| late())?;
        let answers = begun.map_err(|status| self.refused(&status))?.into_inner();
        Ok(stream::unfold(Some((answers, 0)), move |state| {
            let sent = sent.clone();
            async move {
                let (mut answers, answered) = state?;
                let outcome = loop {
                    let owed = sent.load(Ordering::Relaxed) > answered;
                    match tokio::time::timeout(patience, answers.message()).await {
                        // Nothing was asked for as long: there was nothing to append.
                        Err(_) if !owed => {}
                        Err(_) => break Err(self.timed_out(RPCTypes::AppendEntries, patience).into()),
                        Ok(Ok(Some(answer))) => break self.read(answer),
                        Ok(Ok(None)) => return None,
                        Ok(Err(status)) => break Err(self.refused(&status)),
                    }
                };
                let next = outcome.is_ok().then_some((answers, answered + 1));
                Some((outcome, next))
            }
        }))
    }
}

/// What the two directions of a call tell each other.
#[derive(Default)]
struct Call {
    /// Who sends, as its last message says.
    from: u64,
    /// Why a message was refused; said after the answers to those before it.
    refusal: Option<Status>,
}

impl RaftServer {
    /// Appends what `messages` bring. Ends with them, with the first refusal, or with the member.
    pub(crate) fn append_each(
        &self,
        messages: Streaming<RaftMessage>,
    ) -> Result<impl Stream<Item = Result<RaftMessage, Status>> + Send + 'static + use<>, Status> {
        let call = Arc::new(Mutex::new(Call::default()));
        let raft = self.gate.get()?.raft.clone();
        let batches =
            stream::unfold((messages, self.clone(), call.clone()), |(mut messages, server, call)| async move {
                // When the sender is gone, there is nobody to tell.
                let message = messages.message().await.ok()??;
                match server.admit(&message) {
                    Ok((_, batch)) => {
                        call.lock().from = message.from;
                        Some((batch, (messages, server, call)))
                    }
                    Err(refusal) => {
                        call.lock().refusal = Some(refusal);
                        None
                    }
                }
            });
        // A member that stops does not wait for a leader that has nothing to say.
        let batches = batches.take_until(self.stopping.clone().cancelled_owned());
        let (tell, mut told) = mpsc::channel(1);
        let server = self.clone();
        // The library's stream borrows its handle: one future has both, and whoever reads the answers drives it.
        let append = async move {
            let mut answers = pin!(raft.stream_append(batches));
            while let Some(answer) = answers.next().await {
                let to = call.lock().from;
                if tell.send(server.say(to, answer)).await.is_err() {
                    return;
                }
            }
            let refusal = call.lock().refusal.take();
            if let Some(refusal) = refusal {
                // Whoever is refused may be gone.
                let _ = tell.send(Err(refusal)).await;
            }
        };
        let answers = stream::poll_fn(move |cx| told.poll_recv(cx)).map(Some);
        let appending = stream::once(append).map(|()| None);
        Ok(stream::select(answers, appending).filter_map(future::ready))
    }
}
