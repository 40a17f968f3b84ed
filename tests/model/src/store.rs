//! The store: the effect of each entry of its log, and the response.

use crate::bounds::{Bug, Setting};
use crate::events::Event;
use crate::protocol::Protocol;
use crate::world::{Message, Promise, Record, Reply, SECOND, STEP, Session, World};

impl Protocol {
    /// Applies an entry and sends the response, with the update that is read after the entry was applied.
    pub(crate) fn apply(&self, world: &mut World, entry: Message) {
        match entry {
            Message::Renew { session, sent, version, released } => {
                let current = self.count_liveness(world, session);
                let record = world.store.record;
                if current && record.owner == Some(session) && record.epoch == released {
                    world.store.record = Record { epoch: released + 1, owner: None, handover_id: 0, ..record };
                }
                self.response(world, session, sent, version, current, Reply::Renewal);
            }
            Message::Raise { session, sent, version, epoch, to } => {
                let current = self.count_liveness(world, session);
                let ceiling = if current { self.raise(world, session, epoch, to) } else { None };
                self.response(world, session, sent, version, current, Reply::Raise { epoch, ceiling });
            }
            Message::Transfer { session, sent, version, epoch, to, handover_id } => {
                let applied = self.transfer(world, session, epoch, to, handover_id);
                if applied.is_some() {
                    world.store.liveness[session] += 1;
                } else {
                    self.events.mark(Event::TransferRefused);
                }
                let counted = applied.is_some() || self.bounds.has(Bug::RefusalExtends);
                self.response(
                    world,
                    session,
                    sent,
                    version,
                    counted,
                    Reply::Transfer { to, epoch, handover_id, applied },
                );
            }
            Message::Reassign { expected, liveness, over, to } => self.reassign(world, expected, liveness, over, to),
            Message::Died { session } => self.died(world, session),
            _ => unreachable!("not for the store: {entry:?}"),
        }
    }

    /// Notes that the process of a session has ended, if the session is the newest session of its node.
    fn died(&self, world: &mut World, session: Session) {
        let is_succeeded = world.is_over(&self.bounds, session) && self.bounds.has(Bug::DeathOfNode);
        let session = if is_succeeded { SECOND } else { session };
        if !world.is_current(&self.bounds, session) {
            self.events.mark(Event::DeathIgnored);
            return;
        }
        self.events.mark(Event::DeathNoted);
        world.store.died[session] = true;
    }

    /// Moves the liveness counter of a session, if it is the current session of its node.
    fn count_liveness(&self, world: &mut World, session: Session) -> bool {
        let current = world.is_current(&self.bounds, session);
        if current {
            world.store.liveness[session] += 1;
        } else {
            self.events.mark(Event::EndedSessionRefused);
        }
        current
    }

    fn response(&self, world: &mut World, session: Session, sent: i8, version: u8, counted: bool, reply: Reply) {
        let update = Some(world.store.record).filter(|record| record.epoch > version);
        let over = !world.is_current(&self.bounds, session);
        world.network.push(Message::Response { session, sent, counted, over, update, reply });
    }

    /// Raises the ceiling for its owner, under its epoch, to an absolute value, and never lowers it.
    fn raise(&self, world: &mut World, session: Session, epoch: u8, to: u8) -> Option<u8> {
        let record = &mut world.store.record;
        let fenced = record.owner == Some(session) && record.epoch == epoch;
        if !fenced && !self.bounds.has(Bug::UnfencedRaise) {
            self.events.mark(Event::RaiseRefused);
            return None;
        }
        let relative = self.bounds.has(Bug::RelativeRaise);
        record.max_seq = if relative { record.max_seq + STEP } else { record.max_seq.max(to) };
        self.events.mark(Event::Raised);
        let max_seq = record.max_seq;
        world.require(max_seq <= world.history.requested, Promise::CeilingAsRequested);
        Some(max_seq)
    }

    /// Transfers the section at the request of its owner. A repeat of an applied transfer has the same result.
    fn transfer(&self, world: &mut World, from: Session, epoch: u8, to: Session, handover_id: u8) -> Option<Record> {
        let record = world.store.record;
        let next = Record { epoch: epoch + 1, owner: Some(to), handover_id, ..record };
        if !world.is_current(&self.bounds, from) {
            return None;
        }
        if record == next {
            self.events.mark(Event::TransferRepeated);
            return Some(record);
        }
        if (record.epoch, record.owner) != (epoch, Some(from)) || !world.is_current(&self.bounds, to) {
            return None;
        }
        world.store.record = next;
        Some(next)
    }

    /// Changes the owner, if the record and the owner's counter still are as the arbiter observed them.
    fn reassign(&self, world: &mut World, expected: u8, liveness: u8, over: bool, to: Session) {
        let record = world.store.record;
        if record.epoch != expected || !world.is_current(&self.bounds, to) {
            return;
        }
        let Some(owner) = record.owner else {
            self.events.mark(Event::ReleasedSectionAssigned);
            world.store.record = Record { epoch: expected + 1, owner: Some(to), handover_id: 0, ..record };
            return;
        };
        let is_over = world.is_over(&self.bounds, owner);
        let counted_since = world.store.liveness[owner] != liveness;
        // The session ended after the evaluation, so its counter may have moved in between. The counter of a session
        // whose process was reported dead does not move any more, so it is compared like that of any session.
        let ended_since = is_over && !over;
        let compared = match self.bounds.bug {
            Some(Bug::LivenessNotCompared) => false,
            Some(Bug::EndedSessionNotCompared) => !is_over && counted_since,
            _ => counted_since || ended_since,
        };
        if compared && self.bounds.setting == Setting::Timed {
            self.events.mark(Event::ReassignLostToRenewal);
            return;
        }
        self.events.mark(if is_over { Event::FailoverOfEndedSession } else { Event::Failover });
        if world.store.died[owner] {
            self.events.mark(Event::FailoverOfDead);
        }
        world.store.record = Record { epoch: expected + 1, owner: Some(to), handover_id: 0, ..record };
    }
}
