//! The quarantine of a restored set: requests of its leader, and responses of the other sets.

use seq_core::state::{BeginLineage, Command, CommandRefusal, EndQuarantine, Fence, SetRefusal};
use seq_core::{Lineage, SectionId};

use super::store::{Between, Origin};
use super::{World, index, set_id};
use crate::bugs::Bug;
use crate::faults::MS;

/// When a fence without a response is sent again.
const FENCE_AGAIN: u64 = 150 * MS;

impl World {
    /// Has the leader of a set in quarantine request missing records, and end the quarantine after its wait.
    pub(super) fn recover(&mut self, set: usize) {
        let state = &self.sets[set].state;
        let Some(wait) = state.quarantine_wait() else { return };
        let (lineage, lineages) = (state.lineage, state.quarantine_lineages());
        let wait = if self.bug == Some(Bug::WaitsByOwnTerms) { self.sets[set].terms.wait } else { wait };
        let now = self.leader_time(set);
        if self.sets[set].lineages != lineages {
            (self.sets[set].lineages, self.sets[set].waits_since) = (lineages, now);
        }
        let awaited = self.awaited(set);
        if awaited.is_empty() && now - self.sets[set].waits_since >= wait {
            return self.propose(set, Command::EndQuarantine(EndQuarantine { lineage }), Origin::Here);
        }
        if self.sets[set].fence_at <= self.now {
            self.sets[set].fence_at = self.now + FENCE_AGAIN;
            for (other, first) in awaited {
                self.send_to_set(set, other, Between::Fence { lineage, first });
            }
        }
    }

    /// The sets whose responses are not complete.
    pub(super) fn awaited(&self, set: usize) -> Vec<(usize, SectionId)> {
        let awaited = self.sets[set].state.awaited_responses();
        awaited.map(|(set, first)| (index(set), first)).collect()
    }

    pub(super) fn receive_recovery(&mut self, from: usize, set: usize, message: Between) {
        match message {
            Between::Fence { lineage, first } => self.respond_to_fence(set, from, lineage, first),
            Between::Page(page) => self.propose(set, Command::LearnRecords(page), Origin::Here),
            Between::TooFewRestores { lineage, least } => {
                let state = &self.sets[set].state;
                if state.is_quarantined() && state.lineage == lineage {
                    let lineage = Lineage(u64::from(least) << 32 | self.rng.below(1 << 16));
                    self.propose(set, Command::BeginLineage(BeginLineage { lineage }), Origin::Here);
                }
            }
            _ => {}
        }
    }

    /// Responds to a fence that the log has; has the log accept it first where it has not.
    pub(super) fn respond_to_fence(&mut self, set: usize, to: usize, lineage: Lineage, first: SectionId) {
        match self.sets[set].state.fence_response(set_id(to), lineage, first) {
            Ok(page) => self.send_to_set(set, to, Between::Page(page)),
            Err(CommandRefusal::BetweenSets(SetRefusal::FenceNotApplied { .. })) => {
                let fence = Command::Fence(Fence { set: set_id(to), lineage });
                self.propose(set, fence, Origin::Set(to, Between::Fence { lineage, first }));
            }
            Err(_) => {}
        }
    }
}
