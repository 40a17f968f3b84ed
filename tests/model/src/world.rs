//! What there is at one moment: the store's record, the AllocSvrs, the arbiter, the messages, the calls, and what was promised.
//!
//! Times are held as what is left of them on the clock that counts them, so that two moments that differ only in their
//! date are one state. [`World::normalise`] removes what nobody can tell any more.

use crate::bounds::{Bounds, Bug, Setting};

/// How long an answer is worth, in ticks of the owner's clock: the L - m of the contract.
pub(crate) const LEASE: i8 = 2;
/// How much an owner's clock may fall behind the arbiter's.
pub(crate) const SKEW: i8 = 1;
/// How long the arbiter hears nothing before it proposes: the W of the contract.
pub(crate) const WAIT: i8 = LEASE + SKEW;
/// How far a ceiling is raised.
pub(crate) const STEP: u8 = 2;
/// How long a call that was read a clock for, outside of the lease, waits for a renewal.
pub(crate) const HOLD: i8 = 1;
/// The attempt that a stranger makes up: one that no owner counts to.
pub(crate) const FORGED: u8 = u8::MAX;
/// Most nodes that a call is passed on to.
pub(crate) const HOPS: u8 = 2;

/// One life of one AllocSvr. A life that takes no step any more has crashed, is paused or is cut off: nobody can tell.
pub(crate) type Life = usize;
/// The first owner.
pub(crate) const A: Life = 0;
/// The other node.
pub(crate) const B: Life = 1;
/// The second life of the node that [`Bounds::reborn`] names.
pub(crate) const SECOND: Life = 2;
/// All of them.
pub(crate) const LIVES: usize = 3;

/// The stored record of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) epoch: u8,
    pub(crate) owner: Option<Life>,
    pub(crate) max_seq: u8,
    /// The attempt whose Transfer began this ownership, or 0.
    pub(crate) handover: u8,
}

/// The store: a linearizable register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) record: Record,
    /// How often each life was heard of.
    pub(crate) heard: [u8; LIVES],
    /// Whether the second life has registered, which ends the first one of that node.
    pub(crate) reborn: bool,
    /// The record in the memory of a leader that was deposed since; only where that bug is planted.
    pub(crate) deposed: Option<Record>,
}

/// What the arbiter remembers of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    pub(crate) heard: u8,
    /// What is left of the wait.
    pub(crate) wait: i8,
    /// Whether it has seen that the life is over.
    pub(crate) over: bool,
}

/// A look of the arbiter whose thread stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StalledLook {
    pub(crate) life: Life,
    /// What it read of the state; the bug reads it when it goes on.
    pub(crate) heard: u8,
    pub(crate) over: bool,
    /// What is left of a wait that began when it stopped; only the bug counts from there.
    pub(crate) wait: i8,
}

/// The object that holds the slots of a section. A call that was admitted keeps it, also when it has left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Section {
    pub(crate) life: Life,
    pub(crate) epoch: u8,
    /// The one uid's slot.
    pub(crate) cur: u8,
    pub(crate) kind: Kind,
    pub(crate) frozen: bool,
    pub(crate) ceiling: u8,
    /// Whether it was made from the copy of a planned move.
    pub(crate) moved: bool,
}

/// An attempt to hand the section over, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Move {
    pub(crate) to: Life,
    pub(crate) handover: u8,
    pub(crate) phase: Phase,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Preparing,
    Prepared,
    Frozen,
    Staging,
    Transferring,
}

/// A copy of a frozen section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Copied {
    /// The epoch that begins with it.
    pub(crate) epoch: u8,
    /// The attempt it belongs to.
    pub(crate) handover: u8,
    pub(crate) cur: u8,
    pub(crate) kind: Kind,
}

/// What a slot's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The ceiling of a takeover: at or above the last number.
    Bound,
    /// The target of an advance, allocated to no call since.
    Target,
    /// The last number, or 0 where there is none.
    Number,
}

