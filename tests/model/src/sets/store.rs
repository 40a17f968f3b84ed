//! The store of a set: the effect of each entry of its log that a migration needs, and its arbiter.
//!
//! Only the log of the set where the section is resident sends it away. The restores are in [`super::restore`].

use crate::sets::bounds::{Bug, Setting};
use crate::sets::events::Event;
use crate::sets::protocol::{Protocol, remove};
use crate::sets::world::{
    AllocSvr, EPOCHS, Grant, MARGIN, Message, Outcome, RETURN, Record, Residence, Session, Set, Tombstone, World,
};

impl Protocol {
    /// Registers a new session, which ends the session before it in the store; the earlier process may continue.
    pub(crate) fn register(&self, world: &mut World, set: Set) {
        world.left.registrations[set] -= 1;
        world.stores[set].incarnation += 1;
        world.nodes.push(AllocSvr::new(world.current(set)));
    }

    /// Raises the ceiling for its owner, under its epoch, to an absolute value.
    pub(crate) fn raise(&self, world: &mut World, session: Session, epoch: u8, to: u8) {
        let is_current = world.is_current(&self.bounds, session);
        let ceiling = match world.stores[session.set].record {
            Record::Resident(residence)
                if is_current && residence.owner == Some(session.incarnation) && residence.epoch == epoch =>
            {
                let max_seq = residence.max_seq.max(to);
                world.write(session.set, Record::Resident(Residence { max_seq, ..residence }));
                Some(max_seq)
            }
            _ => {
                self.events.mark(Event::RaiseRefused);
                // In a calm world the call behind it must get a response, so the bound is on raises that are applied.
                world.left.raises += u8::from(self.bounds.setting == Setting::Calm);
                None
            }
        };
        world.send(Message::Raised { session, epoch, ceiling });
    }

    /// Returns whether the arbiter may give the section to the newest session. Without clocks it may at any time;
    /// otherwise the owner's lease must have ended, which replaces the wait and the liveness counter.
    pub(crate) fn can_reassign(&self, world: &World, set: Set) -> bool {
        let Record::Resident(Residence { owner, .. }) = world.stores[set].record else { return false };
        let to = world.current(set);
        let is_live = world.is_owner_live(set)
            || (world.is_live_before(set, world.stores[set].lineage) && self.bounds.has(Bug::RestoredSourceContinues));
        let waited = self.bounds.setting != Setting::Ordered || !is_live;
        let is_candidate = owner != Some(to.incarnation) && world.node(to).is_some_and(|node| node.leased);
        world.left.reassigns > 0 && is_candidate && waited
    }

    /// Gives the section to the newest session, under the next epoch and from the ceiling.
    pub(crate) fn reassign(&self, world: &mut World, set: Set) {
        world.left.reassigns -= 1;
        let Record::Resident(residence) = world.stores[set].record else { unreachable!("only what is resident") };
        let (epoch, owner) = (residence.epoch + 1, Some(world.stores[set].incarnation));
        world.write(set, Record::Resident(Residence { epoch, owner, handover_id: 0, ..residence }));
    }

    /// Returns whether the newest session of a set lacks something of the store's state.
    pub(crate) fn can_update(&self, world: &World, set: Set) -> bool {
        let store = &world.stores[set];
        let is_newer = |node: &AllocSvr| {
            epoch_of(store.record).is_some_and(|epoch| epoch > node.version)
                || (self.bounds.setting == Setting::Calm && store.directory > node.claim)
        };
        world.node(world.current(set)).is_some_and(|node| node.leased && is_newer(node))
    }

    /// Sends an ownership update to the newest session.
    pub(crate) fn send_update(&self, world: &mut World, set: Set) {
        let (session, store) = (world.current(set), &world.stores[set]);
        let grant = grant_to(session, store.record);
        let claim = if self.bounds.setting == Setting::Calm { store.directory } else { AllocSvr::new(session).claim };
        let epoch = epoch_of(store.record).unwrap_or(0);
        world.send(Message::Update { session, epoch, claim, grant });
    }

    /// Begins a migration of the section to the other set.
    pub(crate) fn start_migration(&self, world: &mut World, set: Set) {
        world.left.migrations -= 1;
        world.migrations += 1;
        let store = &mut world.stores[set];
        (store.migration, store.moving) = (world.migrations, true);
    }

