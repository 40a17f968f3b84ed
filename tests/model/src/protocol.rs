//! The steps of the model: their conditions and effects.

use stateright::{Model, Property};

use crate::bounds::{Bounds, Bug, Setting};
use crate::events::Event;
use crate::explore::Events;
use crate::world::{A, B, Call, Message, Promise, SECOND, SESSIONS, Session, World};

/// The protocol within its bounds.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) events: Events<Event>,
}

/// A step of a participant. Between any two steps any other step may happen, and any step may never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Time passes. The clock of one owner may stop.
    Tick {
        still: Option<Session>,
    },
    /// A call arrives, and its node reads the clock.
    Arrive {
        call: usize,
        at: Session,
    },
    /// The node of a call checks the lease and the table.
    Admit {
        call: usize,
    },
    /// The slot of a call is moved or read, and the response is sent.
    Take {
        call: usize,
    },
    Renew {
        session: Session,
    },
    Raise {
        session: Session,
    },
    Release {
        session: Session,
    },
    /// A second session of a node registers.
    Register,
    /// The process of a session ends, and its parent reports it.
    Die {
        session: Session,
    },
    /// The arbiter reads the liveness counter of a session.
    Evaluate {
        session: Session,
    },
    /// The arbiter begins an evaluation, and its thread stalls.
    BeginEvaluation {
        session: Session,
    },
    /// The arbiter's thread continues the evaluation.
    EndEvaluation,
    /// A session without a lease requests the routes of a peer.
    FetchRoutes {
        session: Session,
        peer: Session,
    },
    /// The arbiter proposes a Reassign.
    Propose {
        to: Session,
    },
    ChangeLeader,
    BeginHandover {
        from: Session,
        to: Session,
    },
    /// The owner freezes, or copies and stages.
    ContinueHandover {
        session: Session,
    },
    /// The owner treats a message to the target as failed, and thaws.
    AbortHandover {
        session: Session,
    },
    /// A forged Stage and Activate are sent to a node.
    Forge {
        to: Session,
    },
    /// A message is delivered, for the last time or not.
    Deliver {
        message: Message,
        again: bool,
    },
    /// A response is delivered whose update was read at the delivery.
    DeliverLateUpdate {
        message: Message,
    },
    /// With a bug only: a clock is read ahead of the calls.
    CacheClock {
        session: Session,
    },
    /// With a bug only: the update that was put aside is adopted.
    AdoptPending {
        session: Session,
    },
    /// With a bug only: a deposed leader responds to a renewal.
    ResponseFromMemory {
        message: Message,
    },
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::start(&self.bounds);
        world.normalise(&self.bounds);
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let raising = world.network.iter().any(|message| matches!(message, Message::Raise { .. }));
        let all_answered = world.calls.iter().all(|call| *call == Call::Answered);
        if world.history.broken.is_some() || (all_answered && !raising) {
            return;
        }
        self.call_steps(world, steps);
        for session in (0..SESSIONS).filter(|session| world.runs(*session)) {
            self.node_steps(world, session, steps);
        }
        self.store_steps(world, steps);
        self.time_steps(world, steps);
        for message in &world.network {
            let message = *message;
            steps.push(Step::Deliver { message, again: false });
            if world.left.duplicates > 0 {
                steps.push(Step::Deliver { message, again: true });
            }
            if self.bounds.late_update
                && let Message::Response { session, update, over: false, .. } = message
                && world.store.record.epoch > world.nodes[session].version
                && update != Some(world.store.record)
            {
                steps.push(Step::DeliverLateUpdate { message });
            }
            if world.store.deposed.is_some() && matches!(message, Message::Renew { .. }) {
                steps.push(Step::ResponseFromMemory { message });
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, step);
        next.normalise(&self.bounds);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no number is allocated twice", |_, world: &World| world.keeps(Promise::Unique)),
            Property::always("numbers are ordered in real time", |_, world: &World| world.keeps(Promise::Ordered)),
            Property::always("no number is above the committed ceiling", |_, world: &World| {
                world.keeps(Promise::UnderTheCeiling)
            }),
            Property::always("reads are truthful", |_, world: &World| world.keeps(Promise::TruthfulReads)),
            Property::always("each `prev` was allocated", |_, world: &World| world.keeps(Promise::Chained)),
            Property::always("no ceiling is above the requested one", |_, world: &World| {
                world.keeps(Promise::CeilingAsRequested)
            }),
            Property::always("a handover leaves no gap", |_, world: &World| world.keeps(Promise::NoGap)),
            Property::always("a handover refuses no call", Protocol::refuses_no_call),
        ]
    }
}