/// One life of an AllocSvr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AllocSvr {
    /// What is left of its lease, on its own clock.
    pub(crate) lease: i8,
    /// Whether its clock has fallen behind.
    pub(crate) slipped: bool,
    /// The newest route it knows: the epoch and the owner.
    pub(crate) version: u8,
    pub(crate) route: Option<Life>,
    /// The section it serves: an index into [`World::sections`].
    pub(crate) table: Option<usize>,
    /// An ownership that it gave up and that the next renewal says.
    pub(crate) released: u8,
    pub(crate) moving: Option<Move>,
    /// Attempts so far.
    pub(crate) attempts: u8,
    /// The epoch whose early calls it holds.
    pub(crate) prepared: u8,
    pub(crate) staged: Option<Copied>,
    /// Whether the clock that was read ahead of the calls was in the lease; only where that bug is planted.
    pub(crate) cached: bool,
    /// News that wait to be adopted; only where that bug is planted.
    pub(crate) unread: Option<Record>,
}

/// What the store answers beside the news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum About {
    Renewal,
    /// The committed ceiling, or none where the raise was refused.
    Raise {
        epoch: u8,
        ceiling: Option<u8>,
    },
    Transfer {
        to: Life,
        epoch: u8,
        handover: u8,
        applied: Option<Record>,
    },
}

/// A message. One that is never delivered is lost; they are delivered in any order.
///
/// `sent` is what is left of the lease that the question's answer grants: LEASE since before it was sent.
/// `version` is the route version that the question names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Renew {
        life: Life,
        sent: i8,
        version: u8,
        released: u8,
    },
    Raise {
        life: Life,
        sent: i8,
        version: u8,
        epoch: u8,
        to: u8,
    },
    Transfer {
        life: Life,
        sent: i8,
        version: u8,
        epoch: u8,
        to: Life,
        handover: u8,
    },
    Reassign {
        expected: u8,
        heard: u8,
        over: bool,
        to: Life,
    },
    /// `heard`: whether the store counted the question; `over`: whether it said that the life is over.
    Answer {
        life: Life,
        sent: i8,
        heard: bool,
        over: bool,
        news: Option<Record>,
        about: About,
    },
    Prepare {
        from: Life,
        to: Life,
        epoch: u8,
        handover: u8,
    },
    Prepared {
        from: Life,
        handover: u8,
    },
    Stage {
        from: Life,
        to: Life,
        copy: Copied,
    },
    Staged {
        from: Life,
        handover: u8,
    },
    Activate {
        to: Life,
        record: Record,
    },
}

/// The number that an advance names: the ceiling that most runs start with, so that it is met, passed and skipped.
pub(crate) const TARGET: u8 = 2;

/// A call for the one uid.
///
/// A call is answered in the step that moves or reads the slot, and sent in the step in which a node reads its clock for it:
/// that is the hardest case, because any earlier sending or later answer only makes it overlap with more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Unsent {
        wish: Wish,
    },
    /// At a node, which has read its clock. `age` counts from that reading, if it was not in the lease.
    Arrived {
        wish: Wish,
        floor: u8,
        at: Life,
        in_lease: bool,
        age: i8,
        hops: u8,
    },
    /// Admitted: the node found the section in its table, and its lease not over at the reading.
    Admitted {
        wish: Wish,
        floor: u8,
        section: usize,
        hops: u8,
    },
    /// On its way to another node.
    Forwarded {
        wish: Wish,
        floor: u8,
        to: Life,
        hops: u8,
    },
    Answered,
    Refused,
}

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    Unique,
    Ordered,
    UnderTheCeiling,
    TruthfulReads,
    Chained,
    CeilingAsAsked,
    NoGap,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// The next number.
    Take,
    /// The last one.
    Read,
    /// That the counter be raised to [`TARGET`].
    Advance,
}

