//! A store that is put back to an earlier state. The data directories of all its members are replaced by copies of the
//! same instant, while AllocSvrs continue. The processes apply the rules of `seq_core::high_water` as `seq-alloc` does.
//!
//! **Promise:** if a process has received a response about entries that the store has lost since, it uses no response
//! to a later request, and stops permanently. If every running process has received such a response, no number is
//! allocated twice. A process that detects the loss stops only itself. A process that has received no such response
//! cannot detect the loss, and may be granted numbers that are allocated already. Therefore the store is put back only
//! to a state that is behind the responses of every running process, and no process is started afterwards.
//!
//! The counters of the store show the loss only while they are lower than before. They no longer show it if the store
//! has passed the lost revision again, and has also applied as many commands of the process, without a response that
//! reached the process. In this case, the world ends without a result.

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

/// The time after which a stopped process is started again in a set that was restored.
const RESTART: u64 = 300 * MS;

/// The set whose store is put back, which is the only set of such worlds.
const ROLLED_BACK: usize = 0;

impl Store {
    /// Returns the name of a section's owner, if the section is in this set and has an owner.
    pub(crate) fn owner_name(&self, section: SectionId) -> Option<usize> {
        let owner = self.state.sections.resident(section)?.owner?;
        self.state.node(owner)?.name.parse().ok()
    }
}

impl World {
    /// Keeps the state for a later rollback, before an entry is applied.
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

    /// Puts all members back to the state that they had at an earlier instant, and starts them again.
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
        // Messages to members, and entries in progress in members and between members, are lost with the processes of
        // the members.
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

    /// Returns whether a process may use a response of the store; stops the process if it may not.
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

    /// Returns whether a refusal of a handover shows that the store has lost entries. `current` is the incarnation of
    /// the target that the refusal states.
    pub(crate) fn shows_lost_target(&self, handover: &Handover, current: Incarnation) -> bool {
        let trusts = self.bug == Some(Bug::TrustsRolledBackStore);
        !trusts && Refused::Incarnation(current).shows_loss(handover.incarnation, RenewSeq(0))
    }

    /// Stops a process permanently, so that it serves no call and sends no request to the store. In a restored set, an
    /// operator starts the process again.
    pub(crate) fn stop(&mut self, p: usize, why: &str) {
        self.coverage.saw(Situation::Stopped);
        let now = self.now;
        self.trace.note(now, [10, p as u64, 0], || format!("process {p} stops: {why}"));
        let (name, store) = (self.procs[p].name, &self.stores[self.procs[p].set()]);
        if store.restores > 0 {
            // An operator starts stopped processes again after each restore.
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

    /// Checks that a process uses no response of a store that is behind. The store is behind if its state is older than
    /// the newest response that the process had received when it sent the request.
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

    /// Checks, after all faults have ended, that each running process has detected the loss.
    pub(crate) fn require_stopped(&mut self) {
        let unstopped = self.procs.iter().position(|process| process.alive && !process.stopped);
        if let Some(p) = unstopped {
            let text = format!("process {p} goes on, although the store was put back");
            self.check.broken(self.now, "each process that knows more than the store stops", text);
        }
    }
}
