//! Calls in a process. A process checks each call that arrives, and then serves, forwards or refuses the call, or keeps
//! it pending. [`seq_core::calls`], which `seq-alloc` uses, too, decides the next step of each call.
//!
//! **Order matters:** after a call has arrived, the process first reads the clocks and the lease, then the table of
//! owned sections, and then takes the number. Between the reads of the lease and of the table, and between the read of
//! the table and taking the number, other events of the process may occur, or the process may stall.

use std::rc::Rc;
use std::time::Duration;

use seq_core::calls::{
    CallTimeouts, Destination, OwnershipView, PendingCall, Rest, SetRoute, Step as CallStep, UnknownAttempts, Wait,
};
use seq_core::{Advance, AdvanceLimit, Count, Epoch, NodeId, Refusal, Seq, SetId, Take, Target, limits};

use crate::bugs::Bug;
use crate::client::{Call, Reply, Wish};
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::{MS, Weather};
use crate::numbers::Owned;
use crate::process::Process;
use crate::world::World;

/// The limit of advances, which is a server's default.
const FAR: AdvanceLimit = AdvanceLimit(limits::DEFAULT_MAX_ADVANCE);

/// Limits of the time for which a thread is preempted, in nanoseconds. For each preemption, one of these limits is
/// drawn.
const GAPS: [u64; 3] = [MS, 20 * MS, 200 * MS];

/// A call in a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) call: Call,
    pub(crate) machine: PendingCall,
    /// Time of arrival, from which the machine counts.
    pub(crate) since: u64,
    /// For the last request of this call to another set, the time at which it was sent, and the epoch of the route by
    /// which that set was chosen.
    pub(crate) sent_to_set: Option<(u64, Epoch)>,
    /// Time of the last attempt, since which the call waits.
    pub(crate) tried: u64,
    pub(crate) unknown: UnknownAttempts,
    /// The current wait of the call.
    pub(crate) wait: Option<Wait>,
    /// Whether the call has ever waited.
    pub(crate) waited: bool,
}

impl Pending {
    /// Returns whether the call waits for an ownership update.
    fn awaits_owner(&self) -> bool {
        self.wait.is_some_and(|wait| wait.awaits_owner)
    }

    pub(crate) fn now(&self, now: u64) -> Duration {
        Duration::from_nanos(now - self.since)
    }
}

/// A call that was forwarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    pub(crate) pending: Pending,
    pub(crate) to: Destination,
    /// Time at which the routes of this process first named another place than `to` for the section; `None` if they
    /// still name `to`.
    pub(crate) replaced: Option<u64>,
}

/// A call for which the process has read the lease but not yet the table of owned sections. `leased` is whether the
/// lease held.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pending: Pending,
    leased: bool,
    /// For [`Bug::TableBeforeLease`], the section that the table had before the lease was read.
    early: Option<Rc<Owned>>,
}

/// The view that the state machine of a call has of its process. It shows the ownership of the call's section.
struct View<'a> {
    process: &'a Process,
    call: &'a Call,
    leased: Option<bool>,
    bug: Option<Bug>,
    /// The set that the routes of the process wrongly name for all sections, because of a fault.
    unsettled: Option<SetId>,
}

impl OwnershipView for View<'_> {
    fn lease_here(&self) -> Option<bool> {
        self.leased
    }

    fn other_owner(&self) -> Option<NodeId> {
        let routes = self.process.owner.routes();
        let owner = routes.and_then(|routes| routes.get(self.call.section)).and_then(|route| route.owner);
        owner.filter(|owner| *owner != self.process.node)
    }

    fn is_expected(&self) -> bool {
        self.bug == Some(Bug::WaitsAstray) || self.process.owner.expects(self.call.section)
    }

    fn set_route(&self) -> SetRoute {
        let Some(routes) = self.process.owner.routes() else { return SetRoute::default() };
        let route = routes.get(self.call.section).unwrap_or_default();
        if self.unsettled.is_some() && self.call.hops > 0 {
            return SetRoute { own: routes.id(), other: self.unsettled, epoch: self.call.epoch };
        }
        SetRoute { own: routes.id(), other: route.other_set(), epoch: route.epoch }
    }
}

impl Process {
    /// Returns whether a call of this process waits for an ownership update.
    pub(crate) fn awaits_owner(&self) -> bool {
        let forwards = self.forwards.values().map(|forward| &forward.pending);
        self.pending.values().chain(forwards).any(Pending::awaits_owner)
    }
}

impl World {
    /// Returns the timeouts of calls, changed by the planted bug if it is a bug in timeouts.
    fn call_timeouts(&self) -> CallTimeouts {
        let defaults = CallTimeouts::DEFAULTS;
        let long = Duration::from_secs(60);
        match self.bug {
            Some(Bug::AbandonsAtOnce) => CallTimeouts { replaced_owner: Duration::ZERO, ..defaults },
            Some(Bug::NeverAbandons) => CallTimeouts { replaced_owner: long, ..defaults },
            Some(Bug::NeverRetries) => CallTimeouts { first_retry: long, last_retry: long, ..defaults },
            _ => defaults,
        }
    }

