//! Carries out the handovers from this node. The module sends the calls that the state machine in
//! `seq_core::owner::handover` requests, and reports the outcomes to this state machine.
//!
//! Every handover is a sequence of short calls, and many handovers are in progress at a time. Steps of one kind that
//! are requested at the same time travel in one call. Apart from this, the calls of one handover never wait for the
//! calls of another handover, because the callers of a section wait from its freeze until its commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_core::backoff::Backoff;
use seq_core::lease::Clocks;
use seq_core::owner::handover::{Commit, Handover, HandoverRequest, MAX_OUTGOING, SMALL_SLOTS};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::{NodeId, SectionId, SetId};
use seq_kit::repeats::Repeats;
use seq_proto::refusals::RefusedHandover;
use seq_proto::{Reason, status};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::counters::HandoverOutcome;
use crate::handover_calls::{CommitResponse, Committed, MAX_SLOTS_TOGETHER};
use crate::handover_spans::HandoverSpans;
use crate::shared::Shared;
use crate::store_link::StoreError;

mod steps;

pub(crate) use steps::AnsweredSteps;
use steps::{Activation, CommitAttempt, HandoverCall, Steps};

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
    retries: Vec<(Instant, Steps)>,
    /// Limits on log lines about targets that refuse a step or do not respond. Each target has its own limit, because
    /// many handovers to a target usually fail at the same time. The entry of a target is removed when the target
    /// accepts a step.
    failing: BTreeMap<Target, Repeats>,
    /// Limit on log lines about commits to which the store gave no definite response.
    uncommitted: Repeats,
    spans: HandoverSpans,
    /// Whether the store's release commits one handover in a call only.
    commits_singly: bool,
}

/// Node to which sections are handed over, with its set if that is another set.
type Target = (Option<SetId>, NodeId);

impl Handovers {
    /// Creates the state without a handover.
    pub(crate) fn new(shared: Arc<Shared>) -> Handovers {
        let (frozen, failing) = (BTreeMap::new(), BTreeMap::new());
        let (uncommitted, spans) = (Repeats::default(), HandoverSpans::default());
        Handovers { shared, frozen, retries: Vec::new(), failing, uncommitted, spans, commits_singly: false }
    }

    /// Returns the time at which the next steps are repeated.
    pub(crate) fn retry_due(&self) -> Option<Instant> {
        self.retries.iter().map(|(at, _)| *at).min()
    }

    /// Returns the call for the next steps to send, if there are any. Steps that have to be repeated and are due come
    /// before the steps that the owner's state machine requested.
    pub(crate) fn next_call(&mut self) -> Option<HandoverCall> {
        let steps = match self.next_retry() {
            Some(steps) => steps,
            None => {
                let first = self.shared.handovers.queue.pop()?;
                let others = self.others(&first);
                self.begin(first, others)
            }
        };
        let spans = steps.sections().into_iter().map(|section| self.spans.step(section, steps.name())).collect();
        Some(HandoverCall { shared: self.shared.clone(), steps, spans })
    }

    /// Removes from the queue the requests that travel in one call with `first`.
    fn others(&self, first: &HandoverRequest) -> Vec<HandoverRequest> {
        let handover = first.handover();
        let singly = match first {
            HandoverRequest::Commit(_) => self.commits_singly,
            _ => self.shared.ownership.machine().is_singly(handover.to, handover.incarnation),
        };
        if singly || handover.departure.is_some() {
            return Vec::new();
        }
        let mut room = MAX_SLOTS_TOGETHER;
        let mut fits = |handover: &Handover| {
            let slots = self.shared.slots_of(handover);
            let fits = slots <= SMALL_SLOTS.min(room);
            room -= if fits { slots } else { 0 };
            fits
        };
        let is_staged = matches!(first, HandoverRequest::Stage(_));
        if is_staged && !fits(handover) {
            return Vec::new();
        }
        self.shared.handovers.queue.pop_like(first, MAX_OUTGOING - 1, |other| !is_staged || fits(other))
    }

    /// Returns the steps of requests of one kind.
    fn begin(&mut self, first: HandoverRequest, others: Vec<HandoverRequest>) -> Steps {
        let backoff = self.backoff();
        let handovers = |first: Handover| {
            let mut handovers = vec![first];
            handovers.extend(others.iter().map(|other| other.handover().clone()));
            handovers
        };
        match first {
            HandoverRequest::Prepare(first) => {
                let handovers = handovers(first);
                handovers.iter().for_each(|handover| self.spans.begin(&self.shared, handover));
                Steps::Prepare(handovers)
            }
            HandoverRequest::Stage(first) => {
                let handovers = handovers(first);
                let now = Instant::now();
                self.frozen.extend(handovers.iter().map(|handover| (handover.section, now)));
                Steps::Stage(handovers)
            }
            HandoverRequest::Commit(first) => {
                let attempt = |handover| CommitAttempt { handover, backoff };
                Steps::Commit(handovers(first).into_iter().map(attempt).collect())
            }
            HandoverRequest::Activate(first) => {
                let left = if first.departure.is_some() { ACTIVATIONS_BETWEEN_SETS - 1 } else { 0 };
                let activation = |handover| Activation { handover, backoff, left };
                Steps::Activate(handovers(first).into_iter().map(activation).collect())
            }
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.shared.config.options.retry_min, self.shared.config.options.retry_max)
    }

