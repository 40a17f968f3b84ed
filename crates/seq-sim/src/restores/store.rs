//! The store of a set in worlds of restores. It has the `State`, the `Arbiter` and the `Coordinator` of `seq-core`, and
//! exchanges messages with the stores of other sets. Entries are applied to the state one at a time.
//!
//! **Invariant:** a set sends another set a message about a change only after the log entry of this change was applied
//! to its state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared, Plan, Reserver};
use seq_core::lease::LeaseTerms;
use seq_core::migration::{Armed, Coordinator, Effect};
use seq_core::owner::Session;
use seq_core::quarantine::Quarantine;
use seq_core::state::{
    AdoptSeries, Answer, Arrival, Arrive, Closing, Command, CommandRefusal, Complete, Depart, Destination,
    FenceResponse, Inherit, LearnDirectory, Raise, RaiseCeilings, Registration, Renew, SetFacts, SetRefusal,
    StartReturn, State,
};
use seq_core::{HandoverId, Incarnation, Lineage, MigrationId, RenewSeq, RouteVersion, SectionId, SetId};

use super::operator::Backup;
use super::process::{Response, local, number};
use super::{Event, NAMES, SETS, World, index, set_id};
use crate::coverage::Situation;
use crate::faults::MS;

/// Time between two evaluations of a set.
const EVALUATE: u64 = 40 * MS;

/// Interval at which a set sends facts about itself to the other sets. At the same time, it requests missing records of
/// closing sets.
const EXCHANGE: u64 = 300 * MS;

/// Range of the delay of messages that are sent while the two sets are divided, and are not lost.
const LATE: (u64, u64) = (300 * MS, 5_000 * MS);

/// A request of an AllocSvr to its store.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Register { name: usize, token: u64, follows: Incarnation },
    Renew { session: Session, renew_seq: RenewSeq },
    Raise { session: Session, raises: Vec<Raise> },
    Depart(Depart),
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
    /// A request of a restored set for one page of the response to its fence.
    Fence {
        lineage: Lineage,
        first: SectionId,
    },
    /// One page of the response to a fence, and the set that creates series.
    Page(FenceResponse, Box<AdoptSeries>),
    TooFewRestores {
        lineage: Lineage,
        least: u32,
    },
    /// Facts about the sending set, and the set that creates series.
    Facts(SetFacts, Box<AdoptSeries>),
    /// A request to a closing set for one page of its final records.
    Final {
        first: SectionId,
    },
    FinalPage(FenceResponse),
}

/// The requester of a log entry. It gets the response after the entry was applied.
#[derive(Debug)]
pub(super) enum Origin {
    Process(usize, u64, Request),
    Set(usize, Between),
    Here,
}

/// An entry of a log that is not applied yet.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) command: Command,
    pub(super) from: Origin,
}

/// Whether a set's store exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    Running,
    /// The disks of the store are lost, and the operator has not restored the set yet.
    Lost,
    /// The set was closed, and its processes have stopped permanently.
    Gone,
}

/// The store of a set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) existence: Existence,
    pub(super) state: State,
    pub(super) terms: LeaseTerms,
    /// For [`Bug::MembersNeedNotAgree`](crate::Bug::MembersNeedNotAgree), the state of a member that began with another
    /// backup and joined the group of the others.
    pub(super) stray: Option<State>,
    /// The kept backups, from the oldest to the newest.
    pub(super) backups: Vec<Backup>,
    /// The closed sets whose final records are in the state of this set. The set got them from the closing sets, or in
    /// quarantine from other sets.
    pub(super) heir_of: BTreeSet<usize>,
    /// Number of the current log of the store. The number grows when the store is lost, when it is restored, and when
    /// its processes stop permanently.
    pub(super) log: u64,
    pub(super) arbiter: Arbiter,
    pub(super) coordinator: Coordinator,
    pub(super) plan: Arc<Plan>,
    reserver: Reserver,
    /// The rate of the leader's clock, in millionths.
    rate: u64,
    pub(super) down_until: u64,
    pub(super) quarantine: Option<Quarantine>,
    /// The earliest time at which the set sends its fence again.
    pub(super) fence_at: u64,
    /// The time at which the set sends facts about itself to other sets again.
    exchange_at: u64,
}

