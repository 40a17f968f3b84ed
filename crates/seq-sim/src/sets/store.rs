//! The store of one of two sets: the real `State` as a register, its arbiter, its coordinator, and what sets send.
//!
//! **Invariant:** nothing that a set sends to the other one is read from a state without the entry that it is about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared, Plan};
use seq_core::migration::{Armed, Coordinator, Effect};
use seq_core::owner::handover::Handover;
use seq_core::owner::{OwnershipUpdate, Renewal, Session};
use seq_core::quarantine::Quarantine;
use seq_core::state::{
    Answer, Arrival, Arrive, Command, CommandRefusal, Complete, FenceResponse, NodeRecord, Raise, RaiseCeilings,
    Registration, Residence, SetRefusal, StartReturn, State,
};
use seq_core::{Incarnation, Lineage, MigrationId, RouteVersion, SectionId, Seq};

use super::process::{Message, Response};
use super::{Event, NAMES, SETS, World, handover, index, set_id};
use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::MS;
use crate::store_bugs::uncount;
use crate::world::TERMS;

/// Time between two evaluations of a set.
const EVALUATE: u64 = 15 * MS;

/// How late messages are that were sent while the sets were divided.
const LATE: (u64, u64) = (300 * MS, 4_000 * MS);

/// A request of an AllocSvr to its store.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Register { name: usize, token: u64, follows: Incarnation },
    Renew(Renewal),
    Raise { session: Session, raises: Vec<Raise>, since: RouteVersion },
    Commit(Handover, RouteVersion),
}

/// A message between sets.
#[derive(Clone, Debug)]
pub(super) enum Between {
    Arm {
        migration: MigrationId,
        sections: Vec<SectionId>,
    },
    Armed {
        migration: MigrationId,
        armed: Vec<Armed>,
    },
    Arrive(Arrive),
    Arrived {
        arrive: Arrive,
        outcome: Vec<Arrival>,
        lineage: Lineage,
    },
    StartReturn(StartReturn),
    Complete(Complete),
    Ended {
        lineage: Lineage,
        migration: MigrationId,
    },
    /// A restored set requests a page of the response to its fence.
    Fence {
        lineage: Lineage,
        first: SectionId,
    },
    Page(FenceResponse),
    TooFewRestores {
        lineage: Lineage,
        least: u32,
    },
}

/// Where the result of an entry goes.
#[derive(Debug)]
pub(super) enum Origin {
    Process(usize, u64, Request),
    Set(Between),
    Here,
}

/// An entry of a log on its way.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) command: Command,
    pub(super) from: Origin,
}

/// A set's store.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) state: State,
    pub(super) backup: Option<State>,
    /// Number of its log: a restore begins another one.
    pub(super) log: u64,
    pub(super) arbiter: Arbiter,
    pub(super) coordinator: Coordinator,
    pub(super) plan: Arc<Plan>,
    pub(super) down_until: u64,
    pub(super) quarantine: Option<Quarantine>,
    /// When the fence is sent again.
    pub(super) fence_at: u64,
    /// A planted bug: the ceiling of each section when it was armed.
    pub(super) armed_at: BTreeMap<SectionId, Seq>,
}

impl Set {
    pub(super) fn new(state: State) -> Set {
        Set {
            state,
            backup: None,
            log: 0,
            arbiter: arbiter(),
            coordinator: Coordinator::default(),
            plan: Arc::default(),
            down_until: 0,
            quarantine: None,
            fence_at: 0,
            armed_at: BTreeMap::new(),
        }
    }
}

/// That of a leader which knows nothing.
pub(super) fn arbiter() -> Arbiter {
    Arbiter::new(ArbiterTimeouts {
        registration_grace: Duration::from_millis(200),
        stable_for: Duration::from_millis(1_500),
    })
}

impl World {
    pub(super) fn propose(&mut self, set: usize, command: Command, from: Origin) {
        let wait = self.rng.between(MS / 2, 4 * MS);
        let log = self.sets[set].log;
        self.after(wait, Event::Apply(set, log, Box::new(Entry { command, from })));
    }

    /// A message to the other set. Of those that are sent while the sets are divided, half come seconds later.
    pub(super) fn send_to_set(&mut self, to: usize, message: Between) {
        if self.divided_until > self.now {
            if self.rng.chance(500) {
                let wait = self.rng.between(LATE.0, LATE.1);
                self.after(wait, Event::Between(to, message));
            }
            return;
        }
        self.send(|| Event::Between(to, message.clone()));
    }

