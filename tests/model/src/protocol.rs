//! The steps of the model: which are possible in a world, and what each does.

use stateright::{Model, Property};

use crate::bounds::{Bounds, Bug, Setting};
use crate::seen::Seen;
use crate::world::{A, B, Call, LIVES, Life, Message, Promise, SECOND, World};

/// The protocol within its bounds.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) seen: Seen,
}

/// One step of one participant. Between any two of them any other may happen, and any of them may never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Time passes. The clock of one owner may stand still.
    Tick {
        still: Option<Life>,
    },
    /// A call arrives, and its node reads the clock.
    Arrive {
        call: usize,
        at: Life,
    },
    /// Its node looks at the lease and the table.
    Admit {
        call: usize,
    },
    /// Its slot is moved or read, and it is answered.
    Take {
        call: usize,
    },
    Renew {
        life: Life,
    },
    Raise {
        life: Life,
    },
    GiveUp {
        life: Life,
    },
    /// A second life of a node registers.
    Register,
    /// The arbiter looks at what the store heard of a life.
    Look {
        life: Life,
    },
    /// The arbiter begins to look, and its thread is stopped.
    BeginLook {
        life: Life,
    },
    /// It goes on.
    EndLook,
    /// The arbiter proposes a Reassign.
    Propose {
        to: Life,
    },
    ChangeLeader,
    BeginMove {
        from: Life,
        to: Life,
    },
    /// The owner freezes, or copies and stages.
    GoOnMoving {
        life: Life,
    },
    /// The owner takes a message to the target for failed, and thaws.
    AbortMove {
        life: Life,
    },
    /// A stranger sends a node what an owner sends a target.
    Forge {
        to: Life,
    },
    /// A message arrives, for the last time or not.
    Deliver {
        message: Message,
        again: bool,
    },
    /// An answer arrives whose news are as new as can be.
    DeliverLateNews {
        message: Message,
    },
    /// With a bug only: a clock is read ahead of the calls.
    CacheClock {
        life: Life,
    },
    /// With a bug only: the news that were put aside are adopted.
    AdoptUnread {
        life: Life,
    },
    /// With a bug only: a leader that was deposed answers a renewal.
    AnswerFromMemory {
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
        for life in (0..LIVES).filter(|life| world.is_born(*life)) {
            self.node_steps(world, life, steps);
        }
        self.store_steps(world, steps);
        self.time_steps(world, steps);
        for message in &world.network {
            let message = *message;
            steps.push(Step::Deliver { message, again: false });
            if world.left.duplicates > 0 {
                steps.push(Step::Deliver { message, again: true });
            }
            if self.bounds.late_news
                && let Message::Answer { life, news, over: false, .. } = message
                && world.store.record.epoch > world.nodes[life].version
                && news != Some(world.store.record)
            {
                steps.push(Step::DeliverLateNews { message });
            }
            if world.store.deposed.is_some() && matches!(message, Message::Renew { .. }) {
                steps.push(Step::AnswerFromMemory { message });
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
            Property::always("no number is given twice", |_, world: &World| world.keeps(Promise::Unique)),
            Property::always("numbers are ordered in real time", |_, world: &World| world.keeps(Promise::Ordered)),
            Property::always("no number is above the committed ceiling", |_, world: &World| {
                world.keeps(Promise::UnderTheCeiling)
            }),
            Property::always("readings are truthful", |_, world: &World| world.keeps(Promise::TruthfulReads)),
            Property::always("what is named as given out before was", |_, world: &World| world.keeps(Promise::Chained)),
            Property::always("no ceiling is above what was asked for", |_, world: &World| {
                world.keeps(Promise::CeilingAsAsked)
            }),
            Property::always("a planned move leaves no gap", |_, world: &World| world.keeps(Promise::NoGap)),
            Property::always("a planned move refuses nobody", Protocol::refuses_nobody),
        ]
    }
}