    /// Applies a Depart of the owner. Refusals are permanent, and a repeat of an applied Depart has the same result.
    pub(crate) fn depart(&self, world: &mut World, depart: Message) -> Outcome {
        let Message::Depart { session, epoch, to, handover_id, migration, ceiling } = depart else {
            unreachable!("not a Depart: {depart:?}")
        };
        let (set, is_current) = (session.set, world.is_current(&self.bounds, session));
        let store = &world.stores[set];
        let is_owner = |residence: &Residence| {
            is_current && residence.owner == Some(session.incarnation) && residence.epoch == epoch
        };
        match store.record {
            Record::Departed(tombstone)
                if (tombstone.epoch, tombstone.handover_id) == (epoch + 1, handover_id)
                    && session.lineage == store.lineage =>
            {
                self.events.mark(Event::DepartRepeated);
                Outcome::Departed
            }
            Record::Resident(residence) if is_owner(&residence) => {
                let is_paused = store.paused && self.bounds.has(Bug::PauseRefusesDepart);
                if store.stopped & (1 << migration) != 0 || is_paused {
                    return Outcome::Refused;
                }
                let is_early = self.bounds.has(Bug::CeilingOfTheBeginning);
                let max_seq = if is_early { ceiling } else { residence.max_seq };
                let old_epoch = set == Set::T && self.bounds.has(Bug::ReturnTakesTheOldEpoch);
                let epoch = if old_epoch { residence.since - 1 } else { epoch + 1 };
                let tombstone = Tombstone {
                    epoch,
                    to_lineage: to.lineage,
                    max_seq,
                    handover_id,
                    node: Some(to),
                    migration,
                    arrived: false,
                    completed: false,
                };
                self.bury(world, set, tombstone);
                Outcome::Departed
            }
            _ => Outcome::Lost,
        }
    }

    /// Writes the tombstone. From here on, the section arrives at the other set in any case.
    fn bury(&self, world: &mut World, set: Set, tombstone: Tombstone) {
        world.write(set, Record::Departed(tombstone));
        world.stores[set].moving = false;
    }

    /// Returns whether the arbiter may propose that the section departs without its owner.
    pub(crate) fn can_propose_silent(&self, world: &World, set: Set) -> bool {
        let store = &world.stores[set];
        let waited =
            self.bounds.setting != Setting::Ordered || !world.is_owner_live(set) || self.bounds.has(Bug::SilentAtOnce);
        world.left.silents > 0 && store.moving && !store.paused && matches!(store.record, Record::Resident(_)) && waited
    }

    /// Proposes the departure, with the epoch as observed.
    pub(crate) fn propose_silent(&self, world: &mut World, set: Set) {
        world.left.silents -= 1;
        let to_lineage = world.stores[set.other()].lineage;
        let Record::Resident(Residence { epoch: expected, .. }) = world.stores[set].record else {
            unreachable!("only what is resident departs")
        };
        let (lineage, migration) = (world.stores[set].lineage, world.stores[set].migration);
        world.send(Message::DepartSilent { set, lineage, expected, to_lineage, migration });
    }

    /// Applies the departure, if the record is as observed and the owner has not renewed since.
    pub(crate) fn depart_silent(&self, world: &mut World, proposal: Message) {
        let Message::DepartSilent { set, lineage, expected, to_lineage, migration } = proposal else {
            unreachable!("not a DepartSilent: {proposal:?}")
        };
        let store = &world.stores[set];
        let Record::Resident(residence) = store.record else { return };
        let is_stopped = store.stopped & (1 << migration) != 0;
        if (store.lineage, residence.epoch) != (lineage, expected) || is_stopped {
            return;
        }
        let compares = !self.bounds.has(Bug::SilentAtOnce) && !self.bounds.has(Bug::SilentNotCompared);
        if self.bounds.setting == Setting::Ordered && world.is_owner_live(set) && compares {
            self.events.mark(Event::SilentLostToRenewal);
            return;
        }
        self.events.mark(Event::DepartSilent);
        let tombstone = Tombstone {
            epoch: expected + 1,
            to_lineage,
            max_seq: residence.max_seq,
            handover_id: 0,
            node: None,
            migration,
            arrived: false,
            completed: false,
        };
        self.bury(world, set, tombstone);
    }

