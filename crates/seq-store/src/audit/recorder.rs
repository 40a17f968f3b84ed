//! Recorder of operators' operations in the audit log. The begin of an operation is committed before the operation is
//! carried out, and its end is committed afterwards.
//!
//! A task of the member records the end, so that the end is recorded even if the caller disconnects. The current leader
//! commits the end. After a transfer of leadership, the leader may not be the member that carried out the operation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use seq_core::state::{BeginOperation, EndOperation, Replicated, audit_text};
use seq_kit::wall_clock;
use seq_proto::v1::forward_service_client::ForwardServiceClient;
use seq_proto::v1::{EndOperationRequest, EndedOperation, ForwardRequest};
use seq_proto::{Reason, status};
use seq_raft::RaftHandle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use crate::leader_link::LeaderHop;
use crate::replicated_set::{ReplicatedSet, SetState};
use crate::sender::principal;

/// Maximum number of ends of operations that wait to be recorded. A member does not carry out more operations than this
/// at the same time.
const MAX_ENDS: usize = 1_024;

/// Time for which an attempt to record the end of an operation is repeated. It is longer than an election.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two attempts to record the end of an operation.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Method that a member calls at the leader to record the end of an operation if it no longer leads itself.
const END_METHOD: &str = "/seqsvr.v1.AuditService/EndOperation";

/// Description of an operation that is to be recorded.
pub(crate) struct Operation {
    /// Text of the operation, similar to the command line with which an operator requests it.
    pub(crate) text: String,
    /// Fingerprint of the operation's plan; 0 if it has no plan.
    pub(crate) plan: u64,
}

impl Operation {
    /// Creates the description of an operation without a plan.
    pub(crate) fn new(text: String) -> Operation {
        Operation { text, plan: 0 }
    }
}

/// Recorder of the operations that this member carries out.
pub(crate) struct Recorder {
    replicated: ReplicatedSet,
    node: Arc<str>,
    ends: mpsc::Sender<End>,
}

/// End of an operation that is to be recorded.
struct End {
    operation: u64,
    refusal: Option<String>,
    recorded: oneshot::Sender<()>,
}

/// Task that records the ends of operations.
pub(crate) struct Ends {
    replicated: ReplicatedSet,
    leader: LeaderHop,
    ends: mpsc::Receiver<End>,
}

/// Creates a recorder, and the task that records the ends for it.
pub(crate) fn ends(replicated: &ReplicatedSet, leader: LeaderHop, node: &str) -> (Recorder, Ends) {
    let (sender, receiver) = mpsc::channel(MAX_ENDS);
    let recorder = Recorder { replicated: replicated.clone(), node: node.into(), ends: sender };
    (recorder, Ends { replicated: replicated.clone(), leader, ends: receiver })
}

/// Carries out an operation that the store itself begins. Records the begin before the operation is carried out, and
/// its end afterwards. Records nothing if this member does not lead, or if the group's format has no audit log.
///
/// # Errors
/// The error of `carry_out`.
pub(crate) async fn recorded<R>(
    replicated: &ReplicatedSet,
    node: &str,
    text: &str,
    carry_out: impl Future<Output = Result<R, String>>,
) -> Result<R, String> {
    let begin = BeginOperation {
        at_unix_ms: wall_clock::now_ms(),
        principal: node.to_owned(),
        node: node.to_owned(),
        operation: audit_text(text).to_owned(),
        plan: 0,
    };
    let begun = if is_recorded(replicated.raft()) { replicated.propose(begin).await } else { return carry_out.await };
    let outcome = carry_out.await;
    if let Ok(Ok(operation)) = begun {
        let refusal = outcome.as_ref().err().map(|refusal| audit_text(refusal).to_owned());
        let end = EndOperation { at_unix_ms: wall_clock::now_ms(), operation, refusal };
        drop(replicated.propose(end).await);
    }
    outcome
}