    /// Returns steps that have to be repeated and are due. Drops commits of an incarnation that has ended.
    fn next_retry(&mut self) -> Option<Steps> {
        let now = Instant::now();
        while let Some(due) = self.retries.iter().position(|(at, _)| *at <= now) {
            let (_, mut steps) = self.retries.swap_remove(due);
            let Steps::Commit(attempts) = &mut steps else { return Some(steps) };
            let session = self.shared.ownership.machine().session();
            attempts.retain(|attempt| {
                let stands = session == Some(attempt.handover.session);
                if !stands {
                    self.spans.end(attempt.handover.section);
                    self.shared.handovers.queue.done();
                }
                stands
            });
            if !attempts.is_empty() {
                return Some(steps);
            }
        }
        None
    }

    fn retry_later(&mut self, wait: Duration, steps: Steps) {
        self.retries.push((Instant::now() + wait, steps));
    }

    /// Reports the outcomes of steps to the owner's state machine.
    pub(crate) fn on_steps_done(&mut self, answered: AnsweredSteps) {
        match answered {
            AnsweredSteps::Prepare(steps) => {
                // The store repeats the plans of refused handovers. Fewer of them then begin at a time.
                self.is_singly(&steps, |handover| handover);
                self.on_prepared(steps);
            }
            AnsweredSteps::Stage(steps) => {
                if self.is_singly(&steps, |handover| handover) {
                    return self.repeat_singly(steps, Steps::Stage);
                }
                self.on_staged(steps);
            }
            AnsweredSteps::Commit(steps) => self.on_commits_done(steps),
            AnsweredSteps::Activate(steps) => {
                if self.is_singly(&steps, |activation| &activation.handover) {
                    return self.repeat_singly(steps, Steps::Activate);
                }
                self.on_activated(steps);
            }
        }
    }

    /// Returns whether the target's release makes one step in a call only, and notes this.
    fn is_singly<T>(&mut self, steps: &[(T, Result<(), Status>)], handover: impl Fn(&T) -> &Handover) -> bool {
        let [(first, Err(status)), _, ..] = steps else { return false };
        // A port with TLS refuses methods that its release does not know by the role of the caller.
        let refuses = status.code() == Code::Unimplemented || status::known_reason(status) == Some(Reason::RoleDenied);
        if refuses {
            let Handover { to, incarnation, .. } = handover(first);
            self.shared.step(|owner, _| owner.on_steps_unknown(*to, *incarnation));
        }
        refuses
    }

    /// Repeats each of the steps in a call of its own.
    fn repeat_singly<T, O>(&mut self, steps: Vec<(T, O)>, of: impl Fn(Vec<T>) -> Steps) {
        steps.into_iter().for_each(|(step, _)| self.retry_later(Duration::ZERO, of(vec![step])));
    }

    fn on_prepared(&mut self, steps: Vec<(Handover, Result<(), Status>)>) {
        let shared = self.shared.clone();
        let steps: Vec<_> = steps
            .into_iter()
            .map(|(handover, outcome)| (self.accepted("prepare", &handover, outcome), handover))
            .map(|(accepted, handover)| (accepted, shared.slots_of(&handover), handover))
            .collect();
        shared.step(|owner, effects| {
            steps.iter().for_each(|(accepted, slots, handover)| {
                owner.on_prepared(handover, *accepted, *slots, effects);
            });
        });
        for (accepted, _, handover) in steps {
            if !accepted {
                self.spans.end(handover.section);
                shared.counters.handover(HandoverOutcome::Refused);
            }
            shared.handovers.queue.done();
        }
    }

    fn on_staged(&mut self, steps: Vec<(Handover, Result<(), Status>)>) {
        let shared = self.shared.clone();
        let steps: Vec<_> = steps
            .into_iter()
            .map(|(handover, outcome)| (self.accepted("stage", &handover, outcome), handover))
            .collect();
        shared.step(|owner, effects| {
            steps.iter().for_each(|(accepted, handover)| owner.on_staged(handover, *accepted, effects));
        });
        for (accepted, handover) in steps {
            if !accepted {
                self.spans.end(handover.section);
                shared.counters.handover(HandoverOutcome::Thawed);
            }
            shared.handovers.queue.done();
        }
    }

