//! The source's side of handovers: the calls that `seq_core::owner::handover` requests, and the outcome it is given.
//!
//! Every handover is a row of short calls, one after the other, and several handovers are under way at a time. From the
//! freeze to the commit callers of the section wait, so no call waits for one of another handover.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use seq_core::backoff::Backoff;
use seq_core::owner::handover::{Commit, Handover, HandoverRequest};
use seq_core::{Incarnation, SectionId};
use seq_proto::Reason;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Status;

use crate::counters::HandoverOutcome;
use crate::handover_calls::CommitResponse;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// Requests to be sent. Bounded by the handovers that are under way, each of which waits for one response.
#[derive(Debug, Default)]
pub(crate) struct HandoverQueue {
    pending: Mutex<VecDeque<HandoverRequest>>,
    arrived: Notify,
    /// Requests that were pushed and have no outcome yet.
    open: AtomicUsize,
}

impl HandoverQueue {
    pub(crate) fn push(&self, request: HandoverRequest) {
        self.open.fetch_add(1, SeqCst);
        self.pending.lock().push_back(request);
        self.arrived.notify_one();
    }

    /// Whether every request has its outcome.
    pub(crate) fn are_done(&self) -> bool {
        self.open.load(SeqCst) == 0
    }

    /// Completes after a request was pushed since the last call completed. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn pop(&self) -> Option<HandoverRequest> {
        self.pending.lock().pop_front()
    }

    /// A request has its outcome, and what follows from it was pushed.
    fn done(&self) {
        self.open.fetch_sub(1, SeqCst);
    }
}

/// The handovers from this node that are under way.
pub(crate) struct Handovers {
    shared: Arc<Shared>,
    /// When each section that is handed over was frozen.
    frozen: BTreeMap<SectionId, Instant>,
    /// Commits without a definite response, and when each is repeated. At most one of each handover under way.
    retries: Vec<(Instant, CommitAttempt)>,
}

/// An attempt to have the store commit a handover. Repeated until there is a definite response or the incarnation that
/// owns the section is over.
struct CommitAttempt {
    handover: Handover,
    backoff: Backoff,
}

/// A step to be sent.
pub(crate) struct HandoverCall {
    shared: Arc<Shared>,
    step: Step,
}

enum Step {
    Prepare(Handover),
    Stage(Handover),
    Commit(CommitAttempt),
    Activate(Handover),
}

/// A step whose call ended.
pub(crate) enum AnsweredStep {
    Prepare(Handover, Result<(), Status>),
    Stage(Handover, Result<(), Status>),
    Commit(Box<AnsweredCommit>),
    Activate(Handover, Result<(), Status>),
}

pub(crate) struct AnsweredCommit {
    attempt: CommitAttempt,
    response: CommitResponse,
}

impl HandoverCall {
    pub(crate) async fn send(self, link: &StoreLink) -> AnsweredStep {
        let HandoverCall { shared, step } = self;
        match step {
            Step::Prepare(handover) => {
                let outcome = shared.prepare(&handover).await;
                AnsweredStep::Prepare(handover, outcome)
            }
            Step::Stage(handover) => {
                let outcome = shared.stage(&handover).await;
                AnsweredStep::Stage(handover, outcome)
            }
            Step::Commit(attempt) => {
                let response = shared.commit(link, &attempt.handover).await;
                AnsweredStep::Commit(Box::new(AnsweredCommit { attempt, response }))
            }
            Step::Activate(handover) => {
                let outcome = shared.activate(&handover).await;
                AnsweredStep::Activate(handover, outcome)
            }
        }
    }
}

impl Handovers {
    /// None under way.
    pub(crate) fn new(shared: Arc<Shared>) -> Handovers {
        Handovers { shared, frozen: BTreeMap::new(), retries: Vec::new() }
    }

    /// When the next commit is repeated.
    pub(crate) fn retry_due(&self) -> Option<Instant> {
        self.retries.iter().map(|(at, _)| *at).min()
    }

