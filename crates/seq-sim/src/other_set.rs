//! The part of a process that deals with other sets. It forwards calls to nodes of another set, and sends probes to
//! find out whether the other set responds.
//!
//! [`seq_core::set_health`], which `seq-alloc` uses, too, decides when a round of probes is due and when a set counts
//! as down. A probe requests the routes of the other set, so that the process can then forward calls directly to the
//! owners of their sections.

use std::collections::BTreeSet;
use std::time::Duration;

use seq_core::calls::{Destination, Rest};
use seq_core::route::{Adopted, RouteTable, RouteUpdate};
use seq_core::set_health::{Due, FALLEN, Health, IN_USE, Observed, PROBE_TIMEOUT, RECOVERY, ROUNDS};
use seq_core::{Refusal, RouteVersion, SectionId, SetId};

use crate::bugs::Bug;
use crate::client::{Call, Origin, Reply};
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::MS;
use crate::handover::parse;
use crate::hosts::set_id;
use crate::net::{Address, Body};
use crate::process::Process;
use crate::serving::{Forward, Pending};
use crate::world::World;

/// The longest time for which a call waits while it is not yet known whether a set responds. It covers the first rounds
/// of probes of the set. `seq-alloc` has the same limit.
const FIRST_ROUNDS: Duration = PROBE_TIMEOUT.saturating_mul(ROUNDS + 1);

/// Time within which a process may not send the same call to another set a second time, unless it has received a newer
/// claim for the section in between. It is the time until the first retry of a call.
const FOLLOWS_AFTER: u64 = 25 * MS;

/// The state of another set in a process.
#[derive(Debug)]
pub(crate) struct OtherSet {
    health: Health,
    missed: u32,
    received: Duration,
    /// Time of the last response to a round of probes.
    responded: Duration,
    used: Duration,
    probed: Option<Duration>,
    stale: bool,
    unreachable: bool,
    /// Time at which the health of the set last changed from up to down.
    fell: Option<Duration>,
    /// The round of probes in progress.
    round: Option<u64>,
    /// Ids of the last round's probes that are still without a response.
    probes: BTreeSet<u64>,
    polled_at: Option<Duration>,
    routes: Option<RouteTable>,
}

impl OtherSet {
    fn new() -> OtherSet {
        OtherSet {
            health: Health::Unknown,
            missed: 0,
            received: Duration::ZERO,
            responded: Duration::ZERO,
            used: Duration::ZERO,
            probed: None,
            stale: true,
            unreachable: false,
            fell: None,
            round: None,
            probes: BTreeSet::new(),
            polled_at: None,
            routes: None,
        }
    }

    fn has_fallen(&self, now: Duration) -> bool {
        self.fell.is_some_and(|fell| now.saturating_sub(fell) < FALLEN)
    }

    fn due(&self, now: Duration, in_flight: usize) -> Due {
        let observed = Observed {
            health: self.health,
            received: self.received,
            used: self.used,
            probed: self.probed,
            in_flight,
            stale: self.stale,
            unreachable: self.unreachable,
            missed: self.missed,
            fallen: self.has_fallen(now),
        };
        observed.due(now)
    }

    fn adopt(&mut self, update: &RouteUpdate) {
        let adopted = self.routes.as_mut().map(|routes| routes.adopt(update));
        if matches!(adopted, None | Some(Adopted::Mismatch)) {
            self.routes = RouteTable::from_whole(update);
        }
    }
}

impl Process {
    fn in_flight(&self, set: SetId) -> usize {
        self.forwards.values().filter(|forward| forward.to == Destination::Set(set)).count()
    }
}

impl World {
    /// Returns whether a call was sent by a process of another set.
    pub(crate) fn comes_from_other_set(&self, p: usize, call: &Call) -> bool {
        matches!(call.origin, Origin::Process(from, _) if self.procs[from].set() != self.procs[p].set())
    }

    /// Returns the set that the routes of a process wrongly name for all sections because of a fault; `None` if no such
    /// fault is in effect.
    pub(crate) fn unsettled(&self, p: usize) -> Option<SetId> {
        let process = &self.procs[p];
        (self.net.unsettled[process.name] > 0).then(|| set_id(1 - process.set()))
    }

    /// Sends a call to a node of the set `set`, which is another set, as soon as that set responds. Refuses the call if
    /// that set is down.
    pub(crate) fn forward_to_set(&mut self, p: usize, pending: Pending, set: SetId) {
        if pending.call.hops > 0 {
            let text = format!("process {p} sends a call of another node to set {set}: {:?}", pending.call);
            self.check.broken(self.now, "only the first node sends a call to another set", text);
        }
        let epoch = pending.machine.route_epoch();
        if let Some((at, used)) = pending.sent_to_set
            && epoch <= used
            && self.now < at + FOLLOWS_AFTER
        {
            let text = format!("process {p} sends {:?} to set {set} under {epoch}, after {used}", pending.call);
            self.check.broken(self.now, "a section is followed at once on a newer claim only", text);
        }
        let now = self.elapsed();
        let other = self.procs[p].other_sets.entry(set).or_insert_with(OtherSet::new);
        let idle = now.saturating_sub(other.used) >= IN_USE / 2;
        other.used = now;
        if idle {
            other.missed = 0;
            other.health = if other.health == Health::Down { Health::Unknown } else { other.health };
        }
        let (health, fallen) = (other.health, other.has_fallen(now));
        let most = match health {
            Health::Up => None,
            Health::Unknown => Some(FIRST_ROUNDS),
            Health::Down if fallen => Some(RECOVERY),
            Health::Down => return self.unavailable(p, pending, set),
        };
        match most {
            None => self.send_to_other_set(p, pending, set),
            Some(most) => {
                let id = self.fresh();
                self.procs[p].awaits_set.insert(id, (set, pending));
                self.after(most.as_nanos() as u64, Event::Step(p, Step::AwaitedSet(id)));
            }
        }
        self.poll_set(p, set);
    }

