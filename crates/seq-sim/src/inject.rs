//! Begins and ends single faults. At the end of the time for faults, ends all faults at once, so that the world can
//! show that it recovers.

use seq_core::owner::Owner;
use seq_core::renewals::PEER_ROUTES_INTERVAL;

use crate::bugs::Bug;
use crate::clock::{MachineClock, RATE_MARGIN, TRUE_RATE};
use crate::coverage::Situation;
use crate::events::{Event, Step, StoreStep};
use crate::faults::{Fault, Kind, MS, SECOND, Weather};
use crate::hosts::{MEMBERS, members_of, names_of, set_of_member, set_of_name};
use crate::lanes::WALL_MS;
use crate::process::Process;
use crate::rng::Rng;
use crate::store::Entry;
use crate::world::{TERMS, World};

/// Time in milliseconds by which all wall clocks are set forward when all faults end, and again before the probes. If a
/// store with a correct clock raised the ceiling of timed lanes, this time is longer than the time by which the ceiling
/// is ahead of the clock, even after a restore.
const LEAP_MS: u64 = 150_000;

/// The longest time for which a leaving process waits until it has no sections.
const LEAVE_PATIENCE: u64 = 15 * SECOND;

/// Returns the clocks of a machine, with rates within the margin.
pub(crate) fn machine(rng: &mut Rng, edge: bool) -> MachineClock {
    let off = if edge { RATE_MARGIN } else { 500 };
    let (low, high) = (TRUE_RATE - off, TRUE_RATE + off);
    let rates = std::array::from_fn(|_| match rng.below(4) {
        0 if edge => low,
        1 if edge => high,
        _ => rng.between(low, high),
    });
    MachineClock::new(rng, rates)
}

impl World {
    /// Returns the `Owner` of a process that has no session yet.
    fn owner(&self, set: usize) -> Owner {
        let name = self.stores[set].state.set.as_ref().map(|set| set.name.clone()).expect("the set is defined");
        Owner::new(&name, self.layout.declared(), TERMS)
    }

    /// Starts a process of the AllocSvr with this name, unless the store of its set was put back to an earlier state.
    pub(crate) fn start(&mut self, name: usize, port: usize) {
        // A new process has received no response before, so it cannot detect that the store lost entries. Therefore, if
        // an operator starts a process after the store was put back, nothing is promised.
        let set = set_of_name(name);
        if self.stores[set].rolled_back.is_some() {
            return;
        }
        let p = self.procs.len();
        let token = self.rng.next() | 1;
        let owner = self.owner(set).with_secret(token);
        self.procs.push(Process::new(name, port, token, owner));
        self.procs[p].began = self.now;
        let upgraded = self.healed || !self.series.old_nodes || self.swarm.weather == Weather::Calm;
        self.procs[p].reads_lanes = upgraded || self.rng.chance(600);
        self.listeners[name][port] = Some(p);
        if self.listeners[name].iter().flatten().count() > 1 {
            self.coverage.saw(Situation::TwoLives);
        }
        self.after(0, Event::Step(p, Step::Register));
        self.after(0, Event::Step(p, Step::Tick));
        self.after(PEER_ROUTES_INTERVAL.as_nanos() as u64, Event::Step(p, Step::FetchRoutes));
        if self.series.keys.is_some() {
            self.after(PEER_ROUTES_INTERVAL.as_nanos() as u64, Event::Step(p, Step::Evict));
        }
    }

    /// Ends a process at once, and lets its parent report its death.
    pub(crate) fn kill(&mut self, p: usize) {
        let idle = self.owner(set_of_name(self.procs[p].name));
        let process = &mut self.procs[p];
        let (name, port, token, began) = (process.name, process.port, process.token, process.began);
        // Nothing of the memory of the process remains, so its entry in `procs` gets a new `Process`, which is not
        // alive.
        *process = Process::new(name, port, token, idle);
        process.alive = false;
        (process.began, process.ended) = (began, self.now);
        if self.listeners[name][port] == Some(p) {
            self.listeners[name][port] = None;
        }
        if self.bug != Some(Bug::DeathOfSignalled) {
            self.report_death(p);
        }
    }

    /// Returns the process that runs under a name. It is the process on the usual port of the name, or, if no process
    /// listens there, the process on the name's second port.
    pub(crate) fn running(&self, name: usize) -> Option<usize> {
        self.listeners[name][0].or(self.listeners[name][1])
    }