impl Protocol {
    /// Returns whether no call is refused, and no call is left when no step is possible any more.
    fn refuses_no_call(&self, world: &World) -> bool {
        if self.bounds.setting != Setting::Calm || world.calls.iter().all(|call| *call == Call::Answered) {
            return true;
        }
        let mut steps = Vec::new();
        self.actions(world, &mut steps);
        !world.calls.contains(&Call::Refused) && (!steps.is_empty() || world.history.broken.is_some())
    }

    fn call_steps(&self, world: &World, steps: &mut Vec<Step>) {
        for call in 0..world.calls.len() {
            // Calls that are equal have the same future.
            if call > 0 && world.calls[call - 1] == world.calls[call] {
                continue;
            }
            match world.calls[call] {
                Call::Unsent { .. } => {
                    let may_reach = |session: &Session| {
                        let node = &world.nodes[*session];
                        world.runs(*session) && (self.bounds.misrouted || node.table.is_some())
                    };
                    steps.extend((0..SESSIONS).filter(may_reach).map(|at| Step::Arrive { call, at }));
                }
                Call::Forwarded { to, .. } => steps.push(Step::Arrive { call, at: to }),
                Call::Arrived { .. } if self.can_admit(world, call) => steps.push(Step::Admit { call }),
                Call::Admitted { .. } if self.can_take(world, call) => steps.push(Step::Take { call }),
                _ => {}
            }
        }
    }

    fn node_steps(&self, world: &World, session: Session, steps: &mut Vec<Step>) {
        if world.left.renewals[session] > 0 {
            steps.push(Step::Renew { session });
        }
        if world.left.deaths > 0 {
            steps.push(Step::Die { session });
        }
        if self.can_raise(world, session) {
            steps.push(Step::Raise { session });
        }
        if world.left.releases > 0 && world.nodes[session].table.is_some() {
            steps.push(Step::Release { session });
        }
        steps.extend(
            (0..SESSIONS)
                .filter(|to| self.can_begin(world, session, *to))
                .map(|to| Step::BeginHandover { from: session, to }),
        );
        if self.can_continue(world, session) {
            steps.push(Step::ContinueHandover { session });
        }
        if self.can_abort(world, session) {
            steps.push(Step::AbortHandover { session });
        }
        let peers = (0..SESSIONS).filter(|peer| self.can_fetch(world, session, *peer));
        steps.extend(peers.map(|peer| Step::FetchRoutes { session, peer }));
        if self.can_forge(world, session) {
            steps.push(Step::Forge { to: session });
        }
        if self.bounds.has(Bug::CachedClock) {
            steps.push(Step::CacheClock { session });
        }
        if world.nodes[session].pending_update.is_some() {
            steps.push(Step::AdoptPending { session });
        }
    }

