//! Restores of a set from its backup, and its quarantine.

use seq_core::Lineage;
use seq_core::migration::Coordinator;
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

    /// What the leader of a set in quarantine does.
    pub(super) fn recover(&mut self, set: usize) {
        let state = &self.sets[set].state;
        let Some(wait) = state.quarantine_wait() else { return };
        let (lineage, lineages) = (state.lineage, state.quarantine_lineages());
        let first = state.awaited_responses().map(|(_, first)| first).next();
        let known = &self.sets[set].lineages;
        if *known != lineages {
            (self.sets[set].lineages, self.sets[set].waits_since) = (lineages, self.now);
        }
        match first {
            Some(first) if self.sets[set].fence_at <= self.now => {
                self.sets[set].fence_at = self.now + FENCE_AGAIN;
                self.send_to_set(1 - set, Between::Fence { lineage, first });
            }
            None => {
                let waited = self.now - self.sets[set].waits_since >= wait.as_nanos() as u64;
                if waited || self.bug == Some(Bug::QuarantineWithoutWait) {
                    self.propose(set, Command::EndQuarantine(EndQuarantine { lineage }), Origin::Here);
                }
            }
            Some(_) => {}
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
                let state = &self.sets[set].state;
                if state.is_quarantined() && state.lineage == lineage {
                    let count = least.max(state.least_restores());
                    let lineage = Lineage(u64::from(count) << 32 | self.rng.below(1 << 16));
                    self.propose(set, Command::BeginLineage(BeginLineage { lineage }), Origin::Here);
                }
            }
            _ => {}
        }
    }
}

const _: () = assert!(SETS == 2);
