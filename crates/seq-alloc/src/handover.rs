//! Carries out the handovers from this node. The module sends the calls that the state machine in
//! `seq_core::owner::handover` requests, and reports the outcomes to this state machine.
//!
//! Every handover is a sequence of short calls, and several handovers are in progress at a time. The calls of one
//! handover never wait for the calls of another handover, because the callers of a section wait from its freeze until
//! its commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_core::backoff::Backoff;
use seq_core::owner::handover::{Commit, Handover, HandoverRequest};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::{NodeId, SectionId, SetId};
use seq_kit::repeats::Repeats;
use seq_kit::telemetry::traces::Span;
use seq_proto::refusals::RefusedHandover;
use seq_proto::{Reason, status};
use tokio::time::Instant;
use tonic::Status;

use crate::counters::HandoverOutcome;
use crate::handover_calls::CommitResponse;
use crate::handover_spans::HandoverSpans;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// Number of times that this node notifies a target in another set of a committed departure. The target may wait for
/// the grant, for as long as [`crate::handover_calls`] allows, before it responds to a notification. Together the
/// notifications take a second or two, during which the section arrives at the other set's store. If all of them fail,
/// the target gets the grant by its own renewals.
const ACTIVATIONS_BETWEEN_SETS: u32 = 4;

/// Handovers from this node that are in progress.
pub(crate) struct Handovers {
    shared: Arc<Shared>,
    /// Time of the freeze of each section that is being handed over.
    frozen: BTreeMap<SectionId, Instant>,
    /// Steps that have to be repeated, each with the time at which it is due. There is at most one step for each
    /// handover in progress.
    retries: Vec<(Instant, Step)>,
    /// Limits on log lines about targets that refuse a step or do not respond. Each target has its own limit, because
    /// many handovers to a target usually fail at the same time. The entry of a target is removed when the target
    /// accepts a step.
    failing: BTreeMap<Target, Repeats>,
    /// Limit on log lines about commits to which the store gave no definite response.
    uncommitted: Repeats,
    spans: HandoverSpans,
}

/// Node to which sections are handed over, with its set if that is another set.
type Target = (Option<SetId>, NodeId);

/// Attempt to commit a handover in the store. The attempt is repeated until the store gives a definite response, or
/// until the incarnation that owns the section has ended.
pub(crate) struct CommitAttempt {
    handover: Handover,
    backoff: Backoff,
}

/// Attempt to notify the target that the store has committed the handover.
pub(crate) struct Activation {
    handover: Handover,
    backoff: Backoff,
    /// Number of attempts that remain after this attempt.
    left: u32,
}

/// Step to be sent.
pub(crate) struct HandoverCall {
    shared: Arc<Shared>,
    step: Step,
    span: Span,
}

enum Step {
    Prepare(Handover),
    Stage(Handover),
    Commit(CommitAttempt),
    Activate(Activation),
}

/// Step whose call ended.
pub(crate) enum AnsweredStep {
    Prepare(Handover, Result<(), Status>),
    Stage(Handover, Result<(), Status>),
    Commit(Box<AnsweredCommit>),
    Activate(Activation, Result<(), Status>),
}

pub(crate) struct AnsweredCommit {
    attempt: CommitAttempt,
    response: CommitResponse,
}

impl Step {
    /// Returns the section of the step, and the name of the step in traces.
    fn described(&self) -> (SectionId, &'static str) {
        match self {
            Step::Prepare(handover) => (handover.section, "handover prepare"),
            Step::Stage(handover) => (handover.section, "handover stage"),
            Step::Commit(attempt) => (attempt.handover.section, "handover commit"),
            Step::Activate(activation) => (activation.handover.section, "handover activate"),
        }
    }
}

impl HandoverCall {
    pub(crate) async fn send(self, link: &StoreLink) -> AnsweredStep {
        let HandoverCall { shared, step, mut span } = self;
        match step {
            Step::Prepare(handover) => {
                let outcome = span.scope(shared.prepare(&handover)).await;
                span.fail_if(&outcome);
                AnsweredStep::Prepare(handover, outcome)
            }
            Step::Stage(handover) => {
                let outcome = span.scope(shared.stage(&handover)).await;
                span.fail_if(&outcome);
                AnsweredStep::Stage(handover, outcome)
            }
            Step::Commit(attempt) => {
                let response = span.scope(shared.commit(link, &attempt.handover)).await;
                span.fail_if(&response.response);
                AnsweredStep::Commit(Box::new(AnsweredCommit { attempt, response }))
            }
            Step::Activate(activation) => {
                let outcome = span.scope(shared.activate(&activation.handover)).await;
                span.fail_if(&outcome);
                AnsweredStep::Activate(activation, outcome)
            }
        }
    }
}

