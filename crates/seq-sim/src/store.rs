//! The store: the real `State` as a register that is changed by one entry at a time, three members of which one or two
//! believe that they lead, and the real `Arbiter` beside each of those.
//!
//! **Invariant:** a response is sent only after its command was applied, by the member that proposed it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use seq_core::high_water::{Mark, Refused};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Session};
use seq_core::state::{
    Answer, Command, CommandRefusal, Copies, Drain, KeptCopy, KeptFor, MoveSections, Pause, PauseBalancing,
    RaiseCeilings, Reassign, Registration, Renew, SectionRecords, SetTerms, State, Terms,
};
use seq_core::{HandoverId, Incarnation, Liveness, NodeId, Revision, SectionId};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::{MS, SECOND};
use crate::hosts::{MEMBERS, members_of, set_of_member};
use crate::leader::{PACE, Seat};
use crate::net::{Address, Body, StoreRequest, StoreResponse};
use crate::store_bugs::{is_granted, loosen, raise_unfenced, uncount};
use crate::world::{Event, StoreStep, World};

/// The lease of one name in worlds that begin with long terms.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(4);

/// The terms that such a world begins with, until they are those of all others.
pub(crate) const LONG_TERMS: Terms = Terms { lease_wait: Duration::from_secs(5) };

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) state: State,
    /// The member that leads.
    pub(crate) leader: usize,
    /// By member of this store.
    pub(crate) seats: [Option<Seat>; MEMBERS],
    pub(crate) paused_until: u64,
    /// Faults that are on.
    pub(crate) late_looks: u32,
    pub(crate) late_reassigns: u32,
    pub(crate) late_news: u32,
    /// Earlier states with when each was left, in worlds where the store is put back to one of them; the newest is the
    /// last.
    pub(crate) earlier: VecDeque<(u64, State)>,
    /// The revision that it was put back to.
    pub(crate) rolled_back: Option<Revision>,
    /// A planted bug: the newest kept copy of each section.
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

/// An entry of the log on its way.
#[derive(Debug)]
pub(crate) enum Entry {
    Requested(Rc<StoreRequest>, Option<Requester>),
    Reassign(Vec<Reassign>, usize),
    Drain(usize, bool),
    /// A section, and the name that it is moved to; `None`: it is balanced again.
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
            older_copies: BTreeMap::new(),
        }
    }
}

