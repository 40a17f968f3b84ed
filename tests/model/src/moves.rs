//! A planned move of the section from its owner S to T: Prepare, freeze, Stage, Transfer, Activate. What T gets from a peer
//! may be a stranger's.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{Copied, FORGED, Kind, Life, Message, Move, Phase, Record, STEP, Section, World};

impl Protocol {
    /// Whether S may begin a move to T.
    pub(crate) fn can_begin(&self, world: &World, from: Life, to: Life) -> bool {
        let node = &world.nodes[from];
        world.left.moves > 0 && from != to && world.is_born(to) && node.table.is_some() && node.moving.is_none()
    }

    /// S asks T to hold early calls. That matters only where calls are forwarded; elsewhere the step is left out.
    pub(crate) fn begin_move(&self, world: &mut World, from: Life, to: Life) {
        world.left.moves -= 1;
        let epoch = world.owned(from).expect("an owner moves").epoch;
        let node = &mut world.nodes[from];
        node.attempts += 1;
        let handover = node.attempts;
        let prepares = self.bounds.setting == Setting::Calm;
        let phase = if prepares { Phase::Preparing } else { Phase::Prepared };
        node.moving = Some(Move { to, handover, phase });
        if prepares {
            world.network.push(Message::Prepare { from, to, epoch: epoch + 1, handover });
        }
    }

    /// The next step that S takes by itself, if there is one: freeze, then copy and stage.
    pub(crate) fn can_go_on(&self, world: &World, life: Life) -> bool {
        world.nodes[life].moving.is_some_and(|moving| matches!(moving.phase, Phase::Prepared | Phase::Frozen))
    }

    /// Takes that step.
    pub(crate) fn go_on(&self, world: &mut World, life: Life) {
        let index = world.nodes[life].table.expect("what is moved is owned");
        let section = &mut world.sections[index];
        let moving = world.nodes[life].moving.as_mut().expect("a move is under way");
        if moving.phase == Phase::Prepared {
            section.frozen = !self.bounds.has(Bug::CopyWithoutFreeze);
            moving.phase = Phase::Frozen;
        } else {
            let Section { epoch, cur, kind, .. } = *section;
            let copy = Copied { epoch: epoch + 1, handover: moving.handover, cur, kind };
            moving.phase = Phase::Staging;
            let to = moving.to;
            world.network.push(Message::Stage { from: life, to, copy });
        }
    }

    /// Whether S may take the failure of a message to T for the end of the attempt: only before a Transfer was sent.
    pub(crate) fn can_abort(&self, world: &World, life: Life) -> bool {
        let too_late = |phase| phase == Phase::Transferring && !self.bounds.has(Bug::ThawWithoutAnswer);
        self.bounds.setting != Setting::Calm && world.nodes[life].moving.is_some_and(|moving| !too_late(moving.phase))
    }

    /// Ends the attempt: the same ownership goes on, in a section made from what was frozen.
    pub(crate) fn thaw(&self, world: &mut World, life: Life) {
        world.nodes[life].moving = None;
        let section = *world.owned(life).expect("what is moved is owned");
        if section.frozen {
            self.seen.mark(Event::Thawed);
            world.put(Section { frozen: false, ..section });
        }
    }

    /// A message between S and T arrives.
    pub(crate) fn on_peer(&self, world: &mut World, message: Message) {
        match message {
            Message::Prepare { from, to, epoch, handover } => {
                if epoch > world.nodes[to].version {
                    world.nodes[to].prepared = epoch;
                    world.network.push(Message::Prepared { from, handover });
                }
            }
            Message::Prepared { from, handover } => self.advance(world, from, handover, Phase::Preparing),
            Message::Stage { from, to, copy } => {
                let node = &mut world.nodes[to];
                // The last one to arrive is kept here; the real target keeps others beside it, which loses fewer.
                if copy.epoch > node.version {
                    node.staged = Some(copy);
                    world.network.push(Message::Staged { from, handover: copy.handover });
                }
            }
            Message::Staged { from, handover } => self.advance(world, from, handover, Phase::Staging),
            Message::Activate { to, record } => self.on_activate(world, to, record),
            _ => unreachable!("not between AllocSvrs: {message:?}"),
        }
    }

    /// T agreed to what the attempt waited for.
    fn advance(&self, world: &mut World, life: Life, handover: u8, waits_in: Phase) {
        let epoch = world.owned(life).map(|section| section.epoch);
        let node = &mut world.nodes[life];
        let Some(moving) =
            node.moving.as_mut().filter(|moving| (moving.handover, moving.phase) == (handover, waits_in))
        else {
            return;
        };
        if waits_in == Phase::Preparing {
            moving.phase = Phase::Prepared;
            return;
        }
        moving.phase = Phase::Transferring;
        let (to, version) = (moving.to, node.version);
        let epoch = epoch.expect("what is moved is owned");
        let sent = crate::world::LEASE;
        world.network.push(Message::Transfer { life, sent, version, epoch, to, handover });
    }

    /// The definite answer, whose news were adopted: S tells T, or thaws if it still owns the section.
    pub(crate) fn on_transfer_answer(
        &self,
        world: &mut World,
        life: Life,
        to: Life,
        epoch: u8,
        handover: u8,
        applied: Option<Record>,
    ) {
        if let Some(record) = applied {
            world.network.push(Message::Activate { to, record });
            return;
        }
        let still_owned = world.owned(life).is_some_and(|section| section.epoch == epoch);
        if still_owned && world.nodes[life].moving.is_some_and(|moving| moving.handover == handover) {
            self.thaw(world, life);
        }
    }

    /// Whether a stranger may send a node a copy and an Activate.
    pub(crate) fn can_forge(&self, world: &World, to: Life) -> bool {
        world.left.forged > 0 && world.is_born(to) && world.nodes[to].table.is_none()
    }

    /// A stranger sends a copy in which nothing was given out, and an Activate under a ceiling of its own.
    pub(crate) fn forge(&self, world: &mut World, to: Life) {
        world.left.forged -= 1;
        let record = world.store.record;
        let epoch = record.epoch + 1;
        let handover = if self.bounds.has(Bug::GuessedAttempt) { 1 } else { FORGED };
        let copy = Copied { epoch, handover, cur: 0, kind: Kind::Number };
        world.network.push(Message::Stage { from: to, to, copy });
        let max_seq = record.max_seq + STEP;
        world.network.push(Message::Activate { to, record: Record { epoch, owner: Some(to), max_seq, handover } });
    }

    /// A peer says that T owns the section now. T asks its store: only the grant in that answer starts an ownership. It may
    /// know of that already, or of a later owner.
    fn on_activate(&self, world: &mut World, life: Life, record: Record) {
        let known = world.nodes[life].version;
        if record.handover == FORGED {
            self.seen.mark(Event::ForgedActivate);
        }
        let owned = world.owned(life).is_some_and(|section| section.epoch >= record.epoch);
        if record.epoch <= known {
            self.seen.mark(Event::LateActivateIgnored);
            if self.bounds.has(Bug::LateActivate) && !owned && known != u8::MAX {
                world.nodes[life].version = record.epoch - 1;
                self.adopt(world, life, record);
            }
            return;
        }
        if world.nodes[life].staged.is_some_and(|copy| copy.handover == record.handover) {
            self.seen.mark(Event::AskedAtActivate);
        }
        if self.bounds.has(Bug::TrustsActivate) {
            self.adopt(world, life, record);
        } else {
            self.ask_renewal(world, life);
        }
    }
}