impl Handovers {
    /// Creates the state without a handover.
    pub(crate) fn new(shared: Arc<Shared>) -> Handovers {
        let (frozen, failing) = (BTreeMap::new(), BTreeMap::new());
        let (uncommitted, spans) = (Repeats::default(), HandoverSpans::default());
        Handovers { shared, frozen, retries: Vec::new(), failing, uncommitted, spans }
    }

    /// Returns the time at which the next step is repeated.
    pub(crate) fn retry_due(&self) -> Option<Instant> {
        self.retries.iter().map(|(at, _)| *at).min()
    }

    /// Returns the call for the next step to send, if there is one. Steps that have to be repeated and are due come
    /// before the steps that the owner's state machine requested.
    pub(crate) fn next_call(&mut self) -> Option<HandoverCall> {
        let step = match self.next_retry() {
            Some(step) => step,
            None => match self.shared.handovers.queue.pop()? {
                HandoverRequest::Prepare(handover) => {
                    self.spans.begin(&self.shared, &handover);
                    Step::Prepare(handover)
                }
                HandoverRequest::Stage(handover) => {
                    self.frozen.insert(handover.section, Instant::now());
                    Step::Stage(handover)
                }
                HandoverRequest::Commit(handover) => Step::Commit(CommitAttempt { handover, backoff: self.backoff() }),
                HandoverRequest::Activate(handover) => {
                    let left = if handover.departure.is_some() { ACTIVATIONS_BETWEEN_SETS - 1 } else { 0 };
                    Step::Activate(Activation { handover, backoff: self.backoff(), left })
                }
            },
        };
        let (section, name) = step.described();
        Some(HandoverCall { shared: self.shared.clone(), step, span: self.spans.step(section, name) })
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.shared.config.options.retry_min, self.shared.config.options.retry_max)
    }

    /// Returns a step that has to be repeated and is due. Drops commits of an incarnation that has ended.
    fn next_retry(&mut self) -> Option<Step> {
        let now = Instant::now();
        while let Some(due) = self.retries.iter().position(|(at, _)| *at <= now) {
            let (_, step) = self.retries.swap_remove(due);
            let session = self.shared.ownership.machine().session();
            match &step {
                Step::Commit(attempt) if session != Some(attempt.handover.session) => {
                    self.spans.end(attempt.handover.section);
                    self.shared.handovers.queue.done()
                }
                _ => return Some(step),
            }
        }
        None
    }

    fn retry_later(&mut self, wait: Duration, step: Step) {
        self.retries.push((Instant::now() + wait, step));
    }

    /// Reports the outcome of a step to the owner's state machine.
    pub(crate) fn on_step_done(&mut self, answered: AnsweredStep) {
        let shared = self.shared.clone();
        match answered {
            AnsweredStep::Prepare(handover, outcome) => {
                let accepted = self.accepted("prepare", &handover, outcome);
                shared.step(|owner, effects| owner.on_prepared(&handover, accepted, effects));
                if !accepted {
                    self.spans.end(handover.section);
                    shared.counters.handover(HandoverOutcome::Refused);
                }
            }
            AnsweredStep::Stage(handover, outcome) => {
                let accepted = self.accepted("stage", &handover, outcome);
                shared.step(|owner, effects| owner.on_staged(&handover, accepted, effects));
                if !accepted {
                    self.spans.end(handover.section);
                    shared.counters.handover(HandoverOutcome::Thawed);
                }
            }
            AnsweredStep::Commit(answered) => {
                let AnsweredCommit { mut attempt, response } = *answered;
                if !self.on_commit_response(&attempt.handover, response) {
                    let wait = attempt.backoff.wait(fastrand::u32(..));
                    return self.retry_later(wait, Step::Commit(attempt));
                }
            }
            AnsweredStep::Activate(mut activation, outcome) => {
                // Even if the target does not accept this call, the store sends it the grant in response to its next
                // renewal.
                let accepted = self.accepted("activate", &activation.handover, outcome);
                if !accepted && activation.left > 0 {
                    activation.left -= 1;
                    let wait = activation.backoff.wait(fastrand::u32(..));
                    return self.retry_later(wait, Step::Activate(activation));
                }
                let handover = activation.handover;
                self.spans.end(handover.section);
                shared.counters.handover(HandoverOutcome::Made);
                if let Some(since) = self.frozen.remove(&handover.section) {
                    let paused = since.elapsed();
                    shared.counters.handover_paused(paused);
                    // The store of the source set records the pauses of migrations.
                    if handover.departure.is_none() {
                        shared.counters.faults.handed_over(paused);
                    }
                }
                // In its response to the renewal, the store may request further handovers.
                shared.registration.request_renewal();
            }
        }
        self.shared.handovers.queue.done();
    }

    /// Adopts the store's response to an attempt to commit. Returns whether the response shows if the handover is
    /// committed. If it does not, the attempt has to be repeated.
    fn on_commit_response(&mut self, handover: &Handover, response: CommitResponse) -> bool {
        let shared = self.shared.clone();
        let CommitResponse { sent, response } = response;
        let outcome = match response {
            Ok(update) => match shared.read_update(update.as_ref(), handover.session.node) {
                Ok(update) => Commit::Made(update),
                // The handover may be committed. In that case the store reports this again in response to the next
                // attempt.
                _ => return false,
            },
            Err(error) => {
                self.spans.fail(handover.section, &error);
                let meaning = match &error {
                    StoreError::Refused { reason, current, .. } => {
                        RefusedHandover { handover, reason, current: *current }.meaning()
                    }
                    StoreError::SessionOver { .. } | StoreError::Behind(_) => RefusedCommit::SessionOver,
                    StoreError::TooFast { .. } | StoreError::NoLeader { .. } => RefusedCommit::Undecided,
                };
                if let RefusedCommit::TargetGone { current } = meaning
                    && shared.halt.judge_target(handover.incarnation, current, error.to_string())
                {
                    self.spans.end(handover.section);
                    shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
                    return true;
                }
                match meaning.commit() {
                    None => {
                        self.spans.end(handover.section);
                        shared.judge(handover.session, &error);
                        shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
                        return true;
                    }
                    Some(Commit::Unknown) => {
                        if let Some(repeated) = self.uncommitted.admit() {
                            let (section, trace) = (handover.section.0, self.spans.trace(handover.section));
                            tracing::warn!(%error, section, repeated, trace, "a handover is not committed yet");
                        }
                        return false;
                    }
                    Some(commit) => {
                        if commit == Commit::Inconclusive {
                            let (section, trace) = (handover.section.0, self.spans.trace(handover.section));
                            tracing::warn!(%error, section, trace, "a departure is refused: the section is given up");
                        }
                        commit
                    }
                }
            }
        };
        self.uncommitted.end();
        if matches!(outcome, Commit::Made(_)) {
            self.spans.commit(handover.section);
        } else {
            self.spans.end(handover.section);
            shared.counters.handover(HandoverOutcome::Thawed);
        }
        let adopted = shared.step(|owner, effects| owner.on_committed(handover, sent, outcome, effects));
        if let Err(error) = adopted {
            tracing::error!(%error, "cannot use the store's ownership update");
        }
        true
    }

    /// Returns whether the target accepted the step named `step`. A missing response counts as not accepted.
    fn accepted(&mut self, step: &'static str, handover: &Handover, outcome: Result<(), Status>) -> bool {
        let target = (handover.departure.as_ref().map(|departure| departure.set), handover.to);
        let Err(status) = &outcome else {
            self.failing.remove(&target);
            return true;
        };
        self.spans.fail(handover.section, format_args!("{step}: {}", status.message()));
        if status::known_reason(status) == Some(Reason::UnknownSection) {
            // The target gets to know the section by its next renewal, and the store then plans the handover again.
            tracing::debug!(
                step,
                section = handover.section.0,
                "a handover is repeated once its target knows the section"
            );
            return false;
        }
        if let Some(repeated) = self.failing.entry(target).or_default().admit() {
            let (section, to, status) = (handover.section.0, handover.to.0, status.message());
            let trace = self.spans.trace(handover.section);
            tracing::warn!(step, section, to, status, repeated, trace, "a step of a handover failed");
        }
        false
    }
}