impl World {
    /// A request reached a member.
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
        let wait = self.rng.between(MS / 2, 4 * MS);
        if member == self.stores[set].leader {
            self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(Entry::Requested(request, Some(requester))))));
        } else if self.rng.chance(500) {
            // The new leader has the entry in its log; the old one never learns.
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

    /// An entry is committed and applied.
    pub(crate) fn apply(&mut self, set: usize, entry: Entry) {
        if self.now < self.stores[set].paused_until {
            let wait = self.stores[set].paused_until - self.now + self.rng.below(20 * MS);
            return self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(entry))));
        }
        let before = (self.stores[set].state.sections.clone(), self.stores[set].state.copies.clone());
        let nodes = self.stores[set].state.nodes.clone();
        self.keep_state(set);
        match entry {
            Entry::Requested(request, requester) => {
                let command = command(&request, self.bug, &self.stores[set].state);
                let mut answer = self.stores[set].state.apply(&command);
                if self.bug == Some(Bug::UnfencedRaise) {
                    raise_unfenced(&mut self.stores[set].state, &command, &mut answer);
                }
                let changed = self.stores[set].state.sections != before.0;
                uncount(self.bug, &mut self.stores[set].state.nodes, &nodes, (&command, &answer, changed));
                self.note_entry(set, &command, &answer);
                if let (Command::Renew(Renew { released, .. }), Answer::Renewed(Ok(()))) = (&command, &answer)
                    && !released.is_empty()
                {
                    self.coverage.saw(Situation::Released);
                    if self.stores[set]
                        .state
                        .copies
                        .iter()
                        .any(|(section, _)| released.iter().any(|(one, _)| *one == section))
                    {
                        self.coverage.saw(Situation::ReleasedExactly);
                    }
                }
                if let Some(requester) = requester {
                    let late = if self.stores[set].late_news > 0 { 300 * MS } else { 2 * MS };
                    let wait = self.rng.below(late);
                    self.after(wait, Event::Store(StoreStep::Answer(requester, request, Box::new(answer))));
                }
            }
            Entry::Reassign(mut moves, member) => {
                loosen(self.bug, &self.stores[set].state, &mut moves);
                let command = Command::Reassign(moves);
                let answer = self.stores[set].state.apply(&command);
                self.note_entry(set, &command, &answer);
                if let Answer::Reassigned(outcome) = &answer
                    && outcome.iter().any(Option::is_none)
                {
                    self.coverage.saw(Situation::Overtaken);
                }
                if let Some(seat) = self.seat(member) {
                    seat.proposing_until = 0;
                }
            }
            steered => {
                let command = self.steered(set, &steered);
                let answer = self.stores[set].state.apply(&command);
                self.note_entry(set, &command, &answer);
            }
        }
        self.look_at_records(set, &before.0);
        self.look_at_copies(set, &before.1);
        for member in members_of(set) {
            self.look_soon(member, PACE);
        }
    }

    /// The command of an entry that an operator requested.
    fn steered(&self, set: usize, entry: &Entry) -> Command {
        let named = |name: usize| self.stores[set].state.nodes().find(|(_, node)| node.name == name.to_string());
        match *entry {
            Entry::Terms(terms) => Command::SetTerms(SetTerms { replaces: self.stores[set].state.terms, terms }),
            Entry::Drain(name, drained) => Command::Drain(Drain { name: name.to_string(), drained }),
            Entry::Move(section, name) => {
                let to = name.map(|name| named(name).map_or(NodeId(u32::MAX), |(id, _)| id));
                Command::MoveSections(MoveSections { sections: vec![SectionId(section)], to })
            }
            Entry::PauseBalancing => {
                let pause = Pause { since_unix_ms: 0, principal: String::new() };
                Command::PauseBalancing(PauseBalancing(Some(pause)))
            }
            Entry::Requested(..) | Entry::Reassign(..) => unreachable!("no operator requests them"),
        }
    }

    fn note_entry(&mut self, set: usize, command: &Command, answer: &Answer) {
        let now = self.now;
        let version = self.stores[set].state.route_version.0;
        self.trace.note(now, [4, version, set as u64], || format!("store of set {set}: {command:?} -> {answer:?}"));
    }

    /// Counts ownerships that start from a kept copy. The planted bugs of kept copies grant one to a later ownership.
    fn look_at_copies(&mut self, set: usize, before: &Copies) {
        let Store { state, older_copies, .. } = &mut self.stores[set];
        let began = |copies: &Copies, section| copies.iter().any(|(one, kept)| one == section && is_granted(kept));
        let starts = state.copies.iter().filter(|(section, kept)| is_granted(kept) && !began(before, *section)).count();
        (0..starts).for_each(|_| self.coverage.saw(Situation::StartedFromKept));
        let complete = before.iter().filter(|(_, kept)| kept.is_complete());
        match self.bug {
            Some(Bug::CopyUsedTwice) => {
                let granted = complete.filter(|(_, kept)| is_granted(kept));
                older_copies.extend(granted.map(|(section, kept)| (section, kept.clone())));
            }
            Some(Bug::CopyOfOlder) => {
                older_copies.extend(complete.map(|(section, kept)| (section, kept.clone())));
            }
            _ => return,
        }
        let mut kept: BTreeMap<SectionId, KeptCopy> =
            state.copies.iter().map(|(section, kept)| (section, kept.clone())).collect();
        for (section, older) in older_copies.iter() {
            let Some(record) = state.sections.resident(*section).filter(|record| record.owner.is_some()) else {
                continue;
            };
            let (KeptFor::After(epoch) | KeptFor::Granted(epoch)) = older.kept_for;
            // The ownership after the one that has started from it: with a release in between it is two epochs later.
            let next = self.bug != Some(Bug::CopyUsedTwice) || record.epoch.0 <= epoch.0 + 2;
            if next && record.epoch > epoch && record.handover_id == HandoverId(0) && !kept.contains_key(section) {
                let kept_for = KeptFor::Granted(record.epoch);
                kept.insert(*section, KeptCopy { kept_for, ..older.clone() });
            }
        }
        state.copies = Copies::from_parts(kept).expect("copies of the simulator are small");
    }

    /// What was committed never falls.
    fn look_at_records(&mut self, set: usize, before: &SectionRecords) {
        for (section, record) in self.stores[set].state.sections.residents() {
            let highest = &mut self.highest[section.0 as usize];
            *highest = record.max_seq.max(*highest);
        }
        for ((id, before), (_, after)) in before.residents().zip(self.stores[set].state.sections.residents()) {
            if after.epoch < before.epoch || after.max_seq < before.max_seq {
                let text = format!("section {id}: {before:?} became {after:?}");
                self.check.broken(self.now, "what is committed never falls", text);
            }
        }
    }

    /// A member responds, from the state as it is by now.
    pub(crate) fn answer(&mut self, requester: Requester, request: &StoreRequest, answer: Answer) {
        let set = set_of_member(requester.member);
        let plan = self.seat(requester.member).as_ref().map(|seat| seat.plan.clone()).unwrap_or_default();
        let update = |session: Session, since| {
            let current = self.stores[set].state.node(session.node).map_or(Incarnation(0), |record| record.incarnation);
            OwnershipUpdate::of(&self.stores[set].state, &plan, &[], session, since)
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
            (Answer::Raised(Ok(ceilings)), StoreRequest::Raise { session, since, .. }) => update(*session, *since)
                .map_or_else(StoreResponse::SessionOver, |update| StoreResponse::Raised(ceilings, update)),
            (Answer::Transferred(Ok(_)), StoreRequest::Transfer { transfer, since }) => {
                let session = Session { node: transfer.from, incarnation: transfer.incarnation };
                update(session, *since).map_or_else(StoreResponse::SessionOver, StoreResponse::Transferred)
            }
            (Answer::Transferred(Err(refusal)), StoreRequest::Transfer { transfer, .. }) => {
                match RefusedCommit::of(&refusal, Some(transfer.to)) {
                    RefusedCommit::SessionOver => over(&refusal),
                    meaning => StoreResponse::CommitRefused(meaning),
                }
            }
            (Answer::Renewed(Err(refusal)) | Answer::Raised(Err(refusal)), _) => over(&refusal),
            _ => StoreResponse::Refused,
        };
        self.tell(requester, response);
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
        StoreRequest::Transfer { transfer, .. } => Command::Transfer(*transfer),
    }
}
