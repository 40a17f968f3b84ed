//! What plans of membership changes rest on, and the lock under which every change of an operator is compared and made.
//!
//! **Invariant:** what a leader compared still holds when its change is applied. The lock keeps away the other changes
//! of this leader; those that were begun before, by this leader or a former one, are applied before the comparison; and
//! a later leader commits no entry of this one that it does not have already, so an entry is applied behind what was
//! compared or never (`docs/adr/0027-plans-are-compared-by-the-leader.md`).
//!
//! An id belongs to one disk for good and a removed one never returns, so a list of ids that is the same was never
//! another one in between: the position of the list in the log is not needed beside it. Without it, a plan to add
//! members outlives the first half of its own change.

use std::collections::{BTreeMap, BTreeSet};

use seq_core::plan::{Fingerprint, Preconditions};
use tokio::sync::MutexGuard;

use super::changes::{ChangeError, MemberChanges};
use super::plan::{Group, MembershipRequest};
use crate::types::Member;

/// Held while a change of an operator is compared and made.
#[must_use]
#[derive(Debug)]
pub struct ChangeGuard<'a> {
    _one: MutexGuard<'a, ()>,
}

impl MemberChanges {
    /// Waits for the changes under way, the other operators' and the former leaders', until they are applied here; none
    /// is begun before the guard is dropped.
    ///
    /// A request that was cancelled or timed out may have left its entry behind, not applied and not even written. One
    /// more entry, applied, is behind all of them.
    pub(crate) async fn exclusive(&self) -> Result<ChangeGuard<'_>, ChangeError> {
        let waited = tokio::time::timeout(self.commit_timeout, self.one.lock()).await;
        let one = waited.map_err(|_| ChangeError::InProgress)?;
        // Of all commands the one that changes nothing: the id of a member that leads is in use.
        self.proposer.propose_anew(|| self.replica.claim_member_id(*self.raft.node_id())).await?;
        Ok(ChangeGuard { _one: one })
    }

    /// What the plan of a change of voters rests on: the set and its lineage, the change, and the list of members
    /// without the learners that the change is about.
    pub(super) fn plan_of_voters(&self, group: &Group, request: &MembershipRequest) -> Fingerprint {
        let about = |id: &u64| request.add.contains(id) || request.remove.contains(id);
        let change = self.preconditions("voters").numbers(request.add.iter().copied());
        let change = change.numbers(request.remove.iter().copied()).flag(request.allow_even);
        members(change, group, about).fingerprint()
    }

    /// What the plan to add members without a vote rests on: the set and its lineage, the new members, and the list of
    /// the others.
    pub(super) fn plan_of_learners(&self, group: &Group, wanted: &BTreeMap<u64, Member>) -> Fingerprint {
        let mut change = self.preconditions("learners").numbers(wanted.keys().copied());
        for Member { name, addr, raft_addr, .. } in wanted.values() {
            change = change.text(name).text(addr).text(raft_addr);
        }
        members(change, group, |id| wanted.contains_key(id)).fingerprint()
    }

    /// What the plan of a transfer of leadership rests on: the set and its lineage, the target, and the list of
    /// members. Not the leader: it changes by itself.
    pub(super) fn plan_of_transfer(&self, group: &Group, to: u64) -> Fingerprint {
        members(self.preconditions("leader").number(to), group, |_| false).fingerprint()
    }

    /// What the plan of a raise of the format rests on: the set and its lineage, both formats, and the list of members
    /// with the newest format of each.
    pub(super) fn plan_of_format(&self, group: &Group, (from, to): (u16, u16)) -> Fingerprint {
        let newest = group.voters.union(&group.learners).map(|id| u64::from(self.newest_format(*id)));
        let change = self.preconditions("format").number(from.into()).number(to.into()).numbers(newest);
        members(change, group, |_| false).fingerprint()
    }

    fn preconditions(&self, change: &str) -> Preconditions {
        Preconditions::of(change).number(self.replica.history())
    }
}

/// Adds the list of members, without the learners that a change is about.
fn members(change: Preconditions, group: &Group, about: impl Fn(&u64) -> bool) -> Preconditions {
    let others: BTreeSet<u64> = group.learners.iter().copied().filter(|id| !about(id)).collect();
    change.numbers(group.voters.iter().copied()).numbers(others)
}
