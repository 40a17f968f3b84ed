//! One state of the model: the store's record, the AllocSvrs, the arbiter, the messages, the calls, and their history.
//!
//! Times are kept as the ticks left on the clock that counts them, so that two worlds that differ only in their date
//! are one state. [`World::normalise`] removes differences that no step can observe.

use crate::bounds::{Bounds, Bug, Setting};

/// Time that a response grants, in ticks of the owner's clock: the L - m of the contract.
pub(crate) const LEASE: i8 = 2;
/// Ticks that an owner's clock may fall behind the arbiter's.
pub(crate) const SKEW: i8 = 1;
/// Time for which a liveness counter is unchanged before the arbiter proposes: the W of the contract.
pub(crate) const WAIT: i8 = LEASE + SKEW;
/// Distance by which a ceiling is raised.
pub(crate) const STEP: u8 = 2;
/// Time for which a call whose clock was read outside of the lease waits for a renewal.
pub(crate) const HOLD: i8 = 1;
/// The attempt of a forged message, to which no owner counts.
pub(crate) const FORGED: u8 = u8::MAX;
/// Most nodes that a call is forwarded to.
pub(crate) const HOPS: u8 = 2;

/// A session of an AllocSvr. If it takes no step any more, it has crashed, is paused or is cut off: no other
/// participant can distinguish these.
pub(crate) type Session = usize;
/// The first owner.
pub(crate) const A: Session = 0;
/// The other node.
pub(crate) const B: Session = 1;
/// The second session of the node [`Bounds::reregistered`].
pub(crate) const SECOND: Session = 2;
/// Number of sessions.
pub(crate) const SESSIONS: usize = 3;

/// The stored record of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) epoch: u8,
    pub(crate) owner: Option<Session>,
    pub(crate) max_seq: u8,
    /// The attempt whose Transfer began this ownership, or 0.
    pub(crate) handover_id: u8,
}

/// The store: a linearizable register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) record: Record,
    /// The liveness counter of each session.
    pub(crate) liveness: [u8; SESSIONS],
    /// Whether the second session has registered, which ends the first session of that node.
    pub(crate) reregistered: bool,
    /// The sessions whose process was reported dead.
    pub(crate) died: [bool; SESSIONS],
    /// The record in the memory of a leader that was deposed since; used only with that bug.
    pub(crate) deposed: Option<Record>,
}

/// The arbiter's observation of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    pub(crate) liveness: u8,
    /// Ticks left of the wait.
    pub(crate) wait: i8,
    /// Whether the node has a newer session.
    pub(crate) over: bool,
    /// Whether the process of the session was reported dead.
    pub(crate) died: bool,
}

/// An evaluation of the arbiter whose thread stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StalledEvaluation {
    pub(crate) session: Session,
    /// The state that it read, with a wait that began when it stalled. The bug reads the state when it continues, and
    /// only the bug counts the wait from there.
    pub(crate) observed: Observed,
}

/// The object with the slots of a section. An admitted call keeps it, even after it has left the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Section {
    pub(crate) session: Session,
    pub(crate) epoch: u8,
    /// The slot of the only uid.
    pub(crate) cur: u8,
    pub(crate) kind: Kind,
    pub(crate) frozen: bool,
    pub(crate) ceiling: u8,
    /// Whether it was made from the copy of a handover.
    pub(crate) handed_over: bool,
}

/// An attempt to hand the section over, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handover {
    pub(crate) to: Session,
    pub(crate) handover_id: u8,
    pub(crate) phase: Phase,
}

/// Progress of an attempt.
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
    /// The attempt that the copy belongs to.
    pub(crate) handover_id: u8,
    pub(crate) cur: u8,
    pub(crate) kind: Kind,
}

/// Meaning of a slot's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The ceiling of a takeover: at or above the last number.
    Bound,
    /// The target of an advance, allocated to no call since.
    Target,
    /// The last number, or 0 if there is none.
    Number,
}

