//! An AllocSvr process in worlds of restores. It has a session, sections, a clock with a rate of its own, and a lease
//! on this clock. A section consists only of a counter and a ceiling.

use std::collections::BTreeMap;

use seq_core::lease::{Clocks, Lease};
use seq_core::owner::Session;
use seq_core::state::{Command, Depart, Died, Raise};
use seq_core::{Epoch, Incarnation, RenewSeq, SectionId, Seq};

use super::store::{Origin, Request};
use super::{Event, World};
use crate::clock::{RATE_MARGIN, TRUE_RATE};
use crate::coverage::Situation;
use crate::faults::{MS, SECOND};

/// Interval at which a process looks for due work.
const TICK: u64 = 25 * MS;

/// The timeout of a request.
const TIMEOUT: u64 = 250 * MS;

/// The time after the end of a process at which its successor is started.
const RESTART: u64 = 300 * MS;

/// The step of a raise. It is so small that calls often reach the ceiling.
const STEP: u64 = 40;

/// A section in a process' memory.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) epoch: Epoch,
    /// The last number that the process allocated, or the ceiling at which the ownership began if it allocated none
    /// yet.
    pub(super) last: u64,
    /// The committed ceiling, as far as the process knows.
    ceiling: u64,
    /// The departure that the process requests until it gets a response. It allocates no number in the meantime.
    departing: Option<Depart>,
}

/// A response of the store.
#[derive(Clone, Debug)]
pub(super) enum Response {
    Registered(Session),
    /// Refusal of a registration, because the incarnation that it names as its predecessor is not the newest
    /// incarnation of the node. The field is the newest incarnation.
    Follow(Incarnation),
    /// The sections that the session owns, with their epochs and ceilings, the departures that the process should
    /// request, and the section whose departure was refused, if any.
    Granted {
        owned: Vec<(SectionId, Epoch, Seq)>,
        departs: Vec<Depart>,
        refused: Option<SectionId>,
    },
    SessionOver,
}

/// A request in flight.
#[derive(Debug)]
struct Sent {
    rpc: u64,
    sent: Clocks,
    due: u64,
    renews: bool,
}

/// Delays of reports of deaths. The last one is longer than the time in which a lost set is restored.
const REPORTED_AFTER: [u64; 3] = [20 * MS, 800 * MS, 15 * SECOND];

/// Returns the number of a process, by which its death is reported.
pub(super) fn number(p: usize) -> u64 {
    p as u64 + 1
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) set: usize,
    name: usize,
    pub(super) alive: bool,
    pub(super) stalled_until: u64,
    /// Time until which the process and its store do not reach each other.
    pub(super) cut_until: u64,
    pub(super) session: Option<Session>,
    pub(super) table: BTreeMap<SectionId, Owned>,
    /// The rate of the process' clocks, in millionths.
    rate: u64,
    lease: Lease,
    token: u64,
    follows: Incarnation,
    renewals: RenewSeq,
    renew_at: u64,
    request: Option<Sent>,
}

impl Process {
    fn clock(&self, now: u64) -> Clocks {
        let now = SECOND + local(now, self.rate);
        Clocks { boottime: now, raw: now, realtime: now }
    }

    /// Returns whether the process can allocate a number of a section at the true time `now`.
    pub(super) fn serves(&self, section: SectionId, now: u64) -> bool {
        let free = |owned: &Owned| owned.departing.is_none() && owned.last < owned.ceiling;
        self.alive
            && self.stalled_until <= now
            && self.table.get(&section).is_some_and(free)
            && self.lease.holds(self.clock(now))
    }
}

/// Returns the time that a clock with the rate `rate`, in millionths, shows at the true time `now`.
pub(super) fn local(now: u64, rate: u64) -> u64 {
    (u128::from(now) * u128::from(rate) / u128::from(TRUE_RATE)) as u64
}

impl World {
    /// Draws the rate of a clock. The rate is correct, or has the largest error in either direction for which leases
    /// allow.
    pub(super) fn rate(&mut self) -> u64 {
        [TRUE_RATE - RATE_MARGIN, TRUE_RATE, TRUE_RATE + RATE_MARGIN][self.rng.index(3)]
    }

    /// Starts a process of an AllocSvr. If a process of the same AllocSvr runs, ends that process first.
    pub(super) fn start(&mut self, set: usize, name: usize) {
        if let Some(p) = self.newest[set][name] {
            self.procs[p].alive = false;
        }
        let (token, rate) = (self.fresh(), self.rate());
        self.newest[set][name] = Some(self.procs.len());
        self.procs.push(Process {
            set,
            name,
            alive: true,
            stalled_until: 0,
            cut_until: 0,
            session: None,
            table: BTreeMap::new(),
            rate,
            lease: Lease::default(),
            token,
            follows: Incarnation(0),
            renewals: RenewSeq(0),
            renew_at: 0,
            request: None,
        });
        self.after(0, Event::Tick(self.procs.len() - 1));
    }

    /// Schedules the start of a process of an AllocSvr, unless a process of the AllocSvr runs.
    pub(super) fn start_again(&mut self, set: usize, name: usize) {
        if self.newest[set][name].is_none_or(|p| !self.procs[p].alive) {
            self.after(0, Event::Start(set, name));
        }
    }

