//! A world of one or two sets. It processes its events in the order of virtual time.
//!
//! **Invariant:** the code of a world reads no clock and no address in memory, and iterates over no map in random
//! order, so two runs of the same seed are equal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use seq_core::lease::LeaseTerms;
use seq_core::state::{Close, Command, SetDefinition, SetTerms, State, Terms};
use seq_core::{Epoch, Layout, SectionId, Seq, Step as SeqStep, Uid};

use crate::Run;
use crate::bugs::Bug;
use crate::check::{Check, Order};
use crate::client::Client;
use crate::clock::MachineClock;
use crate::coverage::Coverage;
use crate::deaths::Deaths;
use crate::events::{Event, Queued, Step, StoreStep};
use crate::faults::{FAULTS_END, MS, SECOND};
use crate::hosts::{Hosts, members_of};
use crate::inject;
use crate::keys::{KEY_CLIENTS, WorldKeys};
use crate::lanes::{AllSeries, Choice};
use crate::net::{Address, Body, Net};
use crate::process::Process;
use crate::rng::Rng;
use crate::sets::{self, Merge};
use crate::store::{Entry, LONG_TERMS, Store};
use crate::swarm::Swarm;
use crate::trace::Trace;

/// The name of the set in worlds of one set.
const SET: &str = "sim";

/// Number that is combined with the seed of a run with several sets, so that its draws are independent of the draws of
/// a run with one set.
const SETS_SEED: u64 = 0x2_5e75;

/// Largest number of events of a run. It is far above the usual number, and detects messages that cause each other
/// endlessly.
const MOST_EVENTS: u64 = 600_000;

/// The step of raises. It is so small that calls often reach the ceiling.
pub(crate) const STEP: SeqStep = SeqStep(40);

/// The lease terms. They are the default terms of production.
pub(crate) const TERMS: LeaseTerms = LeaseTerms::DEFAULTS;

/// Number of uids. It is so small that calls of different callers for the same uid overlap.
const UIDS: u64 = 12;

/// Number of uids of a section.
const SECTION_SIZE: u32 = 2;

/// The times of the first calls, in worlds of one set and in worlds of several sets. The second time is later because
/// the sets must first exchange the addresses of their nodes.
const FIRST_CALLS: [u64; 2] = [300 * MS, SECOND];

/// Number of callers for numbers of uids.
const CLIENTS: usize = 4;

/// Number of callers for ids of series.
const ID_CLIENTS: usize = 2;

/// The time of the operator's first attempt to create a series.
const FIRST_CREATION: u64 = 200 * MS;

/// The time within which the probe of each uid must get a number. The probes begin some time after the end of all
/// faults.
const PROBE_TIME: u64 = 5 * SECOND;

/// The state of a world.
#[derive(Debug)]
pub(crate) struct World {
    /// True time since the world began, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) bug: Option<Bug>,
    pub(crate) swarm: Swarm,
    pub(crate) queue: BinaryHeap<Reverse<Queued>>,
    numbers: u64,
    /// The layout with the lanes of all series.
    pub(crate) layout: Layout,
    pub(crate) series: AllSeries,
    pub(crate) net: Net,
    pub(crate) hosts: Hosts,
    /// The store of each set.
    pub(crate) stores: Vec<Store>,
    /// The latest time that [`World::store_ms`] has returned, in milliseconds since 1970. It limits raises, and is
    /// noted for restores.
    pub(crate) latest_ms: u64,
    /// Sum of the times by which jumps after restores have set all wall clocks forward, in milliseconds.
    pub(crate) passed_ms: u64,
    /// The highest ceiling that was ever committed for each section.
    pub(crate) highest: Vec<Seq>,
    /// The set in which each epoch of a section began.
    pub(crate) epochs: BTreeMap<(SectionId, Epoch), usize>,
    /// Time until which messages between the stores of two sets are lost or late.
    pub(crate) divided_until: u64,
    /// The merge of a set that is in progress.
    pub(crate) merge: Option<Merge>,
    /// Clocks of the machines. The machines of the AllocSvrs come first, and then the machines of the members of the
    /// stores.
    pub(crate) machines: Vec<MachineClock>,
    pub(crate) procs: Vec<Process>,
    /// Time until which each member of a store stalls.
    pub(crate) members_stalled: Vec<u64>,
    /// The listening process, by name and port.
    pub(crate) listeners: Vec<[Option<usize>; 2]>,
    pub(crate) clients: Vec<Client>,
    pub(crate) check: Check,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    pub(crate) deaths: Deaths,
    /// Whether the current event has changed the table of owned sections or the lease of a process.
    pub(crate) owners_changed: bool,
    pub(crate) healed: bool,
    pub(crate) over: bool,
    pub(crate) events: u64,
}

