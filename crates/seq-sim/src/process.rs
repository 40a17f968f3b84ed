//! A simulated AllocSvr process. It consists of state machines of `seq-core`, the sections that it owns, its lease, and
//! code that carries out the effects of the state machines.
//!
//! **Invariant:** a process makes all changes of its table of owned sections that a response requires before it extends
//! its lease because of this response. `seq-alloc/src/ownership.rs` has the same invariant.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use seq_core::backoff::Backoff;
use seq_core::high_water::{HighWater, Mark};
use seq_core::key_room::Rounds;
use seq_core::lease::{Clocks, Lease, LeaseTerms};
use seq_core::owner::{Effect, Effects, LeaseEffect, Owner, Session, TableEffect};
use seq_core::raises::RaiseQueue;
use seq_core::renewals::{Registrations, RenewalOptions, Renewals};
use seq_core::section::{AnyCopy, SectionCopy};
use seq_core::store_calls::StoreMembers;
use seq_core::{Epoch, HandoverId, NodeId, SectionId, Seq, SetId};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::handover::PeerCall;
use crate::hosts::{members_of, set_of_name};
use crate::lanes;
use crate::numbers::{Numbers, Owned};
use crate::other_set::OtherSet;
use crate::peer_routes::RouteFetch;
use crate::serving::{Forward, Pending};
use crate::session::{RAISES, Rpc};
use crate::world::{STEP, TERMS, World};

/// The default options of renewals, as in production.
const RENEWALS: RenewalOptions = RenewalOptions::DEFAULTS;

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: usize,
    pub(crate) port: usize,
    pub(crate) alive: bool,
    pub(crate) stalled_until: u64,
    /// The events for the process that occurred while the process stalled, in the order of time.
    pub(crate) backlog: VecDeque<Event>,
    pub(crate) owner: Owner,
    pub(crate) lease: Lease,
    pub(crate) confirmed: u64,
    pub(crate) table: BTreeMap<SectionId, Rc<Owned>>,
    /// The id of the node, which is 0 before the first registration.
    pub(crate) node: NodeId,
    pub(crate) token: u64,
    pub(crate) registrations: Registrations,
    /// The highest revision and liveness counter in responses to all incarnations of the process.
    pub(crate) water: HighWater,
    /// A copy of this mark that the simulation keeps for its checks, even if a planted bug makes the process forget the
    /// mark.
    pub(crate) answered: Mark,
    /// Whether the process stopped permanently.
    pub(crate) stopped: bool,
    /// Whether the process is of a release that knows series.
    pub(crate) reads_lanes: bool,
    /// The lease terms with which the process registered. They determine by how long a response of the store extends
    /// the lease.
    pub(crate) terms: LeaseTerms,
    pub(crate) began: u64,
    /// Time at which the process was killed or had left.
    pub(crate) ended: u64,
    /// The members of the store.
    pub(crate) members: StoreMembers<usize>,
    pub(crate) rpcs: BTreeMap<u64, Rpc>,
    pub(crate) renewals: Renewals,
    /// Time since the begin of the world at which the renewals are polled next.
    pub(crate) polled_at: Option<Duration>,
    pub(crate) raises: RaiseQueue<Rc<Owned>>,
    /// Time since the begin of the world at which enqueued raises are sent next.
    pub(crate) raise_at: Option<Duration>,
    /// The backoff of commits without a response.
    pub(crate) commit_backoff: Backoff,
    pub(crate) peer_calls: BTreeMap<u64, PeerCall>,
    pub(crate) route_fetch: RouteFetch,
    /// Pending calls, by the number of their timer.
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) forwards: BTreeMap<u64, Forward>,
    pub(crate) woken: bool,
    /// Whether a bucket was replaced since the pending calls were scheduled for another attempt.
    pub(crate) rebuilt: bool,
    /// Rounds of evictions.
    pub(crate) rounds: Rounds,
    /// Number of calls that have read the lease but not yet the table of owned sections, or that have read the table
    /// but not yet taken their number.
    pub(crate) in_call: u32,
    /// For a planted bug, the clock by which calls are served.
    pub(crate) cached_clock: Clocks,
    /// Staged copies by section, also from earlier attempts of a handover. The simulation uses them to count stale
    /// copies and for planted bugs.
    pub(crate) staged: BTreeMap<SectionId, (Epoch, HandoverId, AnyCopy)>,
    /// The other sets that calls were forwarded to.
    pub(crate) other_sets: BTreeMap<SetId, OtherSet>,
    /// Calls that wait until another set responds to a probe.
    pub(crate) awaits_set: BTreeMap<u64, (SetId, Pending)>,
}

