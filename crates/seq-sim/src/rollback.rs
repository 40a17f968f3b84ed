//! Faults in which a store is put back to an earlier state. The data directories of all members of the store are
//! replaced by copies of the same earlier instant, while the AllocSvrs continue to run. The AllocSvrs detect this by
//! the rules of `seq_core::high_water`, as in `seq-alloc`.
//!
//! **Promise:** if a process has received a response that covers entries that the store has lost since, then the
//! process uses no response to a later request, and stops permanently. If every running process has received such a
//! response, no number is allocated twice. A process that has received no such response cannot detect the loss, and the
//! store may grant it numbers that are allocated already. Therefore the simulation puts the store back only to a state
//! that is older than the newest response to each running process, and starts no process afterwards.
//!
//! A process detects the loss by two counters in a response, the revision of the store and the liveness counter of the
//! node. Neither shows the loss if, before the next response reaches the process, the store has again applied more
//! commands than before the loss, both in total and of this node. In this case, the simulation of the world ends
//! without a result.

use std::cmp::Reverse;

use seq_core::high_water::{Mark, Refused};
use seq_core::owner::handover::Handover;
use seq_core::{Incarnation, RenewSeq, SectionId};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, Queued, StoreStep};
use crate::faults::MS;
use crate::hosts::MEMBERS;
use crate::net::{Address, StoreResponse};
use crate::session::{Purpose, Rpc};
use crate::store::{Entry, Store};
use crate::swarm::MOST_BACK_MS;
use crate::world::World;

/// The time after which the operator starts a stopped process of a restored set again.
const RESTART: u64 = 300 * MS;

/// The set whose store is put back. It is the only set of its world.
const ROLLED_BACK: usize = 0;

impl Store {
    /// Returns the name of the owner of a section, if the section is in the set of this store and has an owner.
    pub(crate) fn owner_name(&self, section: SectionId) -> Option<usize> {
        let owner = self.state.sections.resident(section)?.owner?;
        self.state.node(owner)?.name.parse().ok()
    }
}

impl World {
    /// Keeps a copy of the state of a store, to which the store can be put back later. Must be called before an entry
    /// is applied.
    pub(crate) fn keep_state(&mut self, set: usize) {
        if self.stores[set].rolled_back.is_some() || !self.swarm.rolls_back() {
            return;
        }
        let oldest = self.now.saturating_sub(MOST_BACK_MS * MS);
        let Store { state, earlier, .. } = &mut self.stores[set];
        while earlier.front().is_some_and(|(left, _)| *left < oldest) {
            earlier.pop_front();
        }
        earlier.push_back((self.now, state.clone()));
    }

    /// Puts all members of the store back to their state of `back` nanoseconds ago or earlier, and starts them again.
    /// Does nothing if no kept state is older than the newest response to each running process.
    pub(crate) fn roll_back(&mut self, back: u64) {
        let store = &self.stores[ROLLED_BACK];
        let running = self.procs.iter().filter(|process| process.alive);
        let known = running.map(|process| process.answered.revision).min().unwrap_or_default();
        let instant = self.now - back;
        let restored = store.earlier.iter().rev().find(|(left, state)| *left <= instant && state.revision < known);
        let Some((_, restored)) = restored.cloned() else { return };
        self.coverage.saw(Situation::RolledBack);
        let now = self.now;
        let lost = (store.state.revision, restored.revision);
        self.trace
            .note(now, [9, lost.1.0, 0], || format!("the store is put back from revision {} to {}", lost.0, lost.1));
        // The members' processes end, so messages to members and entries that are not applied yet are lost, except
        // commands of operators.
        self.queue.retain(|Reverse(Queued { event, .. })| match &**event {
            Event::Message { to: Address::Member(_), .. } => false,
            Event::Store(StoreStep::Apply(_, entry)) => {
                matches!(**entry, Entry::Terms(_) | Entry::Drain(..) | Entry::Move(..) | Entry::PauseBalancing)
            }
            Event::Store(_) => false,
            _ => true,
        });
        let store = &mut self.stores[ROLLED_BACK];
        store.rolled_back = Some(restored.revision);
        store.state = restored;
        store.earlier.clear();
        store.seats = [const { None }; MEMBERS];
        self.lead(self.stores[ROLLED_BACK].leader);
    }

