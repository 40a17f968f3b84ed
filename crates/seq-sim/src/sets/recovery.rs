//! Restores of a set from its backup, and its quarantine.

use seq_core::quarantine::{Quarantine, Step, next_count};
use seq_core::state::{BeginLineage, Closing, Command, EndQuarantine, Fence, NoteClock};
use seq_core::{Lineage, SetId};

use super::between::{Asked, Between};
use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, StoreStep};
use crate::faults::{MS, SECOND};
use crate::hosts::{MEMBERS, set_of_member};
use crate::world::World;
use std::cmp::Reverse;

/// The time after which a fence without a response is sent again.
const FENCE_AGAIN: u64 = 100 * MS;

impl World {
    /// Restores a set from its backup, without notice to its processes. Does nothing if the set has no backup or is
    /// closing.
    pub(crate) fn restore(&mut self, set: usize) {
        let store = &self.stores[set];
        let Some(mut state) = store.backup.clone().filter(|_| store.state.closing == Closing::Open) else { return };
        // The operator reads the count of restores of all sets. In some restores, the other set does not respond,
        // because it is being restored, too.
        let own = store.state.lineage;
        let asked = self.stores.iter().map(|one| one.state.lineage.restores()).max().unwrap_or_default();
        let known = if self.rng.chance(300) { own.restores() } else { asked };
        let restores = (known + 1).max(state.least_restores());
        let lineage = Lineage(u64::from(restores) << 32 | self.rng.below(1 << 16));
        if lineage.restores() <= own.restores() || state.restore(lineage).is_err() {
            return;
        }
        let now = self.now;
        self.coverage.saw(Situation::Restored);
        if self.stores.iter().enumerate().any(|(other, store)| other != set && store.state.is_quarantined()) {
            self.coverage.saw(Situation::BothQuarantined);
        }
        self.trace.note(now, [12, set as u64, lineage.0], || format!("set {set} is restored: lineage {lineage}"));
        // The members' processes end, so entries that are not applied yet and responses that are not sent yet are lost.
        self.queue.retain(|Reverse(queued)| match &*queued.event {
            Event::Store(StoreStep::Apply(of, _)) => *of != set,
            Event::Store(StoreStep::Answer(requester, ..)) => set_of_member(requester.member) != set,
            Event::Store(StoreStep::Look(member, _) | StoreStep::LookOn(member, ..)) => set_of_member(*member) != set,
            _ => true,
        });
        let store = &mut self.stores[set];
        (store.state, store.restores) = (state, store.restores + 1);
        store.seats = [const { None }; MEMBERS];
        self.lead(self.stores[set].leader);
        let wait = self.rng.between(3 * SECOND, 7 * SECOND);
        self.after(wait, Event::TimePasses);
        if self.bug == Some(Bug::ServesAtOnce) {
            self.serve_at_once(set);
        }
    }

    /// Does the next step of a quarantine at `member`, if it believes that it leads its store and its set is in
    /// quarantine.
    pub(crate) fn recover(&mut self, member: usize) {
        let (set, now) = (set_of_member(member), self.now);
        let Some((seat, time)) = self.seat_and_time(member) else { return };
        let (known, fence_at) = (seat.quarantine.take(), seat.fence_at);
        let state = &self.stores[set].state;
        let quarantine = Quarantine::of(known, state, time);
        let Some((step, lineage)) = quarantine.as_ref().map(|one| (one.step(state, time), one.lineage())) else {
            return;
        };
        self.seat(member).as_mut().expect("it evaluates").quarantine = quarantine;
        match step {
            Step::Fence(awaited) if fence_at <= now => {
                self.seat(member).as_mut().expect("it evaluates").fence_at = now + FENCE_AGAIN;
                for (other, first) in awaited {
                    self.send_to_set(member, crate::hosts::index_of(other), Between::Fence { lineage, first });
                }
            }
            Step::Wait(_) if self.bug == Some(Bug::QuarantineWithoutWait) => {
                self.propose_command(member, EndQuarantine { lineage }, None);
            }
            Step::NoteClock => {
                let unix_ms = self.store_ms(set);
                self.propose_command(member, NoteClock { unix_ms }, None);
            }
            Step::End(end) => self.propose_command(member, end, None),
            Step::Fence(_) | Step::Wait(_) | Step::Restart => {}
        }
    }

    pub(crate) fn fence(&mut self, member: usize, set: SetId, lineage: Lineage, asked: Option<Asked>) {
        self.propose_command(member, Fence { set, lineage }, asked);
    }

    /// Lets a member of a set in quarantine propose another lineage, because another set has refused the fence of the
    /// lineage `refused`. The count of restores in the new lineage is at least `least`.
    pub(crate) fn begin_lineage(&mut self, member: usize, refused: Lineage, least: u32) {
        if let Some(count) = next_count(&self.stores[set_of_member(member)].state, refused, least) {
            let lineage = Lineage(u64::from(count) << 32 | self.rng.below(1 << 16));
            self.propose_command(member, Command::BeginLineage(BeginLineage { lineage }), None);
        }
    }
}
