//! One state of the model of two sets: their stores, the AllocSvrs, the client's directory, the messages, the history.
//!
//! [`World::normalise`] removes differences that no step can observe.

use std::ops::{Index, IndexMut};

use crate::sets::bounds::{Bounds, Budget, Bug, Setting};

/// Distance by which a ceiling is raised.
pub(crate) const STEP: u8 = 2;
/// Distance that a restore adds to a ceiling: more numbers than are allocated in a run.
pub(crate) const MARGIN: u8 = 8;
/// Distance that a restore adds to an epoch: more ownerships than begin in a run.
pub(crate) const EPOCHS: u8 = 16;
/// The bit that makes the return of a migration a migration of its own.
pub(crate) const RETURN: u8 = 4;

/// A set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Set {
    /// The set in which the section begins.
    S,
    /// The other set.
    T,
}

impl Set {
    /// Both sets.
    pub(crate) const ALL: [Set; 2] = [Set::S, Set::T];

    /// Returns the other set.
    pub(crate) fn other(self) -> Set {
        match self {
            Set::S => Set::T,
            Set::T => Set::S,
        }
    }
}

/// One value for each set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PerSet<X>(pub(crate) [X; 2]);

impl<X> Index<Set> for PerSet<X> {
    type Output = X;

    fn index(&self, set: Set) -> &X {
        &self.0[set as usize]
    }
}

impl<X> IndexMut<Set> for PerSet<X> {
    fn index_mut(&mut self, set: Set) -> &mut X {
        &mut self.0[set as usize]
    }
}

/// A session of the only AllocSvr of a set. A process keeps it for as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Session {
    pub(crate) set: Set,
    /// The lineage of the store in which it registered.
    pub(crate) lineage: u8,
    pub(crate) incarnation: u8,
}

/// An entry of a directory: the section is resident in `home` since an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) since: u8,
    pub(crate) home: Set,
}

/// A stored record of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Record {
    Never,
    Resident(Residence),
    Departed(Tombstone),
    /// After a restore, until the other set has committed to take nothing more of the older lineage.
    Quarantined {
        since: u8,
        epoch: u8,
        max_seq: u8,
        /// The lineage in which the ceiling was committed.
        lineage: u8,
    },
}

/// The record of a section that is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Residence {
    /// The epoch with which this stay began.
    pub(crate) since: u8,
    pub(crate) epoch: u8,
    /// The incarnation of the owner.
    pub(crate) owner: Option<u8>,
    pub(crate) max_seq: u8,
    /// The attempt with which this ownership began, or 0.
    pub(crate) handover_id: u8,
    /// The migration that it came by, or 0.
    pub(crate) came_by: u8,
}

/// The record of a section that departed to the other set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tombstone {
    /// The epoch that begins in the other set.
    pub(crate) epoch: u8,
    /// The lineage of the target, counted from which a restored target adds its margins.
    pub(crate) to_lineage: u8,
    pub(crate) max_seq: u8,
    /// The attempt, or 0 for a section without an owner.
    pub(crate) handover_id: u8,
    /// The next owner.
    pub(crate) node: Option<Session>,
    pub(crate) migration: u8,
    pub(crate) arrived: bool,
    pub(crate) completed: bool,
}

/// The store of a set: a linearizable register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The count of restores.
    pub(crate) lineage: u8,
    pub(crate) record: Record,
    /// The highest epoch of any record that this log has had.
    pub(crate) fence: u8,
    /// The oldest lineage of the other set of which anything is accepted.
    pub(crate) accepts: u8,
    /// The directory.
    pub(crate) directory: Claim,
    /// The newest session of the AllocSvr, or 0.
    pub(crate) incarnation: u8,
    /// The last migration that began here, or 0.
    pub(crate) migration: u8,
    /// Whether the section is to be moved by that migration.
    pub(crate) moving: bool,
    pub(crate) paused: bool,
    /// Migrations under which no section departs any more, as bits.
    pub(crate) stopped: u16,
    /// Migrations whose sections the other set is to return, as bits.
    pub(crate) returns: u16,
    /// Whether this restored store has no response to its Fence yet.
    pub(crate) quarantined: bool,
}

