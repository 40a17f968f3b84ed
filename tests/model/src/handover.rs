//! A handover of the section from its owner S to the target T: Prepare, freeze, Stage, Transfer, Activate. A message to
//! T may be forged.

use crate::bounds::{Bug, Setting};
use crate::events::Event;
use crate::protocol::Protocol;
use crate::world::{Copied, FORGED, Handover, Kind, Message, Phase, Record, STEP, Section, Session, World};

impl Protocol {
    /// Returns whether S may begin a handover to T.
    pub(crate) fn can_begin(&self, world: &World, from: Session, to: Session) -> bool {
        let node = &world.nodes[from];
        world.left.handovers > 0 && from != to && world.exists(to) && node.table.is_some() && node.outgoing.is_none()
    }

    /// Begins a handover: S announces the section, so that T queues early calls. That matters only if calls are
    /// forwarded; otherwise the announcement is left out.
    pub(crate) fn begin_handover(&self, world: &mut World, from: Session, to: Session) {
        world.left.handovers -= 1;
        let epoch = world.owned(from).expect("an owner moves").epoch;
        let node = &mut world.nodes[from];
        node.attempts += 1;
        let handover_id = node.attempts;
        let prepares = self.bounds.setting == Setting::Calm;
        let phase = if prepares { Phase::Preparing } else { Phase::Prepared };
        node.outgoing = Some(Handover { to, handover_id, phase });
        if prepares {
            world.network.push(Message::Prepare { from, to, epoch: epoch + 1, handover_id });
        }
    }

    /// Returns whether S has a step of its own: freeze, then copy and stage.
    pub(crate) fn can_continue(&self, world: &World, session: Session) -> bool {
        world.nodes[session].outgoing.is_some_and(|outgoing| matches!(outgoing.phase, Phase::Prepared | Phase::Frozen))
    }

    /// Takes the next step of S: freeze, or copy and stage.
    pub(crate) fn continue_handover(&self, world: &mut World, session: Session) {
        let index = world.nodes[session].table.expect("a section that is handed over is owned");
        let section = &mut world.sections[index];
        let outgoing = world.nodes[session].outgoing.as_mut().expect("a handover is in progress");
        if outgoing.phase == Phase::Prepared {
            section.frozen = !self.bounds.has(Bug::CopyWithoutFreeze);
            outgoing.phase = Phase::Frozen;
        } else {
            let Section { epoch, cur, kind, .. } = *section;
            let copy = Copied { epoch: epoch + 1, handover_id: outgoing.handover_id, cur, kind };
            outgoing.phase = Phase::Staging;
            let to = outgoing.to;
            world.network.push(Message::Stage { from: session, to, copy });
        }
    }

    /// Returns whether S may end the attempt because a message to T failed: only before a Transfer was sent.
    pub(crate) fn can_abort(&self, world: &World, session: Session) -> bool {
        let too_late = |phase| phase == Phase::Transferring && !self.bounds.has(Bug::ThawWithoutResponse);
        self.bounds.setting != Setting::Calm
            && world.nodes[session].outgoing.is_some_and(|outgoing| !too_late(outgoing.phase))
    }

    /// Ends the attempt: the same ownership continues, in a section made from the frozen section.
    pub(crate) fn thaw(&self, world: &mut World, session: Session) {
        world.nodes[session].outgoing = None;
        let section = *world.owned(session).expect("a section that is handed over is owned");
        if section.frozen {
            self.events.mark(Event::Thawed);
            world.put(Section { frozen: false, ..section });
        }
    }

    /// Delivers a message between S and T.
    pub(crate) fn on_peer(&self, world: &mut World, message: Message) {
        match message {
            Message::Prepare { from, to, epoch, handover_id } => {
                if epoch > world.nodes[to].version {
                    world.nodes[to].prepared = epoch;
                    world.network.push(Message::Prepared { from, handover_id });
                }
            }
            Message::Prepared { from, handover_id } => self.advance(world, from, handover_id, Phase::Preparing),
            Message::Stage { from, to, copy } => {
                let node = &mut world.nodes[to];
                // The model's target keeps the last copy to arrive; the real target keeps more copies, and so loses
                // fewer.
                if copy.epoch > node.version {
                    node.staged = Some(copy);
                    world.network.push(Message::Staged { from, handover_id: copy.handover_id });
                }
            }
            Message::Staged { from, handover_id } => self.advance(world, from, handover_id, Phase::Staging),
            Message::Activate { to, record } => self.on_activate(world, to, record),
            _ => unreachable!("not between AllocSvrs: {message:?}"),
        }
    }

