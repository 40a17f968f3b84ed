//! The arbiter, which runs at the store's leader: it observes liveness counters, waits, and proposes changes of owner.
//!
//! It evaluates at any time, so its observations may be behind the log. That is harmless, because a Reassign carries
//! them.

use crate::bounds::{Bug, Setting};
use crate::events::Event;
use crate::protocol::Protocol;
use crate::world::{Message, Observed, SECOND, SESSIONS, Session, StalledEvaluation, World};

impl Protocol {
    /// Returns whether an evaluation would observe something new.
    pub(crate) fn can_evaluate(&self, world: &World, session: Session) -> bool {
        // One thread evaluates, so it does not evaluate while it is stalled within another evaluation.
        world.stalled.is_none() && world.exists(session) && {
            let Observed { liveness, over, died, .. } = self.current_observation(world, session);
            let observed = world.arbiter[session];
            (observed.liveness, observed.over, observed.died) != (liveness, over, died)
        }
    }

    /// Returns an observation of the applied state, with a wait that begins now.
    fn current_observation(&self, world: &World, session: Session) -> Observed {
        Observed {
            liveness: world.store.liveness[session],
            wait: self.bounds.wait(),
            over: world.is_over(&self.bounds, session),
            died: world.store.died[session],
        }
    }

    /// Reads the applied state, then the clock: the wait for a session whose counter moved begins now.
    pub(crate) fn evaluate(&self, world: &mut World, session: Session) {
        self.record_observation(world, session, self.current_observation(world, session));
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
        let observed = self.current_observation(world, session);
        world.stalled = Some(StalledEvaluation { session, observed });
    }

    /// Continues the thread. Its observation is dated by the clock that it reads now; the bug read the clock when it
    /// stalled, and reads the state now.
    pub(crate) fn end_evaluation(&self, world: &mut World) {
        let StalledEvaluation { session, observed } = world.stalled.take().expect("it is stalled");
        self.events.mark(Event::StalledEvaluationEnded);
        let observed = if self.bounds.has(Bug::ClockBeforeState) {
            Observed { wait: observed.wait, ..self.current_observation(world, session) }
        } else {
            Observed { wait: self.bounds.wait(), ..observed }
        };
        self.record_observation(world, session, observed);
    }

    /// Records the observation of a session. If the session is newly observed to be over, its wait also begins now,
    /// because its counter may have moved since the last observation. If it ended at the count that was observed last,
    /// the wait continues; with the bug it always continues. If the death of its process was reported since the last
    /// observation, the wait is over.
    fn record_observation(&self, world: &mut World, session: Session, new: Observed) {
        let last = world.arbiter[session];
        let ended_as_read = new.over && !last.over && last.liveness == new.liveness;
        if ended_as_read {
            self.events.mark(Event::WaitGoesOn);
        }
        let keeps = ended_as_read || (new.over && self.bounds.has(Bug::EndedSessionWaitKept));
        let wait = if keeps { last.wait } else { new.wait };
        let is_reported = new.died && !last.died;
        if is_reported && wait > 0 {
            self.events.mark(Event::WaitEndedByReport);
        }
        world.arbiter[session] = Observed { wait: if is_reported { 0 } else { wait }, ..new };
        if is_reported
            && session == SECOND
            && self.bounds.has(Bug::DeathOfEarlier)
            && let Some(earlier) = self.bounds.reregistered
        {
            world.arbiter[earlier].wait = 0;
        }
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

    /// Makes another member of the store the leader; its arbiter starts empty, and a death in its first state ends no
    /// wait. Proposals of the earlier leader may still be applied.
    pub(crate) fn change_leader(&self, world: &mut World) {
        world.left.leaders -= 1;
        self.events.mark(Event::LeaderChanged);
        if self.bounds.has(Bug::ResponseFromMemory) {
            world.store.deposed = Some(world.store.record);
        }
        world.stalled = None;
        for session in 0..SESSIONS {
            world.arbiter[session] = self.current_observation(world, session);
            if world.store.died[session] {
                self.events.mark(Event::DeathBeforeArbiter);
            }
        }
    }
}