/// A session of an AllocSvr.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AllocSvr {
    /// Whether its process has ended, and its parent has reaped it.
    pub(crate) is_dead: bool,
    /// Ticks left of its lease, on its own clock.
    pub(crate) lease: i8,
    /// Whether its clock has fallen behind.
    pub(crate) slipped: bool,
    /// Its newest route: the epoch and the owner.
    pub(crate) version: u8,
    pub(crate) route: Option<Session>,
    /// Peer routes name this session as the owner under `version`, and no grant of the store has entered it yet. The
    /// next request names version 0, so that its response includes the grant.
    pub(crate) ungranted: bool,
    /// The section it serves: an index into [`World::sections`].
    pub(crate) table: Option<usize>,
    /// An ownership that the next renewal releases.
    pub(crate) released: u8,
    pub(crate) outgoing: Option<Handover>,
    /// Attempts so far.
    pub(crate) attempts: u8,
    /// The epoch whose early calls it queues.
    pub(crate) prepared: u8,
    pub(crate) staged: Option<Copied>,
    /// Whether the clock that was read ahead of the calls was in the lease; used only with that bug.
    pub(crate) cached: bool,
    /// An update that is not adopted yet; used only with that bug.
    pub(crate) pending_update: Option<Record>,
}

/// The reply to a request itself, next to the ownership update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reply {
    Renewal,
    /// The committed ceiling, or none if the raise was refused.
    Raise {
        epoch: u8,
        ceiling: Option<u8>,
    },
    Transfer {
        to: Session,
        epoch: u8,
        handover_id: u8,
        applied: Option<Record>,
    },
}

/// A message. A message that is never delivered is lost; messages are delivered in any order.
///
/// `sent` are the ticks left of the lease that the response grants: LEASE from before the request was sent.
/// `version` is the route version in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Renew {
        session: Session,
        sent: i8,
        version: u8,
        released: u8,
    },
    Raise {
        session: Session,
        sent: i8,
        version: u8,
        epoch: u8,
        to: u8,
    },
    Transfer {
        session: Session,
        sent: i8,
        version: u8,
        epoch: u8,
        to: Session,
        handover_id: u8,
    },
    Reassign {
        expected: u8,
        liveness: u8,
        over: bool,
        to: Session,
    },
    /// The report of a parent that the process of a session has ended.
    Died {
        session: Session,
    },
    /// `counted`: whether the store counted the request for liveness; `over`: whether the session is over.
    Response {
        session: Session,
        sent: i8,
        counted: bool,
        over: bool,
        update: Option<Record>,
        reply: Reply,
    },
    Prepare {
        from: Session,
        to: Session,
        epoch: u8,
        handover_id: u8,
    },
    Prepared {
        from: Session,
        handover_id: u8,
    },
    Stage {
        from: Session,
        to: Session,
        copy: Copied,
    },
    Staged {
        from: Session,
        handover_id: u8,
    },
    Activate {
        to: Session,
        record: Record,
    },
    /// Requests the routes of `to`.
    GetRoutes {
        from: Session,
        to: Session,
    },
    /// The routes of a peer: epoch and owner, without a ceiling and without an attempt.
    PeerRoutes {
        to: Session,
        epoch: u8,
        owner: Option<Session>,
    },
}

impl Message {
    /// Returns the AllocSvr that receives the message; `None` for a message to the store.
    fn receiver(self) -> Option<Session> {
        match self {
            Message::Renew { .. }
            | Message::Raise { .. }
            | Message::Transfer { .. }
            | Message::Reassign { .. }
            | Message::Died { .. } => None,
            Message::Response { session: to, .. }
            | Message::Prepare { to, .. }
            | Message::Prepared { from: to, .. }
            | Message::Stage { to, .. }
            | Message::Staged { from: to, .. }
            | Message::Activate { to, .. }
            | Message::GetRoutes { to, .. }
            | Message::PeerRoutes { to, .. } => Some(to),
        }
    }
}

impl AllocSvr {
    /// Returns the version that a request to the store names.
    pub(crate) fn known_version(&self) -> u8 {
        if self.ungranted { 0 } else { self.version }
    }

    /// Returns whether a record of the store is newer than the session's route, or is the grant that the route lacks.
    pub(crate) fn is_update(&self, record: Record) -> bool {
        record.epoch > self.version || (self.ungranted && record.epoch == self.version)
    }
}

/// The number that an advance names: the ceiling that most runs start with, so that it is met, passed and skipped.
pub(crate) const TARGET: u8 = 2;

/// A call for the only uid.
///
/// Its response is sent in the step that moves or reads the slot, and the call itself in the step in which a node reads
/// its clock for it. That is the hardest case, because an earlier call or a later response only overlaps with more
/// steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Unsent {
        op: Op,
    },
    /// At a node, which has read its clock. `age` counts from that reading, if it was not in the lease.
    Arrived {
        op: Op,
        floor: u8,
        at: Session,
        in_lease: bool,
        age: i8,
        hops: u8,
    },
    /// Admitted: the node found the section in its table, and its lease not over at the reading.
    Admitted {
        op: Op,
        floor: u8,
        section: usize,
        hops: u8,
    },
    /// In flight to another node.
    Forwarded {
        op: Op,
        floor: u8,
        to: Session,
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
    CeilingAsRequested,
    NoGap,
}

/// Operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Op {
    /// The next number.
    Take,
    /// The last number.
    Read,
    /// Raises the counter to [`TARGET`].
    Advance,
}

/// The history as callers observed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The allocated numbers, as bits.
    pub(crate) given: u16,
    /// Whether the counter was raised to [`TARGET`] by an advance.
    pub(crate) advanced: bool,
    /// The largest value in a response.
    pub(crate) floor: u8,
    /// The highest requested ceiling.
    pub(crate) requested: u8,
    /// The first promise that was broken.
    pub(crate) broken: Option<Promise>,
}

impl History {
    /// Returns the last number, or 0.
    pub(crate) fn last(&self) -> u8 {
        (u16::BITS - self.given.leading_zeros()) as u8
    }

    /// Returns whether the number was allocated.
    pub(crate) fn was_given(&self, number: u8) -> bool {
        number > 0 && self.given & (1 << (number - 1)) != 0
    }

    /// Returns whether an exact read may return the number: it was allocated, or the counter was raised to it.
    pub(crate) fn was_last(&self, number: u8) -> bool {
        self.was_given(number) || (self.advanced && number == TARGET)
    }
}

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) arbiter: [Observed; SESSIONS],
    pub(crate) stalled: Option<StalledEvaluation>,
    pub(crate) nodes: [AllocSvr; SESSIONS],
    pub(crate) network: Vec<Message>,
    pub(crate) sections: Vec<Section>,
    pub(crate) calls: Vec<Call>,
    pub(crate) history: History,
    pub(crate) left: Left,
}

/// The events left within the bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) renewals: [u8; SESSIONS],
    pub(crate) raises: u8,
    pub(crate) reassigns: u8,
    pub(crate) duplicates: u8,
    pub(crate) handovers: u8,
    pub(crate) forged: u8,
    pub(crate) releases: u8,
    pub(crate) leaders: u8,
    pub(crate) stalls: u8,
    pub(crate) slips: u8,
    pub(crate) fetches: u8,
    pub(crate) deaths: u8,
}

impl World {
    /// Creates a world in which A owns the section and has allocated nothing; A and B have just renewed. If A was
    /// restarted, its second session owns the section, and the report of the first one's death is in flight.
    pub(crate) fn start(bounds: &Bounds) -> World {
        let owner = if bounds.restarted { SECOND } else { A };
        let record = Record { epoch: 1, owner: Some(owner), max_seq: bounds.max_seq, handover_id: 0 };
        let node = AllocSvr { lease: LEASE, version: 1, route: Some(owner), cached: true, ..AllocSvr::default() };
        let owning = AllocSvr { table: Some(0), ..node.clone() };
        let dead = AllocSvr { is_dead: true, ..AllocSvr::default() };
        let section = Section {
            session: owner,
            epoch: 1,
            cur: 0,
            kind: Kind::Number,
            frozen: false,
            ceiling: bounds.max_seq,
            handed_over: false,
        };
        let calls = |op, count: u8| std::iter::repeat_n(Call::Unsent { op }, count.into());
        World {
            store: Store {
                record,
                liveness: [0; SESSIONS],
                reregistered: bounds.restarted,
                died: [false; SESSIONS],
                deposed: None,
            },
            arbiter: [Observed { liveness: 0, wait: bounds.wait(), over: false, died: false }; SESSIONS],
            stalled: None,
            nodes: if bounds.restarted { [dead, node, owning] } else { [owning, node, AllocSvr::default()] },
            network: bounds.restarted.then_some(Message::Died { session: A }).into_iter().collect(),
            sections: vec![section],
            calls: calls(Op::Take, bounds.takes)
                .chain(calls(Op::Read, bounds.reads))
                .chain(calls(Op::Advance, bounds.advances))
                .collect(),
            history: History { given: 0, advanced: false, floor: 0, requested: bounds.max_seq, broken: None },
            left: Left {
                renewals: bounds.renewals,
                raises: bounds.raises,
                reassigns: bounds.reassigns,
                duplicates: bounds.duplicates,
                handovers: bounds.handovers,
                forged: bounds.forged,
                releases: bounds.releases,
                leaders: bounds.leaders,
                stalls: bounds.stalls,
                slips: bounds.slips,
                fetches: bounds.fetches,
                deaths: bounds.deaths,
            },
        }
    }