    /// Ends a process at once. Its parent may report the death to the store, early or late.
    pub(super) fn kill(&mut self, set: usize, name: usize) {
        let Some(p) = self.newest[set][name] else { return };
        if !std::mem::replace(&mut self.procs[p].alive, false) {
            return;
        }
        // The delays are not drawn, so that they do not change the other draws of the run.
        if let Some(delay) = REPORTED_AFTER.get(p % (REPORTED_AFTER.len() + 1)) {
            self.after(*delay, Event::Died(p));
        }
    }

    /// Proposes the report of the death of process `p` in the set's store, if the store responds.
    pub(super) fn report_death(&mut self, p: usize) {
        let Process { set, name, .. } = self.procs[p];
        if !self.sets[set].responds(self.now) {
            return;
        }
        let name = name.to_string();
        let node = self.sets[set].state.nodes().find(|(_, node)| node.name == name).map(|(id, _)| id);
        if let Some(node) = node {
            self.propose(set, Command::Died(Died { node, process: number(p) }), Origin::Here);
        }
    }

    /// Sends the next request of a process to its store, if a request is due and no other request is in flight.
    pub(super) fn tick(&mut self, p: usize) {
        if !self.procs[p].alive {
            return;
        }
        self.after(TICK, Event::Tick(p));
        let now = self.now;
        if self.procs[p].stalled_until > now {
            return;
        }
        if self.procs[p].request.as_ref().is_some_and(|request| request.due > now) {
            return;
        }
        self.procs[p].request = None;
        let Some(request) = self.next_request(p) else { return };
        let (rpc, set, sent) = (self.fresh(), self.procs[p].set, self.procs[p].clock(now));
        let renews = matches!(request, Request::Renew { .. });
        self.procs[p].request = Some(Sent { rpc, sent, due: now + TIMEOUT, renews });
        if self.procs[p].cut_until <= now {
            self.send(|| Event::Request(set, p, rpc, request.clone()));
        }
    }

    fn next_request(&self, p: usize) -> Option<Request> {
        let process = &self.procs[p];
        let Some(session) = process.session else {
            return Some(Request::Register { name: process.name, token: process.token, follows: process.follows });
        };
        if process.renew_at <= self.now {
            return Some(Request::Renew { session, renew_seq: RenewSeq(process.renewals.0 + 1) });
        }
        if let Some(depart) = process.table.values().find_map(|owned| owned.departing) {
            return Some(Request::Depart(depart));
        }
        let low = |owned: &Owned| owned.departing.is_none() && owned.ceiling - owned.last < STEP / 2;
        let raise = |(section, owned): (&SectionId, &Owned)| {
            low(owned).then_some(Raise { section: *section, epoch: owned.epoch, to: Seq(owned.ceiling + STEP) })
        };
        let raises: Vec<Raise> = process.table.iter().filter_map(raise).collect();
        (!raises.is_empty()).then_some(Request::Raise { session, raises })
    }

    /// Processes the response to the request in flight of process `p`.
    pub(super) fn response(&mut self, p: usize, rpc: u64, response: Response) {
        let (now, process) = (self.now, &mut self.procs[p]);
        if !process.alive || process.request.as_ref().is_none_or(|request| request.rpc != rpc) {
            return;
        }
        if process.stalled_until > now {
            let wait = process.stalled_until - now;
            return self.after(wait, Event::Response(p, rpc, response));
        }
        let Some(Sent { sent, renews, .. }) = process.request.take() else { return };
        match response {
            Response::Registered(session) => (process.session, process.renew_at) = (Some(session), 0),
            Response::Follow(current) => process.follows = current,
            Response::SessionOver => {
                let (set, name) = (process.set, process.name);
                process.alive = false;
                self.coverage.saw(Situation::SessionOver);
                if self.newest[set][name] == Some(p) {
                    self.after(RESTART, Event::Start(set, name));
                }
            }
            Response::Granted { owned, departs, refused } => {
                if let Some(section) = refused {
                    // The store refused the departure of the section. If the process still owns the section, `adopt`
                    // adds the section to the table again, at the ceiling.
                    process.table.remove(&section);
                }
                self.adopt(p, &owned, departs);
                let terms = self.sets[self.procs[p].set].terms;
                let process = &mut self.procs[p];
                if renews {
                    process.renewals.0 += 1;
                    process.renew_at = now + terms.renew_interval.as_nanos() as u64;
                }
                // The lease is extended only after the table has changed.
                process.lease.extend(sent, terms.served());
            }
        }
    }

    fn adopt(&mut self, p: usize, owned: &[(SectionId, Epoch, Seq)], departs: Vec<Depart>) {
        let table = &mut self.procs[p].table;
        table.retain(|section, one| owned.iter().any(|(other, epoch, _)| (other, epoch) == (section, &one.epoch)));
        for (section, epoch, max_seq) in owned {
            let begins = || Owned { epoch: *epoch, last: max_seq.0, ceiling: max_seq.0, departing: None };
            let one = table.entry(*section).or_insert_with(begins);
            one.ceiling = one.ceiling.max(max_seq.0);
        }
        for depart in departs {
            let handover_id = seq_core::HandoverId(self.fresh());
            let one = self.procs[p].table.get_mut(&depart.section);
            if let Some(one) = one.filter(|one| one.epoch == depart.epoch && one.departing.is_none()) {
                one.departing = Some(Depart { handover_id, ..depart });
            }
        }
    }
}
