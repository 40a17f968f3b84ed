//! An AllocSvr: its lease, its ownership updates, its ceiling, and its half of a handover to the other set.

use crate::sets::bounds::{Bug, Setting};
use crate::sets::events::Event;
use crate::sets::protocol::Protocol;
use crate::sets::store::{epoch_of, grant_to};
use crate::sets::world::{
    AllocSvr, Call, Claim, Copied, Grant, Handover, Message, Outcome, Phase, Record, STEP, Section, Session, Set, World,
};

impl Protocol {
    /// Ends the lease of a session. Leases of an older lineage are not counted, because their store is gone.
    pub(crate) fn lapse(&self, world: &mut World, session: Session) {
        if session.lineage == world.stores[session.set].lineage {
            world.left.lapses[session.set] -= 1;
        }
        node(world, session).leased = false;
    }

    /// Renews a session whose lease has ended: the response has the lease and the grant, or ends the session.
    pub(crate) fn renew(&self, world: &mut World, session: Session) {
        world.left.renewals -= 1;
        if !world.is_current(&self.bounds, session) {
            world.nodes.retain(|node| node.session != session);
            return;
        }
        node(world, session).leased = true;
        let record = world.stores[session.set].record;
        if let Some(epoch) = epoch_of(record) {
            let claim = node(world, session).claim;
            self.on_update(world, session, epoch, claim, grant_to(session, record));
        }
    }

    /// Adopts an ownership update that is newer than the node's: a section of another owner leaves the table, a grant
    /// enters it.
    pub(crate) fn on_update(&self, world: &mut World, session: Session, epoch: u8, claim: Claim, grant: Option<Grant>) {
        let Some(node) = world.node_mut(session).filter(|node| node.leased) else { return };
        node.claim = node.claim.max(claim);
        if epoch <= node.version {
            return;
        }
        (node.version, node.outgoing) = (epoch, None);
        let staged = node.staged;
        node.table = grant.map(|grant| self.enter(epoch, grant, staged));
    }

    /// Returns the section of a grant: from the copy of the attempt that this ownership began with, or at the ceiling.
    fn enter(&self, epoch: u8, grant: Grant, staged: Option<Copied>) -> Section {
        let of_epoch = staged.filter(|copy| copy.epoch == epoch);
        let of_grant = of_epoch.filter(|copy| copy.handover_id == grant.handover_id || self.bounds.has(Bug::StaleCopy));
        let ceiling = grant.max_seq;
        if let Some(Copied { cur, exact, .. }) = of_grant.filter(|copy| copy.cur <= ceiling) {
            self.events.mark(Event::ExactStart);
            return Section { epoch, cur, exact, frozen: false, ceiling };
        }
        self.events.mark(Event::CeilingStart);
        if of_epoch.is_some() && of_grant.is_none() {
            self.events.mark(Event::StaleCopySkipped);
        }
        Section { epoch, cur: ceiling, exact: false, frozen: false, ceiling }
    }

    /// Returns whether the owner should raise its ceiling: half a step is left, and no raise is in flight.
    pub(crate) fn can_raise(&self, world: &World, node: &AllocSvr) -> bool {
        let is_own = |message: &Message| {
            matches!(message, Message::Raise { session, .. } | Message::Raised { session, .. }
                if *session == node.session)
        };
        let is_near = |section: Section| section.ceiling - section.cur <= STEP / 2;
        world.left.raises > 0 && node.table.is_some_and(is_near) && !world.network.iter().any(is_own)
    }

    /// Requests an absolute ceiling.
    pub(crate) fn request_raise(&self, world: &mut World, session: Session) {
        world.left.raises -= 1;
        let Section { epoch, ceiling, .. } = section(world, session);
        world.send(Message::Raise { session, epoch, to: ceiling + STEP });
    }

    /// Adopts a higher ceiling.
    pub(crate) fn on_raised(&self, world: &mut World, session: Session, epoch: u8, ceiling: Option<u8>) {
        let table = world.node_mut(session).and_then(|node| node.table.as_mut());
        if let (Some(section), Some(ceiling)) = (table, ceiling)
            && section.epoch == epoch
        {
            section.ceiling = section.ceiling.max(ceiling);
        }
    }

    /// Returns whether the owner may begin to hand the section over: its store plans it, and the other store names a
    /// session.
    pub(crate) fn can_begin(&self, world: &World, node: &AllocSvr) -> bool {
        let set = node.session.set;
        let (store, target) = (&world.stores[set], world.current(set.other()));
        let is_owner = node.table.is_some_and(|section| match store.record {
            Record::Resident(residence) => {
                (residence.epoch, residence.owner) == (section.epoch, Some(node.session.incarnation))
            }
            _ => false,
        });
        world.left.handovers > 0
            && is_owner
            && world.is_current(&self.bounds, node.session)
            && store.moving
            && !store.paused
            && node.outgoing.is_none()
            && world.node(target).is_some()
    }