    pub(crate) fn begin(&mut self, number: usize) {
        let Fault { lasts, kind, .. } = self.swarm.faults[number];
        self.after(lasts, Event::FaultEnds(number));
        let now = self.now;
        self.trace.note(now, [5, number as u64, 0], || format!("fault {number} begins: {kind:?}"));
        match kind {
            Kind::Stall(name) => {
                if let Some(p) = self.running(name) {
                    self.stall(p, now + lasts);
                }
                self.report_silent(name);
            }
            Kind::Severed(name) => {
                self.report_silent(name);
                self.switch(kind, true);
            }
            Kind::Suspend(machine) => {
                self.coverage.saw(Situation::Suspended);
                self.machines[machine].suspend(now, true);
                if let Some(p) = self.listeners.get(machine).and_then(|ports| ports[0].or(ports[1])) {
                    self.stall(p, now + lasts);
                }
            }
            Kind::Crash(name) => {
                if let Some(p) = self.running(name) {
                    self.kill_by_signal(p);
                }
            }
            Kind::Twin(name) => {
                if self.listeners[name][1].is_none() {
                    self.start(name, 1);
                }
            }
            Kind::Leave(name) => self.leave(name),
            Kind::Drain(name) => self.drain(name, true),
            Kind::Move(section, name) => self.steer(set_of_name(name), Entry::Move(section, Some(name))),
            Kind::PauseBalancing(set) => self.steer(set, Entry::PauseBalancing),
            Kind::WallStep(machine, by) => self.machines[machine].step_wall(now, by * MS as i64),
            Kind::Elect(member) => self.elect(member),
            Kind::Forge(name) => self.forge(name),
            Kind::RollBack(back_ms) => self.roll_back(back_ms * MS),
            Kind::StorePause(set) => {
                let paused = &mut self.stores[set].paused_until;
                *paused = (now + lasts).max(*paused);
            }
            Kind::StallMember(member) => {
                self.coverage.saw(Situation::MemberStalled);
                self.members_stalled[member] = self.members_stalled[member].max(now + lasts);
            }
            Kind::WildRate(machine, rate) => self.machines[machine].set_rates(now, [rate; 3]),
            kind @ (Kind::Migrate(..)
            | Kind::PauseMigrations(_)
            | Kind::Rollback(_)
            | Kind::Complete(_)
            | Kind::Blackout(_)
            | Kind::Divide
            | Kind::Backup(_)
            | Kind::Restore(_)
            | Kind::Merge(..)
            | Kind::HandOver) => self.begin_of_sets(kind, lasts),
            other => self.switch(other, true),
        }
    }

    /// Switches a fault on or off.
    fn switch(&mut self, kind: Kind, on: bool) {
        let set = |value: u64| if on { value } else { 0 };
        let count = |counter: &mut u32| *counter = if on { *counter + 1 } else { counter.saturating_sub(1) };
        match kind {
            Kind::CutOneWay { from, to } => self.net.cut(from, to, on),
            Kind::Cut { a, b } => {
                self.net.cut(a, b, on);
                self.net.cut(b, a, on);
            }
            Kind::Isolate { host, outward, inward } => {
                for other in (0..self.hosts.count()).filter(|other| *other != host) {
                    if outward {
                        self.net.cut(host, other, on);
                    }
                    if inward {
                        self.net.cut(other, host, on);
                    }
                }
            }
            Kind::Loss(permille) => self.net.loss = set(permille),
            Kind::Duplicates(permille) => self.net.duplicates = set(permille),
            Kind::Slow(ms) => self.net.slow_ms = set(ms),
            Kind::Ancient(permille) => self.net.ancient = set(permille),
            Kind::ResponsesLost(permille) => self.net.responses_lost = set(permille),
            Kind::PeerResponsesLost(permille) => self.net.peer_responses_lost = set(permille),
            Kind::Severed(name) => {
                for member in members_of(set_of_name(name)) {
                    let host = self.hosts.of_member(member);
                    self.net.cut(name, host, on);
                    self.net.cut(host, name, on);
                }
            }
            Kind::Mute(name, port) => count(&mut self.net.mute[name][port]),
            Kind::OnlyCommits(name) => count(&mut self.net.only_commits[name]),
            Kind::NoRaises(name) => count(&mut self.net.no_raises[name]),
            Kind::NoRenewals(name) => count(&mut self.net.no_renewals[name]),
            Kind::NoCommits(name) => count(&mut self.net.no_commits[name]),
            Kind::NoCommitResponses(name) => count(&mut self.net.no_commit_responses[name]),
            Kind::Silence(set) => count(&mut self.net.silent[set]),
            Kind::Unsettle(name) => count(&mut self.net.unsettled[name]),
            Kind::LateLook(set) => count(&mut self.stores[set].late_looks),
            Kind::LateReassign(set) => count(&mut self.stores[set].late_reassigns),
            Kind::LateNews(set) => count(&mut self.stores[set].late_news),
            other => unreachable!("{other:?} is not switched"),
        }
    }