impl Process {
    /// Returns the set of the process.
    pub(crate) fn set(&self) -> usize {
        set_of_name(self.name)
    }

    pub(crate) fn new(name: usize, port: usize, token: u64, owner: Owner) -> Process {
        Process {
            name,
            port,
            alive: true,
            stalled_until: 0,
            backlog: VecDeque::new(),
            owner,
            lease: Lease::default(),
            confirmed: 0,
            table: BTreeMap::new(),
            node: NodeId(0),
            token,
            registrations: Registrations::new(RENEWALS),
            water: HighWater::default(),
            answered: Mark::default(),
            stopped: false,
            reads_lanes: true,
            terms: TERMS,
            began: 0,
            ended: u64::MAX,
            members: StoreMembers::new(members_of(set_of_name(name)).collect()),
            rpcs: BTreeMap::new(),
            renewals: Renewals::new(RENEWALS),
            polled_at: None,
            raises: RaiseQueue::new(RAISES),
            raise_at: None,
            commit_backoff: Backoff::new(RENEWALS.retry_min, RENEWALS.retry_max),
            peer_calls: BTreeMap::new(),
            route_fetch: RouteFetch::default(),
            pending: BTreeMap::new(),
            forwards: BTreeMap::new(),
            woken: false,
            rebuilt: false,
            rounds: Rounds::default(),
            in_call: 0,
            cached_clock: Clocks::default(),
            staged: BTreeMap::new(),
            other_sets: BTreeMap::new(),
            awaits_set: BTreeMap::new(),
        }
    }
}

impl World {
    /// Returns the clocks of the process' machine.
    pub(crate) fn clock(&self, p: usize) -> Clocks {
        let read = self.machines[self.procs[p].name].at(self.now);
        if self.bug == Some(Bug::SuspendStops) {
            return Clocks { boottime: read.raw, raw: read.raw, realtime: read.raw };
        }
        read
    }

    /// Calls `step` on the `Owner` state machine of process `p`, and carries out the effects of the call. Returns the
    /// result of `step`.
    pub(crate) fn step<T>(&mut self, p: usize, step: impl FnOnce(&mut Owner, &mut Effects) -> T) -> T {
        let mut effects = Effects::new();
        let outcome = step(&mut self.procs[p].owner, &mut effects);
        let freezes = |effect: &Effect| match effect {
            Effect::Table(TableEffect::Freeze { section, epoch }) => Some((*section, *epoch)),
            _ => None,
        };
        let frozen: Vec<_> = effects.iter().filter_map(freezes).collect();
        if !effects.is_empty() {
            self.carry_out(p, effects);
        }
        for (section, epoch) in frozen {
            self.freeze(p, section, epoch);
        }
        outcome
    }

    fn carry_out(&mut self, p: usize, effects: Effects) {
        let mut requests = Vec::new();
        for effect in effects {
            let now = self.now;
            self.trace.note(now, [1, p as u64, 0], || format!("process {p}: {effect:?}"));
            match effect {
                Effect::Table(effect) => self.change_table(p, effect),
                Effect::Lease(LeaseEffect::Extend { sent }) => self.extend(p, sent),
                Effect::Lease(LeaseEffect::End) => self.procs[p].lease.end(),
                Effect::RenewNow => self.on_grant_reported(p),
                // The lost copy needs no action, because the section starts at the ceiling.
                Effect::CopyLost { .. } => {}
                Effect::Send(request) => requests.push(request),
            }
        }
        self.owners_changed = true;
        for request in requests {
            self.send_handover(p, request);
        }
        self.wake(p);
    }