impl World {
    /// Returns the world of a run. `sets` is the number of its sets, 1 or 2.
    pub(crate) fn new(run: &Run, sets: usize) -> World {
        let Run { seed, bug, ref faults, trace: text, .. } = *run;
        let (hosts, several) = (Hosts { sets }, sets > 1);
        let mut rng = Rng::new(if several { seed ^ SETS_SEED } else { seed });
        let mut swarm = if several { sets::draw(&mut rng, hosts) } else { Swarm::draw(&mut rng) };
        let declared = Layout::new(0..UIDS, SECTION_SIZE).expect("a sound layout");
        let series = AllSeries::draw(seed, &declared, bug, run.keys || bug.is_some_and(Bug::is_of_keys));
        let layout = series.layout.clone();
        if several {
            sets::add_faults(&mut swarm, seed);
        } else {
            swarm.add_rollback(seed);
            swarm.add_operator(seed, declared.sections());
        }
        AllSeries::add_wall_steps(&mut swarm, seed, hosts);
        let states = states(sets, &declared, swarm.long_terms);
        let machines = (0..hosts.machines()).map(|_| inject::machine(&mut rng, swarm.edge_rates)).collect();
        let check = check(&swarm, &series, several);
        let mut world = World {
            now: 0,
            rng,
            bug,
            queue: BinaryHeap::new(),
            numbers: 0,
            layout: layout.clone(),
            net: Net::new(hosts),
            hosts,
            stores: states.into_iter().enumerate().map(|(set, state)| Store::new(set, state)).collect(),
            latest_ms: 0,
            passed_ms: 0,
            highest: vec![Seq::ZERO; layout.sections() as usize],
            epochs: BTreeMap::new(),
            divided_until: 0,
            merge: None,
            machines,
            procs: Vec::new(),
            members_stalled: vec![0; hosts.members()],
            listeners: vec![[None; 2]; hosts.names()],
            clients: clients(layout.sections(), series.keys.is_some()),
            series,
            check,
            coverage: Coverage::default(),
            trace: Trace::new(text),
            deaths: Deaths::draw(seed, bug),
            owners_changed: false,
            healed: false,
            over: false,
            events: 0,
            swarm,
        };
        for number in 0..world.swarm.faults.len() {
            if faults.as_ref().is_none_or(|some| some.contains(&number)) {
                let at = world.swarm.faults[number].at;
                world.after(at, Event::FaultBegins(number));
            }
        }
        if world.swarm.long_terms {
            let at = world.rng.between(SECOND, FAULTS_END);
            let terms = Entry::Terms(Terms { lease_wait: TERMS.wait });
            world.after(at, Event::Store(StoreStep::Apply(0, Box::new(terms))));
        }
        (0..sets).for_each(|set| world.lead(members_of(set).start));
        for name in 0..hosts.names() {
            world.start(name, 0);
        }
        world.after(FIRST_CREATION, Event::CreateSeries);
        for client in 0..world.clients.len() {
            world.after(FIRST_CALLS[usize::from(several)], Event::NextCall(client));
        }
        world.after(world.swarm.ends, Event::Heal);
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
            self.happen(*event);
            if self.owners_changed && self.swarm.weather != crate::faults::Weather::Wild {
                self.look_at_owners();
            }
        }
    }

    /// Returns a number that was not returned before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn after(&mut self, wait: u64, event: Event) {
        let number = self.fresh();
        self.queue.push(Reverse(Queued { at: self.now + wait, number, event: Box::new(event) }));
    }

    /// Returns the host of an address.
    pub(crate) fn host(&self, address: Address) -> usize {
        match address {
            Address::Port(name, _) => name,
            Address::Process(p) => self.procs[p].name,
            Address::Member(member) => self.hosts.of_member(member),
            Address::Client(_) => self.hosts.of_clients(),
        }
    }

    /// Returns the end of the stall of the member that has to process `event`. Returns `None` if no member processes
    /// the event, or if the member is not stalled.
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
                    // After a stall, the refresh of the cached clock may be processed later than calls that arrived
                    // during the stall.
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
            Event::ReportDeath { name, number, to } => self.send_report(name, number, to),
            Event::Kill(p) if self.procs[p].alive => self.kill(p),
            Event::Kill(_) => {}
            Event::Start(name) => self.restart(name),
            Event::TimePasses => self.time_passes(),
            Event::CreateSeries => self.create_series(),
            Event::Merge => self.merge_step(),
            Event::Close(set) => self.command(set, Command::Close(Close)),
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
            Event::End => self.conclude(),
        }
    }

    /// Continues process `p` after its stall, by processing the events that occurred for it during the stall. Does
    /// nothing if it is still stalled.
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
                match body {
                    Body::Request { process, rpc, attempt, request } => {
                        self.requested(member, process, rpc, attempt, request);
                    }
                    Body::Between { from, message } => self.receive_between(member, from, message),
                    Body::Died { name, number } => self.death_reported(member, name, number),
                    _ => {}
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
            Body::Request { .. } | Body::Between { .. } | Body::Died { .. } => {}
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
            Step::TakeUnleased(pending, owned) => {
                self.procs[p].in_call -= 1;
                self.take_unleased(p, *pending, &owned);
            }
            Step::CallAgain(call) => self.arrive(p, *call),
            Step::Forwarded(id, reply) => self.forwarded(p, id, reply),
            Step::FetchRoutes => self.fetch_routes(p),
            Step::ProbeTimeout(set, round) => self.probe_timed_out(p, set, round),
            Step::PollSet(set) => self.poll_set(p, set),
            Step::AwaitedSet(id) => self.awaited_set(p, id),
            Step::Wake => self.wake_now(p),
            Step::CallTimer(id) => self.call_timer(p, id),
            Step::Leaving(until) => self.leaving(p, until),
            Step::Evict => self.evict(p),
            Step::Tick => {
                self.procs[p].cached_clock = self.clock(p);
                if self.bug == Some(Bug::CachedClock) {
                    self.after(50 * MS, Event::Step(p, Step::Tick));
                }
            }
        }
    }

    /// In a world of several sets, checks that each section is in exactly one set. Then begins the probes, which
    /// request a number of each uid and ids of all series.
    fn probe(&mut self) {
        for section in (0..self.layout.sections()).map(SectionId).filter(|_| self.hosts.sets > 1) {
            if !self.is_section_created(section) {
                continue;
            }
            if self.homes(section) != 1 {
                let records: Vec<_> = self.stores.iter().map(|store| store.state.sections.get(section)).collect();
                let text = format!("section {section} is in {} sets: {records:?}", self.homes(section));
                self.check.broken(self.now, "no section is lost", text);
            }
        }
        self.leap(2);
        for uid in self.layout.uids() {
            self.clients.push(Client::probing(self.layout.sections(), Uid(uid)));
            self.after(0, Event::NextCall(self.clients.len() - 1));
        }
        self.probe_lanes();
        let keys = if self.has_keyspace() { WorldKeys::uids() } else { 0..0 };
        for uid in keys {
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
            let after = Duration::from_nanos(self.swarm.liveness_bound + PROBE_TIME);
            let text = format!("{after:?} after everything healed uids {unserved:?} are not served");
            self.check.broken(self.now, "served again", text);
        }
    }
}

