//! Shell of the arbiter, which does the input and output for the state machine in `seq_core::arbiter`. On the leader,
//! it proposes the changes of owner that the arbiter plans, and publishes the planned handovers to the control service.
//!
//! The shell does not react to single events. Each time it wakes up, it evaluates the whole state, so a proposal that
//! was lost is made again. A leader that was replaced and does not know it yet may run a second arbiter. A second
//! arbiter does no harm, because each proposed change contains the section's epoch and the owner's liveness counter
//! that were used to plan it, and the change is refused if either has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use metrics::Histogram;
use seq_api::clock::Clock;
use seq_api::metrics::section_unserved;
use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared, MAX_REASSIGNS, Plan};
use seq_core::lease::Clocks;
use seq_core::set_spec::AllocSpec;
use seq_core::state::{EventKind, Note, Noted, Reassign};
use seq_core::{Epoch, Incarnation, NodeId};
use seq_kit::repeats::Repeats;
use seq_kit::telemetry::traces::{self, Span};
use seq_raft::ProposeError;
use tokio::sync::watch;

use crate::replicated_set::ReplicatedSet;

/// Minimum time between two evaluations of the state. It limits their number, because log entries are applied far more
/// often than owners change.
const MIN_INTERVAL: Duration = Duration::from_millis(5);

/// Pause before a failed proposal is made again. The pause is about as long as an election.
const RETRY: Duration = Duration::from_millis(200);

/// Maximum number of former owners that the trace span of a takeover names.
const MOST_NAMED: usize = 16;

/// Task that evaluates the state and proposes changes of owner while this member leads.
pub(crate) struct ArbiterShell {
    set: ReplicatedSet,
    /// The AllocSvrs in the set file. The field is the sending half of a channel, so that the channel stays open.
    allocs: watch::Sender<Arc<[AllocSpec]>>,
    timeouts: ArbiterTimeouts,
    clock: Clock,
    /// Sender of the arbiter's current plan. The plan is empty while this member does not lead.
    plan: watch::Sender<Arc<Plan>>,
    /// Times for which sections of dead owners were served by no node.
    unserved: Histogram,
}

/// Dead sessions that own sections, each with the time of the last change of its liveness counter. Times are measured
/// from `origin`.
struct Dead {
    origin: Clocks,
    since: BTreeMap<(NodeId, Incarnation), Duration>,
}

/// Notes for the event log that are committed.
#[derive(Debug, Default)]
struct Noting {
    /// The term in which this member leads.
    term: Option<u64>,
    /// The voters of the store; empty for none.
    voters: Vec<u64>,
}

impl ArbiterShell {
    /// Creates the shell of the set `name`, and a receiver of the arbiter's plan, which the shell updates after each
    /// evaluation.
    pub(crate) fn new(
        set: &ReplicatedSet,
        allocs: &watch::Sender<Arc<[AllocSpec]>>,
        (timeouts, clock): (ArbiterTimeouts, Clock),
        name: &str,
    ) -> (ArbiterShell, watch::Receiver<Arc<Plan>>) {
        let (plan, published) = watch::channel(Arc::default());
        let (set, allocs, unserved) = (set.clone(), allocs.clone(), section_unserved(name, "takeover"));
        (ArbiterShell { set, allocs, timeouts, clock, plan, unserved }, published)
    }