impl Set {
    pub(super) fn new(state: State, terms: LeaseTerms) -> Set {
        Set {
            existence: Existence::Running,
            state,
            terms,
            stray: None,
            backups: Vec::new(),
            heir_of: BTreeSet::new(),
            log: 0,
            arbiter: arbiter(),
            coordinator: Coordinator::default(),
            plan: Arc::default(),
            reserver: Reserver::default(),
            rate: 0,
            down_until: 0,
            quarantine: None,
            fence_at: 0,
            exchange_at: 0,
        }
    }

    /// Returns whether the operator, processes and other sets can reach the leader of the store.
    pub(super) fn responds(&self, now: u64) -> bool {
        self.existence == Existence::Running && self.down_until <= now
    }
}

/// Returns the arbiter of a new leader, which has observed nothing yet.
fn arbiter() -> Arbiter {
    let (registration_grace, stable_for) = (Duration::from_millis(200), Duration::from_millis(1_500));
    Arbiter::new(ArbiterTimeouts { registration_grace, stable_for })
}

impl World {
    /// Makes another member the leader of the store. The new leader has the same state, a clock with another rate, and
    /// an arbiter that has observed nothing. If there is a stray member, it becomes the leader.
    pub(super) fn elect(&mut self, set: usize) {
        let rate = self.rate();
        let one = &mut self.sets[set];
        if let Some(stray) = &mut one.stray {
            std::mem::swap(&mut one.state, stray);
        }
        (one.arbiter, one.coordinator, one.plan) = (arbiter(), Coordinator::default(), Arc::default());
        (one.rate, one.quarantine) = (rate, None);
    }

    pub(super) fn propose(&mut self, set: usize, command: Command, from: Origin) {
        let wait = self.rng.between(MS / 2, 4 * MS);
        let log = self.sets[set].log;
        self.after(wait, Event::Apply(set, log, Box::new(Entry { command, from })));
    }

    /// Sends a message from a set to another set. While the two sets are divided, half of the messages are lost, and
    /// the others arrive up to 5 seconds late.
    pub(super) fn send_to_set(&mut self, from: usize, to: usize, message: Between) {
        if self.divided_until[from][to] > self.now {
            if self.rng.chance(500) {
                let wait = self.rng.between(LATE.0, LATE.1);
                self.after(wait, Event::Between(from, to, Box::new(message)));
            }
            return;
        }
        self.send(|| Event::Between(from, to, Box::new(message.clone())));
    }

    pub(super) fn requested(&mut self, set: usize, p: usize, rpc: u64, request: &Request) {
        if !self.sets[set].responds(self.now) {
            return;
        }
        let command = match request.clone() {
            Request::Register { name, token, follows } => {
                let first = Registration::new(&name.to_string(), &format!("{name}:{p}"), token);
                let lease = self.sets[set].terms.lease;
                Command::Register(Registration { lease, follows, process: number(p), ..first })
            }
            Request::Renew { session: Session { node, incarnation }, renew_seq } => {
                Command::Renew(Renew { node, incarnation, renew_seq, leaving: false, ..Renew::default() })
            }
            Request::Raise { session: Session { node, incarnation }, raises } => {
                Command::Raise(RaiseCeilings { node, incarnation, raises })
            }
            Request::Depart(depart) => Command::Depart(depart),
        };
        self.propose(set, command, Origin::Process(p, rpc, request.clone()));
    }

    /// Applies a committed entry, checks its changes and responds to its requester. Drops the entry if its log was
    /// lost, and postpones it while the store is down.
    pub(super) fn apply(&mut self, set: usize, log: u64, entry: Entry) {
        if self.sets[set].log != log || self.sets[set].existence != Existence::Running {
            return;
        }
        if self.sets[set].down_until > self.now {
            let wait = self.sets[set].down_until - self.now + self.rng.below(20 * MS);
            return self.after(wait, Event::Apply(set, log, Box::new(entry)));
        }
        let Entry { command, from } = entry;
        let before = self.sets[set].state.clone();
        let answer = self.apply_planted(set, &command);
        let version = self.sets[set].state.route_version.0;
        self.note([4, set as u64, version], || format!("set {set}: {command:?} -> {answer:?}"));
        self.observe(set, &command, &answer, &before);
        self.look_at_records(set, &before.sections);
        self.respond(set, answer, from);
    }