/// What was seen from outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The numbers that were given out, as bits.
    pub(crate) given: u16,
    /// Whether the counter was raised to [`TARGET`] by an advance.
    pub(crate) advanced: bool,
    /// The largest value that was answered.
    pub(crate) floor: u8,
    /// The highest ceiling that was asked for.
    pub(crate) asked: u8,
    /// The first promise that was broken.
    pub(crate) broken: Option<Promise>,
}

impl History {
    /// The last number, or 0.
    pub(crate) fn last(&self) -> u8 {
        (u16::BITS - self.given.leading_zeros()) as u8
    }

    /// Whether the number was given out.
    pub(crate) fn was_given(&self, number: u8) -> bool {
        number > 0 && self.given & (1 << (number - 1)) != 0
    }

    /// Whether an exact read may answer it: it was given out, or the counter was raised to it.
    pub(crate) fn was_last(&self, number: u8) -> bool {
        self.was_given(number) || (self.advanced && number == TARGET)
    }
}

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) arbiter: [Watch; LIVES],
    pub(crate) stalled: Option<StalledLook>,
    pub(crate) nodes: [AllocSvr; LIVES],
    pub(crate) network: Vec<Message>,
    pub(crate) sections: Vec<Section>,
    pub(crate) calls: Vec<Call>,
    pub(crate) history: History,
    pub(crate) left: Left,
}

/// What is left of the bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) renewals: [u8; LIVES],
    pub(crate) raises: u8,
    pub(crate) reassigns: u8,
    pub(crate) duplicates: u8,
    pub(crate) moves: u8,
    pub(crate) forged: u8,
    pub(crate) give_ups: u8,
    pub(crate) leaders: u8,
    pub(crate) stalls: u8,
    pub(crate) slips: u8,
}

impl World {
    /// A owns the section and has given out nothing; A and B have just renewed.
    pub(crate) fn start(bounds: &Bounds) -> World {
        let record = Record { epoch: 1, owner: Some(A), max_seq: bounds.max_seq, handover: 0 };
        let node = AllocSvr { lease: LEASE, version: 1, route: Some(A), cached: true, ..AllocSvr::default() };
        let section = Section {
            life: A,
            epoch: 1,
            cur: 0,
            kind: Kind::Number,
            frozen: false,
            ceiling: bounds.max_seq,
            moved: false,
        };
        let calls = |wish, count: u8| std::iter::repeat_n(Call::Unsent { wish }, count.into());
        World {
            store: Store { record, heard: [0; LIVES], reborn: false, deposed: None },
            arbiter: [Watch { heard: 0, wait: bounds.wait(), over: false }; LIVES],
            stalled: None,
            nodes: [AllocSvr { table: Some(0), ..node.clone() }, node, AllocSvr::default()],
            network: Vec::new(),
            sections: vec![section],
            calls: calls(Wish::Take, bounds.takes)
                .chain(calls(Wish::Read, bounds.reads))
                .chain(calls(Wish::Advance, bounds.advances))
                .collect(),
            history: History { given: 0, advanced: false, floor: 0, asked: bounds.max_seq, broken: None },
            left: Left {
                renewals: bounds.renewals,
                raises: bounds.raises,
                reassigns: bounds.reassigns,
                duplicates: bounds.duplicates,
                moves: bounds.moves,
                forged: bounds.forged,
                give_ups: bounds.give_ups,
                leaders: bounds.leaders,
                stalls: bounds.stalls,
                slips: bounds.slips,
            },
        }
    }

    /// Whether a life has begun.
    pub(crate) fn is_born(&self, life: Life) -> bool {
        life != SECOND || self.store.reborn
    }

    /// Whether the store takes a life for the current one of its node.
    pub(crate) fn is_current(&self, bounds: &Bounds, life: Life) -> bool {
        self.is_born(life) && !(self.store.reborn && bounds.reborn == Some(life))
    }