impl Protocol {
    /// No call is refused, and none is left when nothing can happen any more.
    fn refuses_nobody(&self, world: &World) -> bool {
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
                    let may_reach = |life: &Life| {
                        let node = &world.nodes[*life];
                        world.is_born(*life) && (self.bounds.astray || node.table.is_some())
                    };
                    steps.extend((0..LIVES).filter(may_reach).map(|at| Step::Arrive { call, at }));
                }
                Call::Forwarded { to, .. } => steps.push(Step::Arrive { call, at: to }),
                Call::Arrived { .. } if self.can_admit(world, call) => steps.push(Step::Admit { call }),
                Call::Admitted { .. } if self.can_take(world, call) => steps.push(Step::Take { call }),
                _ => {}
            }
        }
    }

    fn node_steps(&self, world: &World, life: Life, steps: &mut Vec<Step>) {
        if world.left.renewals[life] > 0 {
            steps.push(Step::Renew { life });
        }
        if self.can_raise(world, life) {
            steps.push(Step::Raise { life });
        }
        if world.left.give_ups > 0 && world.nodes[life].table.is_some() {
            steps.push(Step::GiveUp { life });
        }
        steps.extend(
            (0..LIVES).filter(|to| self.can_begin(world, life, *to)).map(|to| Step::BeginMove { from: life, to }),
        );
        if self.can_go_on(world, life) {
            steps.push(Step::GoOnMoving { life });
        }
        if self.can_abort(world, life) {
            steps.push(Step::AbortMove { life });
        }
        if self.can_forge(world, life) {
            steps.push(Step::Forge { to: life });
        }
        if self.bounds.has(Bug::CachedClock) {
            steps.push(Step::CacheClock { life });
        }
        if world.nodes[life].unread.is_some() {
            steps.push(Step::AdoptUnread { life });
        }
    }

    fn store_steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.bounds.reborn.is_some() && !world.store.reborn {
            steps.push(Step::Register);
        }
        if self.bounds.setting == Setting::Timed {
            steps.extend((0..LIVES).filter(|life| self.can_look(world, *life)).map(|life| Step::Look { life }));
            let stalls = |life: &Life| self.can_stall(world, *life);
            steps.extend((0..LIVES).filter(stalls).map(|life| Step::BeginLook { life }));
            if world.stalled.is_some() {
                steps.push(Step::EndLook);
            }
        }
        steps.extend((0..LIVES).filter(|to| self.can_propose(world, *to)).map(|to| Step::Propose { to }));
        if world.left.leaders > 0 {
            steps.push(Step::ChangeLeader);
        }
    }

    fn time_steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.bounds.setting != Setting::Timed {
            return;
        }
        steps.push(Step::Tick { still: None });
        for life in [A, B, SECOND] {
            let slips = world.left.slips > 0 && !world.nodes[life].slipped;
            if world.is_born(life) && (slips || self.bounds.has(Bug::ClockStopsInSuspend)) {
                steps.push(Step::Tick { still: Some(life) });
            }
        }
    }

    fn step(&self, world: &mut World, step: Step) {
        match step {
            Step::Tick { still } => {
                self.tick(world, still);
                if let Some(life) = still.filter(|_| !self.bounds.has(Bug::ClockStopsInSuspend)) {
                    world.nodes[life].slipped = true;
                    world.left.slips -= 1;
                }
            }
            Step::Arrive { call, at } => self.arrive(world, call, at),
            Step::Admit { call } => self.admit(world, call),
            Step::Take { call } => self.take(world, call),
            Step::Renew { life } => self.renew(world, life),
            Step::Raise { life } => self.ask_raise(world, life),
            Step::GiveUp { life } => self.give_up(world, life),
            Step::Register => world.store.reborn = true,
            Step::Look { life } => self.look(world, life),
            Step::BeginLook { life } => self.begin_look(world, life),
            Step::EndLook => self.end_look(world),
            Step::Propose { to } => self.propose(world, to),
            Step::ChangeLeader => self.change_leader(world),
            Step::BeginMove { from, to } => self.begin_move(world, from, to),
            Step::GoOnMoving { life } => self.go_on(world, life),
            Step::AbortMove { life } => self.thaw(world, life),
            Step::Forge { to } => self.forge(world, to),
            Step::Deliver { message, again } => self.deliver(world, message, again),
            Step::DeliverLateNews { message } => {
                remove(world, message);
                let Message::Answer { life, sent, heard, over, about, .. } = message else {
                    unreachable!("only an answer has news: {message:?}")
                };
                let news = Some(world.store.record);
                self.on_answer(world, Message::Answer { life, sent, heard, over, news, about });
            }
            Step::CacheClock { life } => world.nodes[life].cached = world.nodes[life].lease > 0,
            Step::AdoptUnread { life } => {
                let record = world.nodes[life].unread.take().expect("news were put aside");
                self.adopt(world, life, record);
            }
            Step::AnswerFromMemory { message } => self.answer_from_memory(world, message),
        }
    }

    fn deliver(&self, world: &mut World, message: Message, again: bool) {
        if again {
            world.left.duplicates -= 1;
        } else {
            remove(world, message);
        }
        match message {
            Message::Renew { .. } | Message::Raise { .. } | Message::Transfer { .. } | Message::Reassign { .. } => {
                self.apply(world, message);
            }
            Message::Answer { .. } => self.on_answer(world, message),
            _ => self.on_peer(world, message),
        }
    }

    /// The bug: no entry in the log, and the record as it was.
    fn answer_from_memory(&self, world: &mut World, message: Message) {
        let Message::Renew { life, sent, version, .. } = message else {
            unreachable!("only a renewal is answered so: {message:?}")
        };
        remove(world, message);
        let news = world.store.deposed.filter(|record| record.epoch > version);
        let about = crate::world::About::Renewal;
        world.network.push(Message::Answer { life, sent, heard: true, over: false, news, about });
    }
}

fn remove(world: &mut World, message: Message) {
    let index = world.network.iter().position(|other| *other == message).expect("it is on its way");
    world.network.remove(index);
}