    fn observe(&mut self, set: usize, command: &Command, answer: &Answer, before: &State) {
        let between = |refusal: &CommandRefusal| match refusal {
            CommandRefusal::BetweenSets(refusal) => Some(refusal.clone()),
            _ => None,
        };
        match (command, answer) {
            (Command::Depart(_), Answer::Departed(Ok(_))) => self.coverage.saw(Situation::RestoresDeparted),
            (Command::DepartSilent(_), Answer::DepartedSilently(outcome)) if outcome.iter().any(Option::is_some) => {
                self.coverage.saw(Situation::RestoresDepartedSilently);
            }
            (Command::StartReturn(_), Answer::ReturnStarted(Ok(_))) => self.coverage.saw(Situation::RestoresReturned),
            (Command::BeginLineage(_), Answer::LineageBegun(Ok(()))) => {
                self.coverage.saw(Situation::RestoresLineageBegun);
            }
            (Command::Fence(_), Answer::Fenced(Err(refusal))) => {
                if matches!(between(refusal), Some(SetRefusal::TooFewRestores { .. })) {
                    self.coverage.saw(Situation::RestoresFenceRefused);
                }
            }
            (Command::Fence(fence), Answer::Fenced(Ok(()))) => {
                if before.sections.unconfirmed() < self.sets[set].state.sections.unconfirmed() {
                    self.coverage.saw(Situation::RestoresSentAgain);
                }
                let third = |(id, peer): (&SetId, &seq_core::state::PeerSet)| {
                    *id != fence.set && peer.fenced > Lineage(0) && !before.is_quarantined()
                };
                if before.sets.iter().any(third) {
                    self.coverage.saw(Situation::RestoresFencedAfterThird);
                }
            }
            (Command::Inherit(Inherit(page)), Answer::Inherited(Ok(true))) if page.next.is_none() => {
                self.coverage.saw(Situation::RestoresInherited);
                self.sets[set].heir_of.insert(index(page.set));
            }
            (Command::Forget(forget), Answer::Forgotten(Ok(true))) => {
                self.note([7, set as u64, forget.set.0], || format!("set {set} has forgotten set {}", forget.set));
            }
            (Command::EndQuarantine(_), Answer::QuarantineEnded(Ok(()))) if before.is_quarantined() => {
                self.coverage.saw(Situation::RestoresQuarantineEnded);
                let recovery = before.recovery.as_ref().expect("it is quarantined");
                if recovery.wait > self.sets[set].terms.wait {
                    self.coverage.saw(Situation::RestoresLongerWait);
                }
                for responded in recovery.responses.keys().map(|id| index(*id)).collect::<Vec<_>>() {
                    let mut known = self.sets[responded].heir_of.clone();
                    known.extend(Some(responded).filter(|one| self.sets[*one].state.closing == Closing::Closed));
                    self.sets[set].heir_of.extend(known);
                }
            }
            _ => {}
        }
    }

    fn respond(&mut self, set: usize, answer: Answer, from: Origin) {
        match from {
            Origin::Here => {}
            Origin::Process(p, rpc, request) => {
                let response = self.response_to(set, &answer, &request);
                if self.procs[p].cut_until <= self.now
                    && let Some(response) = response
                {
                    self.send(|| Event::Response(p, rpc, response.clone()));
                }
            }
            Origin::Set(to, message) => self.respond_between(set, to, message, answer),
        }
    }

    fn respond_between(&mut self, set: usize, to: usize, message: Between, answer: Answer) {
        let lineage = self.sets[set].state.lineage;
        let response = match (message, answer) {
            (Between::Arrive(arrive), Answer::Arrived(Ok(outcome))) => Between::Arrived { arrive, outcome, lineage },
            (Between::StartReturn(start), Answer::ReturnStarted(Ok(_))) if start.settled => {
                Between::Ended { lineage, migration: start.of }
            }
            (Between::Complete(complete), Answer::Completed(Ok(()))) => {
                Between::Ended { lineage, migration: complete.id }
            }
            (Between::Fence { lineage, first }, Answer::Fenced(Ok(()))) => {
                return self.respond_to_fence(set, to, lineage, first);
            }
            (
                Between::Fence { lineage, .. },
                Answer::Fenced(Err(CommandRefusal::BetweenSets(SetRefusal::TooFewRestores { least, .. }))),
            ) => Between::TooFewRestores { lineage, least },
            _ => return,
        };
        self.send_to_set(set, to, response);
    }