    /// Sends the Arrive of a tombstone. Any participant that has the applied entry may send it; it is sent until it
    /// arrived.
    pub(crate) fn send_arrive(&self, world: &mut World, from: Set) {
        let Record::Departed(tombstone) = world.stores[from].record else { unreachable!("only what departed") };
        let lineage = world.stores[from].lineage;
        world.send(Message::Arrive { from, lineage, tombstone });
    }

    /// Makes the bug's step: a leader proposes the tombstone, sends the Arrive, and is deposed; the entry is lost.
    pub(crate) fn lose_proposal(&self, world: &mut World, message: Message) {
        remove(world, message);
        let Message::Depart { session, .. } = message else { unreachable!("only a Depart is proposed so") };
        let mut proposed = world.clone();
        if self.depart(&mut proposed, message) == Outcome::Departed
            && let Record::Departed(tombstone) = proposed.stores[session.set].record
        {
            let lineage = world.stores[session.set].lineage;
            world.send(Message::Arrive { from: session.set, lineage, tombstone });
        }
    }

    /// Returns whether an Arrive can get a response. An Arrive for an older lineage of a store in quarantine waits for
    /// the quarantine's end.
    pub(crate) fn can_arrive(&self, world: &World, set: Set, tombstone: &Tombstone) -> bool {
        let store = &world.stores[set];
        !store.quarantined
            || tombstone.to_lineage == store.lineage
            || tombstone.epoch <= store.fence
            || self.bounds.has(Bug::RestoredTargetTakesArrive)
    }

    /// Applies an Arrive. A repeat leaves the record alone.
    pub(crate) fn arrive(&self, world: &mut World, from: Set, lineage: u8, tombstone: Tombstone) {
        let (set, epoch) = (from.other(), tombstone.epoch);
        let store = world.stores[set];
        if lineage < store.accepts {
            self.events.mark(Event::ArriveFenced);
            return;
        }
        world.send(Message::Arrived { to: from, epoch });
        if !self.is_new(world, set, &tombstone) {
            let is_here = matches!(store.record, Record::Resident(residence) if residence.since == epoch);
            self.events.mark(if is_here { Event::ArriveRepeated } else { Event::ArrivePast });
            if is_here && self.bounds.has(Bug::RepeatedArriveWrites) {
                self.take_in(world, set, tombstone);
            }
            return;
        }
        if tombstone.to_lineage != store.lineage {
            self.events.mark(Event::ArriveOtherLineage);
        }
        self.take_in(world, set, tombstone);
    }

    /// Returns whether a tombstone is newer than every record of this set. The bug returns a section under its old
    /// epoch.
    pub(crate) fn is_new(&self, world: &World, set: Set, tombstone: &Tombstone) -> bool {
        let store = &world.stores[set];
        let is_back = matches!(store.record, Record::Departed(ours) if ours.epoch == tombstone.epoch + 1);
        tombstone.epoch > store.fence || (is_back && set == Set::S && self.bounds.has(Bug::ReturnTakesTheOldEpoch))
    }

    /// Makes the section of a tombstone resident: as it departed, or with margins if the tombstone was made for an
    /// older lineage, which may have served it.
    pub(crate) fn take_in(&self, world: &mut World, set: Set, tombstone: Tombstone) {
        let restores = match world.stores[set].lineage - tombstone.to_lineage {
            _ if self.bounds.has(Bug::RestoredTargetTakesArrive) => 0,
            restores => self.margins(restores),
        };
        let epoch = tombstone.epoch + restores * EPOCHS;
        let to = tombstone.node.filter(|node| restores == 0 && world.is_current(&self.bounds, *node));
        if to.is_none() {
            self.events.mark(Event::ArriveUnowned);
        }
        if tombstone.migration & RETURN != 0 {
            self.events.mark(Event::Returned);
        }
        world.write(
            set,
            Record::Resident(Residence {
                since: epoch,
                epoch,
                owner: to.map(|node| node.incarnation),
                max_seq: tombstone.max_seq + restores * MARGIN,
                handover_id: if to.is_some() { tombstone.handover_id } else { 0 },
                came_by: tombstone.migration,
            }),
        );
    }