    pub(super) fn requested(&mut self, set: usize, p: usize, rpc: u64, request: &Request) {
        if self.sets[set].down_until > self.now {
            return;
        }
        let command = match request.clone() {
            Request::Register { name, token, follows } => {
                let first = Registration::new(&name.to_string(), &format!("{name}:{p}"), token);
                Command::Register(Registration { lease: TERMS.lease, follows, ..first })
            }
            Request::Renew(renewal) => Command::Renew(renewal.command()),
            Request::Raise { session, raises, .. } => {
                Command::Raise(RaiseCeilings { node: session.node, incarnation: session.incarnation, raises })
            }
            Request::Commit(handover, _) => handover::command(&handover),
        };
        if let Command::Depart(depart) = &command
            && self.bug == Some(Bug::ArriveBeforeCommit)
            && self.rng.chance(300)
        {
            return self.send_proposed(set, depart);
        }
        self.propose(set, command, Origin::Process(p, rpc, request.clone()));
    }

    /// Each entry whose response extends a lease counts as a sign of life: the arbiter's wait begins with it.
    fn look_at_liveness(&mut self, set: usize, before: &[NodeRecord], (command, answer): (&Command, &Answer)) {
        let (node, incarnation) = match (command, answer) {
            (Command::Renew(renew), Answer::Renewed(Ok(()))) => (renew.node, renew.incarnation),
            (Command::Raise(RaiseCeilings { node, incarnation, .. }), Answer::Raised(Ok(_))) => (*node, *incarnation),
            (Command::Depart(depart), Answer::Departed(Ok(_))) => (depart.from, depart.incarnation),
            _ => return,
        };
        let now = self.sets[set].state.node(node).filter(|now| now.incarnation == incarnation);
        let old = before.get(node.0 as usize - 1);
        if now.zip(old).is_some_and(|(now, old)| now.liveness <= old.liveness) {
            let text = format!("node {node} of set {set}: {command:?}");
            self.check.broken(self.now, "what extends a lease is a sign of life", text);
        }
    }

    /// An entry is committed and applied.
    pub(super) fn apply(&mut self, set: usize, log: u64, entry: Entry) {
        if self.sets[set].log != log {
            return;
        }
        if self.sets[set].down_until > self.now {
            let wait = self.sets[set].down_until - self.now + self.rng.below(20 * MS);
            return self.after(wait, Event::Apply(set, log, Box::new(entry)));
        }
        let Entry { command, from } = entry;
        let before = self.sets[set].state.sections.clone();
        let nodes = self.sets[set].state.nodes.clone();
        let quarantined = self.sets[set].state.is_quarantined();
        let answer = match self.apply_planted(set, &command) {
            Some(answer) => answer,
            None => self.sets[set].state.apply(&command),
        };
        self.after_planted(set, &command, &answer, &before);
        let changed = self.sets[set].state.sections != before;
        uncount(self.bug, &mut self.sets[set].state.nodes, &nodes, (&command, &answer, changed));
        self.look_at_liveness(set, &nodes, (&command, &answer));
        let (now, version) = (self.now, self.sets[set].state.route_version.0);
        self.trace.note(now, [4, set as u64, version], || format!("set {set}: {command:?} -> {answer:?}"));
        self.note(set, &command, &answer);
        if quarantined && !self.sets[set].state.is_quarantined() {
            self.coverage.saw(Situation::QuarantineEnded);
        }
        self.look_at_records(set, &before);
        self.respond(set, answer, from);
    }

    fn note(&mut self, set: usize, command: &Command, answer: &Answer) {
        match (command, answer) {
            (Command::Depart(depart), Answer::Departed(Ok(_))) => {
                self.coverage.saw(Situation::Departed);
                if self.sets[set].state.migrations.get(&depart.migration).is_some_and(|one| one.pace.paused) {
                    self.coverage.saw(Situation::PausedDeparture);
                }
            }
            (Command::Arrive(_), Answer::Arrived(Err(CommandRefusal::BetweenSets(SetRefusal::OldLineage { .. })))) => {
                self.coverage.saw(Situation::ArrivalFenced);
            }
            (Command::DepartSilent(_), Answer::DepartedSilently(outcome)) if outcome.iter().any(Option::is_some) => {
                self.coverage.saw(Situation::DepartedSilently);
            }
            (Command::Arrive(_), Answer::Arrived(Ok(outcome))) if outcome.contains(&Arrival::Waits) => {
                self.coverage.saw(Situation::ArrivalWaits);
            }
            (Command::StartReturn(_), Answer::ReturnStarted(Ok(_))) => self.coverage.saw(Situation::Returned),
            (Command::Complete(_), Answer::Completed(Ok(()))) => self.coverage.saw(Situation::MigrationCompleted),
            (Command::BeginLineage(_), Answer::LineageBegun(Ok(()))) => self.coverage.saw(Situation::LineageBegun),
            _ => {}
        }
    }