    /// Returns the response to a process after its entry was applied. Returns `None` if the process gets no response,
    /// so that it must repeat its request.
    fn response_to(&self, set: usize, answer: &Answer, request: &Request) -> Option<Response> {
        let session = match request {
            Request::Register { .. } => {
                return match answer {
                    Answer::Registered(Ok((node, incarnation))) => {
                        Some(Response::Registered(Session { node: *node, incarnation: *incarnation }))
                    }
                    Answer::Registered(Err(CommandRefusal::OtherPredecessor { current, .. })) => {
                        Some(Response::Follow(*current))
                    }
                    _ => None,
                };
            }
            Request::Renew { session, .. } | Request::Raise { session, .. } => *session,
            Request::Depart(depart) => Session { node: depart.from, incarnation: depart.incarnation },
        };
        let state = &self.sets[set].state;
        if state.node(session.node).is_none_or(|node| node.incarnation != session.incarnation) {
            return Some(Response::SessionOver);
        }
        let refused = match (answer, request) {
            (Answer::Departed(Err(_)), Request::Depart(depart)) => Some(depart.section),
            (Answer::Renewed(Err(_)) | Answer::Raised(Err(_)), _) => return None,
            _ => None,
        };
        let owned = state.owned_since((session.node, session.incarnation), RouteVersion(0));
        let owned = owned.map(|(section, one)| (section, one.epoch, one.max_seq)).collect();
        let departs = self.sets[set].coordinator.planned().filter(|one| one.from == session.node);
        let departs = departs.filter_map(|one| {
            let departure = one.departure.as_ref()?;
            let (set, lineage, migration) = (departure.set, departure.lineage, departure.migration);
            let to = Destination { set, lineage, node: Some(one.to), incarnation: one.incarnation };
            let (section, epoch, from, incarnation) = (one.section, one.epoch, one.from, session.incarnation);
            Some(Depart { section, epoch, from, incarnation, to, handover_id: HandoverId(0), migration })
        });
        Some(Response::Granted { owned, departs: departs.collect(), refused })
    }

    /// Returns the time on the leader's clock.
    pub(super) fn leader_time(&self, set: usize) -> Duration {
        Duration::from_nanos(local(self.now, self.sets[set].rate))
    }

    /// Runs one evaluation at the leader of a set. The leader evaluates the state, proposes changes to the log, and
    /// sends messages to other sets.
    pub(super) fn evaluate(&mut self, set: usize) {
        if self.sets[set].existence == Existence::Gone {
            return;
        }
        self.after(EVALUATE, Event::Evaluate(set));
        if !self.sets[set].responds(self.now) {
            return;
        }
        let now = self.leader_time(set);
        let names: [String; NAMES] = std::array::from_fn(|name| name.to_string());
        let declared = names.each_ref().map(|name| Declared { name, weight: 1 });
        let Set { state, arbiter, coordinator, plan, .. } = &mut self.sets[set];
        *plan = arbiter.evaluate(state, &declared, || now).clone();
        let living = |node, incarnation| arbiter.is_living(node, incarnation);
        let effects = coordinator.evaluate(state, &plan.stranded, living, now);
        let reassigns = plan.reassigns.clone();
        if !reassigns.is_empty() {
            self.propose(set, Command::Reassign(reassigns), Origin::Here);
        }
        for effect in effects {
            self.carry_out(set, effect);
        }
        self.recover(set);
        if self.sets[set].exchange_at <= self.now {
            self.sets[set].exchange_at = self.now + EXCHANGE;
            self.exchange(set);
        }
    }

    /// Sends facts about a set to the other sets, and requests the final records of closing sets that the set lacks.
    fn exchange(&mut self, set: usize) {
        let Some(facts) = self.sets[set].state.facts(Vec::new()) else { return };
        let series = Box::new(self.sets[set].state.stated_series());
        for to in (0..SETS).filter(|to| *to != set) {
            self.send_to_set(set, to, Between::Facts(facts.clone(), series.clone()));
        }
        let awaited: Vec<_> = self.sets[set].state.awaited_inheritances().collect();
        for (closing, first) in awaited {
            self.send_to_set(set, index(closing), Between::Final { first });
        }
    }

    fn carry_out(&mut self, set: usize, effect: Effect) {
        match effect {
            Effect::Arm { migration, to, sections } => {
                self.send_to_set(set, index(to), Between::Arm { migration, sections });
            }
            Effect::Arrive { to, arrive } => self.send_to_set(set, index(to), Between::Arrive(arrive)),
            Effect::StartReturn { to, start } => self.send_to_set(set, index(to), Between::StartReturn(start)),
            Effect::Complete { to, complete } => self.send_to_set(set, index(to), Between::Complete(complete)),
            Effect::Ask { of, migration } => self.ask(set, index(of), migration),
            Effect::Commit(proposal) => self.propose(set, proposal.into(), Origin::Here),
        }
    }