    /// Returns how many margins are added after this many restores.
    pub(crate) fn margins(&self, restores: u8) -> u8 {
        if self.bounds.has(Bug::OneMargin) { restores.min(1) } else { restores }
    }

    /// Notes that the section of a tombstone has arrived.
    pub(crate) fn on_arrived(&self, world: &mut World, set: Set, epoch: u8) {
        let store = &mut world.stores[set];
        let Record::Departed(tombstone) = &mut store.record else { return };
        if tombstone.epoch != epoch {
            return;
        }
        tombstone.arrived = true;
        if self.bounds.has(Bug::TombstoneDeleted) {
            (store.record, store.fence) = (Record::Never, 0);
        }
    }

    /// Returns whether the last migration may be rolled back: until it is completed.
    pub(crate) fn can_rollback(&self, world: &World, set: Set) -> bool {
        let store = &world.stores[set];
        let is_over = matches!(store.record, Record::Departed(tombstone) if tombstone.completed);
        let is_stopped = store.stopped & (1 << store.migration) != 0;
        world.left.rollbacks > 0 && (1..RETURN).contains(&store.migration) && !is_stopped && !is_over
    }

    /// Rolls the migration back: no section departs under it any more, and the other set gets a request to return the
    /// section.
    pub(crate) fn rollback(&self, world: &mut World, set: Set) {
        world.left.rollbacks -= 1;
        let store = &mut world.stores[set];
        store.stopped |= 1 << store.migration;
        store.returns |= 1 << store.migration;
        (store.moving, store.paused) = (false, false);
        if let Record::Departed(tombstone) = store.record
            && self.bounds.has(Bug::RollbackByFiat)
        {
            let (since, max_seq) = (tombstone.epoch + 1, tombstone.max_seq);
            let residence = Residence { since, epoch: since, owner: None, max_seq, handover_id: 0, came_by: 0 };
            world.write(set, Record::Resident(residence));
        }
    }

    /// Requests the return of the section.
    pub(crate) fn send_start_return(&self, world: &mut World, from: Set) {
        let Record::Departed(Tombstone { migration, .. }) = world.stores[from].record else {
            unreachable!("only what departed returns")
        };
        let lineage = world.stores[from].lineage;
        world.send(Message::StartReturn { from, lineage, migration });
    }

    /// Begins the return of a section that came by a migration, as a migration of its own.
    pub(crate) fn start_return(&self, world: &mut World, from: Set, lineage: u8, migration: u8) {
        let store = &mut world.stores[from.other()];
        let came = matches!(store.record, Record::Resident(residence) if residence.came_by == migration);
        if lineage >= store.accepts && came && !store.moving {
            (store.migration, store.moving) = (migration | RETURN, true);
        }
    }

    /// Returns whether the migration of a tombstone can be completed.
    pub(crate) fn can_complete(&self, world: &World, set: Set) -> bool {
        let store = &world.stores[set];
        world.left.completions > 0
            && matches!(store.record, Record::Departed(tombstone)
                if tombstone.arrived && !tombstone.completed && store.returns & (1 << tombstone.migration) == 0)
    }

    /// Completes the migration: it cannot be rolled back any more.
    pub(crate) fn complete(&self, world: &mut World, set: Set) {
        world.left.completions -= 1;
        self.events.mark(Event::Completed);
        if let Record::Departed(tombstone) = &mut world.stores[set].record {
            tombstone.completed = true;
        }
    }
}

/// Returns the epoch that an ownership update names.
pub(crate) fn epoch_of(record: Record) -> Option<u8> {
    match record {
        Record::Resident(Residence { epoch, .. }) | Record::Departed(Tombstone { epoch, .. }) => Some(epoch),
        Record::Never | Record::Quarantined { .. } => None,
    }
}

/// Returns the grant of a record to a session.
pub(crate) fn grant_to(session: Session, record: Record) -> Option<Grant> {
    match record {
        Record::Resident(Residence { owner, max_seq, handover_id, .. }) if owner == Some(session.incarnation) => {
            Some(Grant { max_seq, handover_id })
        }
        _ => None,
    }
}
