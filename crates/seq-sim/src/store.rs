//! The store: the real `State` as a register that is changed by one entry at a time, three members of which one or two
//! believe that they lead, and the real `Arbiter` beside each of those.
//!
//! **Invariant:** a response is sent only after its command was applied, by the member that proposed it.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared, MAX_REASSIGNS, Plan};
use seq_core::high_water::{Mark, Refused};
use seq_core::lease::Clocks;
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Session};
use seq_core::state::{
    Answer, Command, CommandRefusal, Copies, Drain, KeptCopy, KeptFor, MoveSections, NodeRecord, Pause, PauseBalancing,
    RaiseCeilings, Reassign, Registration, Renew, Residence, SectionRecord, SectionRecords, SetTerms, State, Terms,
};
use seq_core::{Epoch, HandoverId, Incarnation, Liveness, NodeId, Revision, SectionId, Seq};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::{MEMBERS, MS, NAMES, SECOND, Weather};
use crate::net::{Address, Body, StoreRequest, StoreResponse};
use crate::world::{Event, STEP, StoreStep, TERMS, World};

/// Least time between two looks of an arbiter.
const PACE: u64 = 5 * MS;

/// The lease of one name in worlds that begin with long terms.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(4);

/// The terms that such a world begins with, until they are those of all others.
pub(crate) const LONG_TERMS: Terms = Terms { lease_wait: Duration::from_secs(5) };

/// When an arbiter whose proposal was not committed proposes again.
const RETRY: u64 = 200 * MS;

/// How often in a thousand evaluations the thread stalls inside of one, in worlds with stalls.
const STALLED_LOOKS: u64 = 20;

/// The longest stall: longer than any wait.
const LONGEST_STALL: u64 = 6 * SECOND;

/// An arbiter beside a member that believes it leads.
#[derive(Debug)]
pub(crate) struct Seat {
    machine: Arbiter,
    origin: Clocks,
    plan: Arc<Plan>,
    /// When it evaluates next; evaluations scheduled for another time are skipped.
    look_at: u64,
    proposing_until: u64,
    /// Whether its thread is stalled inside of an evaluation.
    stalled: bool,
    /// A planted bug: the liveness counter of each incarnation, and since when.
    silent: BTreeMap<(NodeId, Incarnation), (Liveness, Duration)>,
}

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) state: State,
    pub(crate) leader: usize,
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
    /// The ceilings as they stood before that: they had been committed.
    pub(crate) lost_ceilings: Vec<Seq>,
    /// A planted bug: the newest kept copy of each section.
    older_copies: BTreeMap<SectionId, KeptCopy>,
}

/// The first input of an evaluation whose thread is stalled: the state; it reads the clock when it continues. The
/// planted bug reads them in the other order.
#[derive(Debug)]
pub(crate) enum InHand {
    State(Box<State>),
    Clock(Clocks),
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
    pub(crate) fn new(state: State) -> Store {
        Store {
            state,
            leader: 0,
            seats: [None, None, None],
            paused_until: 0,
            late_looks: 0,
            late_reassigns: 0,
            late_news: 0,
            earlier: VecDeque::new(),
            rolled_back: None,
            lost_ceilings: Vec::new(),
            older_copies: BTreeMap::new(),
        }
    }
}

impl World {
    /// A member takes itself for the leader from now on: its arbiter knows nothing.
    pub(crate) fn lead(&mut self, member: usize) {
        let weather = self.swarm.weather;
        let stable_for = Duration::from_millis(if weather == Weather::Calm { 500 } else { 1_500 });
        let timeouts = ArbiterTimeouts { registration_grace: Duration::from_secs(1), stable_for };
        let machine = Arbiter::new(timeouts);
        let origin = self.machines[NAMES + member].at(self.now);
        let (plan, silent) = (Arc::default(), BTreeMap::new());
        let seat = Seat { machine, origin, plan, look_at: u64::MAX, proposing_until: 0, stalled: false, silent };
        self.store.seats[member] = Some(seat);
        if self.store.seats.iter().flatten().count() > 1 {
            self.coverage.saw(Situation::TwoArbiters);
        }
        self.look_soon(member, PACE);
    }