    /// The next step to send: a commit to repeat, or one that the owner's machine requested.
    pub(crate) fn next_call(&mut self) -> Option<HandoverCall> {
        let step = match self.next_retry() {
            Some(attempt) => Step::Commit(attempt),
            None => match self.shared.handovers.pop()? {
                HandoverRequest::Prepare(handover) => Step::Prepare(handover),
                HandoverRequest::Stage(handover) => {
                    self.frozen.insert(handover.section, Instant::now());
                    Step::Stage(handover)
                }
                HandoverRequest::Commit(handover) => {
                    let backoff = Backoff::new(self.shared.options.retry_min, self.shared.options.retry_max);
                    Step::Commit(CommitAttempt { handover, backoff })
                }
                HandoverRequest::Activate(handover) => Step::Activate(handover),
            },
        };
        Some(HandoverCall { shared: self.shared.clone(), step })
    }

    /// A commit whose wait is over. Those of incarnations that are over are dropped.
    fn next_retry(&mut self) -> Option<CommitAttempt> {
        let now = Instant::now();
        while let Some(due) = self.retries.iter().position(|(at, _)| *at <= now) {
            let (_, attempt) = self.retries.swap_remove(due);
            if self.shared.ownership.machine().session() == Some(attempt.handover.session) {
                return Some(attempt);
            }
            self.shared.handovers.done();
        }
        None
    }

    /// Gives the owner's machine the outcome of a step.
    pub(crate) fn on_step_done(&mut self, answered: AnsweredStep) {
        let shared = &self.shared;
        match answered {
            AnsweredStep::Prepare(handover, outcome) => {
                let accepted = accepted("prepare", &handover, outcome);
                shared.step(|owner, effects| owner.on_prepared(&handover, accepted, effects));
                if !accepted {
                    shared.counters.handover(HandoverOutcome::Refused);
                }
            }
            AnsweredStep::Stage(handover, outcome) => {
                let accepted = accepted("stage", &handover, outcome);
                shared.step(|owner, effects| owner.on_staged(&handover, accepted, effects));
                if !accepted {
                    shared.counters.handover(HandoverOutcome::Thawed);
                }
            }
            AnsweredStep::Commit(answered) => {
                let AnsweredCommit { mut attempt, response } = *answered;
                if !self.on_commit_response(&attempt.handover, response) {
                    let at = Instant::now() + attempt.backoff.wait(fastrand::u32(..));
                    self.retries.push((at, attempt));
                    return;
                }
            }
            AnsweredStep::Activate(handover, outcome) => {
                // Without it the target is granted the section with its next renewal.
                accepted("activate", &handover, outcome);
                shared.counters.handover(HandoverOutcome::Made);
                if let Some(since) = self.frozen.remove(&handover.section) {
                    shared.counters.handover_paused(since.elapsed());
                }
                // There may be more to hand over.
                shared.renew_now.notify_one();
            }
        }
        self.shared.handovers.done();
    }

    /// Adopts the store's response to a commit. Returns whether the commit is decided; `false`: it is repeated.
    fn on_commit_response(&self, handover: &Handover, response: CommitResponse) -> bool {
        let shared = &self.shared;
        let CommitResponse { sent, response } = response;
        let outcome = match response {
            Ok(response) => match shared.read_update(response.update.as_ref(), handover.session.node) {
                Ok(update) => Commit::Made(update),
                // It may be committed; the next response reports it again.
                _ => return false,
            },
            Err(StoreError::Refused { reason, message, current, .. }) if reason == Reason::TargetGone => {
                if shared.halt.judge_target(handover.incarnation, Incarnation(current), message) {
                    shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
                    return true;
                }
                Commit::Refused
            }
            Err(StoreError::Refused { reason, .. }) if reason == Reason::OtherOwnership => Commit::Lost,
            Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
                shared.judge(handover.session, &error);
                shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
                return true;
            }
            Err(error) => {
                tracing::warn!(%error, section = handover.section.0, "a handover is not committed yet");
                return false;
            }
        };
        if !matches!(outcome, Commit::Made(_)) {
            shared.counters.handover(HandoverOutcome::Thawed);
        }
        let adopted = shared.step(|owner, effects| owner.on_committed(handover, sent, outcome, effects));
        if let Err(error) = adopted {
            tracing::error!(%error, "cannot use the store's ownership update");
        }
        true
    }
}

/// A target that does not respond has not accepted.
fn accepted(step: &'static str, handover: &Handover, outcome: Result<(), Status>) -> bool {
    if let Err(status) = &outcome {
        let (section, to) = (handover.section.0, handover.to.0);
        tracing::warn!(step, section, to, status = status.message(), "a step of a handover failed");
    }
    outcome.is_ok()
}