/// The object with the slots of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Section {
    pub(crate) epoch: u8,
    /// The slot of the only uid.
    pub(crate) cur: u8,
    /// Whether the slot is the last number; otherwise it is an upper bound.
    pub(crate) exact: bool,
    pub(crate) frozen: bool,
    pub(crate) ceiling: u8,
}

/// An attempt to hand the section over to the other set, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handover {
    pub(crate) to: Session,
    pub(crate) handover_id: u8,
    pub(crate) migration: u8,
    pub(crate) phase: Phase,
    /// The ceiling when the handover began; used only with that bug.
    pub(crate) ceiling: u8,
}

/// Progress of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Prepared,
    Staging,
    Departing,
}

/// A copy of a frozen section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Copied {
    /// The epoch that begins with it.
    pub(crate) epoch: u8,
    pub(crate) handover_id: u8,
    pub(crate) cur: u8,
    pub(crate) exact: bool,
}

/// A process of an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllocSvr {
    pub(crate) session: Session,
    /// Whether its lease covers the present; always without clocks.
    pub(crate) leased: bool,
    /// The newest epoch in its ownership updates.
    pub(crate) version: u8,
    /// Its directory; only in calm worlds.
    pub(crate) claim: Claim,
    pub(crate) table: Option<Section>,
    pub(crate) outgoing: Option<Handover>,
    pub(crate) staged: Option<Copied>,
}

impl AllocSvr {
    /// Creates a process that has just registered.
    pub(crate) fn new(session: Session) -> AllocSvr {
        let claim = Claim { since: 0, home: Set::S };
        AllocSvr { session, leased: true, version: 0, claim, table: None, outgoing: None, staged: None }
    }
}

/// The ceiling and the attempt of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Grant {
    pub(crate) max_seq: u8,
    pub(crate) handover_id: u8,
}

/// Outcome of a Depart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Departed,
    /// The ownership is over.
    Lost,
    /// The migration was rolled back; the ownership continues.
    Refused,
}

/// A receiver of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Receiver {
    Client,
    Store(Set),
}

/// A message. A message that is never delivered is lost; messages are delivered in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Raise {
        session: Session,
        epoch: u8,
        to: u8,
    },
    /// The committed ceiling, or none if the raise was refused.
    Raised {
        session: Session,
        epoch: u8,
        ceiling: Option<u8>,
    },
    /// An ownership update: the epoch of the record, the directory, and the grant if the section is the receiver's.
    Update {
        session: Session,
        epoch: u8,
        claim: Claim,
        grant: Option<Grant>,
    },
    Stage {
        from: Session,
        to: Session,
        copy: Copied,
    },
    Staged {
        to: Session,
        handover_id: u8,
    },
    /// `ceiling` is used only by a bug.
    Depart {
        session: Session,
        epoch: u8,
        to: Session,
        handover_id: u8,
        migration: u8,
        ceiling: u8,
    },
    DepartResponse {
        session: Session,
        handover_id: u8,
        outcome: Outcome,
    },
    DepartSilent {
        set: Set,
        lineage: u8,
        expected: u8,
        to_lineage: u8,
        migration: u8,
    },
    Arrive {
        from: Set,
        lineage: u8,
        tombstone: Tombstone,
    },
    Arrived {
        to: Set,
        epoch: u8,
    },
    StartReturn {
        from: Set,
        lineage: u8,
        migration: u8,
    },
    Fence {
        from: Set,
        lineage: u8,
    },
    /// The response to a Fence of `lineage`, by the other set in the state that it had after that entry.
    Fenced {
        to: Set,
        lineage: u8,
        from_lineage: u8,
        record: Record,
    },
    Claim {
        to: Receiver,
        claim: Claim,
    },
}