    pub(crate) fn end(&mut self, number: usize) {
        if self.healed {
            return;
        }
        let kind = self.swarm.faults[number].kind;
        let now = self.now;
        self.trace.note(now, [6, number as u64, 0], || format!("fault {number} ends: {kind:?}"));
        match kind {
            Kind::Suspend(machine) => self.machines[machine].suspend(now, false),
            Kind::Crash(name) => self.restart(name),
            Kind::Twin(name) => self.end_twin(name),
            Kind::Drain(name) => self.drain(name, false),
            Kind::Move(section, name) => self.steer(set_of_name(name), Entry::Move(section, None)),
            Kind::Elect(member) => self.depose(set_of_member(member)),
            Kind::WildRate(machine, _) => self.machines[machine].set_rates(now, [TRUE_RATE; 3]),
            Kind::Stall(_) | Kind::StallMember(_) | Kind::Leave(_) => {}
            Kind::WallStep(..) | Kind::Forge(_) | Kind::StorePause(_) | Kind::RollBack(_) | Kind::PauseBalancing(_) => {
            }
            kind @ (Kind::Migrate(..)
            | Kind::PauseMigrations(_)
            | Kind::Rollback(_)
            | Kind::Complete(_)
            | Kind::Blackout(_)
            | Kind::Divide
            | Kind::Backup(_)
            | Kind::Restore(_)
            | Kind::Merge(..)
            | Kind::HandOver) => self.end_of_sets(kind),
            other => self.switch(other, false),
        }
    }

    pub(crate) fn restart(&mut self, name: usize) {
        if self.listeners[name][0].is_none() {
            self.start(name, 0);
        }
    }

    /// If two processes run under a name, ends the newer process, or ends both and starts a third process.
    fn end_twin(&mut self, name: usize) {
        if let [Some(older), Some(newer)] = self.listeners[name] {
            if self.rng.chance(500) {
                self.kill(newer);
            } else {
                self.kill(older);
                self.start(name, 0);
                self.kill(newer);
            }
        }
    }

    fn drain(&mut self, name: usize, drained: bool) {
        self.steer(set_of_name(name), Entry::Drain(name, drained));
    }

    /// Schedules the application of a log entry of a set. The entry is a command of an operator.
    pub(crate) fn steer(&mut self, set: usize, entry: Entry) {
        self.after(MS, Event::Store(StoreStep::Apply(set, Box::new(entry))));
    }

    fn leave(&mut self, name: usize) {
        let others = names_of(set_of_name(name)).filter(|other| *other != name).filter_map(|other| self.running(other));
        let calm = self.swarm.weather == Weather::Calm;
        // If no other node of the set stays, the leaving process releases its sections instead of handing them over,
        // and calls are refused.
        let one_stays = others.into_iter().any(|p| !self.procs[p].owner.is_leaving());
        let Some(p) = self.running(name).filter(|_| !calm || one_stays) else { return };
        self.procs[p].owner.leave();
        self.renew_now(p);
        let until = self.now + LEAVE_PATIENCE;
        self.after(50 * MS, Event::Step(p, Step::Leaving(until)));
    }