    /// Asks the restored set `of` whether it still knows a migration that it had begun before the restore, and
    /// processes the response. The exchange takes no time in the simulation.
    fn ask(&mut self, set: usize, of: usize, migration: MigrationId) {
        if !self.sets[of].responds(self.now) {
            return;
        }
        let asked = &self.sets[of].state;
        let (stated, knows) = ((set_id(of), asked.lineage), asked.migrations.contains_key(&migration));
        let Set { coordinator, state, .. } = &mut self.sets[set];
        if let Some(effect) = coordinator.on_asked(state, stated, migration, knows) {
            self.carry_out(set, effect);
        }
    }

    pub(super) fn receive_between(&mut self, from: usize, set: usize, message: Between) {
        if !self.sets[set].responds(self.now) {
            return;
        }
        let now = self.leader_time(set);
        let coordinator = &mut self.sets[set].coordinator;
        let effect = match message {
            Between::Arm { migration, sections } => return self.arm(set, from, migration, &sections),
            Between::Armed { migration, armed } if armed.is_empty() => {
                coordinator.on_arm_refused(migration, now);
                None
            }
            Between::Armed { migration, armed } => coordinator.on_armed(migration, &armed, now),
            Between::Arrived { arrive, outcome, lineage } => {
                coordinator.on_arrive((set_id(from), lineage), &arrive, &outcome)
            }
            Between::Ended { lineage, migration } => Some(coordinator.on_end((set_id(from), lineage), migration)),
            Between::Arrive(arrive) => {
                let command = Command::Arrive(arrive.clone());
                return self.propose(set, command, Origin::Set(from, Between::Arrive(arrive)));
            }
            Between::StartReturn(start) => {
                let command = Command::StartReturn(start);
                return self.propose(set, command, Origin::Set(from, Between::StartReturn(start)));
            }
            Between::Complete(_) if self.sets[set].state.is_quarantined() => return,
            Between::Complete(complete) => {
                let command = Command::Complete(complete);
                return self.propose(set, command, Origin::Set(from, Between::Complete(complete)));
            }
            Between::Facts(facts, series) => {
                self.adopt_series(set, series);
                return self.learn(set, facts);
            }
            Between::Final { first } => {
                let page = self.sets[set].state.final_records(set_id(from), first);
                return page.into_iter().for_each(|page| self.send_to_set(set, from, Between::FinalPage(page)));
            }
            Between::FinalPage(page) => return self.propose(set, Command::Inherit(Inherit(page)), Origin::Here),
            recovery => return self.receive_recovery(from, set, recovery),
        };
        effect.into_iter().for_each(|effect| self.carry_out(set, effect));
    }

    /// Proposes a command by which a set adopts the hand-over of the creation of series that another set stated. Does
    /// nothing if the set's state has this hand-over or a newer one.
    pub(super) fn adopt_series(&mut self, set: usize, stated: Box<AdoptSeries>) {
        if self.sets[set].state.adopts_series(&stated) {
            self.propose(set, Command::AdoptSeries(*stated), Origin::Here);
        }
    }

    /// Proposes a command by which a set adopts facts that another set stated about itself. Does nothing if only the
    /// revision differs from the facts that the set knows.
    fn learn(&mut self, set: usize, facts: SetFacts) {
        let known = self.sets[set].state.sets.get(&facts.id).and_then(|peer| peer.facts.as_ref());
        let same = |known: &SetFacts| SetFacts { revision: facts.revision, ..known.clone() } == facts;
        if !known.is_some_and(same) {
            self.propose(set, Command::LearnDirectory(LearnDirectory::of(facts)), Origin::Here);
        }
    }

    /// Names the next owners of sections that will arrive from the set `to`, and sends them to that set. Names no
    /// owners if this set accepts no sections.
    fn arm(&mut self, set: usize, to: usize, migration: MigrationId, sections: &[SectionId]) {
        let Set { state, plan, reserver, .. } = &mut self.sets[set];
        let owners = reserver.reserve(plan, state, self.layout.id(), sections).unwrap_or_default();
        let lineage = state.lineage;
        let armed = sections.iter().zip(owners).map(|(section, owner)| {
            let addr = state.node(owner.0).map(|node| node.addr.clone()).unwrap_or_default();
            Armed { section: *section, set: (set_id(set), lineage), owner, addr }
        });
        let armed = armed.collect();
        self.send_to_set(set, to, Between::Armed { migration, armed });
    }
}