/// A call in a calm world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Unsent {
        op: Op,
    },
    /// At a set, or on its way there. `since` is the newest epoch known to the call.
    Sent {
        op: Op,
        floor: u8,
        since: u8,
        to: Set,
        hops: u8,
    },
    Answered,
}

/// Operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Op {
    /// The next number.
    Take,
    /// The last number.
    Read,
}

/// A promise whose violation is recorded in the step that breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    Unique,
    Ordered,
    UnderTheCeiling,
    TruthfulReads,
    NoGap,
    NoCircle,
    DirectoryGrows,
}

/// The history as callers and operators observe it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The allocated numbers, as bits.
    pub(crate) given: u64,
    /// The largest value in a response.
    pub(crate) floor: u8,
    /// The highest ceiling that was ever committed.
    pub(crate) committed: u8,
    /// The epochs that each set has begun, as bits.
    pub(crate) epochs: PerSet<u64>,
    /// The first promise that was broken.
    pub(crate) broken: Option<Promise>,
}

impl History {
    /// Returns the last number, or 0.
    pub(crate) fn last(&self) -> u8 {
        (u64::BITS - self.given.leading_zeros()) as u8
    }

    /// Returns whether the number was allocated.
    pub(crate) fn was_given(&self, number: u8) -> bool {
        number > 0 && self.given & (1 << (number - 1)) != 0
    }
}

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) stores: PerSet<Store>,
    pub(crate) backups: PerSet<Option<Store>>,
    pub(crate) nodes: Vec<AllocSvr>,
    /// The client's directory.
    pub(crate) client: Claim,
    pub(crate) network: Vec<Message>,
    pub(crate) calls: Vec<Call>,
    /// Number of handovers so far, which is the number of the last handover.
    pub(crate) handovers: u8,
    /// Number of migrations so far.
    pub(crate) migrations: u8,
    pub(crate) history: History,
    pub(crate) left: Budget,
}

impl World {
    /// Creates a world in which the AllocSvr of S owns the section and has allocated nothing.
    pub(crate) fn start(bounds: &Bounds) -> World {
        let home = Claim { since: 1, home: Set::S };
        let session = |set| Session { set, lineage: 0, incarnation: 1 };
        let max_seq = bounds.max_seq;
        let residence = Residence { since: 1, epoch: 1, owner: Some(1), max_seq, handover_id: 0, came_by: 0 };
        let store = |record, fence| Store {
            lineage: 0,
            record,
            fence,
            accepts: 0,
            directory: home,
            incarnation: 1,
            migration: 0,
            moving: false,
            paused: false,
            stopped: 0,
            returns: 0,
            quarantined: false,
        };
        let section = Section { epoch: 1, cur: 0, exact: true, frozen: false, ceiling: max_seq };
        let claim = if bounds.setting == Setting::Calm { home } else { AllocSvr::new(session(Set::S)).claim };
        let owner = AllocSvr { version: 1, claim, table: Some(section), ..AllocSvr::new(session(Set::S)) };
        let other = AllocSvr { version: 0, claim, ..AllocSvr::new(session(Set::T)) };
        let (mut left, mut calls) = (bounds.budget, Vec::new());
        if bounds.setting == Setting::Calm {
            let unsent = |op, count: u8| std::iter::repeat_n(Call::Unsent { op }, count.into());
            calls = unsent(Op::Take, left.takes).chain(unsent(Op::Read, left.reads)).collect();
            (left.takes, left.reads) = (0, 0);
        }
        World {
            stores: PerSet([store(Record::Resident(residence), 1), store(Record::Never, 0)]),
            backups: PerSet([None, None]),
            nodes: vec![owner, other],
            client: home,
            network: Vec::new(),
            calls,
            handovers: 0,
            migrations: 0,
            history: History { given: 0, floor: 0, committed: max_seq, epochs: PerSet([1 << 1, 0]), broken: None },
            left,
        }
    }