    /// Ends a leaving process and starts its successor, if the leaving process has no sections left or the time `until`
    /// has come. Otherwise schedules another look.
    pub(crate) fn leaving(&mut self, p: usize, until: u64) {
        let empty = self.procs[p].owner.is_empty();
        if !empty && self.now < until {
            return self.after(50 * MS, Event::Step(p, Step::Leaving(until)));
        }
        // In calm weather, the process runs on until it has replied to all its calls, because responses to calls that
        // it forwarded return through this process.
        let calm = self.swarm.weather == Weather::Calm;
        let process = &self.procs[p];
        if calm && !(process.pending.is_empty() && process.forwards.is_empty() && process.in_call == 0) {
            self.listeners[process.name][process.port] = None;
            return self.after(50 * MS, Event::Step(p, Step::Leaving(until)));
        }
        if empty {
            self.coverage.saw(Situation::Left);
        }
        let name = self.procs[p].name;
        self.kill(p);
        self.restart(name);
    }

    pub(crate) fn elect(&mut self, member: usize) {
        let set = set_of_member(member);
        if member != self.stores[set].leader {
            self.stores[set].leader = member;
            if self.seat(member).is_none() {
                self.lead(member);
            }
        }
    }

    /// Ends the arbiters of all members of a set's store except the leader, because the other members learn that they
    /// do not lead.
    fn depose(&mut self, set: usize) {
        let leader = self.stores[set].leader;
        for member in members_of(set).filter(|member| *member != leader) {
            self.stores[set].seats[member % MEMBERS] = None;
        }
    }

    pub(crate) fn stall(&mut self, p: usize, until: u64) {
        if self.procs[p].in_call > 0 {
            self.coverage.saw(Situation::StalledInCall);
        }
        let stalled = &mut self.procs[p].stalled_until;
        *stalled = until.max(*stalled);
        self.after(until - self.now, Event::Resume(p));
    }

    /// Sets all wall clocks forward by 80 to 120 seconds, so that they pass the ceilings that timed lanes got by a
    /// restore.
    pub(crate) fn time_passes(&mut self) {
        let (now, by_ms) = (self.now, self.rng.between(80_000, 120_000));
        if !self.healed {
            self.passed_ms += by_ms;
            self.machines.iter_mut().for_each(|machine| machine.step_wall(now, (by_ms * MS) as i64));
        }
    }

    /// Sets all wall clocks to the true time plus `leaps` times [`LEAP_MS`], so that they pass the ceilings of all
    /// timed lanes. A second leap is needed because a set in quarantine may note the time of its restore only after the
    /// first leap, and then sets ceilings ahead of that time.
    pub(crate) fn leap(&mut self, leaps: u64) {
        let now = self.now;
        for machine in 0..self.machines.len() {
            let unix = (WALL_MS + self.passed_ms + leaps * LEAP_MS) * MS + now + self.rng.below(SECOND);
            self.machines[machine].set_wall(now, unix);
        }
    }

    /// Ends all faults, and schedules the probes, which request one number of each uid.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        let now = self.now;
        self.trace.note(now, [7, 0, 0], || "everything heals".to_owned());
        self.net.heal(self.hosts);
        for machine in 0..self.machines.len() {
            self.machines[machine].suspend(now, false);
            if self.swarm.weather == Weather::Wild {
                self.machines[machine].set_rates(now, [TRUE_RATE; 3]);
            }
        }
        self.leap(1);
        self.members_stalled.fill(0);
        for set in 0..self.hosts.sets {
            let store = &mut self.stores[set];
            store.paused_until = now;
            (store.late_looks, store.late_reassigns, store.late_news) = (0, 0, 0);
            self.depose(set);
        }
        for p in 0..self.procs.len() {
            if self.procs[p].alive && self.procs[p].stalled_until > now {
                self.procs[p].stalled_until = now;
                self.after(0, Event::Resume(p));
            }
        }
        for name in 0..self.hosts.names() {
            self.end_twin(name);
            if let Some(twin) = self.listeners[name][1] {
                self.kill(twin);
            }
            if let Some(old) = self.listeners[name][0].filter(|p| !self.procs[*p].reads_lanes) {
                self.kill(old);
            }
            // In calm weather, a leaving process may listen on no port any more. Its successor is started when it ends.
            let leaves = |process: &Process| process.alive && process.name == name && process.owner.is_leaving();
            if !self.procs.iter().any(leaves) {
                self.restart(name);
            }
            self.drain(name, false);
        }
        for set in 0..self.hosts.sets {
            self.pace(set, false);
        }
        self.divided_until = now;
        self.after(self.swarm.liveness_bound, Event::Probe);
    }
}