    fn change_table(&mut self, p: usize, effect: TableEffect) {
        match effect {
            // Nothing is to be done, because calls read the routes in the state machine.
            TableEffect::Publish => {}
            TableEffect::Enter { section, epoch, ceiling, copy } => {
                self.enter(p, section, epoch, ceiling, copy);
            }
            TableEffect::Leave { section, epoch } => self.leave_section(p, section, epoch),
            // `step` freezes sections after all changes of the table.
            TableEffect::Freeze { .. } => {}
            TableEffect::Thaw { section, epoch } => self.thaw(p, section, epoch),
        }
    }

    /// Freezes a section for its release.
    fn freeze(&mut self, p: usize, section: SectionId, epoch: Epoch) {
        let owned = self.procs[p].table.get(&section).filter(|owned| owned.epoch == epoch).cloned();
        let Some(owned) = owned else { return };
        let copy = owned.copy(self.bug);
        self.procs[p].owner.on_frozen(section, epoch, &copy);
        self.coverage.saw(Situation::FrozenForRelease);
        if self.bug == Some(Bug::ThawReleased) {
            self.thaw(p, section, epoch);
        }
    }

    pub(crate) fn extend(&mut self, p: usize, sent: Clocks) {
        let from = if self.bug == Some(Bug::ExpiryFromAnswer) { self.clock(p) } else { sent };
        let process = &mut self.procs[p];
        let margin = if self.bug == Some(Bug::ServedPastMargin) { process.terms.margin * 2 } else { Duration::ZERO };
        process.lease.extend(from, process.terms.served() + margin);
        process.confirmed = process.confirmed.max(sent.boottime);
        self.owners_changed = true;
    }

    pub(crate) fn enter(&mut self, p: usize, id: SectionId, epoch: Epoch, ceiling: Seq, copy: Option<AnyCopy>) {
        let counters = self.layout.counters_of(id);
        let staged = self.procs[p].staged.remove(&id).filter(|staged| staged.0 == epoch);
        if self.hosts.sets > 1 && copy.is_some() && staged.as_ref().map(|staged| &staged.2) != copy.as_ref() {
            self.coverage.saw(Situation::OtherAttempt);
        }
        self.coverage.saw(match (&copy, &staged) {
            (Some(_), _) => Situation::Copied,
            (None, Some(_)) => Situation::StaleCopy,
            (None, None) => Situation::Failover,
        });
        let copy = match (self.bug, staged, copy) {
            (Some(Bug::StaleCopy | Bug::SetsStaleCopy), Some((_, _, staged)), _) => Some(staged),
            (Some(Bug::BelowCeiling), _, None) => {
                Some(AnyCopy::above(Seq(ceiling.0.saturating_sub(STEP.0 / 2)), counters))
            }
            (Some(Bug::StartsAtClock), _, None) => self.copy_at_clock(p, id, ceiling),
            (_, _, copy) => copy,
        };
        let series = self.procs[p].owner.routes().map(|routes| routes.series().clone()).unwrap_or_default();
        let clock = lanes::clock_of(&series, id);
        let numbers = Numbers::new(counters, copy.as_ref(), ceiling, STEP, clock);
        let base = copy.map_or(ceiling, |copy| copy.base());
        self.procs[p].table.insert(id, Owned::new((id, epoch), numbers, base, clock));
    }

    /// Plants [`Bug::StartsAtClock`]. Returns an empty copy of a section of timed lanes whose base is the tick of the
    /// process' clock, if this tick is below the ceiling.
    fn copy_at_clock(&self, p: usize, id: SectionId, ceiling: Seq) -> Option<AnyCopy> {
        let base = self.layout.clock_of(id)?.tick(self.unix_ms(p));
        (base < ceiling).then(|| SectionCopy { base, distances: Vec::new() }.into())
    }

