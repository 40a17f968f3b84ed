//! Who should own what: the changes of owner that the arbiter beside the store's leader proposes.
//!
//! An AllocSvr is heard of when the store applies a renewal, a raise or a transfer of it. One that was not heard of for the
//! whole wait, on the arbiter's own clock, is taken for dead, and its sections are proposed to others. The proposal names
//! how often the owner had been heard of, so that whatever it said in between wins when the log is applied.
//!
//! How long it waits is data: the terms of the set and the lease that an incarnation registered with, never a setting of the
//! member that it runs on. Its clock is read after the state: read before, a pause between the two would date what was applied
//! in the pause too early, and shorten the wait by as much.
//!
//! An [`Arbiter`] starts knowing nothing, counts every wait from when it first looked, and is thrown away when its member of
//! the store leads no more: nothing has to be armed again after an election. Two of them at a time do no harm.
//!
//! Left to the shell: the clock, committing what is proposed, cutting it into log entries.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{Epoch, Incarnation, Liveness, NodeId, RouteVersion, SectionId};
use crate::placement::{self, Candidate};
use crate::state::{NodeRecord, Reassign, SectionRecord, State};

/// Most changes of owner in one log entry: half as many as raises, because each is twice as wide. The entry is one write of
/// the log.
pub const MAX_REASSIGNS: usize = crate::limits::MAX_RAISES / 2;

/// An AllocSvr that the set file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its share relative to the others.
    pub weight: u32,
}

/// How patient an arbiter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long sections that nobody ever owned wait for declared nodes that are not there yet.
    pub grace: Duration,
    /// How long the same nodes must have been there before sections are moved only to even the load: a node that comes and
    /// goes would have them moved back and forth.
    pub steady: Duration,
}

/// One incarnation of an AllocSvr.
type Session = (NodeId, Incarnation);

/// A planned move: the owner should hand the section over, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedHandover {
    /// The section.
    pub section: SectionId,
    /// The ownership that should end.
    pub epoch: Epoch,
    /// Its owner.
    pub from: NodeId,
    /// The next owner.
    pub to: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// What the state calls for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Sections to be given to somebody now, in order of section.
    pub reassigns: Vec<Reassign>,
    /// Sections that their living owners should hand over, in order of section.
    pub handovers: Vec<PlannedHandover>,
    /// Nodes whose newest incarnation is heard of.
    pub living: BTreeSet<NodeId>,
    /// Nodes from which everything is to be moved at once; moves from others only even the load and have time.
    pub draining: BTreeSet<NodeId>,
    /// Nodes to be emptied although nobody is there to take what they own.
    pub no_other_candidate: BTreeSet<NodeId>,
}

/// What is remembered of an incarnation.
#[derive(Clone, Copy, Debug)]
struct Watch {
    liveness: Liveness,
    /// When this count was seen first, on the arbiter's clock.
    since: Duration,
    /// Whether the node is in a newer incarnation.
    over: bool,
}

/// The part of what was seen that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    routes: RouteVersion,
    sections: usize,
    /// Lives that are heard of, with whether they are drained, and whether they are leaving.
    living: BTreeMap<Session, (bool, bool)>,
    /// Lives that are over or dead, and still own sections.
    dead: BTreeSet<Session>,
    grace_over: bool,
    steady: bool,
}

/// The arbiter of one set, while one member of its store leads.
#[derive(Debug)]
pub struct Arbiter {
    patience: Patience,
    watches: BTreeMap<Session, Watch>,
    /// Lives that own sections, as of a version of the routes.
    owners: (RouteVersion, BTreeSet<Session>),
    /// The nodes that may own sections, and since when they are the same.
    candidates: (BTreeSet<Session>, Duration),
    /// Since when sections that nobody ever owned wait for nodes.
    waits_since: Option<Duration>,
    seen: Option<Seen>,
    placement: Placement,
    plan: Arc<Plan>,
    deadline: Option<Duration>,
}

/// The proposed owner of each section, kept while the candidates are the same: each applied handover makes a new plan, and
/// hashing every section anew costs far more than the rest of it.
#[derive(Debug, Default)]
struct Placement {
    /// Number of sections, and each candidate with its weight; a node's name never changes.
    of: Option<(usize, Vec<(NodeId, u32)>)>,
    owners: Vec<NodeId>,
}