    /// Begins the handover with the target's current session and lineage, no matter what happens to that set later.
    pub(crate) fn begin_handover(&self, world: &mut World, session: Session) {
        world.left.handovers -= 1;
        world.handovers += 1;
        let (to, migration) = (world.current(session.set.other()), world.stores[session.set].migration);
        let ceiling = section(world, session).ceiling;
        let ceiling = if self.bounds.has(Bug::CeilingOfTheBeginning) { ceiling } else { 0 };
        let handover_id = world.handovers;
        node(world, session).outgoing = Some(Handover { to, handover_id, migration, phase: Phase::Prepared, ceiling });
    }

    /// Returns whether the owner may freeze, copy and stage.
    pub(crate) fn can_stage(&self, node: &AllocSvr) -> bool {
        node.outgoing.is_some_and(|outgoing| outgoing.phase == Phase::Prepared)
    }

    /// Freezes the slot, copies it, and sends the copy. A call finds the slot before or after that.
    pub(crate) fn stage(&self, world: &mut World, session: Session) {
        let freezes = !self.bounds.has(Bug::CopyWithoutFreeze);
        let reaches = |call: &Call| matches!(call, Call::Sent { to, .. } if *to == session.set);
        if world.calls.iter().any(reaches) {
            self.events.mark(Event::FrozenSlotMet);
        }
        let owner = node(world, session);
        let section = owner.table.as_mut().expect("what is handed over is owned");
        let outgoing = owner.outgoing.as_mut().expect("a handover is in progress");
        section.frozen = freezes;
        outgoing.phase = Phase::Staging;
        let Section { epoch, cur, exact, .. } = *section;
        let (to, handover_id) = (outgoing.to, outgoing.handover_id);
        world.send(Message::Stage { from: session, to, copy: Copied { epoch: epoch + 1, handover_id, cur, exact } });
    }

    /// Keeps the last copy that arrives at the target.
    pub(crate) fn on_stage(&self, world: &mut World, from: Session, to: Session, copy: Copied) {
        let Some(target) = world.node_mut(to).filter(|node| copy.epoch > node.version) else { return };
        target.staged = Some(copy);
        world.send(Message::Staged { to: from, handover_id: copy.handover_id });
    }

    /// Requests the departure, because the target has the copy.
    pub(crate) fn on_staged(&self, world: &mut World, session: Session, handover_id: u8) {
        let Some(owner) = world.node_mut(session) else { return };
        let (Some(section), Some(outgoing)) = (owner.table, owner.outgoing.as_mut()) else { return };
        if (outgoing.handover_id, outgoing.phase) != (handover_id, Phase::Staging) {
            return;
        }
        outgoing.phase = Phase::Departing;
        let Handover { to, migration, ceiling, .. } = *outgoing;
        world.send(Message::Depart { session, epoch: section.epoch, to, handover_id, migration, ceiling });
    }

    /// Returns whether the owner may end the attempt because a message to the target failed: only before a Depart was
    /// sent.
    pub(crate) fn can_abort(&self, node: &AllocSvr) -> bool {
        let too_late = |phase| phase == Phase::Departing && !self.bounds.has(Bug::ThawWithoutResponse);
        self.bounds.setting != Setting::Calm && node.outgoing.is_some_and(|outgoing| !too_late(outgoing.phase))
    }

    /// Ends the attempt: the same ownership continues.
    pub(crate) fn thaw(&self, world: &mut World, session: Session) {
        let owner = node(world, session);
        owner.outgoing = None;
        let section = owner.table.as_mut().expect("what is handed over is owned");
        if section.frozen {
            section.frozen = false;
            self.events.mark(Event::Thawed);
        }
    }

    /// Applies the definite response to a Depart of the attempt in progress.
    pub(crate) fn on_depart_response(&self, world: &mut World, session: Session, outcome: Outcome) {
        if outcome == Outcome::Refused {
            return self.thaw(world, session);
        }
        let is_calm = self.bounds.setting == Setting::Calm;
        let owner = node(world, session);
        owner.outgoing = None;
        let Some(section) = owner.table.take() else { return };
        if outcome == Outcome::Departed {
            owner.version = owner.version.max(section.epoch + 1);
            if is_calm {
                owner.claim = owner.claim.max(Claim { since: section.epoch + 1, home: session.set.other() });
            }
        }
    }
}

/// Returns the process of a session that takes a step.
fn node(world: &mut World, session: Session) -> &mut AllocSvr {
    world.node_mut(session).expect("only a session that runs takes a step")
}

fn section(world: &World, session: Session) -> Section {
    world.node(session).and_then(|node| node.table).expect("an owner has the section")
}

/// Returns whether the set's node has the section frozen.
pub(crate) fn is_frozen(world: &World, set: Set) -> bool {
    world.nodes.iter().any(|node| node.session.set == set && node.table.is_some_and(|section| section.frozen))
}
