//! The simulated store of a set. It has a single `State` of `seq-core`, to which log entries are applied one at a time,
//! and three members. One or two members at a time believe that they lead, and each of these members runs an `Arbiter`
//! of `seq-core`.
//!
//! **Invariant:** the member that proposed a command sends the response to the requester, and sends it only after the
//! command was applied.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use seq_core::clock_offset;
use seq_core::high_water::{Mark, Refused};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Session};
use seq_core::raise_bound::{self, Lowered};
use seq_core::state::{
    Answer, Command, CommandRefusal, Died, Drain, KeptCopy, MoveSections, NoteReadsLanes, Pause, PauseBalancing,
    RaiseCeilings, Reassign, Registration, SetTerms, State, Terms,
};
use seq_core::{Epoch, Incarnation, Liveness, NodeId, Revision, SectionId, Seq};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::deaths::{apply_undead, of_newest};
use crate::events::{Event, StoreStep};
use crate::faults::{MS, SECOND};
use crate::handover::commit;
use crate::hosts::{MEMBERS, members_of, set_of_member};
use crate::leader::{PACE, Seat};
use crate::net::{Address, Body, StoreRequest, StoreResponse};
use crate::records::Before;
use crate::sets::Asked;
use crate::store_bugs::{loosen, raise_unfenced, uncount};
use crate::world::World;

/// The lease with which the first AllocSvr registers while the terms of its set are [`LONG_TERMS`].
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(4);

/// The terms with which some worlds begin. Their lease wait is longer than in other worlds. Later in such a world, a
/// command sets the same terms as in the other worlds.
pub(crate) const LONG_TERMS: Terms = Terms { lease_wait: Duration::from_secs(5) };

/// The store of a set.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) state: State,
    /// The member that leads.
    pub(crate) leader: usize,
    /// The state machines of the members that believe that they lead. The index is the index of the member in this
    /// store.
    pub(crate) seats: [Option<Seat>; MEMBERS],
    pub(crate) paused_until: u64,
    /// Number of faults in effect that make evaluations of arbiters late. The next two fields are the numbers of faults
    /// that make commits of changes of owner late, and of faults that make responses late.
    pub(crate) late_looks: u32,
    pub(crate) late_reassigns: u32,
    pub(crate) late_news: u32,
    /// Earlier states, from the oldest to the newest. Each has the time at which the following state replaced it.
    /// Earlier states are kept only in worlds in which the store is put back to an earlier state.
    pub(crate) earlier: VecDeque<(u64, State)>,
    /// The revision to which the store was put back.
    pub(crate) rolled_back: Option<Revision>,
    /// The backup from which a restore begins.
    pub(crate) backup: Option<State>,
    /// Number of restores of the set.
    pub(crate) restores: u32,
    /// For [`Bug::CeilingOfThePlan`], the ceiling that each section had when the other set was requested to name the
    /// next owner of the section.
    pub(crate) armed_at: BTreeMap<SectionId, Seq>,
    /// For [`Bug::EarlierCeiling`], the epoch and the ceiling that each section had when its handover was planned.
    pub(crate) planned_at: BTreeMap<SectionId, (Epoch, Seq)>,
    /// For a planted bug in kept copies, the newest kept copy of each section.
    pub(crate) older_copies: BTreeMap<SectionId, KeptCopy>,
}

/// The sender of a request, for the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    process: usize,
    rpc: u64,
    attempt: u32,
    pub(crate) member: usize,
}

/// An entry of the log that is not applied yet.
#[derive(Debug)]
pub(crate) enum Entry {
    Requested(Rc<StoreRequest>, Option<Requester>),
    Reassign(Vec<Reassign>, usize),
    /// A command of an operator, a command of the leader about migrations, restores or lanes, or the command of a
    /// request of another set. The second field is the request of the other set, which gets a response.
    Between(Box<Command>, Option<Asked>),
    Drain(usize, bool),
    /// The report of the death of the process with this number of an AllocSvr.
    Died(usize, u64),
    /// The command of an operator that moves a section to the AllocSvr with this name. With `None`, the command allows
    /// balancing to move the section again.
    Move(u32, Option<usize>),
    PauseBalancing,
    Terms(Terms),
}

impl Store {
    pub(crate) fn new(set: usize, state: State) -> Store {
        Store {
            state,
            leader: members_of(set).start,
            seats: [None, None, None],
            paused_until: 0,
            late_looks: 0,
            late_reassigns: 0,
            late_news: 0,
            earlier: VecDeque::new(),
            rolled_back: None,
            backup: None,
            restores: 0,
            armed_at: BTreeMap::new(),
            planned_at: BTreeMap::new(),
            older_copies: BTreeMap::new(),
        }
    }
}

