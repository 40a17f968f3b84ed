//! Steps of handovers that travel in one call, and the call.

use std::fmt;
use std::sync::Arc;

use seq_core::SectionId;
use seq_core::backoff::Backoff;
use seq_core::owner::handover::Handover;
use seq_kit::telemetry::traces::Span;
use tonic::Status;

use crate::handover_calls::CommitResponse;
use crate::shared::Shared;
use crate::store_link::StoreLink;

/// Attempt to commit a handover in the store. The attempt is repeated until the store gives a definite response, or
/// until the incarnation that owns the section has ended.
pub(crate) struct CommitAttempt {
    pub(super) handover: Handover,
    pub(super) backoff: Backoff,
}

/// Attempt to notify the target that the store has committed the handover.
pub(crate) struct Activation {
    pub(super) handover: Handover,
    pub(super) backoff: Backoff,
    /// Number of attempts that remain after this attempt.
    pub(super) left: u32,
}

/// Steps to be sent in one call.
pub(crate) struct HandoverCall {
    pub(super) shared: Arc<Shared>,
    pub(super) steps: Steps,
    /// The trace span of each step.
    pub(super) spans: Vec<Span>,
}

/// Steps of one kind of one or more handovers. More than one handover have the same target, which is in this set.
pub(super) enum Steps {
    Prepare(Vec<Handover>),
    Stage(Vec<Handover>),
    Commit(Vec<CommitAttempt>),
    Activate(Vec<Activation>),
}

/// Steps whose call ended.
pub(crate) enum AnsweredSteps {
    Prepare(Vec<(Handover, Result<(), Status>)>),
    Stage(Vec<(Handover, Result<(), Status>)>),
    Commit(Vec<(CommitAttempt, CommitResponse)>),
    Activate(Vec<(Activation, Result<(), Status>)>),
}

impl Steps {
    /// Returns the name of a step in traces.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Steps::Prepare(_) => "handover prepare",
            Steps::Stage(_) => "handover stage",
            Steps::Commit(_) => "handover commit",
            Steps::Activate(_) => "handover activate",
        }
    }

    pub(super) fn sections(&self) -> Vec<SectionId> {
        match self {
            Steps::Prepare(handovers) | Steps::Stage(handovers) => handovers.iter().map(|one| one.section).collect(),
            Steps::Commit(attempts) => attempts.iter().map(|one| one.handover.section).collect(),
            Steps::Activate(activations) => activations.iter().map(|one| one.handover.section).collect(),
        }
    }

    async fn send(self, shared: &Shared, link: &StoreLink) -> AnsweredSteps {
        match self {
            Steps::Prepare(handovers) => {
                let outcomes = shared.prepare_all(&handovers).await;
                AnsweredSteps::Prepare(handovers.into_iter().zip(outcomes).collect())
            }
            Steps::Stage(handovers) => {
                let outcomes = shared.stage_all(&handovers).await;
                AnsweredSteps::Stage(handovers.into_iter().zip(outcomes).collect())
            }
            Steps::Commit(attempts) => {
                let handovers: Vec<&Handover> = attempts.iter().map(|attempt| &attempt.handover).collect();
                let responses = shared.commit_all(link, &handovers).await;
                AnsweredSteps::Commit(attempts.into_iter().zip(responses).collect())
            }
            Steps::Activate(activations) => {
                let handovers: Vec<Handover> = activations.iter().map(|one| one.handover.clone()).collect();
                let outcomes = shared.activate_all(&handovers).await;
                AnsweredSteps::Activate(activations.into_iter().zip(outcomes).collect())
            }
        }
    }
}

impl HandoverCall {
    pub(crate) async fn send(self, link: &StoreLink) -> AnsweredSteps {
        let HandoverCall { shared, steps, mut spans } = self;
        let first = spans.pop().unwrap_or_else(Span::none);
        let answered = first.scope(steps.send(&shared, link)).await;
        spans.push(first);
        let failures: Vec<Option<String>> = match &answered {
            AnsweredSteps::Prepare(steps) | AnsweredSteps::Stage(steps) => {
                steps.iter().map(|(_, outcome)| failure(outcome)).collect()
            }
            AnsweredSteps::Commit(steps) => steps.iter().map(|(_, commit)| failure(&commit.response)).collect(),
            AnsweredSteps::Activate(steps) => steps.iter().map(|(_, outcome)| failure(outcome)).collect(),
        };
        for (span, failure) in spans.iter_mut().zip(failures) {
            failure.into_iter().for_each(|failure| span.fail(failure));
        }
        answered
    }
}

fn failure<T, E: fmt::Display>(outcome: &Result<T, E>) -> Option<String> {
    outcome.as_ref().err().map(ToString::to_string)
}
