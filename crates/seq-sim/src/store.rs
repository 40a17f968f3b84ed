//! The store of a set. It has the real `State`, to which log entries are applied one at a time, and three members. One
//! or two members believe that they lead, and each of these members runs the real `Arbiter`.
//!
//! **Invariant:** the member that proposed a command sends the response, and does so only after the command was
//! applied.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use seq_core::clock_offset;
use seq_core::high_water::{Mark, Refused};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Session};
use seq_core::raise_bound::{self, Lowered};
use seq_core::state::{
    Answer, Command, CommandRefusal, Drain, KeptCopy, MoveSections, NoteReadsLanes, Pause, PauseBalancing,
    RaiseCeilings, Reassign, Registration, SetTerms, State, Terms,
};
use seq_core::{Epoch, Incarnation, Liveness, NodeId, Revision, SectionId, Seq};

use crate::bugs::Bug;
use crate::coverage::Situation;
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

/// The lease of the first AllocSvr in worlds that begin with long terms.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(4);

/// The long terms with which some worlds begin. Later in such a world, a command sets the terms that all other worlds
/// have.
pub(crate) const LONG_TERMS: Terms = Terms { lease_wait: Duration::from_secs(5) };

/// The store of a set.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) state: State,
    /// The member that leads.
    pub(crate) leader: usize,
    /// The arbiters of the members that believe that they lead. The index is the member's index in this store.
    pub(crate) seats: [Option<Seat>; MEMBERS],
    pub(crate) paused_until: u64,
    /// Number of faults in effect that make evaluations late. The next two fields count the faults that make proposals
    /// late and the faults that make responses late.
    pub(crate) late_looks: u32,
    pub(crate) late_reassigns: u32,
    pub(crate) late_news: u32,
    /// Earlier states, each with the time at which the next state replaced it. The newest state is the last. They are
    /// kept only in worlds in which the store is put back to an earlier state.
    pub(crate) earlier: VecDeque<(u64, State)>,
    /// The revision to which the store was put back.
    pub(crate) rolled_back: Option<Revision>,
    /// The backup from which a restore begins.
    pub(crate) backup: Option<State>,
    /// Number of restores of the set.
    pub(crate) restores: u32,
    /// For a planted bug, the ceiling that each section had when the other set was requested to name an owner for it.
    pub(crate) armed_at: BTreeMap<SectionId, Seq>,
    /// For a planted bug, the epoch and the ceiling that each section had when its handover was planned.
    pub(crate) planned_at: BTreeMap<SectionId, (Epoch, Seq)>,
    /// For a planted bug, the newest kept copy of each section.
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
    /// A command of an operator, a command of the leader about migrations and restores, or a command of another set.
    /// Another set gets the response.
    Between(Box<Command>, Option<Asked>),
    Drain(usize, bool),
    /// A move of a section by an operator to the AllocSvr with this name; with `None`, the section is balanced again.
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
    /// Has a member propose the command of a request, or refuse the request if the member knows that it does not lead.
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
            // The new leader has the entry in its log, but the old leader never learns that the entry was committed.
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

    /// Commits and applies an entry, checks its changes, and schedules the response.
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

    /// Applies a command, with the planted bugs of stores.
    fn apply_command(&mut self, set: usize, command: &Command, before: &Before) -> Answer {
        let planted = self.apply_planted(set, command);
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

    /// Returns the command of an entry, with the planted bugs in proposals.
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

    /// Sends the response to a request. The member that responds reads the current state for it.
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

    /// Plants a bug: grants sections of timed lanes with the ceiling that the sections had when their handover was
    /// planned.
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

    /// Returns the middle one of the wall clocks of a store's members, in milliseconds since 1970.
    pub(crate) fn middle_ms(&self, set: usize) -> u64 {
        let clocks = members_of(set).map(|member| self.machines[self.hosts.of_member(member)].unix_ms(self.now) as i64);
        clock_offset::middle(clocks).map_or(0, |middle| middle as u64)
    }

    /// Returns the time on the clock of a store, in milliseconds since 1970, and keeps the latest reading for the
    /// checks.
    pub(crate) fn store_ms(&mut self, set: usize) -> u64 {
        let middle = self.middle_ms(set);
        self.latest_ms = self.latest_ms.max(middle);
        middle
    }

    /// Bounds the raises of a request, as a leader does before it proposes them.
    fn bounded(&mut self, set: usize, request: Rc<StoreRequest>) -> Rc<StoreRequest> {
        let StoreRequest::Raise { session, raises, since, .. } = &*request else { return request };
        let unix_ms = self.store_ms(set);
        let (session, since, mut raises) = (*session, *since, raises.clone());
        let state = &self.stores[set].state;
        let lowered = match self.bug {
            Some(Bug::UnclampedRaise) => Lowered::default(),
            // The raises of timed lanes are bounded even for a requester that does not own the section.
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

    /// Has the log note that a process can own sections of series, when the process has renewed and the log has no such
    /// note.
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
        StoreRequest::Register { name, port, token, lease, follows, seen } => {
            let name = name.to_string();
            let newest = state.nodes().find(|(_, node)| node.name == name).map(|(_, node)| node.incarnation);
            let any = bug == Some(Bug::AnyPredecessor);
            let follows = if any { newest.unwrap_or_default() } else { *follows };
            let addr = format!("{name}:{port}");
            let first = Registration::new(&name, &addr, *token);
            Command::Register(Registration { lease: *lease, follows, seen: *seen, ..first })
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