    fn respond(&mut self, set: usize, answer: Answer, from: Origin) {
        match from {
            Origin::Here => {}
            Origin::Process(p, rpc, request) => {
                let response = self.response_to(set, answer, &request);
                if self.procs[p].cut_until <= self.now {
                    let response = Box::new(response);
                    self.send(|| Event::Message(p, Message::Response(rpc, response.clone())));
                }
            }
            Origin::Set(message) => self.respond_between(set, message, answer),
        }
    }

    pub(super) fn respond_between(&mut self, set: usize, message: Between, answer: Answer) {
        let (to, lineage) = (1 - set, self.sets[set].state.lineage);
        match (message, answer) {
            (Between::Arrive(arrive), Answer::Arrived(Ok(outcome))) => {
                self.send_to_set(to, Between::Arrived { arrive, outcome, lineage });
            }
            (Between::StartReturn(start), Answer::ReturnStarted(Ok(_))) if start.settled => {
                self.send_to_set(to, Between::Ended { lineage, migration: start.of });
            }
            (Between::Complete(complete), Answer::Completed(Ok(()))) => {
                self.send_to_set(to, Between::Ended { lineage, migration: complete.id });
            }
            (Between::Fence { lineage: fenced, first }, Answer::Fenced(Ok(()))) => {
                if let Ok(page) = self.sets[set].state.fence_response(set_id(to), fenced, first) {
                    self.send_to_set(to, Between::Page(page));
                }
            }
            (
                Between::Fence { lineage, .. },
                Answer::Fenced(Err(CommandRefusal::BetweenSets(SetRefusal::TooFewRestores { least, .. }))),
            ) => self.send_to_set(to, Between::TooFewRestores { lineage, least }),
            _ => {}
        }
    }

    fn response_to(&self, set: usize, answer: Answer, request: &Request) -> Response {
        let Set { state, plan, coordinator, .. } = &self.sets[set];
        let departures: Vec<_> = coordinator.planned().cloned().collect();
        let update = |session, since| OwnershipUpdate::of(state, plan, &departures, session, since);
        let over = Response::SessionOver;
        match (answer, request) {
            (Answer::Registered(Ok((node, incarnation))), _) => Response::Registered(Session { node, incarnation }),
            (Answer::Registered(Err(CommandRefusal::OtherPredecessor { current, .. })), _) => Response::Follow(current),
            (Answer::Renewed(Ok(())), Request::Renew(renewal)) => {
                update(renewal.session, renewal.route_version).map_or(over, Response::Renewed)
            }
            (Answer::Raised(Ok(ceilings)), Request::Raise { session, since, .. }) => {
                update(*session, *since).map_or(over, |update| Response::Raised(ceilings, update))
            }
            (Answer::Departed(Ok(_)) | Answer::Transferred(Ok(_)), Request::Commit(handover, since)) => {
                update(handover.session, *since).map_or(over, Response::Committed)
            }
            (Answer::Departed(Err(refusal)) | Answer::Transferred(Err(refusal)), Request::Commit(handover, _)) => {
                handover::refused(&refusal, handover)
            }
            (
                Answer::Renewed(Err(CommandRefusal::OtherIncarnation { .. } | CommandRefusal::UnknownNode { .. }))
                | Answer::Raised(Err(_)),
                _,
            ) => over,
            _ => Response::Refused,
        }
    }

    /// The leader of a set looks at its state, and does what it calls for.
    pub(super) fn evaluate(&mut self, set: usize) {
        self.after(EVALUATE, Event::Evaluate(set));
        if self.sets[set].down_until > self.now {
            return;
        }
        let now = self.time();
        let names: [String; NAMES] = std::array::from_fn(|name| name.to_string());
        let declared = names.each_ref().map(|name| Declared { name, weight: 1 });
        let Set { state, arbiter, coordinator, plan, .. } = &mut self.sets[set];
        *plan = arbiter.evaluate(state, &declared, || now).clone();
        let living = |node, incarnation| arbiter.is_living(node, incarnation);
        let mut stranded = plan.stranded.clone();
        if self.bug == Some(Bug::SilentAtOnce) {
            let owned = |(section, record): (SectionId, &Residence)| seq_core::arbiter::Stranded {
                section,
                expected: record.epoch,
                liveness: record.owner.and_then(|owner| state.node(owner)).map(|node| node.liveness),
            };
            stranded = state.sections.residents().map(owned).collect();
        }
        let at_once = self.bug == Some(Bug::SilentAtOnce);
        let effects = coordinator.evaluate(state, &stranded, |node, one| !at_once && living(node, one), now);
        let reassigns = plan.reassigns.clone();
        if !reassigns.is_empty() {
            self.propose(set, Command::Reassign(reassigns), Origin::Here);
        }
        for effect in effects {
            self.carry_out(set, effect);
        }
        self.recover(set);
    }

