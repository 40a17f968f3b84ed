//! The arbiter, which runs at the leader of a set's store and proposes other owners for sections.
//!
//! A node's liveness counter grows when the store applies a renewal, a raise or a transfer that the node requested. If
//! the counter does not change for a time called the *wait*, measured by the arbiter's own clock, the node's
//! incarnation counts as dead, and the arbiter proposes other owners for its sections. The proposal names the value of
//! the counter. If the store applies a command of the old owner before the proposal, the counter has changed, and the
//! store refuses the proposal.
//!
//! The length of the wait is computed from replicated values, which are the terms of the set and the lease with which
//! the incarnation registered. Settings of the member that runs the arbiter do not affect the wait. The arbiter reads
//! the clock only after it has access to the state. If the clock were read first and the process stopped for a while
//! before the access, the arbiter would date the commands that were applied in that time too early, and would count the
//! senders of these commands as dead too early.
//!
//! Each new leader creates an [`Arbiter`], and drops the arbiter when it is no longer the leader. A new arbiter has no
//! observations and counts every wait from its first evaluation, so no wait continues after an election. Two arbiters
//! at the same time do no harm, because the store refuses proposals whose epoch or counter is outdated.
//!
//! If an operator moved a section to a node, the arbiter places the section at that node for as long as the node may
//! get sections. Otherwise it places the section like all other sections. A pause of balancing stops only handovers
//! that even the load. Dead owners are still replaced, and drains and moves by operators continue.
//!
//! If the parent of an owner's process reported the death of the process, the owner's incarnation counts as dead
//! without a wait ([`Died`](crate::state::Died)). The report ends no other wait: sections of an earlier incarnation of
//! the same node may belong to another process. A report that an arbiter finds in the first state that it evaluates
//! ends no wait either. Data directories of the store may have been put back to a state from before the sections of the
//! dead process got other owners, and the AllocSvrs detect this within the wait.
//!
//! The caller passes in the state and a function that reads the clock, divides the proposals into log entries, and
//! commits them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{Epoch, Incarnation, Lineage, Liveness, MigrationId, NodeId, RouteVersion, SectionId, SetId};
use crate::placement::{Candidate, Ring};
use crate::state::{EventRecord, NodeRecord, Note, Noted, Reassign, Residence, State};

pub use reserve::{NotReserved, Reserver};

/// Maximum number of changes of owner in one log entry. It is half of [`MAX_RAISES`](crate::limits::MAX_RAISES),
/// because a change of owner takes about twice as many bytes as a raise. With this limit the log stores the entry in
/// one write.
pub const MAX_REASSIGNS: usize = crate::limits::MAX_RAISES / 2;

/// An AllocSvr that the set file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Weight of the node relative to the other nodes.
    pub weight: u32,
}

/// Timeouts of an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArbiterTimeouts {
    /// Longest time for which the arbiter waits for all nodes that the set file declares to register, before it assigns
    /// sections that were never owned.
    pub registration_grace: Duration,
    /// Time for which the nodes that may get sections must have been the same before the arbiter plans handovers from
    /// nodes that are not draining. Otherwise sections would move back and forth when a node joins and soon leaves.
    pub stable_for: Duration,
}

/// An incarnation of an AllocSvr.
type Session = (NodeId, Incarnation);

/// A planned handover, which the owner of the section should make. It gives the section to the next owner with its
/// exact counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedHandover {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that should end.
    pub epoch: Epoch,
    /// The owner of the section.
    pub from: NodeId,
    /// The next owner.
    pub to: NodeId,
    /// Incarnation of the next owner.
    pub incarnation: Incarnation,
    /// Target set and migration of the handover; `None` if the next owner is in this set.
    pub departure: Option<Arc<Departure>>,
}

/// Target set and migration of a handover by which a section departs from this set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The set.
    pub set: SetId,
    /// Lineage that the target set stated when it named the next owner.
    pub lineage: Lineage,
    /// The migration that the departure is part of.
    pub migration: MigrationId,
    /// Address of the next owner's port for peers, "host:port".
    pub addr: String,
}

/// A section that has no live owner, and that no node of the set can take over. An operator may migrate it to another
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranded {
    /// The section.
    pub section: SectionId,
    /// Epoch of the section when the plan was made.
    pub expected: Epoch,
    /// The liveness counter of the dead owner, which did not change during the arbiter's wait. `None` if the section
    /// has no owner, or if its owner's node is in a newer incarnation.
    pub liveness: Option<Liveness>,
}