    /// The section in a node's table.
    pub(crate) fn owned(&self, life: Life) -> Option<&Section> {
        self.nodes[life].table.map(|index| &self.sections[index])
    }

    /// Makes a section of a node's own and puts it into its table.
    pub(crate) fn put(&mut self, section: Section) {
        self.sections.push(section);
        self.nodes[section.life].table = Some(self.sections.len() - 1);
    }

    /// Notes the first promise that is broken.
    pub(crate) fn require(&mut self, holds: bool, promise: Promise) {
        if !holds {
            self.history.broken = self.history.broken.or(Some(promise));
        }
    }

    /// Whether a promise was kept, as far as this run of steps went.
    pub(crate) fn keeps(&self, promise: Promise) -> bool {
        self.history.broken != Some(promise)
    }

    /// Makes states equal that differ in nothing that could ever be told.
    pub(crate) fn normalise(&mut self, bounds: &Bounds) {
        self.forget_unreachable_sections();
        self.renumber_heard();
        self.lose_what_does_nothing();
        self.network.sort_unstable();
        // Calls have no names.
        self.calls.sort_unstable();
        for node in &mut self.nodes {
            // A copy for an epoch that is known to have begun is of no use, but to a late Activate.
            node.staged = node.staged.filter(|copy| copy.epoch > node.version || bounds.has(Bug::LateActivate));
            if node.prepared <= node.version {
                node.prepared = 0;
            }
        }
        if bounds.setting != Setting::Timed {
            for node in &mut self.nodes {
                node.lease = 0;
            }
        }
        if self.left.reassigns == 0 {
            // Nobody asks the arbiter any more.
            self.arbiter = [Watch { heard: 0, wait: 0, over: false }; LIVES];
            self.stalled = None;
        }
    }

    /// A message that would change nothing, now or later, is as good as lost.
    fn lose_what_does_nothing(&mut self) {
        let (epoch, nodes) = (self.store.record.epoch, &self.nodes);
        self.network.retain(|message| match *message {
            Message::Reassign { expected, .. } => expected == epoch,
            Message::Answer { life, sent, over: false, news, about: About::Renewal, .. } => {
                sent > -HOLD || news.is_some_and(|record| record.epoch > nodes[life].version)
            }
            _ => true,
        });
    }

    fn forget_unreachable_sections(&mut self) {
        let mut kept = Vec::with_capacity(self.sections.len());
        for index in 0..self.sections.len() {
            let in_table = self.nodes.iter().any(|node| node.table == Some(index));
            let in_call = |call: &Call| matches!(call, Call::Admitted { section, .. } if *section == index);
            if in_table || self.calls.iter().any(in_call) {
                kept.push(index);
            }
        }
        if kept.len() == self.sections.len() {
            return;
        }
        let place = |old: usize| kept.iter().position(|index| *index == old).expect("a section in use is kept");
        for node in &mut self.nodes {
            node.table = node.table.map(place);
        }
        for call in &mut self.calls {
            if let Call::Admitted { section, .. } = call {
                *section = place(*section);
            }
        }
        self.sections = kept.iter().map(|index| self.sections[*index]).collect();
    }

    /// Only whether a count is still the current one matters: it is 1 then, and 0 otherwise.
    fn renumber_heard(&mut self) {
        for (watch, heard) in self.arbiter.iter_mut().zip(self.store.heard) {
            watch.heard = u8::from(watch.heard == heard);
        }
        if let Some(stalled) = &mut self.stalled {
            stalled.heard = u8::from(stalled.heard == self.store.heard[stalled.life]);
        }
        let (record, current) = (self.store.record, self.store.heard);
        for message in &mut self.network {
            if let Message::Reassign { expected, heard, .. } = message {
                let owner = record.owner.filter(|_| record.epoch == *expected);
                *heard = u8::from(owner.is_some_and(|owner| current[owner] == *heard));
            }
        }
        self.store.heard = [1; LIVES];
    }
}