impl Recorder {
    /// Carries out an operation that an operator requests. Records the begin before the operation is carried out, and
    /// its end afterwards. Records nothing if this member does not lead, or if the group's format has no audit log.
    ///
    /// # Errors
    /// The error of `carry_out`, or the error of recording the begin. In the second case the operation is not carried
    /// out.
    pub(crate) async fn record<Q, R, F>(
        &self,
        request: Request<Q>,
        operation: Operation,
        carry_out: impl FnOnce(Request<Q>) -> F,
    ) -> Result<R, Status>
    where
        F: Future<Output = Result<R, Status>>,
    {
        let principal = principal(&request)?;
        let raft = self.replicated.raft();
        if !raft.is_leader() || !is_recorded(raft) {
            return carry_out(request).await;
        }
        raft.check_quorum()?;
        tracing::info!(principal, operation = operation.text, "an operation begins");
        let begin = BeginOperation {
            at_unix_ms: wall_clock::now_ms(),
            principal: audit_text(&principal).to_owned(),
            node: audit_text(&self.node).to_owned(),
            operation: audit_text(&operation.text).to_owned(),
            plan: operation.plan,
        };
        let number = self.replicated.propose(begin).await?.expect("its texts were cut to fit");
        let mut open = Open { number, ends: &self.ends, refusal: Some("the caller disconnected".to_owned()) };
        let outcome = carry_out(request).await;
        open.refusal = outcome.as_ref().err().map(refusal);
        let recorded = open.end();
        // The response is sent after the end is recorded, so that a later list of events includes it.
        let _ = tokio::time::timeout(END_TIMEOUT, recorded).await;
        outcome
    }
}

/// Returns the reason and the text of an error, as they are recorded.
fn refusal(status: &Status) -> String {
    let reason = status::reason(status).unwrap_or_else(|| format!("{:?}", status.code()));
    format!("{reason}: {}", status.message())
}

/// Guard of an operation that has begun. If it is dropped because the caller disconnected, it also records the
/// operation's end. The operation may then have been carried out.
struct Open<'a> {
    number: u64,
    ends: &'a mpsc::Sender<End>,
    refusal: Option<String>,
}

impl Open<'_> {
    fn end(mut self) -> oneshot::Receiver<()> {
        self.send()
    }

    fn send(&mut self) -> oneshot::Receiver<()> {
        let (recorded, wait) = oneshot::channel();
        let refusal = self.refusal.take().map(|text| audit_text(&text).to_owned());
        let operation = std::mem::take(&mut self.number);
        if operation > 0 && self.ends.try_send(End { operation, refusal, recorded }).is_err() {
            tracing::warn!(operation, "the end of an operation is not recorded: too many are, or the member stops");
        }
        wait
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        drop(self.send());
    }
}

impl Ends {
    /// Records the ends one after the other, until the recorder is dropped.
    pub(crate) async fn run(mut self) {
        while let Some(end) = self.ends.recv().await {
            let (since, operation) = (Instant::now(), end.operation);
            while let Err(error) = self.record(&end).await {
                if since.elapsed() > END_TIMEOUT {
                    tracing::warn!(operation, error = error.message(), "the end of an operation is not recorded");
                    break;
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            let _ = end.recorded.send(());
        }
    }

    async fn record(&self, end: &End) -> Result<(), Status> {
        let at_unix_ms = wall_clock::now_ms();
        let Some(hop) = self.leader.hop(&MetadataMap::new())? else {
            let end = EndOperation { at_unix_ms, operation: end.operation, refusal: end.refusal.clone() };
            return self
                .replicated
                .propose(end)
                .await?
                .map_err(|refusal| Reason::Malformed.status(refusal.to_string()));
        };
        let ended = EndedOperation { at_unix_ms, operation: end.operation, refusal: end.refusal.clone() };
        let message = Bytes::from(EndOperationRequest { ended: Some(ended) }.encode_to_vec());
        let request = Request::new(ForwardRequest { method: END_METHOD.to_owned(), message });
        let forwarded = hop.forward(request, |channel, request| async move {
            ForwardServiceClient::new(channel).forward(request).await
        });
        let mut messages = forwarded.await?.into_inner();
        while messages.message().await?.is_some() {}
        Ok(())
    }
}

/// Returns whether the group's format has an audit log, so that operations are recorded.
pub(super) fn is_recorded(raft: &RaftHandle<SetState>) -> bool {
    raft.state().format() >= BeginOperation::SINCE
}