    fn look_soon(&mut self, member: usize, wait: u64) {
        // A late look stays late, whatever is applied meanwhile.
        let waits = |seat: &Seat| seat.look_at > self.now && seat.look_at < u64::MAX;
        if self.store.late_looks > 0 && self.store.seats[member].as_ref().is_some_and(waits) {
            return;
        }
        let late = self.store.late_looks > 0 && self.rng.chance(700);
        let wait = if late { wait.max(self.rng.below(4 * SECOND)) } else { wait };
        let at = self.now + wait;
        let Some(seat) = self.store.seats[member].as_mut().filter(|seat| !seat.stalled) else { return };
        if seat.look_at > at || seat.look_at <= self.now {
            seat.look_at = at;
            self.after(wait, Event::Store(StoreStep::Look(member, at)));
        }
    }

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
        if self.store.seats[member].is_none() {
            let leader = self.store.leader;
            return self.tell(requester, StoreResponse::NotLeader(leader));
        }
        let wait = self.rng.between(MS / 2, 4 * MS);
        if member == self.store.leader {
            self.after(wait, Event::Store(StoreStep::Apply(Box::new(Entry::Requested(request, Some(requester))))));
        } else if self.rng.chance(500) {
            // The new leader has the entry in its log; the old one never learns.
            self.coverage.saw(Situation::LateEntry);
            let wait = wait + self.rng.below(SECOND);
            self.after(wait, Event::Store(StoreStep::Apply(Box::new(Entry::Requested(request, None)))));
        }
    }

    fn tell(&mut self, requester: Requester, response: StoreResponse) {
        let Requester { process, rpc, attempt, member } = requester;
        let rollbacks = u32::from(self.store.rolled_back.is_some());
        let body = Body::StoreResponse { rpc, attempt, rollbacks, response: Rc::new(response) };
        self.send(NAMES + member, Address::Process(process), body);
    }

    /// An entry is committed and applied.
    pub(crate) fn apply(&mut self, entry: Entry) {
        if self.now < self.store.paused_until {
            let wait = self.store.paused_until - self.now + self.rng.below(20 * MS);
            return self.after(wait, Event::Store(StoreStep::Apply(Box::new(entry))));
        }
        let before = (self.store.state.sections.clone(), self.store.state.copies.clone());
        let nodes = self.store.state.nodes.clone();
        self.keep_state();
        match entry {
            Entry::Requested(request, requester) => {
                let command = command(&request, self.bug, &self.store.state);
                let mut answer = self.store.state.apply(&command);
                if self.bug == Some(Bug::UnfencedRaise) {
                    raise_unfenced(&mut self.store.state, &command, &mut answer);
                }
                let changed = self.store.state.sections != before.0;
                uncount(self.bug, &mut self.store.state.nodes, &nodes, (&command, &answer, changed));
                self.note_entry(&command, &answer);
                if let (Command::Renew(Renew { released, .. }), Answer::Renewed(Ok(()))) = (&command, &answer)
                    && !released.is_empty()
                {
                    self.coverage.saw(Situation::Released);
                    if self
                        .store
                        .state
                        .copies
                        .iter()
                        .any(|(section, _)| released.iter().any(|(one, _)| *one == section))
                    {
                        self.coverage.saw(Situation::ReleasedExactly);
                    }
                }
                if let Some(requester) = requester {
                    let late = if self.store.late_news > 0 { 300 * MS } else { 2 * MS };
                    let wait = self.rng.below(late);
                    self.after(wait, Event::Store(StoreStep::Answer(requester, request, Box::new(answer))));
                }
            }
            Entry::Reassign(mut moves, member) => {
                loosen(self.bug, &self.store.state, &mut moves);
                let command = Command::Reassign(moves);
                let answer = self.store.state.apply(&command);
                self.note_entry(&command, &answer);
                if let Answer::Reassigned(outcome) = &answer
                    && outcome.iter().any(Option::is_none)
                {
                    self.coverage.saw(Situation::Overtaken);
                }
                if let Some(seat) = &mut self.store.seats[member] {
                    seat.proposing_until = 0;
                }
            }
            steered => {
                let command = self.steered(&steered);
                let answer = self.store.state.apply(&command);
                self.note_entry(&command, &answer);
            }
        }
        self.look_at_records(&before.0);
        self.look_at_copies(&before.1);
        for member in 0..MEMBERS {
            self.look_soon(member, PACE);
        }
    }

    /// The command of an entry that an operator requested.
    fn steered(&self, entry: &Entry) -> Command {
        let named = |name: usize| self.store.state.nodes().find(|(_, node)| node.name == name.to_string());
        match *entry {
            Entry::Terms(terms) => Command::SetTerms(SetTerms { replaces: self.store.state.terms, terms }),
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

    fn note_entry(&mut self, command: &Command, answer: &Answer) {
        let now = self.now;
        let version = self.store.state.route_version.0;
        self.trace.note(now, [4, version, 0], || format!("store: {command:?} -> {answer:?}"));
    }

    /// Counts ownerships that start from a kept copy. The planted bugs of kept copies grant one to a later ownership.
    fn look_at_copies(&mut self, before: &Copies) {
        let state = &mut self.store.state;
        let began = |copies: &Copies, section| copies.iter().any(|(one, kept)| one == section && is_granted(kept));
        let starts = state.copies.iter().filter(|(section, kept)| is_granted(kept) && !began(before, *section)).count();
        (0..starts).for_each(|_| self.coverage.saw(Situation::StartedFromKept));
        let complete = before.iter().filter(|(_, kept)| kept.is_complete());
        match self.bug {
            Some(Bug::CopyUsedTwice) => {
                let granted = complete.filter(|(_, kept)| is_granted(kept));
                self.store.older_copies.extend(granted.map(|(section, kept)| (section, kept.clone())));
            }
            Some(Bug::CopyOfOlder) => {
                self.store.older_copies.extend(complete.map(|(section, kept)| (section, kept.clone())));
            }
            _ => return,
        }
        let mut kept: BTreeMap<SectionId, KeptCopy> =
            state.copies.iter().map(|(section, kept)| (section, kept.clone())).collect();
        for (section, older) in &self.store.older_copies {
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
    fn look_at_records(&mut self, before: &SectionRecords) {
        for ((id, before), (_, after)) in before.residents().zip(self.store.state.sections.residents()) {
            if after.epoch < before.epoch || after.max_seq < before.max_seq {
                let text = format!("section {id}: {before:?} became {after:?}");
                self.check.broken(self.now, "what is committed never falls", text);
            }
        }
    }

    /// A member responds, from the state as it is by now.
    pub(crate) fn answer(&mut self, requester: Requester, request: &StoreRequest, answer: Answer) {
        let plan = self.store.seats[requester.member].as_ref().map(|seat| seat.plan.clone()).unwrap_or_default();
        let update = |session: Session, since| {
            let current = self.store.state.node(session.node).map_or(Incarnation(0), |record| record.incarnation);
            OwnershipUpdate::of(&self.store.state, &plan, &[], session, since).ok_or(Refused::Incarnation(current))
        };
        let over =
            |refusal: &CommandRefusal| Refused::of(refusal).map_or(StoreResponse::Refused, StoreResponse::SessionOver);
        let response = match (answer, request) {
            (Answer::Registered(Ok((node, incarnation))), _) => {
                let liveness = self.store.state.node(node).map_or(Liveness(0), |record| record.liveness);
                let mark = Mark { revision: self.store.state.revision, liveness };
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

    /// An arbiter looks, and proposes.
    pub(crate) fn look_at_state(&mut self, member: usize, at: u64) {
        if self.store.seats[member].as_ref().is_none_or(|seat| seat.look_at != at || seat.stalled) {
            return;
        }
        // A thread may stand still between any two steps, also between these two. Where nothing fails it does not: by a
        // state that is seconds old all nodes are dead, and a node that leaves has no candidate to hand over to.
        let runs_well = self.swarm.weather == Weather::Calm || self.healed;
        if self.swarm.interleave > 0 && !runs_well && self.rng.chance(STALLED_LOOKS) {
            self.coverage.saw(Situation::StalledLook);
            let in_hand = match self.bug {
                Some(Bug::ClockBeforeState) => InHand::Clock(self.machines[NAMES + member].at(self.now)),
                _ => InHand::State(Box::new(self.store.state.clone())),
            };
            self.store.seats[member].as_mut().expect("it looks").stalled = true;
            let wait = self.rng.below(LONGEST_STALL);
            return self.after(wait, Event::Store(StoreStep::LookOn(member, at, in_hand)));
        }
        self.finish_look(member, None, self.machines[NAMES + member].at(self.now));
    }

    /// The thread of an arbiter goes on.
    pub(crate) fn look_on(&mut self, member: usize, at: u64, in_hand: InHand) {
        let Some(seat) = self.store.seats[member].as_mut().filter(|seat| seat.look_at == at && seat.stalled) else {
            return;
        };
        seat.stalled = false;
        let clock = self.machines[NAMES + member].at(self.now);
        match in_hand {
            InHand::State(state) => self.finish_look(member, Some(*state), clock),
            InHand::Clock(clock) => self.finish_look(member, None, clock),
        }
    }

    /// Looks at the state, or at one that was read earlier.
    fn finish_look(&mut self, member: usize, earlier: Option<State>, clock: Clocks) {
        let state = earlier.as_ref().unwrap_or(&self.store.state);
        let seat = self.store.seats[member].as_mut().expect("it looks");
        let now = clock.at_least_since(seat.origin);
        let names: [String; NAMES] = std::array::from_fn(|name| name.to_string());
        let declared = names.each_ref().map(|name| Declared { name, weight: 1 });
        let shown = shorten(self.bug, state);
        let plan = seat.machine.evaluate(&shown, &declared, || now).clone();
        seat.plan = plan.clone();
        let mut reassigns = plan.reassigns.clone();
        if self.bug == Some(Bug::WaitOfOver) {
            reassign_over(seat, now, state, &mut reassigns);
        }
        steer_wrongly(self.bug, state, &plan, &mut reassigns);
        let next = seat.machine.next_deadline().map(|due| due.saturating_sub(now));
        if !reassigns.is_empty() && self.now >= seat.proposing_until {
            seat.proposing_until = self.now + RETRY;
            self.propose(member, reassigns);
        }
        // A stopped clock reaches no deadline by itself.
        let wait = next.map_or(RETRY, |wait| wait.as_nanos() as u64).clamp(PACE, SECOND);
        self.look_soon(member, wait);
    }

    fn propose(&mut self, member: usize, reassigns: Vec<Reassign>) {
        if member != self.store.leader && self.rng.chance(500) {
            return;
        }
        let late = self.store.late_reassigns > 0 && self.rng.chance(600);
        for part in reassigns.chunks(MAX_REASSIGNS) {
            let wait = self.rng.between(MS / 2, if late { 3 * SECOND } else { 4 * MS });
            let entry = Entry::Reassign(part.to_vec(), member);
            self.after(wait, Event::Store(StoreStep::Apply(Box::new(entry))));
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
        StoreRequest::Transfer { transfer, .. } => Command::Transfer(*transfer),
    }
}

/// Planted bugs: entries after which the records of nodes lack what the arbiter waits by.
pub(crate) fn uncount(
    bug: Option<Bug>,
    nodes: &mut [NodeRecord],
    before: &[NodeRecord],
    (command, answer, changed): (&Command, &Answer, bool),
) {
    let pairs = nodes.iter_mut().zip(before);
    match (bug, command, answer) {
        (Some(Bug::NewestLease), Command::Register(one), Answer::Registered(Ok(_))) => {
            pairs
                .filter(|(node, old)| node.incarnation != old.incarnation)
                .for_each(|(node, _)| node.lease = one.lease);
        }
        (Some(Bug::RepeatNotCounted), Command::Renew(renew), Answer::Renewed(Ok(()))) => {
            pairs
                .filter(|(_, old)| old.renew_seq == renew.renew_seq)
                .for_each(|(node, old)| node.liveness = old.liveness);
        }
        (Some(Bug::RefusedRaiseNotCounted), Command::Raise { .. }, Answer::Raised(Ok(ceilings)))
            if ceilings.iter().all(Option::is_none) =>
        {
            pairs.for_each(|(node, old)| node.liveness = old.liveness);
        }
        (Some(Bug::TransferRepeatNotCounted), Command::Transfer(_), Answer::Transferred(Ok(_)))
        | (Some(Bug::DepartRepeatNotCounted), Command::Depart(_), Answer::Departed(Ok(_)))
            if !changed =>
        {
            pairs.for_each(|(node, old)| node.liveness = old.liveness);
        }
        _ => {}
    }
}

/// Planted bugs: the arbiter is shown terms and leases for which it waits too short a time.
fn shorten(bug: Option<Bug>, state: &State) -> Cow<'_, State> {
    let terms = match bug {
        Some(Bug::ShortWait) => Terms { lease_wait: TERMS.lease * 3 / 5 },
        Some(Bug::WaitByTerms) => state.terms(),
        _ => return Cow::Borrowed(state),
    };
    let mut state = state.clone();
    state.terms = Some(terms);
    state.nodes.iter_mut().for_each(|node| node.lease = Duration::ZERO);
    Cow::Owned(state)
}

/// Planted bugs: a pause keeps sections at dead owners, and moves are made as if the owners were dead.
fn steer_wrongly(bug: Option<Bug>, state: &State, plan: &Plan, reassigns: &mut Vec<Reassign>) {
    match bug {
        Some(Bug::PauseStopsTakeovers) if state.balancing.paused().is_some() => {
            reassigns.retain(|change| change.expected == Epoch(0));
        }
        Some(Bug::MoveByReassign) => {
            for one in plan.handovers.iter().filter(|one| state.balancing.moved(one.section) == Some(one.to)) {
                let liveness = state.node(one.from).map(|owner| owner.liveness);
                let (section, expected, to, incarnation) = (one.section, one.epoch, one.to, one.incarnation);
                reassigns.push(Reassign { section, expected, liveness, to, incarnation });
            }
        }
        _ => {}
    }
}

/// A planted bug: changes of owner that ask for less than they should.
fn loosen(bug: Option<Bug>, state: &State, reassigns: &mut [Reassign]) {
    for change in reassigns {
        let Some(record) = state.sections.resident(change.section) else { continue };
        let owner = record.owner.and_then(|owner| state.node(owner));
        let liveness = owner.filter(|owner| owner.incarnation == record.incarnation).map(|owner| owner.liveness);
        match bug {
            Some(Bug::NoCompare) => change.liveness = liveness,
            Some(Bug::NoCompareOver) if liveness.is_none() => change.liveness = None,
            _ => {}
        }
    }
}

fn is_granted(kept: &KeptCopy) -> bool {
    matches!(kept.kept_for, KeptFor::Granted(_))
}

/// A planted bug: the raises that were refused are applied.
fn raise_unfenced(state: &mut State, command: &Command, answer: &mut Answer) {
    let (Command::Raise(RaiseCeilings { raises, .. }), Answer::Raised(outcome)) = (command, answer) else { return };
    for (raise, ceiling) in raises.iter().zip(outcome.iter_mut().flatten()) {
        let Some(record) = state.sections.resident(raise.section).copied() else { continue };
        if ceiling.is_none() && record.max_seq.0 < raise.to.0 + 100 * STEP.0 {
            let raised = Residence { max_seq: record.max_seq.max(raise.to), ..record };
            state.sections.put(raise.section, SectionRecord::Resident(raised));
            *ceiling = Some(raise.to);
        }
    }
}

/// A planted bug: an incarnation that is over is given up as if it had been silent since it was last looked at.
fn reassign_over(seat: &mut Seat, now: Duration, state: &State, reassigns: &mut Vec<Reassign>) {
    for (id, node) in state.nodes() {
        let seen = seat.silent.entry((id, node.incarnation)).or_insert((node.liveness, now));
        if seen.0 != node.liveness {
            *seen = (node.liveness, now);
        }
    }
    for (section, record) in state.sections.residents() {
        let Some(owner) = record.owner.filter(|_| record.epoch > Epoch(0)) else { continue };
        let over = state.node(owner).is_some_and(|node| node.incarnation != record.incarnation);
        let silent = seat.silent.get(&(owner, record.incarnation));
        if !over || silent.is_none_or(|(_, since)| now - *since < TERMS.wait) {
            continue;
        }
        let Some((to, node)) = state.nodes().find(|(id, _)| *id != owner) else { continue };
        if reassigns.iter().all(|change| change.section != section) {
            let (expected, incarnation) = (record.epoch, node.incarnation);
            reassigns.push(Reassign { section, expected, liveness: None, to, incarnation });
        }
    }
}
