//! A world: everything that happens, in the order of virtual time, from one seed.
//!
//! **Invariant:** nothing here reads a clock, a map in random order, or an address; two runs of a seed are the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use seq_core::lease::LeaseTerms;
use seq_core::owner::handover::Handover;
use seq_core::state::{Answer, Command, SetDefinition, SetTerms, State, Terms};
use seq_core::{Layout, Seq, Step as SeqStep, Uid};

use crate::bugs::Bug;
use crate::check::Check;
use crate::client::{Client, Reply};
use crate::clock::MachineClock;
use crate::coverage::Coverage;
use crate::faults::{FAULTS_END, MS, SECOND, Swarm};
use crate::hosts::Hosts;
use crate::inject;
use crate::leader::InHand;
use crate::net::{Address, Body, Net, StoreRequest, StoreResponse};
use crate::process::{Owned, Process};
use crate::rng::Rng;
use crate::serving::{Checked, Pending};
use crate::session::{AfterRaise, Rpc};
use crate::store::{Entry, LONG_TERMS, Requester, Store};
use crate::trace::Trace;

/// The set's name.
pub(crate) const SET: &str = "sim";

/// Far more events than a run has: more of them are messages that trigger each other without end.
const MOST_EVENTS: u64 = 400_000;

/// A step so small that ceilings are met all the time.
pub(crate) const STEP: SeqStep = SeqStep(40);

/// What leases are like: the defaults, which is what runs.
pub(crate) const TERMS: LeaseTerms = LeaseTerms::DEFAULTS;

/// Uids: few, so that calls meet.
const UIDS: u64 = 12;

/// Uids in a section.
const SECTION_SIZE: u32 = 2;

/// Callers.
const CLIENTS: usize = 4;

/// How long after everything healed each section must be served.
pub(crate) const LIVENESS_BOUND: u64 = 12 * SECOND;

/// How long each uid's probe may take then.
const PROBE_TIME: u64 = 5 * SECOND;

/// What a process does by itself.
#[derive(Debug)]
pub(crate) enum Step {
    Register,
    Renew,
    RequestTimeout(u64, u32),
    Settle(Box<Rpc>, Rc<StoreResponse>),
    RaiseAgain,
    AfterRaise(Box<AfterRaise>),
    PeerTimeout(u64),
    CommitAgain(Handover),
    Look(Box<Checked>),
    Take(Box<Pending>, Rc<Owned>),
    Forwarded(u64, Reply),
    FetchRoutes,
    Wake,
    /// The time of a pending or a forwarded call.
    CallTimer(u64),
    Leaving(u64),
    /// Refreshes the clock that a planted bug serves by.
    Tick,
}

/// What happens in the store.
#[derive(Debug)]
pub(crate) enum StoreStep {
    /// An entry of a set's log is applied.
    Apply(usize, Box<Entry>),
    Answer(Requester, Rc<StoreRequest>, Box<Answer>),
    Look(usize, u64),
    LookOn(usize, u64, InHand),
}

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    Message { to: Address, body: Body },
    Step(usize, Step),
    Resume(usize),
    Store(StoreStep),
    NextCall(usize),
    CallTimeout(usize, u64),
    FaultBegins(usize),
    FaultEnds(usize),
    Heal,
    Probe,
    End,
}

/// A queued event.
#[derive(Debug)]
pub(crate) struct Queued {
    at: u64,
    number: u64,
    pub(crate) event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    /// True time since it began, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) bug: Option<Bug>,
    pub(crate) swarm: Swarm,
    pub(crate) queue: BinaryHeap<Reverse<Queued>>,
    numbers: u64,
    pub(crate) layout: Layout,
    pub(crate) net: Net,
    pub(crate) hosts: Hosts,
    /// The store of each set.
    pub(crate) stores: Vec<Store>,
    /// The highest ceiling that was ever committed for each section.
    pub(crate) highest: Vec<Seq>,
    /// Clocks of the AllocSvrs' machines, then of the members'.
    pub(crate) machines: Vec<MachineClock>,
    pub(crate) procs: Vec<Process>,
    /// Until when each member of the store is paused.
    pub(crate) members_stalled: Vec<u64>,
    /// The listening process, by name and port.
    pub(crate) listeners: Vec<[Option<usize>; 2]>,
    pub(crate) clients: Vec<Client>,
    pub(crate) check: Check,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    /// Whether a table or a lease changed in this event.
    pub(crate) owners_changed: bool,
    pub(crate) healed: bool,
    pub(crate) over: bool,
    pub(crate) events: u64,
}

