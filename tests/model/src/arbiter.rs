//! The arbiter, which runs at the store's leader: it observes liveness counters, waits, and proposes changes of owner.
//!
//! It evaluates at any time, so its observations may be behind the log. That is harmless, because a Reassign carries
//! them.

use crate::bounds::{Bug, Setting};
use crate::events::Event;
use crate::protocol::Protocol;
use crate::world::{Message, Observed, SESSIONS, Session, StalledEvaluation, World};

impl Protocol {
    /// Returns whether an evaluation would observe something new.
    pub(crate) fn can_evaluate(&self, world: &World, session: Session) -> bool {
        let observed = world.arbiter[session];
        let over = !world.is_current(&self.bounds, session);
        // One thread evaluates, so it does not evaluate while it is stalled within another evaluation.
        world.stalled.is_none()
            && world.exists(session)
            && (observed.liveness != world.store.liveness[session] || observed.over != over)
    }

    /// Reads the applied state, then the clock: the wait for a session whose counter moved begins now.
    pub(crate) fn evaluate(&self, world: &mut World, session: Session) {
        let liveness = world.store.liveness[session];
        let over = !world.is_current(&self.bounds, session);
        self.record_observation(world, session, liveness, over, self.bounds.wait());
    }

    /// Returns whether the arbiter's thread may stall within an evaluation.
    pub(crate) fn can_stall(&self, world: &World, session: Session) -> bool {
        // With the bug it observes entries that are applied while it is stalled, so nothing new is needed yet.
        let begins = self.bounds.has(Bug::ClockBeforeState) || self.can_evaluate(world, session);
        world.left.stalls > 0 && world.stalled.is_none() && world.exists(session) && begins
    }

    /// Stalls the thread between the state and the clock.
    pub(crate) fn begin_evaluation(&self, world: &mut World, session: Session) {
        world.left.stalls -= 1;
        let over = !world.is_current(&self.bounds, session);
        world.stalled = Some(StalledEvaluation {
            session,
            liveness: world.store.liveness[session],
            over,
            wait: self.bounds.wait(),
        });
    }

    /// Continues the thread. Its observation is dated by the clock that it reads now; the bug read the clock when it
    /// stalled, and reads the state now.
    pub(crate) fn end_evaluation(&self, world: &mut World) {
        let StalledEvaluation { session, liveness, over, wait } = world.stalled.take().expect("it is stalled");
        self.events.mark(Event::StalledEvaluationEnded);
        if self.bounds.has(Bug::ClockBeforeState) {
            let over = !world.is_current(&self.bounds, session);
            return self.record_observation(world, session, world.store.liveness[session], over, wait);
        }
        self.record_observation(world, session, liveness, over, self.bounds.wait());
    }

    /// Records the observation of a session. If the session is newly observed to be over, its wait also begins now,
    /// because its counter may have moved since the last observation. If it ended at the count that was observed last,
    /// the wait continues; with the bug it always continues.
    fn record_observation(&self, world: &mut World, session: Session, liveness: u8, over: bool, wait: i8) {
        let observed = world.arbiter[session];
        let ended_as_read = over && !observed.over && observed.liveness == liveness;
        if ended_as_read {
            self.events.mark(Event::WaitGoesOn);
        }
        let keeps = ended_as_read || (over && self.bounds.has(Bug::EndedSessionWaitKept));
        let wait = if keeps { observed.wait } else { wait };
        world.arbiter[session] = Observed { liveness, wait, over };
    }

    /// Returns whether the arbiter may propose a session as the owner.
    pub(crate) fn can_propose(&self, world: &World, to: Session) -> bool {
        let owner = world.store.record.owner;
        let waited = |owner: Session| self.bounds.setting != Setting::Timed || world.arbiter[owner].wait == 0;
        world.left.reassigns > 0 && world.is_current(&self.bounds, to) && owner != Some(to) && owner.is_none_or(waited)
    }

    /// Proposes a session as the owner.
    pub(crate) fn propose(&self, world: &mut World, to: Session) {
        world.left.reassigns -= 1;
        let record = world.store.record;
        let observed = record.owner.map(|owner| world.arbiter[owner]);
        let (liveness, over) = observed.map_or((0, false), |observed| (observed.liveness, observed.over));
        world.network.push(Message::Reassign { expected: record.epoch, liveness, over, to });
    }

    /// Makes another member of the store the leader; its arbiter starts empty. Proposals of the earlier leader may
    /// still be applied.
    pub(crate) fn change_leader(&self, world: &mut World) {
        world.left.leaders -= 1;
        self.events.mark(Event::LeaderChanged);
        if self.bounds.has(Bug::ResponseFromMemory) {
            world.store.deposed = Some(world.store.record);
        }
        world.stalled = None;
        for session in 0..SESSIONS {
            let over = !world.is_current(&self.bounds, session);
            world.arbiter[session] =
                Observed { liveness: world.store.liveness[session], wait: self.bounds.wait(), over };
        }
    }
}