    /// Processes the arrival of a call at process `p`. Locates the call's lane, and attempts to serve the call.
    pub(crate) fn arrive(&mut self, p: usize, call: Call) {
        let located = self.locate_in_lane(p, call).and_then(|call| self.locate_key(p, call));
        let call = located.unwrap_or(call);
        let deadline = Duration::from_nanos(call.deadline.saturating_sub(self.now));
        let uncounted = match self.bug {
            Some(Bug::UncountedHops) => true,
            Some(Bug::SendsOnward) => self.comes_from_other_set(p, &call),
            _ => false,
        };
        let hops = if uncounted { 0 } else { call.hops };
        let machine = PendingCall::new(call.section, (hops, call.epoch), self.clock(p), deadline, self.call_timeouts());
        let (since, unknown) = (self.now, UnknownAttempts::default());
        let pending =
            Pending { call, machine, since, sent_to_set: None, tried: since, unknown, wait: None, waited: false };
        if let Err(refusal) = located {
            return self.reply(p, pending, Reply::Refused { refusal, lost: 0 });
        }
        match self.unleased(p, &call) {
            None => self.attempt(p, pending),
            Some(owned) if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) => {
                self.procs[p].in_call += 1;
                let gap = self.gap();
                self.after(gap, Event::Step(p, Step::TakeUnleased(Box::new(pending), owned)));
            }
            Some(owned) => self.take_unleased(p, pending, &owned),
        }
    }

    pub(crate) fn attempt(&mut self, p: usize, pending: Pending) {
        let clocks = if self.bug == Some(Bug::CachedClock) { self.procs[p].cached_clock } else { self.clock(p) };
        let process = &self.procs[p];
        let leased = process.lease.holds(clocks);
        let bug = self.bug == Some(Bug::TableBeforeLease);
        let early = process.table.get(&pending.call.section).filter(|_| bug).cloned();
        let checked = Checked { pending, leased, early };
        if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) {
            self.procs[p].in_call += 1;
            let gap = self.gap();
            self.after(gap, Event::Step(p, Step::Look(Box::new(checked))));
        } else {
            self.look(p, checked);
        }
    }

    /// Draws the time for which a thread is preempted. In calm weather, this time is much shorter than the timeout
    /// after which a process gives up a call that it forwarded to an owner that was replaced.
    pub(crate) fn gap(&mut self) -> u64 {
        let lengths = if self.swarm.weather == Weather::Calm { &GAPS[..2] } else { &GAPS[..] };
        let most = lengths[self.rng.index(lengths.len())];
        self.rng.below(most)
    }

    /// Reads the table of owned sections for a call, after the lease was read for it. Then serves, forwards or refuses
    /// the call, or lets it wait.
    pub(crate) fn look(&mut self, p: usize, checked: Checked) {
        let Checked { mut pending, mut leased, early } = checked;
        let mut owned = self.procs[p].table.get(&pending.call.section).cloned();
        if self.bug == Some(Bug::TableBeforeLease) {
            leased = self.procs[p].lease.holds(self.clock(p));
            owned = early;
        }
        let view = View {
            process: &self.procs[p],
            call: &pending.call,
            leased: owned.as_ref().map(|_| leased),
            bug: self.bug,
            unsettled: self.unsettled(p),
        };
        let step = pending.machine.evaluate(pending.now(self.now), &view);
        match (step, owned) {
            (CallStep::Serve, Some(owned)) => {
                if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) {
                    self.procs[p].in_call += 1;
                    let gap = self.gap();
                    self.after(gap, Event::Step(p, Step::Take(Box::new(pending), owned)));
                } else {
                    self.take(p, pending, &owned);
                }
            }
            (CallStep::Serve, None) => panic!("a call is served without its section"),
            (CallStep::Forward(to), _) => self.forward(p, pending, to),
            (CallStep::ForwardToSet(set), _) => self.forward_to_set(p, pending, set),
            (CallStep::Rest(rest), _) => {
                if matches!(rest, Rest::Wait(Wait { awaits_owner: false, .. })) {
                    self.coverage.saw(Situation::LeaseExpired);
                }
                self.rest(p, pending, rest);
            }
        }
    }

    /// Serves a call from its slot in `owned`, the section that was read from the table for this call. If it cannot be
    /// served now, the call waits or is refused.
    pub(crate) fn take(&mut self, p: usize, mut pending: Pending, owned: &Rc<Owned>) {
        let Call { section, .. } = pending.call;
        if pending.call.epoch > owned.epoch {
            self.coverage.saw(Situation::EpochAhead);
        }
        let blocked = match pending.machine.epoch(pending.call.epoch, owned.epoch, self.procs[p].confirmed) {
            Err(refusal) => Some(refusal),
            Ok(_) => match self.serve(p, &pending, owned) {
                Some(reply) => {
                    self.reply(p, pending, reply);
                    None
                }
                None => Some(Refusal::CeilingStalled { section }),
            },
        };
        if blocked.is_some() {
            let rest = pending.machine.on_served(pending.now(self.now), blocked);
            self.rest(p, pending, rest);
        }
        if std::mem::take(&mut self.procs[p].rebuilt) {
            self.wake(p);
        }
        self.raise(p);
    }

    /// Serves a call from a section; returns `None` if the call has to wait.
    fn serve(&mut self, p: usize, pending: &Pending, owned: &Rc<Owned>) -> Option<Reply> {
        let (call, epoch) = (&pending.call, owned.epoch);
        match call.wish {
            Wish::Take(count) => match self.take_at(p, call, owned, count) {
                Ok(taken) => self.taken(p, pending, owned, count, taken),
                Err(refusal) => refusal.map(|refusal| Reply::Refused { refusal, lost: 0 }),
            },
            Wish::InLane(_) => self.allocate_in_lane(p, pending, owned),
            Wish::Advance(to) => self.advance(p, pending, owned, to),
            Wish::Read => self.read_at(p, call, owned).map(|mut reading| {
                reading.exact |= self.bug == Some(Bug::ExactAlways);
                Reply::Read { reading, epoch }
            }),
        }
    }

    /// Processes the result `taken` of an allocation. Enqueues the raise of the ceiling if it is due, checks the
    /// numbers, and returns the reply to the call. Returns `None` if the call has to wait.
    pub(crate) fn taken(
        &mut self,
        p: usize,
        pending: &Pending,
        owned: &Rc<Owned>,
        count: Count,
        mut taken: Take,
    ) -> Option<Reply> {
        let Call { uid, section, .. } = pending.call;
        let epoch = owned.epoch;
        if let Take::Given { ticket, .. } | Take::AtCeiling { ticket, .. } = &mut taken
            && let Some(ticket) = ticket.take()
        {
            self.procs[p].raises.enqueue(owned.clone(), ticket);
        }
        match taken {
            Take::Given { value, mut prev, .. } => {
                let count = u64::from(count.get());
                if self.bug == Some(Bug::PrevIsCeiling) && prev == Seq::ZERO {
                    prev = owned.base;
                }
                if self.bug == Some(Bug::PrevIsTarget) && prev == Seq::ZERO && value.0 > owned.base.0 + count {
                    prev = Seq(value.0 - count);
                }
                let first = value.0 - count + 1;
                let ceiling = self.highest[section.0 as usize];
                let now = self.now;
                let (session, set) = (self.procs[p].owner.session(), self.procs[p].set());
                let first_number = self.stores[set].state.lineage.first_number();
                if session.is_some_and(|one| one.incarnation.0 < first_number) {
                    self.coverage.saw(Situation::OlderLineage);
                }
                self.trace.note(now, [2, uid.0, value.0], || {
                    format!("process {p}: uid {uid} takes {first}..={value} in section {section} under epoch {epoch}")
                });
                let user = self.series.user(uid);
                self.check.taken(now, user, first, value.0, ceiling.0);
                self.look_at_ids(uid, first, value.0);
                Some(Reply::Given { uid, value, prev, epoch, lost: 0 })
            }
            Take::AtCeiling { .. } => {
                self.coverage.saw(Situation::AtCeiling);
                None
            }
            Take::Frozen => {
                self.coverage.saw(Situation::Frozen);
                None
            }
            Take::Exhausted => {
                Some(Reply::Refused { refusal: Refusal::Exhausted { uid, count: count.get() }, lost: 0 })
            }
        }
    }

    /// Serves an advance, by raising the slot of a call to the number `to`. Returns the reply, or `None` if the call
    /// has to wait.
    fn advance(&mut self, p: usize, pending: &Pending, owned: &Rc<Owned>, to: Target) -> Option<Reply> {
        let Call { uid, section, .. } = pending.call;
        let epoch = owned.epoch;
        let mut advanced = match self.advance_at(p, &pending.call, owned, FAR) {
            Ok(advanced) => advanced,
            Err(refusal) => return refusal.map(|refusal| Reply::Refused { refusal, lost: 0 }),
        };
        if let Advance::Done { ticket, .. } | Advance::AtCeiling { ticket } = &mut advanced
            && let Some(ticket) = ticket.take()
        {
            self.procs[p].raises.enqueue(owned.clone(), ticket);
        }
        match advanced {
            Advance::Done { .. } => {
                let (now, to) = (self.now, to.seq());
                self.trace.note(now, [8, uid.0, to.0], || {
                    format!("process {p}: uid {uid} is advanced to {to} in section {section} under epoch {epoch}")
                });
                let ceiling = self.highest[section.0 as usize];
                self.check.advanced(now, self.series.user(uid), to.0, ceiling.0);
                Some(Reply::Advanced { past: false, epoch })
            }
            Advance::Past => Some(Reply::Advanced { past: true, epoch }),
            Advance::TooFar { bound } => {
                let refusal = Refusal::AdvanceTooFar { to: to.seq().0, bound };
                Some(Reply::Refused { refusal, lost: 0 })
            }
            Advance::AtCeiling { .. } | Advance::Frozen => None,
        }
    }
}

/// An epoch that no section ever reaches. Some callers name it in a call, as a faulty client might.
pub(crate) const FORGED_EPOCH: Epoch = Epoch(1 << 40);