    /// Returns whether process `p` may use a response of the store. If the response shows that the store has lost
    /// entries, stops the process and returns false.
    pub(crate) fn may_use(&mut self, p: usize, rpc: &Rpc, rollbacks: u32, response: &StoreResponse) -> bool {
        let trusts = self.bug == Some(Bug::TrustsRolledBackStore);
        let counts = !matches!(rpc.purpose, Purpose::Register);
        let process = &mut self.procs[p];
        if process.stopped {
            return false;
        }
        if let Some(mark) = response.mark() {
            let taken = process.water.on_response(rpc.seen, mark, counts);
            if let Err(behind) = taken
                && !trusts
            {
                self.stop(p, &behind.to_string());
                return false;
            }
            self.look_at_use(p, rpc.answered, mark, counts, rollbacks);
            let answered = &mut self.procs[p].answered;
            answered.revision = answered.revision.max(mark.revision);
            answered.liveness = answered.liveness.max(mark.liveness);
        }
        let Some(refused) = response.refused() else { return true };
        let process = &self.procs[p];
        let session = match &rpc.purpose {
            Purpose::Register => None,
            Purpose::Renew(renewal) => Some(renewal.session),
            Purpose::Raise(batch) => Some(batch.session()),
            Purpose::Commit(handover) => Some(handover.session),
        };
        let incarnation = session.map_or(process.registrations.follows(), |session| session.incarnation);
        let renewal = process.owner.renewal().filter(|renewal| Some(renewal.session) == session);
        let renewed = RenewSeq(renewal.map_or(0, |renewal| renewal.renew_seq.0 - 1));
        if trusts || !refused.shows_loss(incarnation, renewed) {
            return true;
        }
        if matches!(response, StoreResponse::Behind) {
            self.coverage.saw(Situation::SeenMore);
        }
        self.stop(p, &format!("{refused:?} for incarnation {incarnation} after {renewed} renewals"));
        false
    }

    /// Returns whether the refusal of a handover shows that the store has lost entries. `current` is the newest
    /// incarnation of the handover's target that the refusal states.
    pub(crate) fn shows_lost_target(&self, handover: &Handover, current: Incarnation) -> bool {
        let trusts = self.bug == Some(Bug::TrustsRolledBackStore);
        !trusts && Refused::Incarnation(current).shows_loss(handover.incarnation, RenewSeq(0))
    }

    /// Stops process `p` permanently, so that it serves no more calls and sends no more requests to the store. In a set
    /// that was restored, ends the process and schedules the start of a new process, as an operator would.
    pub(crate) fn stop(&mut self, p: usize, why: &str) {
        self.coverage.saw(Situation::Stopped);
        let now = self.now;
        self.trace.note(now, [10, p as u64, 0], || format!("process {p} stops: {why}"));
        let (name, store) = (self.procs[p].name, &self.stores[self.procs[p].set()]);
        if store.restores > 0 {
            // After a restore, an operator starts stopped processes again.
            self.kill(p);
            return self.after(RESTART, Event::Start(name));
        }
        if store.rolled_back.is_none() {
            let text = format!("process {p} stopped: {why}");
            self.check.broken(now, "a store that lost nothing stops no process", text);
        }
        self.procs[p].stopped = true;
        if let Some(session) = self.procs[p].owner.session() {
            self.step(p, |owner, effects| owner.on_session_over(session, effects));
        }
    }

    /// Checks that process `p` uses no response of a store that was put back to a state older than the newest response
    /// that the process had received when it sent the request.
    fn look_at_use(&mut self, p: usize, answered: Mark, mark: Mark, counts: bool, rollbacks: u32) {
        let Some(restored) = self.stores[self.procs[p].set()].rolled_back else { return };
        if rollbacks == 0 || answered.revision <= restored {
            return;
        }
        let liveness = if counts { mark.liveness > answered.liveness } else { mark.liveness >= answered.liveness };
        if mark.revision > answered.revision && liveness {
            // No counter shows the loss.
            self.coverage.saw(Situation::Masked);
            self.over = true;
            return;
        }
        let text = format!("process {p} was answered {answered:?}, and uses an answer of a store at {mark:?}");
        self.check.broken(self.now, "a store that is behind is not served from", text);
    }

    /// Checks, at the end of the world, that each running process has detected that the store was put back, and has
    /// stopped.
    pub(crate) fn require_stopped(&mut self) {
        let unstopped = self.procs.iter().position(|process| process.alive && !process.stopped);
        if let Some(p) = unstopped {
            let text = format!("process {p} goes on, although the store was put back");
            self.check.broken(self.now, "each process that knows more than the store stops", text);
        }
    }
}
