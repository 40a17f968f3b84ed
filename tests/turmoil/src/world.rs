//! A whole set on a simulated network, under faults.
//!
//! The driver is outside of all hosts: it steps the simulation, injects faults and repairs them by the seed, and stops
//! at the first violation. A link has one fault at a time, because the network does not combine faults.

use std::collections::BTreeMap;
use std::time::Duration;

use seq_alloc::AllocOptions;
use seq_core::set_spec::{AllocSpec, Genesis, SetSpec, StoreSpec};
use seq_store::{MemoryDisk, StoreOptions};
use turmoil::{Builder, Sim};

use crate::alloc::{self, Nodes};
use crate::caller::{self, Caller, History};
use crate::clocks::{self, Rates};
use crate::net;
use crate::parent::{self, Deaths, Ended};
use crate::raiser::{self, Ceilings, Raiser};
use crate::report::Report;
use crate::store;

/// Simulated time of one step. Messages travel between steps, so it is also the smallest latency.
const TICK: Duration = Duration::from_millis(5);

/// Latency of a message: one region, with a tail.
const LATENCY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(30));

/// Sections of the set; each node owns several.
const SECTIONS: u64 = 6;

/// Uids of a section.
const SECTION_SIZE: u32 = 100;

/// Uids that are used in each section: few, so that requests for the same uid meet.
const UIDS_PER_SECTION: u64 = 2;

/// Distance of one raise of a ceiling: a few calls, so that the store is always needed.
const STEP: u64 = 100;

/// Entries between two snapshots, and entries kept behind a snapshot: few, so that a member that was away needs a
/// snapshot.
const SNAPSHOT_EVERY: u64 = 100;
const LOG_KEPT: u64 = 20;

/// Time without a change of candidates before sections are rebalanced: short, so that it happens in a run.
const REBALANCE_AFTER: Duration = Duration::from_secs(2);

/// Time between two faults.
const FAULT_EVERY: (f64, f64) = (0.1, 2.0);

/// Duration of a fault.
const FAULT_FOR: (f64, f64) = (0.05, 5.0);

/// Duration of a split of the network: mostly longer than a lease.
const SPLIT_FOR: (f64, f64) = (2.0, 8.0);

/// Time for which a crashed host stays down.
const DOWN_FOR: (f64, f64) = (0.05, 4.0);

/// Size and clocks of a world.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of AllocSvrs.
    pub allocs: usize,
    /// Number of bare callers of the store, each under the name of an AllocSvr.
    pub raisers: usize,
    /// Number of backends.
    pub callers: usize,
    /// Whether the ends of nodes' processes are reported to the store.
    pub parents: bool,
    /// Rates of clocks.
    pub rates: Rates,
}

/// The store has three members in all shapes, and a member may be away.
const STORES: u64 = 3;

/// A running world.
pub struct World {
    sim: Sim<'static>,
    rng: fastrand::Rng,
    report: Report,
    nodes: Nodes,
    /// Hosts that may end and start again.
    hosts: BTreeMap<String, HostState>,
    disks: BTreeMap<String, std::sync::Arc<MemoryDisk>>,
    /// Names of all hosts on the network.
    names: Vec<String>,
    links: BTreeMap<(usize, usize), Fault>,
    elapsed: Duration,
    next_fault: Option<Duration>,
    ceilings: Ceilings,
    history: History,
    /// `None` if nothing reports the ends of processes.
    deaths: Option<Deaths>,
}

/// Name of the host that reports deaths.
pub const PARENT: &str = "p1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostState {
    Up,
    /// Requested to end.
    Leaving,
    DownUntil(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: FaultKind,
    until: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    Cut,
    CutOneWay,
    Hold,
}

/// Failure of a run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The broken promise, or the error.
    pub what: String,
    /// The last events before it.
    pub events: String,
}

/// Returns the set of a world.
fn spec(allocs: usize) -> SetSpec {
    let store = |id| {
        let name = format!("s{id}");
        let [addr, raft, http] = [0, 2, 1].map(|port| format!("{name}:{}", net::PORT + port));
        StoreSpec { id, name, addr, raft, admin: None, http, listen: Default::default() }
    };
    let alloc = |id| {
        let name = format!("a{id}");
        let [addr, peer, http] = [0, 2, 1].map(|port| format!("{name}:{}", net::PORT + port));
        AllocSpec { name, addr, peer, http, redis: None, redis_cluster: None, weight: 1, listen: Default::default() }
    };
    SetSpec {
        name: "simulated".to_owned(),
        uids: 0..SECTIONS * u64::from(SECTION_SIZE),
        section_size: SECTION_SIZE,
        step: STEP,
        stores: (1..=STORES).map(store).collect(),
        allocs: (1..=allocs).map(alloc).collect(),
        genesis: Genesis::Start,
    }
}