/// Returns an empty history of all uids and lanes.
fn check(swarm: &Swarm, series: &AllSeries, several: bool) -> Check {
    let new = if several { Check::of_sets } else { Check::new };
    let mut check = new(swarm.weather, series.users());
    for (choice, order) in
        [(Choice::Counter, Order::OfLane), (Choice::Named, Order::OfLane), (Choice::Chosen, Order::None)]
    {
        series.users_of(choice).for_each(|user| check.set_order(user, order));
    }
    check
}

fn clients(sections: u32, with_keys: bool) -> Vec<Client> {
    let of_uids = (0..CLIENTS).map(|_| Client::new(sections));
    let of_keys = (0..if with_keys { KEY_CLIENTS } else { 0 }).map(|_| Client::of_keys(sections));
    of_uids.chain((0..ID_CLIENTS).map(|_| Client::of_ids(sections))).chain(of_keys).collect()
}

/// Returns the states of the sets.
fn states(sets: usize, layout: &Layout, long_terms: bool) -> Vec<State> {
    let mut states: Vec<State> = match sets {
        1 => vec![only(layout)],
        _ => (0..sets).map(|set| sets::defined(set, layout)).collect(),
    };
    for state in states.iter_mut().filter(|_| long_terms) {
        state.apply(&Command::SetTerms(SetTerms { replaces: None, terms: LONG_TERMS }));
    }
    states
}

/// Returns the initial state of the only set of a world.
fn only(layout: &Layout) -> State {
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::only(SET, layout.clone())));
    state
}