impl Placement {
    fn propose(&mut self, sections: usize, candidates: &[Candidate<'_>]) -> &[NodeId] {
        let of = Some((sections, candidates.iter().map(|one| (one.id, one.weight)).collect()));
        if self.of != of {
            self.owners = placement::propose(sections as u32, candidates);
            self.of = of;
        }
        &self.owners
    }
}

impl Arbiter {
    /// An arbiter that has seen nothing.
    #[must_use]
    pub fn new(patience: Patience) -> Arbiter {
        Arbiter {
            patience,
            watches: BTreeMap::new(),
            owners: (RouteVersion(0), BTreeSet::new()),
            candidates: (BTreeSet::new(), Duration::ZERO),
            waits_since: None,
            seen: None,
            placement: Placement::default(),
            plan: Arc::default(),
            deadline: None,
        }
    }

    /// Looks at the applied state, then reads its clock: `clock` answers the arbiter's time, from any origin, and never falls.
    /// It is called once, while the state is borrowed, so that nothing is dated earlier than it was seen.
    ///
    /// The plan stands until the next look. It is made from the state alone, so a proposal that was lost is made again.
    pub fn look(&mut self, state: &State, declared: &[Declared<'_>], clock: impl FnOnce() -> Duration) -> &Arc<Plan> {
        let now = clock();
        self.watch(now, state);
        let seen = self.see(now, state, declared);
        if self.seen.as_ref() != Some(&seen) {
            self.plan = Arc::new(make(state, declared, &seen, &self.watches, &mut self.placement));
            self.seen = Some(seen);
        }
        &self.plan
    }

    /// When to look again although nothing was applied: a wait, the grace or the steady time will be over then.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether an incarnation is heard of, as of the last look.
    #[must_use]
    pub fn is_living(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.living.contains_key(&(node, incarnation)))
    }

    /// Brings the watches up to date: one for each node's incarnation, and one for each earlier incarnation that still owns sections.
    fn watch(&mut self, now: Duration, state: &State) {
        if self.owners.0 != state.route_version {
            let session = |record: &SectionRecord| record.owner.map(|owner| (owner, record.incarnation));
            self.owners = (state.route_version, state.sections.iter().filter_map(session).collect());
        }
        for (id, node) in state.nodes() {
            let fresh = Watch { liveness: node.liveness, since: now, over: false };
            let watch = self.watches.entry((id, node.incarnation)).or_insert(fresh);
            if watch.liveness != node.liveness {
                *watch = fresh;
            }
        }
        let current = |session: &Session| state.node(session.0).is_some_and(|node| node.incarnation == session.1);
        let owners = &self.owners.1;
        for session in owners.iter().filter(|session| !current(session)) {
            let watch = self.watches.entry(*session).or_insert(Watch { liveness: Liveness(0), since: now, over: true });
            if !watch.over {
                // The counter may have moved once more since the last look, so the wait begins when the incarnation is first
                // seen to be over; unless the count at which it ended is the one that was seen last.
                let ended_as_seen = state
                    .node(session.0)
                    .is_some_and(|node| node.incarnation == session.1.next() && node.registered_at == watch.liveness);
                let since = if ended_as_seen { watch.since } else { now };
                *watch = Watch { liveness: Liveness(0), since, over: true };
            }
        }
        self.watches.retain(|session, _| current(session) || owners.contains(session));
    }