    /// Refuses a call because the other set `set` is unavailable. The call has not been sent to that set, or was given
    /// up there.
    fn unavailable(&mut self, p: usize, mut pending: Pending, set: SetId) {
        self.coverage.saw(Situation::SetUnavailable);
        pending.machine.on_abandoned();
        let section = pending.call.section;
        self.rest(p, pending, Rest::Refuse(Refusal::SetUnavailable { section, set }));
    }

    /// Refuses a call that has waited too long for another set to respond to a probe, unless the call has ended.
    pub(crate) fn awaited_set(&mut self, p: usize, id: u64) {
        if let Some((set, pending)) = self.procs[p].awaits_set.remove(&id) {
            self.unavailable(p, pending, set);
        }
    }

    fn send_to_other_set(&mut self, p: usize, mut pending: Pending, set: SetId) {
        let Some(address) = self.address_in(p, set, pending.call.section) else {
            return self.unavailable(p, pending, set);
        };
        self.coverage.saw(Situation::ForwardedToSet);
        if pending.sent_to_set.is_some() {
            self.coverage.saw(Situation::Followed);
        }
        let (now, id, epoch) = (self.elapsed(), self.fresh(), pending.machine.route_epoch());
        pending.sent_to_set = Some((self.now, epoch));
        let Call { hops, epoch: callers, .. } = pending.call;
        let call = Call { hops: hops + 1, epoch: callers.max(epoch), origin: Origin::Process(p, id), ..pending.call };
        let process = &mut self.procs[p];
        if process.in_flight(set) == 0
            && let Some(other) = process.other_sets.get_mut(&set)
        {
            other.received = now;
        }
        let host = process.name;
        self.send(host, address, Body::Call(call));
        self.procs[p].forwards.insert(id, Forward { pending, to: Destination::Set(set), replaced: None });
        self.watch(p, id);
    }

    /// Returns the address in the other set `set` to which process `p` sends a call for `section`. It is the address of
    /// the owner in the routes of that set, or of a random node of that set if the owner is unknown or a node was
    /// unreachable.
    fn address_in(&mut self, p: usize, set: SetId, section: SectionId) -> Option<Address> {
        let process = &self.procs[p];
        let other = process.other_sets.get(&set)?;
        let routes = other.routes.as_ref();
        let owner = routes.and_then(|routes| routes.node(routes.get(section)?.owner?));
        if let Some(owner) = owner.filter(|_| !other.unreachable) {
            return parse(&owner.addr);
        }
        let nodes = self.nodes_of(p, set);
        (!nodes.is_empty()).then(|| nodes[self.rng.index(nodes.len())])
    }