    /// Returns the process of a session, if it runs.
    pub(crate) fn node(&self, session: Session) -> Option<&AllocSvr> {
        self.nodes.iter().find(|node| node.session == session)
    }

    /// Returns the process of a session for changes, if it runs.
    pub(crate) fn node_mut(&mut self, session: Session) -> Option<&mut AllocSvr> {
        self.nodes.iter_mut().find(|node| node.session == session)
    }

    /// Returns the newest session of a set's AllocSvr.
    pub(crate) fn current(&self, set: Set) -> Session {
        let Store { lineage, incarnation, .. } = self.stores[set];
        Session { set, lineage, incarnation }
    }

    /// Returns whether a store takes a session as the newest session of its node.
    pub(crate) fn is_current(&self, bounds: &Bounds, session: Session) -> bool {
        let current = self.current(session.set);
        current.incarnation == session.incarnation
            && (current.lineage == session.lineage || bounds.has(Bug::LineageNotCompared))
    }

    /// Returns whether the owner that a store has recorded may still serve.
    pub(crate) fn is_owner_live(&self, set: Set) -> bool {
        let Record::Resident(Residence { owner: Some(incarnation), .. }) = self.stores[set].record else {
            return false;
        };
        let session = Session { incarnation, ..self.current(set) };
        self.node(session).is_some_and(|node| node.leased)
    }

    /// Returns whether a session of a lineage of the set before `lineage` may still serve.
    pub(crate) fn is_live_before(&self, set: Set, lineage: u8) -> bool {
        let is_older = |node: &&AllocSvr| node.session.set == set && node.session.lineage < lineage;
        self.nodes.iter().filter(is_older).any(|node| node.leased)
    }

    /// Sends a message. A message that equals a message in flight is not added, so only a duplicate is delivered twice.
    pub(crate) fn send(&mut self, message: Message) {
        if !self.network.contains(&message) {
            self.network.push(message);
        }
    }

    /// Writes a record and its consequences: the fence, the directory, the history.
    pub(crate) fn write(&mut self, set: Set, record: Record) {
        let store = &mut self.stores[set];
        store.record = record;
        match record {
            Record::Resident(Residence { since, epoch, max_seq, .. }) => {
                store.fence = store.fence.max(epoch);
                store.directory = store.directory.max(Claim { since, home: set });
                self.history.committed = self.history.committed.max(max_seq);
                self.history.epochs[set] |= 1 << epoch;
            }
            Record::Departed(Tombstone { epoch, .. }) => {
                store.fence = store.fence.max(epoch);
                store.directory = store.directory.max(Claim { since: epoch, home: set.other() });
            }
            Record::Never | Record::Quarantined { .. } => {}
        }
    }

    /// Records the first promise that is broken.
    pub(crate) fn require(&mut self, holds: bool, promise: Promise) {
        if !holds {
            self.history.broken = self.history.broken.or(Some(promise));
        }
    }

    /// Makes states equal that no further step can distinguish.
    pub(crate) fn normalise(&mut self, bounds: &Bounds) {
        // A session whose lease has ended takes no step before it renews.
        if self.left.renewals == 0 && bounds.setting == Setting::Ordered {
            self.nodes.retain(|node| node.leased);
        }
        for node in &mut self.nodes {
            node.staged = node.staged.filter(|copy| copy.epoch > node.version);
        }
        self.drop_superseded_nodes(bounds);
        let mut network = std::mem::take(&mut self.network);
        network.retain(|message| self.may_matter(bounds, message));
        network.sort_unstable();
        self.network = network;
        self.calls.sort_unstable();
        for set in Set::ALL {
            if self.left.restores[set] == 0 {
                self.backups[set] = None;
            }
        }
    }

