//! Leaders of stores. Each member that believes that it leads runs the `Arbiter` of `seq-core`, which evaluates the
//! state of the set, and proposes changes of owner to the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared, MAX_REASSIGNS, Plan, Reserver};
use seq_core::leader_reach::{LeaderReach, Live, Observation};
use seq_core::lease::Clocks;
use seq_core::migration::Coordinator;
use seq_core::quarantine::Quarantine;
use seq_core::raise_bound;
use seq_core::state::{Reassign, State};
use seq_core::{Incarnation, Liveness, NodeId};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::deaths::reassign_earlier;
use crate::events::{Event, StoreStep};
use crate::faults::{MS, SECOND, Weather};
use crate::hosts::{MEMBERS, NAMES, members_of, names_of, set_of_member};
use crate::store::{Entry, Store};
use crate::store_bugs::{all_stranded, reassign_over, shorten, steer_wrongly};
use crate::world::World;

/// The least time between two evaluations of an arbiter.
pub(crate) const PACE: u64 = 5 * MS;

/// The time for which an arbiter waits for the application of its proposal before it makes another proposal.
const RETRY: u64 = 200 * MS;

/// Number of evaluations, of a thousand, during which the thread of the arbiter stalls, in worlds with preempted
/// threads.
const STALLED_LOOKS: u64 = 20;

/// The longest time between two evaluations of a leader in worlds of several sets.
const COORDINATE: u64 = 20 * MS;

/// Interval at which a leader sends facts about its set to the other sets.
const EXCHANGE: u64 = 300 * MS;

/// The longest stall of an arbiter's thread. It is longer than any wait of an arbiter.
const LONGEST_STALL: u64 = 6 * SECOND;

/// The arbiter and the other state machines of a member that believes that it leads its store.
#[derive(Debug)]
pub(crate) struct Seat {
    machine: Arbiter,
    origin: Clocks,
    pub(crate) plan: Arc<Plan>,
    pub(crate) reserver: Reserver,
    pub(crate) coordinator: Coordinator,
    pub(crate) quarantine: Option<Quarantine>,
    /// The earliest time at which the member sends the fence of a quarantine again.
    pub(crate) fence_at: u64,
    reach: LeaderReach,
    /// A number for the Raft term in which the member believes that it leads.
    term: u64,
    /// Number of requests of AllocSvrs that the member has received as the leader.
    pub(crate) calls: u64,
    /// The time at which the member sends facts about its set to other sets again.
    exchange_at: u64,
    /// The time of the next evaluation. Scheduled evaluations with another time are skipped.
    look_at: u64,
    pub(crate) proposing_until: u64,
    /// Whether the arbiter's thread is stalled inside of an evaluation.
    stalled: bool,
    /// For [`Bug::WaitOfOver`], the liveness counter of each incarnation, and the time since which the counter has had
    /// this value.
    pub(crate) silent: BTreeMap<(NodeId, Incarnation), (Liveness, Duration)>,
}

/// Input that an evaluation had read when the thread of the arbiter stalled. It is the state, because an evaluation
/// reads the state before the clock. It is the clock if [`Bug::ClockBeforeState`] is planted.
#[derive(Debug)]
pub(crate) enum InHand {
    State(Box<State>),
    Clock(Clocks),
}

impl World {
    /// Returns the arbiter and other state machines of a member; `None` unless the member believes that it leads.
    pub(crate) fn seat(&mut self, member: usize) -> &mut Option<Seat> {
        &mut self.stores[set_of_member(member)].seats[member % MEMBERS]
    }

    fn member_clock(&self, member: usize) -> Clocks {
        self.machines[self.hosts.of_member(member)].at(self.now)
    }

    /// Makes a member believe that it leads, and gives it an arbiter that has observed nothing yet.
    pub(crate) fn lead(&mut self, member: usize) {
        let weather = self.swarm.weather;
        let stable_for = Duration::from_millis(if weather == Weather::Calm { 500 } else { 1_500 });
        let timeouts = ArbiterTimeouts { registration_grace: Duration::from_secs(1), stable_for };
        let machine = Arbiter::new(timeouts);
        let (origin, term) = (self.member_clock(member), self.fresh());
        let (plan, silent) = (Arc::default(), BTreeMap::new());
        let seat = Seat {
            machine,
            origin,
            plan,
            reserver: Reserver::default(),
            coordinator: Coordinator::default(),
            quarantine: None,
            fence_at: 0,
            reach: LeaderReach::default(),
            term,
            calls: 0,
            exchange_at: 0,
            look_at: u64::MAX,
            proposing_until: 0,
            stalled: false,
            silent,
        };
        *self.seat(member) = Some(seat);
        if self.stores[set_of_member(member)].seats.iter().flatten().count() > 1 {
            self.coverage.saw(Situation::TwoArbiters);
        }
        self.look_soon(member, PACE);
    }

