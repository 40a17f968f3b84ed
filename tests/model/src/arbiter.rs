//! The arbiter beside the store's leader: it watches who is heard of, waits, and proposes.
//!
//! It looks whenever it likes, so it may know less than the log at any time. What makes that harmless is that a Reassign
//! names what it saw.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{LIVES, Life, Message, Watch, World};

impl Protocol {
    /// Whether looking would show something new.
    pub(crate) fn can_look(&self, world: &World, life: Life) -> bool {
        let watch = world.arbiter[life];
        let over = !world.is_current(&self.bounds, life);
        world.is_born(life) && (watch.heard != world.store.heard[life] || watch.over != over)
    }

    /// Looks at the applied state: a life that was heard of, and one that is newly seen to be over, counts from now.
    pub(crate) fn look(&self, world: &mut World, life: Life) {
        let heard = world.store.heard[life];
        let over = !world.is_current(&self.bounds, life);
        // Nobody hears of a life that is over; the bug keeps the wait as it was.
        let keeps = over && self.bounds.has(Bug::EndedLifeWaitKept);
        let wait = if keeps { world.arbiter[life].wait } else { self.bounds.wait() };
        world.arbiter[life] = Watch { heard, wait, over };
    }

    /// Whether the arbiter may propose to give the section to a life.
    pub(crate) fn can_propose(&self, world: &World, to: Life) -> bool {
        let owner = world.store.record.owner;
        let waited = |owner: Life| self.bounds.setting != Setting::Timed || world.arbiter[owner].wait == 0;
        world.left.reassigns > 0 && world.is_current(&self.bounds, to) && owner != Some(to) && owner.is_none_or(waited)
    }

    /// Proposes to give the section to a life.
    pub(crate) fn propose(&self, world: &mut World, to: Life) {
        world.left.reassigns -= 1;
        let record = world.store.record;
        let watch = record.owner.map(|owner| world.arbiter[owner]);
        let (heard, over) = watch.map_or((0, false), |watch| (watch.heard, watch.over));
        world.network.push(Message::Reassign { expected: record.epoch, heard, over, to });
    }

    /// Another member of the store leads; its arbiter starts fresh. What the old one proposed may still be applied.
    pub(crate) fn change_leader(&self, world: &mut World) {
        world.left.leaders -= 1;
        self.seen.mark(Event::LeaderChanged);
        if self.bounds.has(Bug::AnswerFromMemory) {
            world.store.deposed = Some(world.store.record);
        }
        for life in 0..LIVES {
            let over = !world.is_current(&self.bounds, life);
            world.arbiter[life] = Watch { heard: world.store.heard[life], wait: self.bounds.wait(), over };
        }
    }
}