    fn store_steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.bounds.reregistered.is_some() && !world.store.reregistered {
            steps.push(Step::Register);
        }
        if self.bounds.setting == Setting::Timed {
            steps.extend(
                (0..SESSIONS)
                    .filter(|session| self.can_evaluate(world, *session))
                    .map(|session| Step::Evaluate { session }),
            );
            let stalls = |session: &Session| self.can_stall(world, *session);
            steps.extend((0..SESSIONS).filter(stalls).map(|session| Step::BeginEvaluation { session }));
            if world.stalled.is_some() {
                steps.push(Step::EndEvaluation);
            }
        }
        steps.extend((0..SESSIONS).filter(|to| self.can_propose(world, *to)).map(|to| Step::Propose { to }));
        if world.left.leaders > 0 {
            steps.push(Step::ChangeLeader);
        }
    }

    fn time_steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.bounds.setting != Setting::Timed {
            return;
        }
        steps.push(Step::Tick { still: None });
        for session in [A, B, SECOND] {
            let slips = world.left.slips > 0 && !world.nodes[session].slipped;
            if world.runs(session) && (slips || self.bounds.has(Bug::ClockStopsInSuspend)) {
                steps.push(Step::Tick { still: Some(session) });
            }
        }
    }

    fn step(&self, world: &mut World, step: Step) {
        match step {
            Step::Tick { still } => {
                self.tick(world, still);
                if let Some(session) = still.filter(|_| !self.bounds.has(Bug::ClockStopsInSuspend)) {
                    world.nodes[session].slipped = true;
                    world.left.slips -= 1;
                }
            }
            Step::Arrive { call, at } => self.arrive(world, call, at),
            Step::Admit { call } => self.admit(world, call),
            Step::Take { call } => self.take(world, call),
            Step::Renew { session } => self.renew(world, session),
            Step::Raise { session } => self.request_raise(world, session),
            Step::Release { session } => self.release(world, session),
            Step::Register => world.store.reregistered = true,
            Step::Die { session } => self.die(world, session),
            Step::Evaluate { session } => self.evaluate(world, session),
            Step::BeginEvaluation { session } => self.begin_evaluation(world, session),
            Step::EndEvaluation => self.end_evaluation(world),
            Step::FetchRoutes { session, peer } => self.fetch_routes(world, session, peer),
            Step::Propose { to } => self.propose(world, to),
            Step::ChangeLeader => self.change_leader(world),
            Step::BeginHandover { from, to } => self.begin_handover(world, from, to),
            Step::ContinueHandover { session } => self.continue_handover(world, session),
            Step::AbortHandover { session } => self.thaw(world, session),
            Step::Forge { to } => self.forge(world, to),
            Step::Deliver { message, again } => self.deliver(world, message, again),
            Step::DeliverLateUpdate { message } => {
                remove(world, message);
                let Message::Response { session, sent, counted, over, reply, .. } = message else {
                    unreachable!("only an answer has news: {message:?}")
                };
                let update = Some(world.store.record);
                self.on_response(world, Message::Response { session, sent, counted, over, update, reply });
            }
            Step::CacheClock { session } => world.nodes[session].cached = world.nodes[session].lease > 0,
            Step::AdoptPending { session } => {
                let record = world.nodes[session].pending_update.take().expect("news were put aside");
                self.adopt(world, session, record);
            }
            Step::ResponseFromMemory { message } => self.respond_from_memory(world, message),
        }
    }

    fn deliver(&self, world: &mut World, message: Message, again: bool) {
        if again {
            world.left.duplicates -= 1;
        } else {
            remove(world, message);
        }
        match message {
            Message::Renew { .. }
            | Message::Raise { .. }
            | Message::Transfer { .. }
            | Message::Reassign { .. }
            | Message::Died { .. } => self.apply(world, message),
            Message::Response { .. } => self.on_response(world, message),
            Message::GetRoutes { from, to } => self.on_get_routes(world, from, to),
            Message::PeerRoutes { to, epoch, owner } => self.on_peer_routes(world, to, epoch, owner),
            _ => self.on_peer(world, message),
        }
    }

    /// Makes the bug's response, without an entry in the log, from the earlier record.
    fn respond_from_memory(&self, world: &mut World, message: Message) {
        let Message::Renew { session, sent, version, .. } = message else {
            unreachable!("only a renewal is answered so: {message:?}")
        };
        remove(world, message);
        let update = world.store.deposed.filter(|record| record.epoch > version);
        let reply = crate::world::Reply::Renewal;
        world.network.push(Message::Response { session, sent, counted: true, over: false, update, reply });
    }
}

fn remove(world: &mut World, message: Message) {
    let index = world.network.iter().position(|other| *other == message).expect("it is on its way");
    world.network.remove(index);
}