    /// Returns the addresses of the nodes of the other set `set` that process `p` knows, from the facts that the other
    /// set states about itself and from the routes of the other set.
    fn nodes_of(&self, p: usize, set: SetId) -> Vec<Address> {
        let process = &self.procs[p];
        let stated = process.owner.routes().and_then(|routes| routes.other_set(set));
        let mut nodes: Vec<Address> =
            stated.iter().flat_map(|set| &set.allocs).filter_map(|addr| parse(addr)).collect();
        let routes = process.other_sets.get(&set).and_then(|other| other.routes.as_ref());
        for node in routes.iter().flat_map(|routes| routes.nodes().values()).filter_map(|node| parse(&node.addr)) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// Begins a round of probes of a set if it is due, or schedules the time at which it is due.
    pub(crate) fn poll_set(&mut self, p: usize, set: SetId) {
        let now = self.elapsed();
        let in_flight = self.procs[p].in_flight(set);
        let Some(other) = self.procs[p].other_sets.get_mut(&set) else { return };
        other.polled_at = other.polled_at.filter(|at| *at > now);
        if other.round.is_some() {
            return;
        }
        match other.due(now, in_flight) {
            Due::Now => self.probe_set(p, set),
            Due::At(at) if other.polled_at.is_none_or(|polled| at < polled) => {
                other.polled_at = Some(at);
                self.after((at - now).as_nanos() as u64, Event::Step(p, Step::PollSet(set)));
            }
            Due::At(_) | Due::Idle => {}
        }
    }

    fn probe_set(&mut self, p: usize, set: SetId) {
        let (now, round) = (self.elapsed(), self.fresh());
        let nodes = self.nodes_of(p, set);
        let ids: Vec<u64> = nodes.iter().map(|_| self.fresh()).collect();
        let process = &mut self.procs[p];
        let host = process.name;
        let other = process.other_sets.get_mut(&set).expect("it is polled");
        (other.probed, other.round, other.unreachable, other.stale) = (Some(now), Some(round), false, false);
        other.probes = ids.iter().copied().collect();
        let known = other.routes.as_ref().map_or(RouteVersion(0), RouteTable::version);
        for (to, id) in nodes.into_iter().zip(ids) {
            self.send(host, to, Body::FetchRoutes { process: p, id, known });
        }
        self.after(PROBE_TIMEOUT.as_nanos() as u64, Event::Step(p, Step::ProbeTimeout(set, round)));
    }

    /// Processes a response to a request for routes if the request was a probe of another set. Returns whether it was.
    pub(crate) fn is_probe(&mut self, p: usize, id: u64, update: Option<&RouteUpdate>) -> bool {
        let found = self.procs[p].other_sets.iter_mut().find(|(_, other)| other.probes.contains(&id));
        let Some((set, other)) = found else { return false };
        let set = *set;
        other.probes.remove(&id);
        if let Some(update) = update {
            other.adopt(update);
        }
        if other.round.is_some() {
            self.end_round(p, set, true);
        }
        true
    }

    pub(crate) fn probe_timed_out(&mut self, p: usize, set: SetId, round: u64) {
        if self.procs[p].other_sets.get(&set).is_some_and(|other| other.round == Some(round)) {
            self.end_round(p, set, false);
        }
    }

    fn end_round(&mut self, p: usize, set: SetId, responded: bool) {
        let (now, too_early) = (self.elapsed(), self.bug == Some(Bug::DownTooEarly));
        let other = self.procs[p].other_sets.get_mut(&set).expect("it is probed");
        other.round = None;
        if responded {
            (other.received, other.responded) = (now, now);
        }
        let before = other.health;
        let missed = other.missed + u32::from(too_early);
        (other.health, other.missed) = before.after_round(missed, responded);
        let (after, silent) = (other.health, now.saturating_sub(other.responded));
        if (before, after) == (Health::Up, Health::Down) {
            other.fell = Some(now);
            self.coverage.saw(Situation::SetDown);
            if silent < PROBE_TIMEOUT * ROUNDS {
                let text =
                    format!("process {p} takes set {set} for down, and a probe of it had a response {silent:?} before");
                self.check.broken(self.now, "a set that responds is not down", text);
            }
        }
        if before != after {
            self.health_changed(p, set, after);
        }
        self.poll_set(p, set);
    }

    /// Continues the calls of process `p` that wait for a set, after the health of the set has changed. If the set is
    /// up now, sends them to it; otherwise refuses them. If the set is down now, also gives up the calls in flight to
    /// this set.
    fn health_changed(&mut self, p: usize, set: SetId, health: Health) {
        let process = &mut self.procs[p];
        let ids: Vec<u64> = process.awaits_set.iter().filter(|(_, (of, _))| *of == set).map(|(id, _)| *id).collect();
        let waiting: Vec<_> = ids.iter().filter_map(|id| process.awaits_set.remove(id)).collect();
        for (_, pending) in waiting {
            match health {
                Health::Up => self.send_to_other_set(p, pending, set),
                _ => self.unavailable(p, pending, set),
            }
        }
        if health != Health::Down {
            return;
        }
        let to = Destination::Set(set);
        let silent: Vec<u64> =
            self.procs[p].forwards.iter().filter(|(_, forward)| forward.to == to).map(|(id, _)| *id).collect();
        for id in silent {
            let pending = self.abandoned(p, id, to);
            let refusal = to.timed_out(pending.call.section);
            self.rest(p, pending, Rest::Refuse(refusal));
        }
    }

    /// Records that another set responded to a forwarded call, and returns the reply. If the reply is a refusal because
    /// a node of that set is unreachable, returns a refusal because that set is unavailable instead. If the call was
    /// forwarded to a node of this set, returns the reply unchanged.
    pub(crate) fn of_destination(&mut self, p: usize, pending: &Pending, to: Destination, reply: Reply) -> Reply {
        let Destination::Set(set) = to else { return reply };
        let (now, section) = (self.elapsed(), pending.call.section);
        let Some(other) = self.procs[p].other_sets.get_mut(&set) else { return reply };
        match reply {
            Reply::Refused { refusal: Refusal::OwnerUnreachable { .. }, lost } => {
                (other.unreachable, other.stale) = (true, true);
                self.poll_set(p, set);
                Reply::Refused { refusal: Refusal::SetUnavailable { section, set }, lost }
            }
            Reply::Refused { refusal, .. } => {
                (other.received, other.stale) = (now, true);
                if matches!(refusal, Refusal::Moved { .. }) {
                    self.coverage.saw(Situation::MovedRefused);
                }
                reply
            }
            _ => {
                other.received = now;
                reply
            }
        }
    }
}