    /// Evaluates the state after each change and proposes the planned changes of owner while this member leads. Runs
    /// until the future is dropped, or until the Raft library has stopped.
    pub(crate) async fn run(self) {
        let mut declared = self.allocs.subscribe();
        let mut changes = self.set.raft().changes();
        // The arbiter is created when this member begins to lead and dropped when it no longer leads, so no timer
        // outlives a term.
        let mut machine: Option<Arbiter> = None;
        let mut failures = Repeats::default();
        let origin = self.clock.now();
        let mut noted = Noting::default();
        loop {
            let mut evaluate_after = None;
            if self.set.raft().is_leader() {
                let machine = machine.get_or_insert_with(|| Arbiter::new(self.timeouts));
                let plan = self.evaluate(machine, origin);
                self.publish(&plan);
                let now = self.clock.now().at_least_since(origin);
                evaluate_after = machine.next_deadline().map(|at| at.saturating_sub(now));
                let dead = Dead { origin, since: machine.dead_since().collect() };
                let ((), proposed) = tokio::join!(self.note(&plan, &mut noted), self.propose(&plan, &dead));
                if let Err(error) = proposed {
                    if let Some(repeated) = failures.admit() {
                        tracing::info!(%error, repeated, "owners could not be assigned yet");
                    }
                    evaluate_after = Some(RETRY);
                } else {
                    failures.end();
                }
            } else {
                machine = None;
                self.publish(&Arc::default());
            }
            tokio::time::sleep(MIN_INTERVAL).await;
            let timer = async {
                match evaluate_after {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => {}
                changed = changes.changed() => if changed.is_err() { return },
                _ = declared.changed() => {}
            }
        }
    }

    /// Evaluates the state, then reads the clock, and returns the new plan. No entry is applied between these two
    /// steps, because the state is locked.
    fn evaluate(&self, machine: &mut Arbiter, origin: Clocks) -> Arc<Plan> {
        let allocs = self.allocs.borrow().clone();
        let declared: Vec<Declared<'_>> =
            allocs.iter().map(|node| Declared { name: &node.name, weight: node.weight }).collect();
        let clock = || self.clock.now().at_least_since(origin);
        self.set.read(|state| machine.evaluate(state, &declared, clock).clone())
    }

    fn publish(&self, plan: &Arc<Plan>) {
        self.plan.send_if_modified(|published| {
            let newer = published != plan;
            if newer {
                published.clone_from(plan);
            }
            newer
        });
    }

    /// Proposes notes for the event log: that this member leads, the voters of the store if they have changed, and the
    /// silent nodes whose sections will be reassigned. `noted` has the notes that are committed, and is updated. If a
    /// note fails, the next evaluation proposes it again. The caller polls this future before it proposes the
    /// reassignments, so that the notes come before the reassignments in the log.
    async fn note(&self, plan: &Plan, noted: &mut Noting) {
        let raft = self.set.raft();
        let Some(term) = raft.leads().filter(|_| self.set.keeps_events()) else { return };
        if noted.term != Some(term) {
            // A leader of a term in between may have noted other voters.
            noted.voters.clear();
        }
        let unix_ms = raft.clock_ms();
        let silent =
            if plan.silent.is_empty() { Vec::new() } else { self.set.read(|state| plan.notes(state, unix_ms)) };
        let silent = join_all(silent.into_iter().map(|note| self.note_silence(note)));
        let Noting { term: noted_term, voters: noted_voters } = noted;
        let leads = async {
            let about = Noted::Leader { member: raft.id(), term };
            if *noted_term != Some(term) && self.set.propose(Note { unix_ms, about }).await.is_ok() {
                *noted_term = Some(term);
            }
        };
        let members = async {
            let Some(voters) = raft.voters().filter(|voters| noted_voters != voters) else { return };
            let about = Noted::Members { voters: voters.clone() };
            let is_known = self.set.read(|state| state.events.voters() == Some(&*voters));
            if is_known || self.set.propose(Note { unix_ms, about }).await.is_ok() {
                *noted_voters = voters;
            }
        };
        tokio::join!(leads, members, silent);
    }

    /// Proposes the note about a silent node, and logs the silence once the note is committed.
    async fn note_silence(&self, note: Note) {
        let about = note.about.clone();
        if self.set.propose(note).await.is_ok()
            && let Noted::Silent { node, incarnation, silent_ms } = about
        {
            let name = self.set.read(|state| state.node(node).map(|record| record.name.clone()));
            let event = EventKind::Silent.name();
            tracing::warn!(event, node = name, incarnation = incarnation.0, silent_ms, "an allocator is silent");
        }
    }

    async fn propose(&self, plan: &Plan, dead: &Dead) -> Result<(), ProposeError> {
        for part in plan.reassigns.chunks(MAX_REASSIGNS) {
            let owners = if dead.since.is_empty() { Vec::new() } else { self.owners(part) };
            let mut span = self.span(part);
            let outcome = span.scope(self.set.propose(part.to_vec())).await;
            span.fail_if(&outcome);
            let outcome = outcome?;
            let taken_over = owners.iter().zip(&outcome).filter(|(_, outcome)| outcome.is_some());
            self.record_unserved(dead, taken_over.filter_map(|(owner, _)| *owner));
            span.set("seqsvr.overtaken", outcome.iter().filter(|epoch| epoch.is_none()).count());
            self.log_assigned(part, &outcome, &span);
        }
        Ok(())
    }

    /// Logs the changes of owner in `part` that the store accepted, with one line for each kind of event.
    fn log_assigned(&self, part: &[Reassign], outcome: &[Option<Epoch>], span: &Span) {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        self.set.read(|state| {
            let accepted = part.iter().zip(outcome).filter(|(_, epoch)| epoch.is_some());
            let records = accepted.filter_map(|(change, _)| state.sections.resident(change.section));
            records.for_each(|record| *kinds.entry(record.began.by.kind().name()).or_default() += 1);
        });
        for (event, sections) in kinds {
            tracing::info!(event, sections, trace = span.trace(), "owners assigned");
        }
        let overtaken = outcome.iter().filter(|epoch| epoch.is_none()).count();
        if overtaken > 0 {
            tracing::info!(overtaken, trace = span.trace(), "changes of owners were overtaken by other changes");
        }
    }

    /// Returns the present owner of each section in `part`.
    fn owners(&self, part: &[Reassign]) -> Vec<Option<(NodeId, Incarnation)>> {
        self.set.read(|state| {
            let owner = |change: &Reassign| {
                let record = state.sections.resident(change.section)?;
                Some((record.owner?, record.incarnation))
            };
            part.iter().map(owner).collect()
        })
    }

    /// Records how long the sections that were taken over were served by no node. `owners` are their former owners, one
    /// for each section.
    fn record_unserved(&self, dead: &Dead, owners: impl Iterator<Item = (NodeId, Incarnation)>) {
        let mut sections: BTreeMap<(NodeId, Incarnation), usize> = BTreeMap::new();
        owners.for_each(|owner| *sections.entry(owner).or_default() += 1);
        let now = self.clock.now().at_least_since(dead.origin);
        for (owner, count) in sections {
            if let Some(since) = dead.since.get(&owner) {
                self.unserved.record_many(now.saturating_sub(*since), count);
            }
        }
    }

    /// Begins the trace span of the changes of owner in `part`. It is named `takeover` if any of the sections had an
    /// owner before, otherwise `assignment`.
    fn span(&self, part: &[Reassign]) -> Span {
        if !traces::are_on() {
            return Span::none();
        }
        let (set, from) = self.set.read(|state| {
            let owner = |change: &Reassign| state.sections.resident(change.section)?.owner;
            let from: BTreeSet<_> = part.iter().filter_map(owner).collect();
            let named =
                |node: &NodeId| state.node(*node).map_or_else(|| node.to_string(), |record| record.name.clone());
            let set = state.set.as_ref().map(|set| set.name.clone());
            (set, from.iter().take(MOST_NAMED).map(named).collect::<Vec<_>>())
        });
        let mut span = traces::always(if from.is_empty() { "assignment" } else { "takeover" });
        span.set("seqsvr.set", set.unwrap_or_default());
        span.set("seqsvr.store_id", self.set.raft().id());
        span.set("seqsvr.from_nodes", from.join(", "));
        span.set("seqsvr.sections", part.len());
        part.iter().take(1).for_each(|change| span.set("seqsvr.section", change.section.0));
        span
    }
}