    fn see(&mut self, now: Duration, state: &State, declared: &[Declared<'_>]) -> Seen {
        let Patience { grace, steady } = self.patience;
        let terms = state.terms();
        let mut deadlines = Vec::new();
        let (mut living, mut dead) = (BTreeMap::new(), BTreeSet::new());
        for (session, watch) in &self.watches {
            let node = state.node(session.0).expect("watched lives are of known nodes");
            let wait = terms.wait_for(node.lease);
            let silent = now.saturating_sub(watch.since) >= wait;
            if !silent {
                deadlines.push(watch.since + wait);
            }
            if node.incarnation == session.1 && !silent {
                living.insert(*session, (node.drained, node.leaving));
            } else if silent && self.owners.1.contains(session) {
                dead.insert(*session);
            }
        }
        let free: BTreeSet<Session> =
            living.iter().filter(|(_, flags)| **flags == (false, false)).map(|(session, _)| *session).collect();
        if self.candidates.0 != free {
            self.candidates = (free, now);
        }
        let is_steady = now.saturating_sub(self.candidates.1) >= steady;
        if !is_steady {
            deadlines.push(self.candidates.1 + steady);
        }

        let all_there = declared.iter().all(|one| {
            let there = |session: &Session| state.node(session.0).is_some_and(|node| node.name == one.name);
            living.keys().any(there)
        });
        let never_owned = |record: &SectionRecord| record.owner.is_none() && record.epoch == Epoch(0);
        let waits = !all_there && !living.is_empty() && state.sections.iter().any(never_owned);
        self.waits_since = if waits { self.waits_since.or(Some(now)) } else { None };
        let grace_over = self.waits_since.is_none_or(|since| now.saturating_sub(since) >= grace);
        if let Some(since) = self.waits_since.filter(|_| !grace_over) {
            deadlines.push(since + grace);
        }
        self.deadline = deadlines.into_iter().min();
        let (routes, sections) = (state.route_version, state.sections.len());
        Seen { routes, sections, living, dead, grace_over, steady: is_steady }
    }
}

/// Plans for what was seen.
fn make(
    state: &State,
    declared: &[Declared<'_>],
    seen: &Seen,
    watches: &BTreeMap<Session, Watch>,
    placement: &mut Placement,
) -> Plan {
    let mut plan = Plan::default();
    let candidates = candidates(state, declared, seen);
    let placed = placement.propose(state.sections.len(), &candidates);
    plan.living = seen.living.keys().map(|session| session.0).collect();
    let to_be_emptied = seen.living.iter().filter(|(_, flags)| **flags != (false, false));
    plan.draining = to_be_emptied.map(|(session, _)| session.0).collect();
    let no_other_candidate = |node: &&NodeId| candidates.iter().all(|candidate| candidate.id == **node);
    plan.no_other_candidate = plan.draining.iter().filter(no_other_candidate).copied().collect();

    for (record, id) in state.sections.iter().zip(0..) {
        let Some(to) = placed.get(id as usize).copied() else { break };
        let section = SectionId(id);
        let incarnation = state.node(to).expect("candidates are known nodes").incarnation;
        let owner = record.owner.map(|owner| (owner, record.incarnation));
        let take = match owner {
            None => record.epoch > Epoch(0) || seen.grace_over,
            Some(session) => seen.dead.contains(&session),
        };
        if take {
            // As often as when the silence began, not as often as now.
            let liveness =
                owner.map(|session| watches[&session]).filter(|watch| !watch.over).map(|watch| watch.liveness);
            plan.reassigns.push(Reassign { section, expected: record.epoch, liveness, to, incarnation });
        } else if let Some(session) = owner
            && seen.living.contains_key(&session)
            && session.0 != to
            && (seen.steady || plan.draining.contains(&session.0))
        {
            plan.handovers.push(PlannedHandover { section, epoch: record.epoch, from: session.0, to, incarnation });
        }
    }
    plan
}

/// Who may be given sections: the declared nodes that are heard of and not to be emptied, or, where there is none, those
/// that an operator drained: better served by one of them than by nobody.
fn candidates<'a>(state: &State, declared: &[Declared<'a>], seen: &Seen) -> Vec<Candidate<'a>> {
    let living = |may: &dyn Fn(&NodeRecord) -> bool| -> Vec<Candidate<'a>> {
        let find = |one: &Declared<'a>| {
            let (id, record) = state.nodes().find(|(_, record)| record.name == one.name)?;
            let there = seen.living.contains_key(&(id, record.incarnation)) && may(record);
            there.then_some(Candidate { id, name: one.name, weight: one.weight })
        };
        declared.iter().filter_map(find).collect()
    };
    let free = living(&|record| !record.drained && !record.leaving);
    if free.is_empty() { living(&|record| !record.leaving) } else { free }
}

#[cfg(test)]
mod tests;