    /// Schedules an evaluation of the member's arbiter after the time `wait`, unless an earlier evaluation is
    /// scheduled.
    pub(crate) fn look_soon(&mut self, member: usize, wait: u64) {
        // While evaluations are late because of a fault, the application of an entry does not advance an evaluation
        // that is scheduled already.
        let (now, set) = (self.now, set_of_member(member));
        let waits = |seat: &Seat| seat.look_at > now && seat.look_at < u64::MAX;
        if self.stores[set].late_looks > 0 && self.seat(member).as_ref().is_some_and(waits) {
            return;
        }
        let late = self.stores[set].late_looks > 0 && self.rng.chance(700);
        let wait = if late { wait.max(self.rng.below(4 * SECOND)) } else { wait };
        let at = self.now + wait;
        let Some(seat) = self.seat(member).as_mut().filter(|seat| !seat.stalled) else { return };
        if seat.look_at > at || seat.look_at <= now {
            seat.look_at = at;
            self.after(wait, Event::Store(StoreStep::Look(member, at)));
        }
    }

    /// Runs the evaluation of the member's arbiter that is scheduled for the time `at`. The thread of the arbiter may
    /// stall between the read of the state and the read of the clock.
    pub(crate) fn look_at_state(&mut self, member: usize, at: u64) {
        if self.seat(member).as_ref().is_none_or(|seat| seat.look_at != at || seat.stalled) {
            return;
        }
        // A thread may stall between any two steps, so also here. It does not stall in calm weather or after the end of
        // all faults. In a state that is seconds old, all nodes would seem dead, so a leaving node would have no node
        // to which it could hand over its sections.
        let runs_well = self.swarm.weather == Weather::Calm || self.healed;
        if self.swarm.interleave > 0 && !runs_well && self.rng.chance(STALLED_LOOKS) {
            self.coverage.saw(Situation::StalledLook);
            let in_hand = match self.bug {
                Some(Bug::ClockBeforeState) => InHand::Clock(self.member_clock(member)),
                _ => InHand::State(Box::new(self.stores[set_of_member(member)].state.clone())),
            };
            self.seat(member).as_mut().expect("it looks").stalled = true;
            let wait = self.rng.below(LONGEST_STALL);
            return self.after(wait, Event::Store(StoreStep::LookOn(member, at, in_hand)));
        }
        self.finish_look(member, None, self.member_clock(member));
    }

    /// Continues an evaluation after the stall of its thread. `in_hand` is the input that the thread had read before
    /// the stall.
    pub(crate) fn look_on(&mut self, member: usize, at: u64, in_hand: InHand) {
        let Some(seat) = self.seat(member).as_mut().filter(|seat| seat.look_at == at && seat.stalled) else {
            return;
        };
        seat.stalled = false;
        let clock = self.member_clock(member);
        match in_hand {
            InHand::State(state) => self.finish_look(member, Some(*state), clock),
            InHand::Clock(clock) => self.finish_look(member, None, clock),
        }
    }

