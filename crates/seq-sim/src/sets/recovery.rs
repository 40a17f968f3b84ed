//! Restores of a set from its backup, and its quarantine.

use std::time::Duration;

use seq_core::Lineage;
use seq_core::migration::Coordinator;
use seq_core::quarantine::{Quarantine, Step, next_count};
use seq_core::state::{BeginLineage, Command, EndQuarantine, Fence};

use super::store::{Between, Origin, arbiter};
use super::{SETS, World, set_id};
use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::MS;

/// When a fence without a response is sent again.
const FENCE_AGAIN: u64 = 100 * MS;

impl World {
    /// A set continues from its backup. Its processes do not know.
    pub(super) fn restore(&mut self, set: usize) {
        let Some(mut state) = self.sets[set].backup.clone() else { return };
        // The operator asks all sets; one that is restored at the same time may not respond.
        let own = self.sets[set].state.lineage;
        let asked = self.sets.iter().map(|one| one.state.lineage.restores()).max().unwrap_or_default();
        let known = if self.rng.chance(300) { own.restores() } else { asked };
        let restores = (known + 1).max(state.least_restores());
        let lineage = Lineage(u64::from(restores) << 32 | self.rng.below(1 << 16));
        if lineage.restores() <= own.restores() || state.restore(lineage).is_err() {
            return;
        }
        let (now, other) = (self.now, &self.sets[1 - set].state);
        self.coverage.saw(Situation::Restored);
        if other.is_quarantined() {
            self.coverage.saw(Situation::BothQuarantined);
        }
        self.trace.note(now, [5, set as u64, lineage.0], || format!("set {set} is restored: lineage {lineage}"));
        let one = &mut self.sets[set];
        one.state = state;
        (one.log, one.fence_at) = (one.log + 1, 0);
        (one.arbiter, one.coordinator, one.plan) = (arbiter(), Coordinator::default(), std::sync::Arc::default());
        if self.bug == Some(Bug::ServesAtOnce) {
            self.serve_at_once(set);
        }
    }

    /// Does the next step of the leader of a set in quarantine.
    pub(super) fn recover(&mut self, set: usize) {
        let (now, one) = (Duration::from_nanos(self.now), &mut self.sets[set]);
        one.quarantine = Quarantine::of(one.quarantine.take(), &one.state, now);
        let Some(quarantine) = &one.quarantine else { return };
        let lineage = quarantine.lineage();
        match quarantine.step(&one.state, now) {
            Step::Fence(awaited) => {
                if one.fence_at <= self.now {
                    one.fence_at = self.now + FENCE_AGAIN;
                    self.send_to_set(1 - set, Between::Fence { lineage, first: awaited[0].1 });
                }
            }
            Step::Wait(_) if self.bug == Some(Bug::QuarantineWithoutWait) => {
                self.propose(set, Command::EndQuarantine(EndQuarantine { lineage }), Origin::Here);
            }
            Step::End(end) => self.propose(set, Command::EndQuarantine(end), Origin::Here),
            Step::Wait(_) | Step::Restart => {}
        }
    }

    pub(super) fn receive_recovery(&mut self, set: usize, message: Between) {
        let from = set_id(1 - set);
        match message {
            Between::Fence { lineage, first } if self.bug == Some(Bug::QuarantineByReading) => {
                self.respond_by_reading(set, lineage, first);
            }
            Between::Fence { lineage, first } => {
                let fence = Command::Fence(Fence { set: from, lineage });
                self.propose(set, fence, Origin::Set(Between::Fence { lineage, first }));
            }
            Between::Page(page) => self.propose(set, Command::LearnRecords(page), Origin::Here),
            Between::TooFewRestores { lineage, least } => {
                if let Some(count) = next_count(&self.sets[set].state, lineage, least) {
                    let lineage = Lineage(u64::from(count) << 32 | self.rng.below(1 << 16));
                    self.propose(set, Command::BeginLineage(BeginLineage { lineage }), Origin::Here);
                }
            }
            _ => {}
        }
    }
}

const _: () = assert!(SETS == 2);