    /// Returns whether a session has begun.
    pub(crate) fn exists(&self, session: Session) -> bool {
        session != SECOND || self.store.reregistered
    }

    /// Returns whether the process of a session runs.
    pub(crate) fn runs(&self, session: Session) -> bool {
        self.exists(session) && !self.nodes[session].is_dead
    }

    /// Returns whether the node of a session has registered a newer session.
    pub(crate) fn is_over(&self, bounds: &Bounds, session: Session) -> bool {
        self.store.reregistered && bounds.reregistered == Some(session)
    }

    /// Returns whether the store accepts commands of a session: it is the newest session of its node, and its process
    /// was not reported dead.
    pub(crate) fn is_current(&self, bounds: &Bounds, session: Session) -> bool {
        self.exists(session) && !self.is_over(bounds, session) && !self.store.died[session]
    }

    /// Returns the section in a node's table.
    pub(crate) fn owned(&self, session: Session) -> Option<&Section> {
        self.nodes[session].table.map(|index| &self.sections[index])
    }

    /// Makes a section of a node's own and puts it into its table.
    pub(crate) fn put(&mut self, section: Section) {
        self.sections.push(section);
        self.nodes[section.session].table = Some(self.sections.len() - 1);
    }

    /// Records the first promise that is broken.
    pub(crate) fn require(&mut self, holds: bool, promise: Promise) {
        if !holds {
            self.history.broken = self.history.broken.or(Some(promise));
        }
    }

    /// Returns whether a promise was kept, as far as this run of steps went.
    pub(crate) fn keeps(&self, promise: Promise) -> bool {
        self.history.broken != Some(promise)
    }

    /// Makes states equal that no further step can distinguish.
    pub(crate) fn normalise(&mut self, bounds: &Bounds) {
        self.drop_unreachable_sections();
        self.renumber_liveness();
        self.drop_ineffective_messages(bounds);
        self.network.sort_unstable();
        // Calls have no names.
        self.calls.sort_unstable();
        for node in &mut self.nodes {
            // A copy for an epoch that has begun is used only by a late Activate.
            let of_ungranted = |copy: &Copied| node.ungranted && copy.epoch == node.version;
            node.staged = node
                .staged
                .filter(|copy| copy.epoch > node.version || of_ungranted(copy) || bounds.has(Bug::LateActivate));
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
            // The arbiter makes no proposal any more.
            self.arbiter = [Observed { liveness: 0, wait: 0, over: false, died: false }; SESSIONS];
            self.stalled = None;
        }
    }

    /// Drops messages that would change nothing, now or later, as if they were lost, and messages to ended processes.
    fn drop_ineffective_messages(&mut self, bounds: &Bounds) {
        let (epoch, nodes) = (self.store.record.epoch, &self.nodes);
        self.network.retain(|message| match *message {
            message if message.receiver().is_some_and(|to| nodes[to].is_dead) => false,
            Message::Reassign { expected, .. } => expected == epoch,
            Message::Response { session, sent, over: false, update, reply: Reply::Renewal, .. } => {
                sent > -HOLD || update.is_some_and(|record| nodes[session].is_update(record))
            }
            Message::PeerRoutes { to, epoch, .. } => {
                epoch > nodes[to].version || bounds.has(Bug::PeerRoutesExtendLease)
            }
            _ => true,
        });
    }

    fn drop_unreachable_sections(&mut self) {
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

    /// Renumbers liveness counters, because it only matters whether a count is still the current count: it becomes 1
    /// then, and 0 otherwise.
    fn renumber_liveness(&mut self) {
        for (observed, liveness) in self.arbiter.iter_mut().zip(self.store.liveness) {
            observed.liveness = u8::from(observed.liveness == liveness);
        }
        if let Some(stalled) = &mut self.stalled {
            let read = stalled.observed.liveness;
            stalled.observed.liveness = u8::from(read == self.store.liveness[stalled.session]);
        }
        let (record, current) = (self.store.record, self.store.liveness);
        for message in &mut self.network {
            if let Message::Reassign { expected, liveness, .. } = message {
                let owner = record.owner.filter(|_| record.epoch == *expected);
                *liveness = u8::from(owner.is_some_and(|owner| current[owner] == *liveness));
            }
        }
        self.store.liveness = [1; SESSIONS];
    }
}
