//! The store: what each entry of its log does when it is applied, and what it answers.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{About, Life, Message, Promise, Record, STEP, World};

impl Protocol {
    /// Applies an entry and sends the answer, with the news that are read after the entry was applied.
    pub(crate) fn apply(&self, world: &mut World, entry: Message) {
        match entry {
            Message::Renew { life, sent, version, released } => {
                let current = self.hear(world, life);
                let record = world.store.record;
                if current && record.owner == Some(life) && record.epoch == released {
                    world.store.record = Record { epoch: released + 1, owner: None, handover: 0, ..record };
                }
                self.answer(world, life, sent, version, current, About::Renewal);
            }
            Message::Raise { life, sent, version, epoch, to } => {
                let current = self.hear(world, life);
                let ceiling = if current { self.raise(world, life, epoch, to) } else { None };
                self.answer(world, life, sent, version, current, About::Raise { epoch, ceiling });
            }
            Message::Transfer { life, sent, version, epoch, to, handover } => {
                let applied = self.transfer(world, life, epoch, to, handover);
                if applied.is_some() {
                    world.store.heard[life] += 1;
                } else {
                    self.seen.mark(Event::TransferRefused);
                }
                let heard = applied.is_some() || self.bounds.has(Bug::RefusalExtends);
                self.answer(world, life, sent, version, heard, About::Transfer { to, epoch, handover, applied });
            }
            Message::Reassign { expected, heard, over, to } => self.reassign(world, expected, heard, over, to),
            _ => unreachable!("not for the store: {entry:?}"),
        }
    }

    /// Counts that a life was heard of, if it is the current one.
    fn hear(&self, world: &mut World, life: Life) -> bool {
        let current = world.is_current(&self.bounds, life);
        if current {
            world.store.heard[life] += 1;
        } else {
            self.seen.mark(Event::EndedLifeRefused);
        }
        current
    }

    fn answer(&self, world: &mut World, life: Life, sent: i8, version: u8, heard: bool, about: About) {
        let news = Some(world.store.record).filter(|record| record.epoch > version);
        let over = !world.is_current(&self.bounds, life);
        world.network.push(Message::Answer { life, sent, heard, over, news, about });
    }

    /// Raises the ceiling for its owner, under its epoch, to an absolute value, and never lowers it.
    fn raise(&self, world: &mut World, life: Life, epoch: u8, to: u8) -> Option<u8> {
        let record = &mut world.store.record;
        let fenced = record.owner == Some(life) && record.epoch == epoch;
        if !fenced && !self.bounds.has(Bug::UnfencedRaise) {
            self.seen.mark(Event::RaiseRefused);
            return None;
        }
        let relative = self.bounds.has(Bug::RelativeRaise);
        record.max_seq = if relative { record.max_seq + STEP } else { record.max_seq.max(to) };
        self.seen.mark(Event::Raised);
        let max_seq = record.max_seq;
        world.require(max_seq <= world.history.asked, Promise::CeilingAsAsked);
        Some(max_seq)
    }

    /// Moves the section as its owner asks. A repeat of one that was applied is answered as the first one was.
    fn transfer(&self, world: &mut World, from: Life, epoch: u8, to: Life, handover: u8) -> Option<Record> {
        let record = world.store.record;
        let next = Record { epoch: epoch + 1, owner: Some(to), handover, ..record };
        if !world.is_current(&self.bounds, from) {
            return None;
        }
        if record == next {
            self.seen.mark(Event::TransferRepeated);
            return Some(record);
        }
        if (record.epoch, record.owner) != (epoch, Some(from)) || !world.is_current(&self.bounds, to) {
            return None;
        }
        world.store.record = next;
        Some(next)
    }

    /// Changes the owner, if the record and the owner still are as the arbiter saw them.
    fn reassign(&self, world: &mut World, expected: u8, heard: u8, over: bool, to: Life) {
        let record = world.store.record;
        if record.epoch != expected || !world.is_current(&self.bounds, to) {
            return;
        }
        let Some(owner) = record.owner else {
            self.seen.mark(Event::ReleasedSectionAssigned);
            world.store.record = Record { epoch: expected + 1, owner: Some(to), handover: 0, ..record };
            return;
        };
        let current = world.is_current(&self.bounds, owner);
        let heard_since = world.store.heard[owner] != heard;
        // The life ended after the arbiter looked: it may have been heard of in between.
        let ended_since = !current && !over;
        let compared = match self.bounds.bug {
            Some(Bug::HeardNotCompared) => false,
            Some(Bug::EndedLifeNotCompared) => current && heard_since,
            _ => heard_since || ended_since,
        };
        if compared && self.bounds.setting == Setting::Timed {
            self.seen.mark(Event::ReassignLostToRenewal);
            return;
        }
        self.seen.mark(if current { Event::Failover } else { Event::FailoverOfEndedLife });
        world.store.record = Record { epoch: expected + 1, owner: Some(to), handover: 0, ..record };
    }
}