impl World {
    /// The world of a seed, with all its faults or some of them.
    pub(crate) fn new(seed: u64, bug: Option<Bug>, faults: Option<&[usize]>, text: bool) -> World {
        let hosts = Hosts { sets: 1 };
        let mut rng = Rng::new(seed);
        let mut swarm = Swarm::draw(&mut rng);
        swarm.add_rollback(seed);
        let layout = Layout::new(0..UIDS, SECTION_SIZE).expect("a sound layout");
        swarm.add_operator(seed, layout.sections());
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::only(SET, layout.clone())));
        if swarm.long_terms {
            state.apply(&Command::SetTerms(SetTerms { replaces: None, terms: LONG_TERMS }));
        }
        let machines = (0..hosts.machines()).map(|_| inject::machine(&mut rng, swarm.edge_rates)).collect();
        let check = Check::new(swarm.weather, UIDS as usize);
        let mut world = World {
            now: 0,
            rng,
            bug,
            queue: BinaryHeap::new(),
            numbers: 0,
            layout: layout.clone(),
            net: Net::new(hosts),
            hosts,
            stores: vec![Store::new(0, state)],
            highest: vec![Seq::ZERO; layout.sections() as usize],
            machines,
            procs: Vec::new(),
            members_stalled: vec![0; hosts.members()],
            listeners: vec![[None; 2]; hosts.names()],
            clients: (0..CLIENTS).map(|_| Client::new(layout.sections())).collect(),
            check,
            coverage: Coverage::default(),
            trace: Trace::new(text),
            owners_changed: false,
            healed: false,
            over: false,
            events: 0,
            swarm,
        };
        for number in 0..world.swarm.faults.len() {
            if faults.is_none_or(|some| some.contains(&number)) {
                let at = world.swarm.faults[number].at;
                world.after(at, Event::FaultBegins(number));
            }
        }
        if world.swarm.long_terms {
            let at = world.rng.between(SECOND, FAULTS_END);
            let terms = Entry::Terms(Terms { lease_wait: TERMS.wait });
            world.after(at, Event::Store(StoreStep::Apply(0, Box::new(terms))));
        }
        world.lead(0);
        for name in 0..hosts.names() {
            world.start(name, 0);
        }
        for client in 0..CLIENTS {
            world.after(300 * MS, Event::NextCall(client));
        }
        world.after(FAULTS_END, Event::Heal);
        world
    }

    /// Runs until the end, or until a promise is broken.
    pub(crate) fn run(&mut self) {
        while !self.over && self.check.violation.is_none() {
            let Some(Reverse(Queued { at, event, .. })) = self.queue.pop() else { break };
            self.now = at;
            self.events += 1;
            if self.events > MOST_EVENTS {
                let text = format!("{} events, and no end: the next is {event:?}", self.events);
                self.check.broken(self.now, "no storm of messages", text);
            }
            self.happen(event);
            if self.owners_changed && self.swarm.weather != crate::faults::Weather::Wild {
                self.look_at_owners();
            }
        }
    }

    /// A number that was not drawn before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn after(&mut self, wait: u64, event: Event) {
        let number = self.fresh();
        self.queue.push(Reverse(Queued { at: self.now + wait, number, event }));
    }

    /// The host of an address.
    pub(crate) fn host(&self, address: Address) -> usize {
        match address {
            Address::Port(name, _) => name,
            Address::Process(p) => self.procs[p].name,
            Address::Member(member) => self.hosts.of_member(member),
            Address::Client(_) => self.hosts.of_clients(),
        }
    }

    /// The member of the store that an event needs, if that one is paused, and until when.
    fn stalled_member(&self, event: &Event) -> Option<u64> {
        let member = match event {
            Event::Message { to: Address::Member(member), .. }
            | Event::Store(StoreStep::Look(member, _) | StoreStep::LookOn(member, ..)) => *member,
            Event::Store(StoreStep::Answer(requester, ..)) => requester.member,
            _ => return None,
        };
        Some(self.members_stalled[member]).filter(|until| *until > self.now)
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = self.stalled_member(&event) {
            return self.after(until - self.now, event);
        }
        match event {
            Event::Message { to, body } => self.deliver(to, body),
            Event::Step(p, step) => {
                if !self.procs[p].alive {
                } else if self.procs[p].stalled_until > self.now && matches!(step, Step::Tick) {
                    // Whose turn comes first after a stall is chance; what is refreshed is refreshed late.
                    let wait = self.procs[p].stalled_until - self.now + self.rng.below(50 * MS);
                    self.after(wait, Event::Step(p, step));
                } else if self.procs[p].stalled_until > self.now {
                    self.procs[p].backlog.push_back(Event::Step(p, step));
                } else {
                    self.do_step(p, step);
                }
            }
            Event::Resume(p) => self.resume(p),
            Event::Store(StoreStep::Apply(set, entry)) => self.apply(set, *entry),
            Event::Store(StoreStep::Answer(requester, request, answer)) => self.answer(requester, &request, *answer),
            Event::Store(StoreStep::Look(member, at)) => self.look_at_state(member, at),
            Event::Store(StoreStep::LookOn(member, at, in_hand)) => self.look_on(member, at, in_hand),
            Event::NextCall(client) => self.call(client),
            Event::CallTimeout(client, id) => self.call_timed_out(client, id),
            Event::FaultBegins(number) => self.begin(number),
            Event::FaultEnds(number) => self.end(number),
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
            Event::End => self.conclude(),
        }
    }

    /// A process goes on where it stopped: what came meanwhile is there all at once.
    fn resume(&mut self, p: usize) {
        if self.procs[p].stalled_until > self.now {
            return;
        }
        for event in std::mem::take(&mut self.procs[p].backlog) {
            self.happen(event);
        }
    }

    fn deliver(&mut self, to: Address, body: Body) {
        let p = match to {
            Address::Port(name, port) => self.listeners[name][port],
            Address::Process(p) => Some(p).filter(|p| self.procs[*p].alive),
            Address::Client(client) => {
                if let Body::Reply { to, reply } = body {
                    self.answered(client, to, reply);
                }
                return;
            }
            Address::Member(member) => {
                if let Body::Request { process, rpc, attempt, request } = body {
                    self.requested(member, process, rpc, attempt, request);
                }
                return;
            }
        };
        let Some(p) = p else {
            if let Body::Call(call) = body {
                self.undelivered(call);
            }
            return;
        };
        if self.procs[p].stalled_until > self.now {
            return self.procs[p].backlog.push_back(Event::Message { to: Address::Process(p), body });
        }
        match body {
            Body::StoreResponse { rpc, attempt, rollbacks, response } => {
                self.response(p, rpc, attempt, rollbacks, &response)
            }
            Body::Peer { process, id, request } => self.peer_request(p, process, id, &request),
            Body::PeerResponse { id, accepted } => self.peer_response(p, id, accepted),
            Body::FetchRoutes { process, id, known } => self.serve_routes(p, process, id, known),
            Body::PeerRoutes { id, update } => self.adopt_peer_routes(p, id, update.as_deref()),
            Body::Call(call) => self.arrive(p, call),
            Body::Reply { to, reply } => self.forwarded(p, to, reply),
            Body::Request { .. } => {}
        }
    }

    fn do_step(&mut self, p: usize, step: Step) {
        match step {
            Step::Register => self.register(p),
            Step::Renew => self.renew(p),
            Step::RequestTimeout(id, attempt) => self.request_timed_out(p, id, attempt),
            Step::Settle(rpc, response) => self.settle(p, *rpc, &response),
            Step::RaiseAgain => self.raise(p),
            Step::AfterRaise(after) => self.after_raise(p, *after),
            Step::PeerTimeout(id) => self.peer_response(p, id, false),
            Step::CommitAgain(handover) => self.commit(p, handover),
            Step::Look(checked) => {
                self.procs[p].in_call -= 1;
                self.look(p, *checked);
            }
            Step::Take(pending, owned) => {
                self.procs[p].in_call -= 1;
                self.take(p, *pending, &owned);
            }
            Step::Forwarded(id, reply) => self.forwarded(p, id, reply),
            Step::FetchRoutes => self.fetch_routes(p),
            Step::Wake => self.wake_now(p),
            Step::CallTimer(id) => self.call_timer(p, id),
            Step::Leaving(until) => self.leaving(p, until),
            Step::Tick => {
                self.procs[p].cached_clock = self.clock(p);
                if self.bug == Some(Bug::CachedClock) {
                    self.after(50 * MS, Event::Step(p, Step::Tick));
                }
            }
        }
    }

    /// Each uid must be given a number now, unless the store was put back: then an operator must decide first.
    fn probe(&mut self) {
        for uid in self.layout.uids() {
            self.clients.push(Client::probing(self.layout.sections(), Uid(uid)));
            self.after(0, Event::NextCall(self.clients.len() - 1));
        }
        self.after(PROBE_TIME, Event::End);
    }

    fn conclude(&mut self) {
        self.over = true;
        if self.stores.iter().any(|store| store.rolled_back.is_some()) {
            return self.require_stopped();
        }
        let unserved: Vec<_> = self.clients.iter().filter_map(Client::unserved).map(|uid| uid.0).collect();
        if !unserved.is_empty() {
            let after = Duration::from_nanos(LIVENESS_BOUND + PROBE_TIME);
            let text = format!("{after:?} after everything healed uids {unserved:?} are not served");
            self.check.broken(self.now, "served again", text);
        }
    }
}