/// The changes of owner that the applied state calls for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Sections whose owner is dead or missing, each with the owner that it should get now, in order of section.
    pub reassigns: Vec<Reassign>,
    /// Sections whose owner is dead or missing, but that no node of the set can take, in order of section.
    pub stranded: Vec<Stranded>,
    /// Handovers that live owners should make, in order of section.
    pub handovers: Vec<PlannedHandover>,
    /// Number of sections that should be handed over for no other reason than to even the load. It includes sections
    /// whose handover is not planned yet, because the nodes that may get sections changed recently or balancing is
    /// paused.
    pub uneven: u32,
    /// Nodes whose newest incarnation is live.
    pub living: BTreeSet<NodeId>,
    /// Live nodes that should hand over all their sections without delay, because an operator drains them, because
    /// their process is about to exit, or because callers do not reach them. Handovers from other nodes are not urgent.
    pub draining: BTreeSet<NodeId>,
    /// Nodes in `draining` whose sections no other node of the set can take.
    pub no_other_candidate: BTreeSet<NodeId>,
    /// Nodes that may get sections, each with its weight.
    pub candidates: Vec<(NodeId, u32)>,
    /// Dead incarnations whose sections are to be reassigned. Each has the time since the arbiter observed the last
    /// change of the incarnation's liveness counter.
    pub silent: Vec<(NodeId, Incarnation, Duration)>,
}

impl Plan {
    /// Returns, for each incarnation in [`Plan::silent`], the note that adds its silence to the set's events. Returns
    /// no note for a silence that is already among the events in `state`. `unix_ms` is the time of the notes, in
    /// milliseconds since 1970.
    #[must_use]
    pub fn notes(&self, state: &State, unix_ms: u64) -> Vec<Note> {
        let note = |&(node, incarnation, silent): &(NodeId, Incarnation, Duration)| {
            let silent_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
            let name = state.node(node)?.name.as_str();
            let is_noted = state.events.iter().rev().any(|event| {
                let is_session = matches!(&event.record, EventRecord::Silent { node: of, incarnation: at, .. }
                    if (of.as_str(), *at) == (name, incarnation));
                is_session && event.at_unix_ms >= unix_ms.saturating_sub(silent_ms)
            });
            (!is_noted).then_some(Note { unix_ms, about: Noted::Silent { node, incarnation, silent_ms } })
        };
        self.silent.iter().filter_map(note).collect()
    }
}

/// The liveness of an incarnation, as last observed.
#[derive(Clone, Copy, Debug)]
struct Observed {
    liveness: Liveness,
    /// Time when this value of the counter was first observed, on the arbiter's clock.
    since: Duration,
    /// Whether the node is in a newer incarnation.
    over: bool,
    death: ObservedDeath,
}

/// The report of an incarnation's death, as observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedDeath {
    /// No death is reported.
    None,
    /// The death was reported before the arbiter first observed the incarnation.
    Before,
    /// The death was first observed at this time, on the arbiter's clock.
    At(Duration),
}

impl Observed {
    /// Returns the time since which the incarnation serves no calls, as far as the arbiter has observed it.
    fn silent_since(&self) -> Duration {
        match self.death {
            ObservedDeath::At(at) => at,
            ObservedDeath::None | ObservedDeath::Before => self.since,
        }
    }
}

/// Returns whether the process of an incarnation was reported dead.
fn has_died(state: &State, (node, incarnation): Session) -> bool {
    state.node(node).is_some_and(|node| node.has_died(incarnation))
}

/// The inputs from which a plan is computed. Equal inputs give equal plans.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inputs {
    /// Version of the routes, which grows when a section enters or leaves the set, or gets another owner.
    routes: RouteVersion,
    /// Live sessions, each with two flags, which state whether the node is drained and whether the node is leaving.
    living: BTreeMap<Session, (bool, bool)>,
    /// Sessions that still own sections, although they are dead or their node is in a newer incarnation.
    dead: BTreeSet<Session>,
    /// Whether sections that were never owned are to be assigned now, without a further wait for nodes to register.
    registration_over: bool,
    /// Whether the candidates have been the same for [`ArbiterTimeouts::stable_for`].
    stable: bool,
    /// Whether the set's store has lost committed entries.
    lost: bool,
    /// Version that grows when an operator moves sections, or begins or ends a pause of balancing.
    balancing: u64,
}

