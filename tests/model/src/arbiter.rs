//! The arbiter beside the store's leader: it watches who is heard of, waits, and proposes.
//!
//! It looks whenever it likes, so it may know less than the log at any time. What makes that harmless is that a Reassign
//! names what it saw.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{LIVES, Life, Message, StalledLook, Watch, World};

impl Protocol {
    /// Whether looking would show something new.
    pub(crate) fn can_look(&self, world: &World, life: Life) -> bool {
        let watch = world.arbiter[life];
        let over = !world.is_current(&self.bounds, life);
        // One thread looks: not while it stands still inside of another look.
        world.stalled.is_none() && world.is_born(life) && (watch.heard != world.store.heard[life] || watch.over != over)
    }

    /// Looks at the applied state and reads the clock: a life whose counter moved counts from now.
    pub(crate) fn look(&self, world: &mut World, life: Life) {
        let heard = world.store.heard[life];
        let over = !world.is_current(&self.bounds, life);
        self.date(world, life, heard, over, self.bounds.wait());
    }

    /// Whether the thread of the arbiter may be stopped inside of a look.
    pub(crate) fn can_stall(&self, world: &World, life: Life) -> bool {
        // With the bug it sees what comes while it is stopped, so there need not be anything new yet.
        let begins = self.bounds.has(Bug::ClockBeforeState) || self.can_look(world, life);
        world.left.stalls > 0 && world.stalled.is_none() && world.is_born(life) && begins
    }

    /// The thread is stopped between the state and the clock.
    pub(crate) fn begin_look(&self, world: &mut World, life: Life) {
        world.left.stalls -= 1;
        let over = !world.is_current(&self.bounds, life);
        world.stalled = Some(StalledLook { life, heard: world.store.heard[life], over, wait: self.bounds.wait() });
    }

    /// The thread goes on. What it read of the state counts from the clock that it reads now; the bug read the clock when it was
    /// stopped, and reads the state now.
    pub(crate) fn end_look(&self, world: &mut World) {
        let StalledLook { life, heard, over, wait } = world.stalled.take().expect("it is stopped");
        self.seen.mark(Event::StalledLookEnded);
        if self.bounds.has(Bug::ClockBeforeState) {
            let over = !world.is_current(&self.bounds, life);
            return self.date(world, life, world.store.heard[life], over, wait);
        }
        self.date(world, life, heard, over, self.bounds.wait());
    }

    /// Notes what was read of a life. One that is newly seen to be over counts from now as well: its counter may have moved since
    /// it was read last. Where it ended at the very count that was read last, the wait goes on; the bug lets it go on anyway.
    fn date(&self, world: &mut World, life: Life, heard: u8, over: bool, wait: i8) {
        let watch = world.arbiter[life];
        let ended_as_read = over && !watch.over && watch.heard == heard;
        if ended_as_read {
            self.seen.mark(Event::WaitGoesOn);
        }
        let keeps = ended_as_read || (over && self.bounds.has(Bug::EndedLifeWaitKept));
        let wait = if keeps { watch.wait } else { wait };
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
        world.stalled = None;
        for life in 0..LIVES {
            let over = !world.is_current(&self.bounds, life);
            world.arbiter[life] = Watch { heard: world.store.heard[life], wait: self.bounds.wait(), over };
        }
    }
}