    /// Continues the attempt, because T acknowledged the step that the attempt waits for.
    fn advance(&self, world: &mut World, session: Session, handover_id: u8, waits_in: Phase) {
        let epoch = world.owned(session).map(|section| section.epoch);
        let node = &mut world.nodes[session];
        let Some(outgoing) =
            node.outgoing.as_mut().filter(|outgoing| (outgoing.handover_id, outgoing.phase) == (handover_id, waits_in))
        else {
            return;
        };
        if waits_in == Phase::Preparing {
            outgoing.phase = Phase::Prepared;
            return;
        }
        outgoing.phase = Phase::Transferring;
        let (to, version) = (outgoing.to, node.known_version());
        let epoch = epoch.expect("a section that is handed over is owned");
        let sent = crate::world::LEASE;
        world.network.push(Message::Transfer { session, sent, version, epoch, to, handover_id });
    }

    /// Applies the definite response, after its update was adopted: S sends Activate, or thaws if it still owns the
    /// section.
    pub(crate) fn on_transfer_response(
        &self,
        world: &mut World,
        session: Session,
        to: Session,
        epoch: u8,
        handover_id: u8,
        applied: Option<Record>,
    ) {
        if let Some(record) = applied {
            world.network.push(Message::Activate { to, record });
            return;
        }
        let still_owned = world.owned(session).is_some_and(|section| section.epoch == epoch);
        if still_owned && world.nodes[session].outgoing.is_some_and(|outgoing| outgoing.handover_id == handover_id) {
            self.thaw(world, session);
        }
    }

    /// Returns whether a copy and an Activate may be forged to a node.
    pub(crate) fn can_forge(&self, world: &World, to: Session) -> bool {
        world.left.forged > 0 && world.exists(to) && world.nodes[to].table.is_none()
    }

    /// Forges a copy without any number, and an Activate with a higher ceiling.
    pub(crate) fn forge(&self, world: &mut World, to: Session) {
        world.left.forged -= 1;
        let record = world.store.record;
        let epoch = record.epoch + 1;
        let handover_id = if self.bounds.has(Bug::GuessedAttempt) { 1 } else { FORGED };
        let copy = Copied { epoch, handover_id, cur: 0, kind: Kind::Number };
        world.network.push(Message::Stage { from: to, to, copy });
        let max_seq = record.max_seq + STEP;
        world.network.push(Message::Activate { to, record: Record { epoch, owner: Some(to), max_seq, handover_id } });
    }

    /// Delivers an Activate: T renews, and only the grant in the store's response starts an ownership. The message is
    /// ignored if T's route has that epoch, or a later epoch.
    fn on_activate(&self, world: &mut World, session: Session, record: Record) {
        let known = world.nodes[session].version;
        if record.handover_id == FORGED {
            self.events.mark(Event::ForgedActivate);
        }
        let owned = world.owned(session).is_some_and(|section| section.epoch >= record.epoch);
        if record.epoch <= known {
            self.events.mark(Event::LateActivateIgnored);
            if self.bounds.has(Bug::LateActivate) && !owned && known != u8::MAX {
                world.nodes[session].version = record.epoch - 1;
                self.adopt(world, session, record);
            }
            return;
        }
        if world.nodes[session].staged.is_some_and(|copy| copy.handover_id == record.handover_id) {
            self.events.mark(Event::RenewedAtActivate);
        }
        if self.bounds.has(Bug::TrustsActivate) {
            self.adopt(world, session, record);
        } else {
            self.send_renewal(world, session);
        }
    }
}
