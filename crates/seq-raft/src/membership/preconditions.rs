//! Preconditions of plans of membership changes, and the lock under which every operator's change is compared and made.
//!
//! **Invariant:** the compared preconditions still hold when the change is applied. The lock excludes other changes of
//! this leader. Changes that this leader or an earlier leader began before are applied before the comparison. A later
//! leader can commit only those entries of this leader that it received before its election, so the entry of the change
//! is applied directly after the compared entries or never (`docs/adr/0027-plans-are-compared-by-the-leader.md`).
//!
//! An id belongs permanently to one data directory, and a removed id is never added again, so lists with equal ids have
//! equal members. The position of the list in the log is not compared. So a plan to add members remains valid after the
//! first half of its own change.

use std::collections::{BTreeMap, BTreeSet};

use seq_core::plan::{Fingerprint, Preconditions};
use tokio::sync::MutexGuard;

use super::changes::{ChangeError, MemberChanges};
use super::plan::{Group, MembershipRequest};
use crate::propose::ProposeError;
use crate::types::Member;

/// Guard held while a change by an operator is compared and made.
#[must_use]
#[derive(Debug)]
pub struct ChangeGuard<'a> {
    _one: MutexGuard<'a, ()>,
}

impl MemberChanges {
    /// Waits until this member has applied the changes in progress, both of other operators and of earlier leaders. No
    /// other change begins before the guard is dropped.
    pub(crate) async fn exclusive(&self) -> Result<ChangeGuard<'_>, ChangeError> {
        let waited = tokio::time::timeout(self.commit_timeout, self.one.lock()).await;
        let one = waited.map_err(|_| ChangeError::InProgress)?;
        self.catch_up().await?;
        Ok(ChangeGuard { _one: one })
    }

    /// Waits until this member has applied every entry that was committed or begun before the call.
    ///
    /// A cancelled or timed-out request may have left an entry that is not applied or not even written yet. This
    /// function proposes one more entry, which follows all such entries, and waits until it is applied.
    pub(crate) async fn catch_up(&self) -> Result<(), ProposeError> {
        // A command without effect: the id of a leading member is in use.
        self.proposer.propose_anew(|| self.replica.claim_member_id(*self.raft.node_id())).await.map(drop)
    }

    /// Returns the fingerprint of the preconditions of a change of voters: the set and its lineage, the change, and the
    /// list of members without the learners that the change concerns.
    pub(super) fn plan_of_voters(&self, group: &Group, request: &MembershipRequest) -> Fingerprint {
        let about = |id: &u64| request.add.contains(id) || request.remove.contains(id);
        let change = self.preconditions("voters").numbers(request.add.iter().copied());
        let change = change.numbers(request.remove.iter().copied()).flag(request.allow_even);
        members(change, group, about).fingerprint()
    }

    /// Returns the fingerprint of the preconditions for adding members without a vote: the set and its lineage, the new
    /// members, and the list of the other members.
    pub(super) fn plan_of_learners(&self, group: &Group, wanted: &BTreeMap<u64, Member>) -> Fingerprint {
        let mut change = self.preconditions("learners").numbers(wanted.keys().copied());
        for Member { name, addr, raft_addr, .. } in wanted.values() {
            change = change.text(name).text(addr).text(raft_addr);
        }
        members(change, group, |id| wanted.contains_key(id)).fingerprint()
    }

    /// Returns the fingerprint of the preconditions of a transfer of leadership: the set and its lineage, the target,
    /// and the list of members. The leader is not included, because it changes without an operator.
    pub(super) fn plan_of_transfer(&self, group: &Group, to: u64) -> Fingerprint {
        members(self.preconditions("leader").number(to), group, |_| false).fingerprint()
    }

    /// Returns the fingerprint of the preconditions of a raise of the format: the set and its lineage, both formats,
    /// and the list of members with the newest format of each.
    pub(super) fn plan_of_format(&self, group: &Group, (from, to): (u16, u16)) -> Fingerprint {
        let newest = group.voters.union(&group.learners).map(|id| u64::from(self.newest_format(*id)));
        let change = self.preconditions("format").number(from.into()).number(to.into()).numbers(newest);
        members(change, group, |_| false).fingerprint()
    }

    fn preconditions(&self, change: &str) -> Preconditions {
        Preconditions::of(change).number(self.replica.history())
    }
}

/// Adds the list of members to a change's preconditions, without the learners that the change concerns.
fn members(change: Preconditions, group: &Group, about: impl Fn(&u64) -> bool) -> Preconditions {
    let others: BTreeSet<u64> = group.learners.iter().copied().filter(|id| !about(id)).collect();
    change.numbers(group.voters.iter().copied()).numbers(others)
}