    /// Evaluates the state and proposes changes of owner. `earlier` is the state that the thread read before a stall;
    /// if it is `None`, evaluates the current state.
    fn finish_look(&mut self, member: usize, earlier: Option<State>, clock: Clocks) {
        let (set, now) = (set_of_member(member), self.now);
        let Store { state, seats, planned_at, .. } = &mut self.stores[set];
        let state = earlier.as_ref().unwrap_or(state);
        let seat = seats[member % MEMBERS].as_mut().expect("it looks");
        let time = clock.at_least_since(seat.origin);
        let names: [String; NAMES] = std::array::from_fn(|name| (names_of(set).start + name).to_string());
        let declared = names.each_ref().map(|name| Declared { name, weight: 1 });
        let shown = shorten(self.bug, state);
        let plan = seat.machine.evaluate(&shown, &declared, || time).clone();
        seat.plan = plan.clone();
        for one in plan.handovers.iter().filter(|_| self.bug == Some(Bug::EarlierCeiling)) {
            let ceiling = raise_bound::committed(state, one.section);
            let planned = planned_at.entry(one.section).or_insert((one.epoch, ceiling));
            if planned.0 != one.epoch {
                *planned = (one.epoch, ceiling);
            }
        }
        let mut reassigns = plan.reassigns.clone();
        if self.bug == Some(Bug::WaitOfOver) {
            reassign_over(seat, time, state, &mut reassigns);
        }
        steer_wrongly(self.bug, state, &plan, &mut reassigns);
        if self.bug == Some(Bug::DeathOfEarlier) {
            reassign_earlier(state, &mut reassigns);
        }
        let next = seat.machine.next_deadline().map(|due| due.saturating_sub(time));
        if !reassigns.is_empty() && now >= seat.proposing_until {
            seat.proposing_until = now + RETRY;
            self.propose(member, reassigns);
        }
        // A clock with a rate of 0 reaches no deadline, so the wait until the next evaluation is limited in true time.
        let mut wait = next.map_or(RETRY, |wait| wait.as_nanos() as u64).clamp(PACE, SECOND);
        if self.is_unreached(member, &plan, time) {
            return self.transfer(member);
        }
        if self.hosts.sets > 1 {
            self.coordinate(member, &plan, earlier.as_ref(), time);
            wait = wait.min(COORDINATE);
        }
        self.look_soon(member, wait);
    }

    /// Returns whether a leader should transfer leadership, because it has received no request of any AllocSvr for some
    /// time.
    fn is_unreached(&mut self, member: usize, plan: &Plan, time: Duration) -> bool {
        let Store { state, seats, leader, .. } = &mut self.stores[set_of_member(member)];
        let seat = seats[member % MEMBERS].as_mut().expect("it evaluates");
        let (quorum, live) = (member == *leader, Live::of(state, plan));
        let inputs = Observation { term: Some(seat.term), quorum, calls: seat.calls, live };
        seat.reach.observe(time, inputs).is_some()
    }

    /// Transfers leadership from `member` to another member of its store. `member` stops leading at once.
    fn transfer(&mut self, member: usize) {
        self.coverage.saw(Situation::LeadershipTransferred);
        let members = members_of(set_of_member(member));
        let next = members.start + (member + 1) % MEMBERS;
        self.elect(next);
        *self.seat(member) = None;
    }

    /// Does the work of a leader that concerns other sets. Carries out the decisions of the member's coordinator,
    /// continues a quarantine of the set, and sends facts about the set to other sets.
    fn coordinate(&mut self, member: usize, plan: &Plan, earlier: Option<&State>, time: Duration) {
        let at_once = self.bug == Some(Bug::SilentAtOnce);
        let Store { state, seats, .. } = &mut self.stores[set_of_member(member)];
        let state = earlier.unwrap_or(state);
        let Seat { machine, coordinator, .. } = seats[member % MEMBERS].as_mut().expect("it evaluates");
        let stranded = if at_once { all_stranded(state) } else { plan.stranded.clone() };
        let living = |node, incarnation| !at_once && machine.is_living(node, incarnation);
        let effects = coordinator.evaluate(state, &stranded, living, time);
        effects.into_iter().for_each(|effect| self.carry_out_between(member, effect));
        self.recover(member);
        let now = self.now;
        let seat = self.seat(member).as_mut().expect("it evaluates");
        if seat.exchange_at <= now {
            seat.exchange_at = now + EXCHANGE;
            self.exchange(member);
        }
    }

    /// Returns the state machines of a member and the time on the member's clock, if the member believes that it leads.
    pub(crate) fn seat_and_time(&mut self, member: usize) -> Option<(&mut Seat, Duration)> {
        let clock = self.member_clock(member);
        let seat = self.seat(member).as_mut()?;
        let time = clock.at_least_since(seat.origin);
        Some((seat, time))
    }

    fn propose(&mut self, member: usize, reassigns: Vec<Reassign>) {
        let set = set_of_member(member);
        if member != self.stores[set].leader && self.rng.chance(500) {
            return;
        }
        let late = self.stores[set].late_reassigns > 0 && self.rng.chance(600);
        for part in reassigns.chunks(MAX_REASSIGNS) {
            let wait = self.rng.between(MS / 2, if late { 3 * SECOND } else { 4 * MS });
            let entry = Entry::Reassign(part.to_vec(), member);
            self.after(wait, Event::Store(StoreStep::Apply(set, Box::new(entry))));
        }
    }
}