impl World {
    /// Processes a request of an AllocSvr at a member of the store. The member proposes the command of the request, or
    /// refuses the request if it knows that it does not lead.
    pub(crate) fn requested(
        &mut self,
        member: usize,
        process: usize,
        rpc: u64,
        attempt: u32,
        request: Rc<StoreRequest>,
    ) {
        let requester = Requester { process, rpc, attempt, member };
        let set = set_of_member(member);
        if self.seat(member).is_none() {
            let leader = self.stores[set].leader;
            return self.tell(requester, StoreResponse::NotLeader(leader));
        }
        self.seat(member).iter_mut().for_each(|seat| seat.calls += 1);
        if let StoreRequest::Commit { handover, .. } = &*request
            && self.bug == Some(Bug::ArriveBeforeCommit)
            && let Command::Depart(depart) = commit(handover)
            && self.rng.chance(300)
        {
            return self.send_proposed(member, &depart);
        }
        let request = self.bounded(set, request);
        let wait = self.rng.between(MS / 2, 4 * MS);
        if member == self.stores[set].leader {
            self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(Entry::Requested(request, Some(requester))))));
        } else if self.rng.chance(500) {
            // In some cases, the log of the new leader has the entry, so the entry is applied. The old leader never
            // learns this, so there is no response.
            self.coverage.saw(Situation::LateEntry);
            let wait = wait + self.rng.below(SECOND);
            self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(Entry::Requested(request, None)))));
        }
    }

    fn tell(&mut self, requester: Requester, response: StoreResponse) {
        let Requester { process, rpc, attempt, member } = requester;
        let rollbacks = u32::from(self.stores[set_of_member(member)].rolled_back.is_some());
        let body = Body::StoreResponse { rpc, attempt, rollbacks, response: Rc::new(response) };
        self.send(self.hosts.of_member(member), Address::Process(process), body);
    }

    /// Commits and applies an entry, checks its changes, and schedules the response. Postpones the entry while a fault
    /// pauses the store.
    pub(crate) fn apply(&mut self, set: usize, entry: Entry) {
        if self.now < self.stores[set].paused_until {
            let wait = self.stores[set].paused_until - self.now + self.rng.below(20 * MS);
            return self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(entry))));
        }
        let state = &self.stores[set].state;
        let before = Before::of(state);
        self.keep_state(set);
        let command = self.command_of(set, &entry);
        let answer = self.apply_command(set, &command, &before);
        let (now, version) = (self.now, self.stores[set].state.route_version.0);
        self.trace.note(now, [4, version, set as u64], || format!("store of set {set}: {command:?} -> {answer:?}"));
        self.look_at_entry(set, &before, (&command, &answer));
        self.look_at_liveness(set, &before, (&command, &answer));
        self.look_at_death(set, (&command, &answer));
        match entry {
            Entry::Requested(request, Some(requester)) => {
                let late = if self.stores[set].late_news > 0 { 300 * MS } else { 2 * MS };
                let wait = self.rng.below(late);
                self.after(wait, Event::Store(StoreStep::Answer(requester, request, Box::new(answer))));
            }
            Entry::Reassign(_, member) => {
                if let Some(seat) = self.seat(member) {
                    seat.proposing_until = 0;
                }
            }
            Entry::Between(_, Some(asked)) => self.respond_to_set(set, asked, answer),
            _ => {}
        }
        self.look_at_records(set, &before);
        self.look_at_copies(set, &before.copies);
        for member in members_of(set) {
            self.look_soon(member, PACE);
        }
    }

    /// Applies a command to the state of a set, changed by the planted bug if it is a bug in stores.
    fn apply_command(&mut self, set: usize, command: &Command, before: &Before) -> Answer {
        let state = &mut self.stores[set].state;
        let undead = self.bug.and_then(|bug| apply_undead(bug, state, command));
        let planted = undead.or_else(|| self.apply_planted(set, command));
        let mut answer = planted.unwrap_or_else(|| self.stores[set].state.apply(command));
        if self.bug == Some(Bug::UnfencedRaise) {
            raise_unfenced(&mut self.stores[set].state, command, &mut answer);
        }
        self.after_planted(set, command, &answer, &before.sections);
        let state = &mut self.stores[set].state;
        let changed = state.sections != before.sections;
        uncount(self.bug, &mut state.nodes, &before.nodes, (command, &answer, changed));
        answer
    }

    /// Returns the command of an entry, changed by the planted bug if it is a bug in proposals.
    fn command_of(&self, set: usize, entry: &Entry) -> Command {
        let state = &self.stores[set].state;
        let named = |name: usize| state.nodes().find(|(_, node)| node.name == name.to_string());
        match entry {
            Entry::Requested(request, _) => command(request, self.bug, state),
            Entry::Between(command, _) => (**command).clone(),
            Entry::Reassign(moves, _) => {
                let mut moves = moves.clone();
                loosen(self.bug, state, &mut moves);
                Command::Reassign(moves)
            }
            Entry::Terms(terms) => Command::SetTerms(SetTerms { replaces: state.terms, terms: *terms }),
            Entry::Drain(name, drained) => Command::Drain(Drain { name: name.to_string(), drained: *drained }),
            Entry::Died(name, process) => {
                let node = named(*name).map_or(NodeId(u32::MAX), |(id, _)| id);
                let died = Died { node, process: *process };
                Command::Died(if self.bug == Some(Bug::DeathOfNode) { of_newest(state, died) } else { died })
            }
            Entry::Move(section, name) => {
                let to = name.map(|name| named(name).map_or(NodeId(u32::MAX), |(id, _)| id));
                Command::MoveSections(MoveSections { sections: vec![SectionId(*section)], to })
            }
            Entry::PauseBalancing => {
                let pause = Pause { since_unix_ms: 0, principal: String::new() };
                Command::PauseBalancing(PauseBalancing(Some(pause)))
            }
        }
    }

    /// Sends the response to a request of an AllocSvr. The responding member reads the content of the response from the
    /// current state, which may be newer than the entry of the request.
    pub(crate) fn answer(&mut self, requester: Requester, request: &StoreRequest, answer: Answer) {
        let set = set_of_member(requester.member);
        let seat = self.seat(requester.member).as_ref();
        let plan = seat.map(|seat| seat.plan.clone()).unwrap_or_default();
        let departures: Vec<_> = seat.iter().flat_map(|seat| seat.coordinator.planned().cloned()).collect();
        let update = |session: Session, since| {
            let current = self.stores[set].state.node(session.node).map_or(Incarnation(0), |record| record.incarnation);
            OwnershipUpdate::of(&self.stores[set].state, &plan, &departures, session, since)
                .map(|update| self.with_earlier_ceilings(set, update))
                .ok_or(Refused::Incarnation(current))
        };
        let over =
            |refusal: &CommandRefusal| Refused::of(refusal).map_or(StoreResponse::Refused, StoreResponse::SessionOver);
        let response = match (answer, request) {
            (Answer::Registered(Ok((node, incarnation))), _) => {
                let liveness = self.stores[set].state.node(node).map_or(Liveness(0), |record| record.liveness);
                let mark = Mark { revision: self.stores[set].state.revision, liveness };
                StoreResponse::Registered(Session { node, incarnation }, mark)
            }
            (Answer::Registered(Err(CommandRefusal::StoreBehind { .. })), _) => StoreResponse::Behind,
            (Answer::Registered(Err(CommandRefusal::OtherPredecessor { current, .. })), _) => {
                StoreResponse::Follow(current)
            }
            (Answer::Renewed(Ok(())), StoreRequest::Renew(renewal)) => update(renewal.session, renewal.route_version)
                .map_or_else(StoreResponse::SessionOver, StoreResponse::Renewed),
            (Answer::Raised(Ok(ceilings)), StoreRequest::Raise { lowered, .. })
                if lowered.first_accepted(&ceilings).is_some() =>
            {
                StoreResponse::Refused
            }
            (Answer::Raised(Ok(ceilings)), StoreRequest::Raise { session, since, .. }) => update(*session, *since)
                .map_or_else(StoreResponse::SessionOver, |update| StoreResponse::Raised(ceilings, update)),
            (Answer::Transferred(Ok(_)) | Answer::Departed(Ok(_)), StoreRequest::Commit { handover, since }) => {
                update(handover.session, *since).map_or_else(StoreResponse::SessionOver, StoreResponse::Committed)
            }
            (
                Answer::Transferred(Err(refusal)) | Answer::Departed(Err(refusal)),
                StoreRequest::Commit { handover, .. },
            ) => match RefusedCommit::of(&refusal, handover.target_here()) {
                RefusedCommit::SessionOver => over(&refusal),
                meaning => StoreResponse::CommitRefused(meaning),
            },
            (Answer::Renewed(Err(refusal)) | Answer::Raised(Err(refusal)), _) => over(&refusal),
            _ => StoreResponse::Refused,
        };
        self.note_reads_lanes(requester, &response);
        self.tell(requester, response);
    }

    /// Plants [`Bug::EarlierCeiling`]. Returns the update, in which each granted section of timed lanes has the ceiling
    /// that the section had when its handover was planned.
    fn with_earlier_ceilings(&self, set: usize, mut update: OwnershipUpdate) -> OwnershipUpdate {
        for grant in update.grants.iter_mut().filter(|_| self.bug == Some(Bug::EarlierCeiling)) {
            let planned = self.stores[set].planned_at.get(&grant.section);
            if let Some((epoch, ceiling)) = planned.filter(|_| self.layout.clock_of(grant.section).is_some())
                && epoch.next() == grant.epoch
            {
                grant.ceiling = *ceiling;
            }
        }
        update
    }

    /// Returns the median of the wall clocks of a store's members, in milliseconds since 1970.
    pub(crate) fn middle_ms(&self, set: usize) -> u64 {
        let clocks = members_of(set).map(|member| self.machines[self.hosts.of_member(member)].unix_ms(self.now) as i64);
        clock_offset::middle(clocks).map_or(0, |middle| middle as u64)
    }

    /// Returns the time of a store, which is the median of its members' wall clocks, in milliseconds since 1970. Keeps
    /// the latest time that this function returned, for the checks.
    pub(crate) fn store_ms(&mut self, set: usize) -> u64 {
        let middle = self.middle_ms(set);
        self.latest_ms = self.latest_ms.max(middle);
        middle
    }

    /// Lowers the raises of a request to the limits that a leader applies before it proposes raises.
    fn bounded(&mut self, set: usize, request: Rc<StoreRequest>) -> Rc<StoreRequest> {
        let StoreRequest::Raise { session, raises, since, .. } = &*request else { return request };
        let unix_ms = self.store_ms(set);
        let (session, since, mut raises) = (*session, *since, raises.clone());
        let state = &self.stores[set].state;
        let lowered = match self.bug {
            Some(Bug::UnclampedRaise) => Lowered::default(),
            // With this bug, the store accepts raises of a requester that does not own the section, so here these
            // raises are limited by the clock, too.
            Some(Bug::UnfencedRaise) => {
                for raise in &mut raises {
                    let clock = self.layout.clock_of(raise.section);
                    raise.to = clock.map_or(raise.to, |clock| raise.to.min(clock.clamp(unix_ms)));
                }
                Lowered::default()
            }
            _ => raise_bound::bound(state, session, &mut raises, unix_ms).1,
        };
        Rc::new(StoreRequest::Raise { session, raises, since, lowered })
    }

    /// If `response` is the response to a renewal of a process that can own sections of series, lets the member propose
    /// a command that notes this in the record of the process' node, unless it is noted already.
    fn note_reads_lanes(&mut self, requester: Requester, response: &StoreResponse) {
        let (process, set) = (&self.procs[requester.process], set_of_member(requester.member));
        let (StoreResponse::Renewed(_), Some(session)) = (response, process.owner.session()) else { return };
        let record = self.stores[set].state.node(session.node);
        if process.reads_lanes && record.is_some_and(|record| !record.reads_lanes) {
            let Session { node, incarnation } = session;
            self.propose_command(requester.member, NoteReadsLanes { node, incarnation }, None);
        }
    }
}

fn command(request: &StoreRequest, bug: Option<Bug>, state: &State) -> Command {
    match request {
        StoreRequest::Register { name, port, token, lease, follows, seen, process } => {
            let name = name.to_string();
            let newest = state.nodes().find(|(_, node)| node.name == name).map(|(_, node)| node.incarnation);
            let any = bug == Some(Bug::AnyPredecessor);
            let follows = if any { newest.unwrap_or_default() } else { *follows };
            let addr = format!("{name}:{port}");
            let first = Registration::new(&name, &addr, *token);
            Command::Register(Registration { lease: *lease, follows, seen: *seen, process: *process, ..first })
        }
        StoreRequest::Renew(renewal) => Command::Renew(renewal.command()),
        StoreRequest::Raise { session, raises, .. } => Command::Raise(RaiseCeilings {
            node: session.node,
            incarnation: session.incarnation,
            raises: raises.clone(),
        }),
        StoreRequest::Commit { handover, .. } => commit(handover),
    }
}