/// Returns the text of an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl World {
    /// Builds a world and starts every host in it.
    #[must_use]
    pub fn new(seed: u64, shape: Shape) -> World {
        // Seed of the numbers that the services draw themselves, on this thread.
        fastrand::seed(seed);
        let sim = Builder::new()
            .rng_seed(seed)
            .enable_random_order()
            .tick_duration(TICK)
            .min_message_latency(LATENCY.0)
            .max_message_latency(LATENCY.1)
            // Runs end by themselves before this limit.
            .simulation_duration(Duration::from_secs(24 * 3_600))
            .build();
        let report = Report::default();
        let uids = (0..SECTIONS)
            .flat_map(|section| (0..UIDS_PER_SECTION).map(move |uid| section * u64::from(SECTION_SIZE) + uid * 7));
        let mut world = World {
            sim,
            rng: fastrand::Rng::with_seed(seed),
            nodes: Nodes::default(),
            hosts: BTreeMap::new(),
            disks: BTreeMap::new(),
            names: Vec::new(),
            links: BTreeMap::new(),
            elapsed: Duration::ZERO,
            next_fault: None,
            ceilings: Ceilings::new(SECTIONS as usize, report.clone()),
            history: History::new(uids, report.clone()),
            deaths: shape.parents.then(Deaths::default),
            report,
        };
        world.start(shape);
        world
    }

    fn start(&mut self, shape: Shape) {
        let spec = spec(shape.allocs.max(shape.raisers));
        let addrs = |names: &[String]| names.iter().map(|name| net::addr(name)).collect::<Vec<_>>();
        let stores: Vec<String> = spec.stores.iter().map(|store| store.name.clone()).collect();
        let allocs: Vec<String> = spec.allocs.iter().map(|alloc| alloc.name.clone()).collect();
        let options = StoreOptions {
            snapshot_interval_entries: SNAPSHOT_EVERY,
            log_retained_entries: LOG_KEPT,
            rebalance_after: REBALANCE_AFTER,
            ..StoreOptions::DEFAULTS
        };
        for store in &spec.stores {
            let member = store::Member {
                spec: spec.clone(),
                id: store.id,
                disk: MemoryDisk::new(),
                options: options.clone(),
                clock: clocks::draw(shape.rates, true, &mut self.rng),
                report: self.report.clone(),
            };
            self.disks.insert(store.name.clone(), member.disk.clone());
            self.host(&store.name, move || store::run(member.clone()));
        }
        for name in &allocs[..shape.allocs] {
            let node = alloc::Node {
                spec: spec.clone(),
                name: name.clone(),
                options: AllocOptions { connections: 1, ..AllocOptions::DEFAULTS },
                clock: clocks::draw(shape.rates, false, &mut self.rng),
                nodes: self.nodes.clone(),
                report: self.report.clone(),
            };
            self.host(name, move || alloc::run(node.clone()));
        }
        for name in &allocs[..shape.raisers] {
            let raiser = Raiser {
                name: name.clone(),
                set: spec.name.clone(),
                stores: addrs(&stores),
                ceilings: self.ceilings.clone(),
            };
            self.names.push(name.clone());
            self.sim.client(name.as_str(), raiser::run(raiser));
        }
        for number in 1..=shape.callers {
            let name = format!("c{number}");
            let caller =
                Caller { seeds: addrs(&allocs), history: self.history.clone(), pause: Duration::from_millis(100) };
            self.sim.client(name.as_str(), caller::run(caller));
            self.names.push(name);
        }
        if let Some(deaths) = &self.deaths {
            self.names.push(PARENT.to_owned());
            self.sim.client(PARENT, parent::run(spec, deaths.clone(), self.report.clone()));
        }
    }

    fn host<F>(&mut self, name: &str, software: impl Fn() -> F + 'static)
    where
        F: Future<Output = turmoil::Result> + 'static,
    {
        self.sim.host(name, software);
        self.names.push(name.to_owned());
        self.hosts.insert(name.to_owned(), HostState::Up);
    }

    /// Returns the report of the run.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the running nodes.
    #[must_use]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the responses that raisers received.
    #[must_use]
    pub fn ceilings(&self) -> &Ceilings {
        &self.ceilings
    }

    /// Returns the history of the backends.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the number of sections in the set.
    #[must_use]
    pub fn sections(&self) -> usize {
        SECTIONS as usize
    }

    /// Returns the simulated time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Continues for some time.
    ///
    /// # Errors
    /// If a promise was broken.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.elapsed + time;
        while self.elapsed < end {
            self.step()?;
        }
        Ok(())
    }

    /// Continues until a condition holds.
    ///
    /// # Errors
    /// If a promise was broken, or the condition does not hold in time.
    pub fn run_until(&mut self, what: &str, limit: Duration, holds: impl Fn(&World) -> bool) -> Result<(), Failure> {
        let end = self.elapsed + limit;
        while !holds(self) {
            if self.elapsed >= end {
                return Err(self.failure(format!("not within {limit:?}: {what}")));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Injects faults for some time, then injects no more.
    ///
    /// # Errors
    /// If a promise was broken.
    pub fn disturb_for(&mut self, time: Duration) -> Result<(), Failure> {
        self.next_fault = Some(self.elapsed);
        let outcome = self.run_for(time);
        self.next_fault = None;
        outcome
    }

    /// Repairs all links and starts every host.
    pub fn heal(&mut self) {
        let links: Vec<_> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.repair(link));
        self.hosts.values_mut().filter(|host| matches!(host, HostState::DownUntil(_))).for_each(|host| {
            *host = HostState::DownUntil(Duration::ZERO);
        });
        self.report.note("everything heals");
        self.report.heal();
        self.history.expect_all();
    }

    /// Ends the clients and the run; returns the counts of situations, and the simulated time.
    ///
    /// # Errors
    /// If a promise was broken.
    pub fn finish(mut self) -> Result<(BTreeMap<&'static str, u64>, Duration), Failure> {
        self.report.end();
        while !self.step()? {}
        Ok((self.report.counts(), self.elapsed))
    }

    /// Performs one step; returns whether every client has ended.
    fn step(&mut self) -> Result<bool, Failure> {
        self.report.set_now(self.elapsed);
        self.repair_what_is_due();
        if self.next_fault.is_some_and(|at| at <= self.elapsed) {
            self.break_something();
            self.next_fault = Some(self.elapsed + self.time(FAULT_EVERY));
        }
        let ended = self.sim.step().map_err(|error| self.failure(chain(&*error)))?;
        self.elapsed += TICK;
        match self.report.first_violation() {
            Some(what) => Err(self.failure(what)),
            None => Ok(ended),
        }
    }

    fn failure(&self, what: String) -> Failure {
        Failure { what, events: self.report.last_events() }
    }

    fn time(&mut self, (least, most): (f64, f64)) -> Duration {
        // Short times are more frequent: several short faults in a row find more than a long fault.
        Duration::from_secs_f64(least + (most - least) * self.rng.f64() * self.rng.f64())
    }

    fn repair_what_is_due(&mut self) {
        let now = self.elapsed;
        let due: Vec<_> = self.links.iter().filter(|(_, fault)| fault.until <= now).map(|(link, _)| *link).collect();
        due.into_iter().for_each(|link| self.repair(link));
        for (name, host) in self.hosts.clone() {
            match host {
                HostState::DownUntil(back) if back <= now => {
                    self.report.note(format_args!("{name} starts again"));
                    self.sim.bounce(name.as_str());
                    self.hosts.insert(name, HostState::Up);
                }
                HostState::Leaving if self.nodes.has_left(&name) => {
                    let time = self.time(DOWN_FOR);
                    self.end(&name, time);
                }
                HostState::Up | HostState::Leaving | HostState::DownUntil(_) => {}
            }
        }
    }

    fn break_something(&mut self) {
        let (a, b) = (self.rng.usize(..self.names.len()), self.rng.usize(..self.names.len()));
        let time = self.time(FAULT_FOR);
        match self.rng.u8(..12) {
            0..=2 => self.fault(a, b, FaultKind::Cut, time),
            3 => self.fault(a, b, FaultKind::CutOneWay, time),
            4 | 5 => self.fault(a, b, FaultKind::Hold, time),
            6 => self.cut_off(a, time),
            7 => {
                let leader = self.report.leader().and_then(|leader| self.names.iter().position(|name| *name == leader));
                if let Some(leader) = leader {
                    if self.rng.bool() { self.crash(leader) } else { self.cut_off(leader, time) }
                }
            }
            8 => self.crash(a),
            10 => {
                let mut names: Vec<usize> = (0..self.names.len()).collect();
                self.rng.shuffle(&mut names);
                let (size, time) = (self.rng.usize(2..=names.len() / 2), self.time(SPLIT_FOR));
                self.report.count("networks split");
                self.split_off(&names[..size], time);
            }
            9 => {
                let name = self.names[a].clone();
                self.leave(&name);
            }
            _ => {
                // The host's connections end without notice, as when a machine loses its power.
                self.cut_off(a, time);
                self.crash(a);
            }
        }
    }

    /// Cuts a host off from all others.
    pub fn cut_off(&mut self, host: usize, time: Duration) {
        self.report.count("hosts cut off");
        self.split_off(&[host], time);
    }

    /// Splits the network: the hosts of the group reach only each other, and no other host reaches them.
    pub fn split(&mut self, group: &[&str], time: Duration) {
        self.report.count("networks split");
        let inside: Vec<usize> = group.iter().map(|name| self.index(name)).collect();
        self.split_off(&inside, time);
    }

    fn split_off(&mut self, inside: &[usize], time: Duration) {
        for &a in inside {
            for b in (0..self.names.len()).filter(|b| !inside.contains(b)).collect::<Vec<_>>() {
                self.fault(a, b, FaultKind::Cut, time);
            }
        }
    }

    /// Holds all messages between a host and the hosts whose names begin with a letter, until all are released
    /// together.
    pub fn hold(&mut self, name: &str, others: char, time: Duration) {
        let host = self.index(name);
        for other in (0..self.names.len()).filter(|other| self.names[*other].starts_with(others)).collect::<Vec<_>>() {
            self.fault(host, other, FaultKind::Hold, time);
        }
    }

    /// Returns the index of a host.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn index(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).expect("a host of this world")
    }

    fn fault(&mut self, a: usize, b: usize, kind: FaultKind, time: Duration) {
        let link = (a.min(b), a.max(b));
        if a == b || self.links.contains_key(&link) {
            return;
        }
        let (from, to) = (self.names[a].as_str(), self.names[b].as_str());
        match kind {
            FaultKind::Cut => self.sim.partition(from, to),
            FaultKind::CutOneWay => self.sim.partition_oneway(from, to),
            FaultKind::Hold => self.sim.hold(from, to),
        }
        self.report.note(format_args!("{kind:?} {from} {to} for {time:.1?}"));
        self.report.count(match kind {
            FaultKind::Cut => "links cut",
            FaultKind::CutOneWay => "links cut one way",
            FaultKind::Hold => "links held",
        });
        self.links.insert(link, Fault { kind, until: self.elapsed + time });
    }

    fn repair(&mut self, link: (usize, usize)) {
        let Some(fault) = self.links.remove(&link) else { return };
        let (a, b) = (self.names[link.0].as_str(), self.names[link.1].as_str());
        match fault.kind {
            FaultKind::Cut | FaultKind::CutOneWay => self.sim.repair(a, b),
            FaultKind::Hold => self.sim.release(a, b),
        }
        self.report.note(format_args!("repaired {a} {b}"));
    }

    /// Crashes a host, if enough others of its kind are up; clients do not crash.
    pub fn crash(&mut self, host: usize) {
        let name = self.names[host].clone();
        if !self.may_go(&name) {
            return;
        }
        let time = self.time(DOWN_FOR);
        self.report.note(format_args!("{name} crashes for {time:.1?}"));
        self.report.count(if name.starts_with('s') { "members crashed" } else { "nodes crashed" });
        self.end(&name, time);
    }

    /// Requests a node to hand over all sections and end, as a planned restart does.
    pub fn leave(&mut self, name: &str) {
        if name.starts_with('a') && self.may_go(name) {
            self.report.note(format_args!("{name} is asked to leave"));
            self.nodes.leave(name);
            self.hosts.insert(name.to_owned(), HostState::Leaving);
        }
    }

    /// Returns whether a host is up, and enough others of its kind are: two members of the store, or one node.
    fn may_go(&self, name: &str) -> bool {
        let kind = &name[..1];
        let up = self.hosts.iter().filter(|(other, host)| other.starts_with(kind) && **host == HostState::Up).count();
        let least = if kind == "s" { STORES as usize - 1 } else { 1 };
        up > least && self.hosts.get(name) == Some(&HostState::Up)
    }

    /// Ends a host immediately, with all its connections, and starts it again after some time.
    fn end(&mut self, name: &str, time: Duration) {
        self.nodes.forget(name);
        self.sim.crash(name);
        if let Some(deaths) = &self.deaths
            && let Some(process) = self.nodes.process(name)
        {
            deaths.push(Ended { node: name.to_owned(), process });
        }
        if let Some(disk) = self.disks.get(name)
            && self.rng.bool()
        {
            disk.cut_power();
        }
        self.hosts.insert(name.to_owned(), HostState::DownUntil(self.elapsed + time));
    }

    /// Draws a number below `end` by the seed.
    pub fn draw(&mut self, end: u64) -> u64 {
        self.rng.u64(..end)
    }

    /// Returns whether all hosts run, and none is about to end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.hosts.values().all(|host| *host == HostState::Up)
    }

    /// Returns the number of sections that each node owns, by name, as the nodes report it.
    #[must_use]
    pub fn owned(&self) -> BTreeMap<String, u32> {
        let owned = |name: &String| self.nodes.status(name).map(|status| (name.clone(), status.sections));
        self.hosts.keys().filter_map(owned).collect()
    }
}