    pub(super) fn carry_out(&mut self, set: usize, effect: Effect) {
        match effect {
            Effect::Arm { migration, to, sections } => {
                for section in &sections {
                    let max_seq = self.sets[set].state.sections.resident(*section).map_or(Seq::ZERO, |one| one.max_seq);
                    self.sets[set].armed_at.insert(*section, max_seq);
                }
                self.send_to_set(index(to), Between::Arm { migration, sections });
            }
            Effect::Arrive { to, arrive } => self.send_to_set(index(to), Between::Arrive(arrive)),
            Effect::StartReturn { to, start } => self.send_to_set(index(to), Between::StartReturn(start)),
            Effect::Complete { to, complete } => self.send_to_set(index(to), Between::Complete(complete)),
            Effect::Ask { of, migration } => self.ask(set, index(of), migration),
            Effect::Commit(proposal) => self.propose(set, proposal.into(), Origin::Here),
        }
    }

    /// Has a restored set state whether it knows a migration of its own: the response takes no time.
    fn ask(&mut self, set: usize, of: usize, migration: MigrationId) {
        if self.sets[of].down_until > self.now {
            return;
        }
        let asked = &self.sets[of].state;
        let (stated, knows) = ((set_id(of), asked.lineage), asked.migrations.contains_key(&migration));
        let Set { coordinator, state, .. } = &mut self.sets[set];
        if let Some(effect) = coordinator.on_asked(state, stated, migration, knows) {
            self.carry_out(set, effect);
        }
    }

    pub(super) fn receive_between(&mut self, set: usize, message: Between) {
        if self.sets[set].down_until > self.now {
            return;
        }
        let (from, now) = (1 - set, self.time());
        match message {
            Between::Arm { migration, sections } => self.arm(set, migration, &sections),
            Between::Armed { migration, armed } => {
                let effect = if armed.is_empty() {
                    self.sets[set].coordinator.on_arm_refused(migration, now);
                    None
                } else {
                    self.sets[set].coordinator.on_armed(migration, &armed, now)
                };
                effect.into_iter().for_each(|effect| self.carry_out(set, effect));
            }
            Between::Arrive(arrive) => {
                self.propose(set, Command::Arrive(arrive.clone()), Origin::Set(Between::Arrive(arrive)));
            }
            Between::Arrived { arrive, outcome, lineage } => {
                let effect = self.sets[set].coordinator.on_arrive((set_id(from), lineage), &arrive, &outcome);
                effect.into_iter().for_each(|effect| self.carry_out(set, effect));
            }
            Between::StartReturn(start) => {
                self.propose(set, Command::StartReturn(start), Origin::Set(Between::StartReturn(start)));
            }
            Between::Complete(_) if self.sets[set].state.is_quarantined() => {}
            Between::Complete(complete) => {
                self.propose(set, Command::Complete(complete), Origin::Set(Between::Complete(complete)));
            }
            Between::Ended { lineage, migration } => {
                let effect = self.sets[set].coordinator.on_end((set_id(from), lineage), migration);
                self.carry_out(set, effect);
            }
            Between::Fence { .. } | Between::Page(_) | Between::TooFewRestores { .. } => {
                self.receive_recovery(set, message);
            }
        }
    }

    /// Names the owners of sections that will arrive; none where the set takes no sections.
    fn arm(&mut self, set: usize, migration: MigrationId, sections: &[SectionId]) {
        let Set { state, plan, .. } = &self.sets[set];
        let owners = plan.reserve(state, self.layout.id(), sections).unwrap_or_default();
        let lineage = state.lineage;
        let armed = sections.iter().zip(owners).map(|(section, owner)| {
            let addr = state.node(owner.0).map(|node| node.addr.clone()).unwrap_or_default();
            Armed { section: *section, set: (set_id(set), lineage), owner, addr }
        });
        let armed = armed.collect();
        self.send_to_set(1 - set, Between::Armed { migration, armed });
    }
}

const _: () = assert!(SETS == 2, "the other set is the one that is not this one");