/// The arbiter of one set. A member of the set's store has an arbiter for as long as the member is the leader.
#[derive(Debug)]
pub struct Arbiter {
    timeouts: ArbiterTimeouts,
    observed: BTreeMap<Session, Observed>,
    /// Version of the routes, and the sessions that own sections in these routes.
    owners: (RouteVersion, BTreeSet<Session>),
    /// The sessions that may get sections, and the time when this group of sessions last changed.
    candidates: (BTreeSet<Session>, Duration),
    /// Time when the current wait for nodes to register began. During the wait, sections that were never owned are not
    /// assigned. `None` without a wait.
    waits_since: Option<Duration>,
    inputs: Option<Inputs>,
    placement: Placement,
    plan: Arc<Plan>,
    deadline: Option<Duration>,
}

/// The hash rings on which sections are placed, kept from one plan to the next. Sections of uids, sections of lanes and
/// groups of neighbouring buckets are placed separately, so that each kind is spread evenly. A group is placed by its
/// first bucket.
#[derive(Debug, Default)]
struct Placement {
    /// Ring of all candidates.
    all: Ring,
    /// Ring of the candidates that can own sections of lanes and buckets.
    readers: Ring,
}

impl Placement {
    /// Returns the proposed owner of each section, in the order of `sections`; `None` for a section that no candidate
    /// can own.
    fn propose(&mut self, state: &State, sections: &[SectionId], candidates: &[Candidate<'_>]) -> Vec<Option<NodeId>> {
        let layout = state.set.as_ref().map(|set| &set.layout);
        let first_lane = layout.map_or(u32::MAX, |layout| layout.declared().sections());
        let (uids, rest) = sections.split_at(sections.partition_point(|section| section.0 < first_lane));
        self.all.renew(candidates);
        let owners = self.all.propose(uids).into_iter().map(Some);
        let mut owners: Vec<Option<NodeId>> = owners.chain(core::iter::repeat(None)).take(uids.len()).collect();
        let reads = |one: &&Candidate<'_>| state.node(one.id).is_some_and(|node| node.reads_lanes);
        let readers: Vec<Candidate<'_>> = candidates.iter().filter(reads).copied().collect();
        let group = |section: &SectionId| layout.and_then(|layout| layout.bucket_group(*section));
        let lanes: Vec<SectionId> = rest.iter().copied().filter(|section| group(section).is_none()).collect();
        let mut groups: Vec<SectionId> = rest.iter().filter_map(group).collect();
        groups.dedup();
        self.readers.renew(&readers);
        let mut of_lanes = self.readers.propose(&lanes).into_iter();
        let of_groups = self.readers.propose(&groups);
        let of_group = |group| groups.binary_search(&group).ok().and_then(|index| of_groups.get(index).copied());
        owners.extend(rest.iter().map(|section| group(section).map_or_else(|| of_lanes.next(), of_group)));
        owners
    }
}

impl Arbiter {
    /// Creates an arbiter without observations.
    #[must_use]
    pub fn new(timeouts: ArbiterTimeouts) -> Arbiter {
        Arbiter {
            timeouts,
            observed: BTreeMap::new(),
            owners: (RouteVersion(0), BTreeSet::new()),
            candidates: (BTreeSet::new(), Duration::ZERO),
            waits_since: None,
            inputs: None,
            placement: Placement::default(),
            plan: Arc::default(),
            deadline: None,
        }
    }