    fn leave_section(&mut self, p: usize, id: SectionId, epoch: Epoch) {
        let keeps = self.bug == Some(Bug::KeepsLost) && self.procs[p].owner.session().is_some();
        let table = &mut self.procs[p].table;
        if !keeps && table.get(&id).is_some_and(|owned| owned.epoch == epoch) {
            table.remove(&id);
        }
    }

    fn thaw(&mut self, p: usize, id: SectionId, epoch: Epoch) {
        let served = self.procs[p].table.get(&id).filter(|owned| owned.epoch == epoch).cloned();
        let Some(frozen) = served else { return };
        let (copy, clock) = (frozen.freeze(), frozen.clock);
        let numbers = Numbers::new(self.layout.counters_of(id), Some(&copy), frozen.ceiling(), STEP, clock);
        self.procs[p].table.insert(id, Owned::new((id, epoch), numbers, copy.base(), clock));
        self.coverage.saw(Situation::Thawed);
    }

    /// Schedules another attempt of all pending calls of process `p`, and another look at all calls that it forwarded.
    pub(crate) fn wake(&mut self, p: usize) {
        let process = &mut self.procs[p];
        let waits = !process.pending.is_empty() || !process.forwards.is_empty();
        if waits && !process.woken {
            process.woken = true;
            self.after(0, Event::Step(p, Step::Wake));
        }
    }

    /// Ends an incarnation of process `p`, if it is the current incarnation of the process, and schedules the
    /// registration of the next incarnation.
    pub(crate) fn end_session(&mut self, p: usize, session: Session) {
        if self.procs[p].owner.session() != Some(session) {
            return;
        }
        self.coverage.saw(Situation::SessionOver);
        self.require_successor(p);
        self.step(p, |owner, effects| owner.on_session_over(session, effects));
        if self.bug == Some(Bug::ForgetsWhatItSaw) {
            self.procs[p].water = HighWater::default();
        }
        let token = self.rng.next() | 1;
        let (now, jitter) = (self.elapsed(), self.jitter());
        let process = &mut self.procs[p];
        process.token = token;
        process.renewals.on_session_over();
        let wait = process.registrations.on_session_over(now, jitter);
        self.after(wait.as_nanos() as u64, Event::Step(p, Step::Register));
    }

    /// Checks that the incarnation of process `p` was ended by another process of the same name that ran at the same
    /// time or started later, and not by a late registration of a process that had ended before `p` started.
    fn require_successor(&mut self, p: usize) {
        let process = &self.procs[p];
        if self.stores[process.set()].restores > 0 {
            return;
        }
        let beside = |q: &Process| q.name == process.name && q.ended > process.began;
        let others = self.procs.iter().enumerate().filter(|(index, other)| *index != p && beside(other)).count();
        if others == 0 {
            let text = format!("process {p} of name {} lost its incarnation to none", process.name);
            self.check.broken(self.now, "a living incarnation is ended by another process of its name alone", text);
        }
    }

    /// Checks, by comparing the memory of all processes, that no two processes serve the same section now. A process
    /// serves its sections if its lease holds on its own clock.
    pub(crate) fn look_at_owners(&mut self) {
        self.owners_changed = false;
        let mut serving: BTreeMap<SectionId, usize> = BTreeMap::new();
        for (p, process) in self.procs.iter().enumerate().filter(|(_, process)| process.alive) {
            if !process.lease.holds(self.clock(p)) {
                continue;
            }
            for owned in process.table.values().filter(|owned| !owned.is_frozen()) {
                if let Some(other) = serving.insert(owned.id, p) {
                    let text = format!("processes {other} and {p} both serve section {}", owned.id);
                    self.check.broken(self.now, "one owner", text);
                    return;
                }
            }
        }
    }
}