    fn on_activated(&mut self, steps: Vec<(Activation, Result<(), Status>)>) {
        let shared = self.shared.clone();
        for (mut activation, outcome) in steps {
            // Even if the target does not accept this call, the store sends it the grant in response to its next
            // renewal.
            let accepted = self.accepted("activate", &activation.handover, outcome);
            if !accepted && activation.left > 0 {
                activation.left -= 1;
                let wait = activation.backoff.wait(fastrand::u32(..));
                self.retry_later(wait, Steps::Activate(vec![activation]));
                continue;
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
            shared.handovers.queue.done();
        }
        // In its response to the renewal, the store may request further handovers.
        shared.registration.request_renewal();
    }

    /// Adopts the store's responses to attempts to commit. Attempts without a definite response are repeated.
    fn on_commits_done(&mut self, steps: Vec<(CommitAttempt, CommitResponse)>) {
        if let [(_, CommitResponse { response: Err(error), .. }), _, ..] = steps.as_slice()
            && error.is_unknown_method()
        {
            self.commits_singly = true;
            return self.repeat_singly(steps, Steps::Commit);
        }
        let mut undecided = Vec::new();
        let mut commits = Vec::new();
        for (attempt, response) in steps {
            let sent = response.sent;
            match self.read_commit(&attempt.handover, response) {
                CommitRead::Decided(commit) => commits.push((attempt.handover, sent, commit)),
                CommitRead::Undecided => undecided.push(attempt),
                CommitRead::SessionOver => self.shared.handovers.queue.done(),
            }
        }
        if let Some(first) = undecided.first_mut() {
            let wait = first.backoff.wait(fastrand::u32(..));
            let backoff = first.backoff;
            undecided.iter_mut().for_each(|attempt| attempt.backoff = backoff);
            self.retry_later(wait, Steps::Commit(undecided));
        }
        self.on_committed(commits);
    }

    /// Reports definite outcomes of commits to the owner's state machine.
    fn on_committed(&mut self, commits: Vec<(Handover, Clocks, Commit)>) {
        if commits.is_empty() {
            return;
        }
        let shared = self.shared.clone();
        self.uncommitted.end();
        for (handover, _, commit) in &commits {
            if matches!(commit, Commit::Made(_)) {
                self.spans.commit(handover.section);
            } else {
                self.spans.end(handover.section);
                shared.counters.handover(HandoverOutcome::Thawed);
            }
        }
        let number = commits.len();
        let adopted: Vec<_> = shared.step(|owner, effects| {
            let commit = |(handover, sent, commit)| owner.on_committed(&handover, sent, commit, effects);
            commits.into_iter().map(commit).collect()
        });
        for error in adopted.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "cannot use the store's ownership update");
        }
        (0..number).for_each(|_| shared.handovers.queue.done());
    }

    /// Decodes the store's response to an attempt to commit.
    fn read_commit(&mut self, handover: &Handover, response: CommitResponse) -> CommitRead {
        let shared = self.shared.clone();
        let error = match response.response {
            Ok(Committed::WithOthers) => return CommitRead::Decided(Commit::Made(None)),
            Ok(Committed::Update(update)) => {
                return match shared.read_update(update.as_deref(), handover.session.node) {
                    Ok(update) => CommitRead::Decided(Commit::Made(Some(update))),
                    // The handover may be committed. In that case the store reports this again in response to the next
                    // attempt.
                    Err(_) => CommitRead::Undecided,
                };
            }
            Err(error) => error,
        };
        self.spans.fail(handover.section, &error);
        let meaning = match &*error {
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
            return CommitRead::SessionOver;
        }
        match meaning.commit() {
            None => {
                self.spans.end(handover.section);
                shared.judge(handover.session, &error);
                shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
                CommitRead::SessionOver
            }
            Some(Commit::Unknown) => {
                if let Some(repeated) = self.uncommitted.admit() {
                    let (section, trace) = (handover.section.0, self.spans.trace(handover.section));
                    tracing::warn!(%error, section, repeated, trace, "a handover is not committed yet");
                }
                CommitRead::Undecided
            }
            Some(commit) => {
                if commit == Commit::Inconclusive {
                    let (section, trace) = (handover.section.0, self.spans.trace(handover.section));
                    tracing::warn!(%error, section, trace, "a departure is refused: the section is given up");
                }
                CommitRead::Decided(commit)
            }
        }
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

/// The meaning of the store's response to an attempt to commit.
#[expect(clippy::large_enum_variant, reason = "there is one for each handover, and it is moved once")]
enum CommitRead {
    /// The response shows whether the handover is committed.
    Decided(Commit),
    /// The handover may be committed, so that the attempt has to be repeated.
    Undecided,
    /// The incarnation of this node is over.
    SessionOver,
}
