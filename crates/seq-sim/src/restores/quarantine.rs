//! The quarantine of a restored set in worlds of restores. The leader of the restored set sends fences to the other
//! sets, which respond with their records.

use seq_core::quarantine::{Quarantine, Step, next_count};
use seq_core::state::{BeginLineage, Command, CommandRefusal, EndQuarantine, Fence, NoteClock, SetRefusal};
use seq_core::{Lineage, SectionId};

use super::store::{Between, Origin};
use super::{World, index, set_id};
use crate::bugs::Bug;
use crate::faults::MS;

/// The time after which a fence without a response is sent again.
const FENCE_AGAIN: u64 = 150 * MS;

impl World {
    /// Does the next step of a set's quarantine at its leader. Requests missing records from other sets, or ends the
    /// quarantine after its wait. Does nothing if the set is not in quarantine.
    pub(super) fn recover(&mut self, set: usize) {
        let now = self.leader_time(set);
        let one = &mut self.sets[set];
        one.quarantine = Quarantine::of(one.quarantine.take(), &one.state, now);
        let Some(quarantine) = &one.quarantine else { return };
        let lineage = quarantine.lineage();
        let is_over_by_own_terms = quarantine.waited(now) >= one.terms.wait;
        match quarantine.step(&one.state, now) {
            Step::Fence(awaited) => {
                if one.fence_at <= self.now {
                    one.fence_at = self.now + FENCE_AGAIN;
                    for (other, first) in awaited {
                        self.send_to_set(set, index(other), Between::Fence { lineage, first });
                    }
                }
            }
            Step::Wait(_) if self.bug == Some(Bug::WaitsByOwnTerms) && is_over_by_own_terms => {
                self.propose(set, Command::EndQuarantine(EndQuarantine { lineage }), Origin::Here);
            }
            Step::NoteClock => {
                let unix_ms = now.as_millis() as u64;
                self.propose(set, Command::NoteClock(NoteClock { unix_ms }), Origin::Here);
            }
            Step::End(end) => self.propose(set, Command::EndQuarantine(end), Origin::Here),
            Step::Wait(_) | Step::Restart => {}
        }
    }

    /// Returns the other sets whose responses to the fence of `set` are not complete, each with the first section that
    /// is missing in its response.
    pub(super) fn awaited(&self, set: usize) -> Vec<(usize, SectionId)> {
        let awaited = self.sets[set].state.awaited_responses();
        awaited.map(|(set, first)| (index(set), first)).collect()
    }

    pub(super) fn receive_recovery(&mut self, from: usize, set: usize, message: Between) {
        match message {
            Between::Fence { lineage, first } => self.respond_to_fence(set, from, lineage, first),
            Between::Page(page, series) => {
                self.adopt_series(set, series);
                self.propose(set, Command::LearnRecords(page), Origin::Here);
            }
            Between::TooFewRestores { lineage, least } => {
                if let Some(count) = next_count(&self.sets[set].state, lineage, least) {
                    // The planted bug includes the former rule for the new lineage, by which its count is the count
                    // that the other set requires.
                    let count = if self.bug == Some(Bug::FenceOfOwnCount) { least } else { count };
                    let lineage = Lineage(u64::from(count) << 32 | self.rng.below(1 << 16));
                    self.propose(set, Command::BeginLineage(BeginLineage { lineage }), Origin::Here);
                }
            }
            _ => {}
        }
    }

    /// Responds to a fence from the set `to`, if the log of `set` has accepted the fence. Otherwise proposes the fence
    /// to the log; the response is sent after its application.
    pub(super) fn respond_to_fence(&mut self, set: usize, to: usize, lineage: Lineage, first: SectionId) {
        match self.sets[set].state.fence_response(set_id(to), lineage, first) {
            Ok(page) => {
                let series = Box::new(self.sets[set].state.stated_series());
                self.send_to_set(set, to, Between::Page(page, series));
            }
            Err(CommandRefusal::BetweenSets(SetRefusal::FenceNotApplied { .. })) => {
                let fence = Command::Fence(Fence { set: set_id(to), lineage });
                self.propose(set, fence, Origin::Set(to, Between::Fence { lineage, first }));
            }
            Err(_) => {}
        }
    }
}