    /// Returns the plan for the applied state. `declared` are the AllocSvrs that the set file names. `clock` returns
    /// the time since an arbitrary fixed origin on the arbiter's clock, which never goes back. The arbiter calls
    /// `clock` once, while the state is borrowed, so that no observation is dated earlier than the state.
    ///
    /// The plan is valid until the next evaluation. It depends on the state and not on earlier proposals, so if a
    /// proposal was lost, the next plan contains the same change again.
    pub fn evaluate(
        &mut self,
        state: &State,
        declared: &[Declared<'_>],
        clock: impl FnOnce() -> Duration,
    ) -> &Arc<Plan> {
        let now = clock();
        self.observe(now, state);
        let inputs = self.inputs(now, state, declared);
        if self.inputs.as_ref() != Some(&inputs) {
            let mut plan = plan(state, declared, &inputs, &self.observed, &mut self.placement);
            let silent = inputs.dead.iter().filter_map(|session| Some((session, self.observed.get(session)?)));
            let silent = silent.filter(|(session, observed)| {
                !observed.over && !has_died(state, **session) && !plan.reassigns.is_empty()
            });
            plan.silent =
                silent.map(|(&(node, at), observed)| (node, at, now.saturating_sub(observed.since))).collect();
            self.plan = Arc::new(plan);
            self.inputs = Some(inputs);
        }
        &self.plan
    }

    /// Returns the time when the next wait or timeout ends; `None` if none is running. [`Arbiter::evaluate`] must be
    /// called at this time, even if the state has not changed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Returns whether an incarnation is live, as of the last evaluation.
    #[must_use]
    pub fn is_living(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.inputs.as_ref().is_some_and(|inputs| inputs.living.contains_key(&(node, incarnation)))
    }

    /// Returns each dead session that still owns sections, as of the last evaluation, with the time when its reported
    /// death, or else the last change of its liveness counter, was observed, on the arbiter's clock.
    pub fn dead_since(&self) -> impl Iterator<Item = ((NodeId, Incarnation), Duration)> {
        let dead = self.inputs.iter().flat_map(|inputs| &inputs.dead);
        dead.filter_map(|session| Some((*session, self.observed.get(session)?.silent_since())))
    }

    /// Updates the observed liveness counters. There is one observation for the newest incarnation of each node, and
    /// one for each earlier incarnation that still owns sections.
    fn observe(&mut self, now: Duration, state: &State) {
        if self.owners.0 != state.route_version {
            // One by one, because collecting would sort as many sessions as there are sections.
            let mut owners = BTreeSet::new();
            state.sections.residents().for_each(|(_, record)| {
                owners.extend(record.owner.map(|owner| (owner, record.incarnation)));
            });
            self.owners = (state.route_version, owners);
        }
        let first_death = |session| if has_died(state, session) { ObservedDeath::Before } else { ObservedDeath::None };
        for (id, node) in state.nodes() {
            let session = (id, node.incarnation);
            let fresh = Observed { liveness: node.liveness, since: now, over: false, death: first_death(session) };
            let observed = self.observed.entry(session).or_insert(fresh);
            if observed.liveness != node.liveness {
                *observed = Observed { death: observed.death, ..fresh };
            }
        }
        let current = |session: &Session| state.node(session.0).is_some_and(|node| node.incarnation == session.1);
        let owners = &self.owners.1;
        for session in owners.iter().filter(|session| !current(session)) {
            let first = Observed { liveness: Liveness(0), since: now, over: true, death: first_death(*session) };
            let observed = self.observed.entry(*session).or_insert(first);
            if !observed.over {
                // The counter may have grown once more since the last evaluation. So the wait begins when the
                // incarnation is first observed to be over, unless the incarnation ended with the count that was
                // observed last.
                let ended_as_observed = state.node(session.0).is_some_and(|node| {
                    node.incarnation == session.1.next() && node.registered_at == observed.liveness
                });
                let since = if ended_as_observed { observed.since } else { now };
                *observed = Observed { liveness: Liveness(0), since, over: true, death: observed.death };
            }
        }
        for (session, observed) in &mut self.observed {
            if observed.death == ObservedDeath::None && has_died(state, *session) {
                observed.death = ObservedDeath::At(now);
            }
        }
        self.observed.retain(|session, _| current(session) || owners.contains(session));
    }

    fn inputs(&mut self, now: Duration, state: &State, declared: &[Declared<'_>]) -> Inputs {
        let ArbiterTimeouts { registration_grace, stable_for } = self.timeouts;
        let terms = state.terms();
        let mut deadlines = Vec::new();
        let (mut living, mut dead) = (BTreeMap::new(), BTreeSet::new());
        for (session, observed) in &self.observed {
            let node = state.node(session.0).expect("observed sessions are of known nodes");
            let wait = terms.wait_for(node.lease);
            let is_reported = matches!(observed.death, ObservedDeath::At(_));
            let expired = is_reported || now.saturating_sub(observed.since) >= wait;
            if !expired {
                deadlines.push(observed.since + wait);
            }
            if node.incarnation == session.1 && !expired && observed.death == ObservedDeath::None {
                living.insert(*session, (node.drained, node.leaving));
            } else if expired && self.owners.1.contains(session) {
                dead.insert(*session);
            }
        }
        let free: BTreeSet<Session> =
            living.iter().filter(|(_, flags)| **flags == (false, false)).map(|(session, _)| *session).collect();
        if self.candidates.0 != free {
            self.candidates = (free, now);
        }
        let stable = now.saturating_sub(self.candidates.1) >= stable_for;
        if !stable {
            deadlines.push(self.candidates.1 + stable_for);
        }

        let all_registered = declared.iter().all(|one| {
            let registered = |session: &Session| state.node(session.0).is_some_and(|node| node.name == one.name);
            living.keys().any(registered)
        });
        let never_owned = |(_, record): (SectionId, &Residence)| record.owner.is_none() && record.epoch == Epoch(0);
        let waits = !all_registered && !living.is_empty() && state.sections.residents().any(never_owned);
        self.waits_since = if waits { self.waits_since.or(Some(now)) } else { None };
        let registration_over = self.waits_since.is_none_or(|since| now.saturating_sub(since) >= registration_grace);
        if let Some(since) = self.waits_since.filter(|_| !registration_over) {
            deadlines.push(since + registration_grace);
        }
        self.deadline = deadlines.into_iter().min();
        let (routes, balancing) = (state.route_version, state.balancing.version());
        Inputs { routes, living, dead, registration_over, stable, lost: state.loss.is_some(), balancing }
    }
}

/// Returns the plan for these inputs.
fn plan(
    state: &State,
    declared: &[Declared<'_>],
    inputs: &Inputs,
    observed: &BTreeMap<Session, Observed>,
    placement: &mut Placement,
) -> Plan {
    let mut plan = Plan::default();
    if inputs.lost {
        // After a loss the state gives no section another owner.
        return plan;
    }
    let candidates = candidates(state, declared, inputs);
    let residents = state.sections.resident_ids();
    let placed = placement.propose(state, &residents, &candidates);
    plan.candidates = candidates.iter().map(|candidate| (candidate.id, candidate.weight)).collect();
    plan.living = inputs.living.keys().map(|session| session.0).collect();
    let draining = inputs.living.iter().filter(|(_, flags)| **flags != (false, false));
    plan.draining = draining.map(|(session, _)| session.0).collect();
    let no_other_candidate = |node: &&NodeId| candidates.iter().all(|candidate| candidate.id == **node);
    plan.no_other_candidate = plan.draining.iter().filter(no_other_candidate).copied().collect();

    let is_paused = state.balancing.paused().is_some();
    for (index, (section, record)) in state.sections.residents().enumerate() {
        let owner = record.owner.map(|owner| (owner, record.incarnation));
        let take = match owner {
            None => record.epoch > Epoch(0) || inputs.registration_over,
            Some(session) => inputs.dead.contains(&session),
        };
        // This is the count for which the wait ran, not the current count.
        let liveness = || owner.map(|one| observed[&one]).filter(|one| !one.over).map(|one| one.liveness);
        let moved = state.balancing.moved(section).filter(|node| candidates.iter().any(|one| one.id == *node));
        let Some(to) = moved.or(placed[index]) else {
            if take {
                plan.stranded.push(Stranded { section, expected: record.epoch, liveness: liveness() });
            }
            continue;
        };
        let incarnation = state.node(to).expect("candidates are known nodes").incarnation;
        if take {
            let liveness = liveness();
            plan.reassigns.push(Reassign { section, expected: record.epoch, liveness, to, incarnation });
        } else if let Some(session) = owner
            && inputs.living.contains_key(&session)
            && session.0 != to
        {
            let balancing = moved.is_none() && !plan.draining.contains(&session.0);
            plan.uneven += u32::from(balancing);
            let waits = !plan.draining.contains(&session.0) && !inputs.stable || balancing && is_paused;
            if waits {
                continue;
            }
            let (epoch, from) = (record.epoch, session.0);
            plan.handovers.push(PlannedHandover { section, epoch, from, to, incarnation, departure: None });
        }
    }
    plan
}

/// Returns the nodes that may get sections. These are the declared nodes that are live and neither drained nor leaving.
/// If there are no such nodes, they are the declared nodes that are live and not leaving, because a drained owner is
/// better than no owner.
fn candidates<'a>(state: &State, declared: &[Declared<'a>], inputs: &Inputs) -> Vec<Candidate<'a>> {
    let living = |may: &dyn Fn(&NodeRecord) -> bool| -> Vec<Candidate<'a>> {
        let find = |one: &Declared<'a>| {
            let (id, record) = state.nodes().find(|(_, record)| record.name == one.name)?;
            let live = inputs.living.contains_key(&(id, record.incarnation)) && may(record);
            live.then_some(Candidate { id, name: one.name, weight: one.weight })
        };
        declared.iter().filter_map(find).collect()
    };
    let free = living(&|record| !record.drained && !record.leaving);
    if free.is_empty() { living(&|record| !record.leaving) } else { free }
}

mod reserve;
#[cfg(all(test, not(loom)))]
mod scenarios;
#[cfg(test)]
mod tests;