    /// Drops sessions that were replaced and have no section, except targets of a handover that is in progress.
    fn drop_superseded_nodes(&mut self, bounds: &Bounds) {
        if bounds.has(Bug::LineageNotCompared) {
            return;
        }
        let current = Set::ALL.map(|set| self.current(set));
        let targets: Vec<Session> =
            self.nodes.iter().filter_map(|node| node.outgoing).map(|outgoing| outgoing.to).collect();
        self.nodes
            .retain(|node| node.table.is_some() || current.contains(&node.session) || targets.contains(&node.session));
    }

    /// Returns whether a message may change something, now or later. A message that cannot counts as lost.
    fn may_matter(&self, bounds: &Bounds, message: &Message) -> bool {
        match *message {
            Message::Update { session, epoch, claim, .. } => self
                .node(session)
                .is_some_and(|node| epoch > node.version || (bounds.setting == Setting::Calm && claim > node.claim)),
            Message::Raised { session, epoch, ceiling } => self
                .node(session)
                .and_then(|node| node.table)
                .is_some_and(|section| section.epoch == epoch && ceiling > Some(section.ceiling)),
            Message::Stage { to, copy, .. } => self.node(to).is_some_and(|node| copy.epoch > node.version),
            Message::Staged { to: session, handover_id } | Message::DepartResponse { session, handover_id, .. } => {
                self.is_in_progress(session, handover_id)
            }
            Message::DepartSilent { set, lineage, expected, .. } => {
                let store = &self.stores[set];
                let is_as_observed = |residence: Residence| (residence.epoch, store.lineage) == (expected, lineage);
                matches!(store.record, Record::Resident(residence) if is_as_observed(residence))
            }
            // A later lineage sends a Fence of its own.
            Message::Fenced { to, lineage, .. } => self.stores[to].quarantined && self.stores[to].lineage == lineage,
            Message::Depart { .. }
            | Message::Arrive { .. }
            | Message::Arrived { .. }
            | Message::Fence { .. }
            | Message::StartReturn { .. }
                if bounds.restores() && bounds.bug.is_none() =>
            {
                self.may_matter_to_store(message)
            }
            _ => true,
        }
    }

    /// Returns the same for messages to stores, in the worlds that count few of them: a late message that is refused is
    /// left to the other worlds.
    fn may_matter_to_store(&self, message: &Message) -> bool {
        match *message {
            Message::Depart { session, epoch, handover_id, .. } => {
                let store = &self.stores[session.set];
                let is_past = store.fence > epoch || store.lineage != session.lineage;
                !is_past || self.is_in_progress(session, handover_id)
            }
            Message::Arrive { from, lineage, tombstone } => {
                let (store, target) = (&self.stores[from], &self.stores[from.other()]);
                let is_awaited = matches!(store.record, Record::Departed(ours)
                    if ours.epoch == tombstone.epoch && !ours.arrived);
                let is_past = lineage < target.accepts || tombstone.epoch <= target.fence;
                !is_past || is_awaited || self.left.restores[from.other()] > 0
            }
            Message::Arrived { to, epoch } => {
                let is_awaited = matches!(self.stores[to].record, Record::Departed(ours)
                    if ours.epoch == epoch && !ours.arrived);
                is_awaited || self.left.restores[to] > 0
            }
            Message::Fence { from, lineage } => {
                let (store, target) = (&self.stores[from], &self.stores[from.other()]);
                let is_awaited = store.quarantined && store.lineage == lineage;
                is_awaited || lineage > target.accepts || self.left.restores[from.other()] > 0
            }
            Message::StartReturn { from, lineage, .. } => lineage >= self.stores[from.other()].accepts,
            _ => true,
        }
    }

    /// Returns whether a session has this attempt in progress.
    fn is_in_progress(&self, session: Session, handover_id: u8) -> bool {
        let outgoing = self.node(session).and_then(|node| node.outgoing);
        outgoing.is_some_and(|outgoing| outgoing.handover_id == handover_id)
    }
}
