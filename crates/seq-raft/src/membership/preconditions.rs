//! Preconditions of operators' plans for changes of members, and the lock under which the leader compares the
//! preconditions of an operator's change and makes the change.
//!
//! **Invariant:** the preconditions that were compared still hold when the change is applied. The lock excludes other
//! changes through this leader. Changes that this leader or an earlier leader began earlier are applied before the
//! comparison. If this leader fails, the next leader can commit only those entries of this leader that it received
//! before its election. So the entry of the change is applied directly after the entries that the comparison saw, or
//! never (`docs/adr/0027-plans-are-compared-by-the-leader.md`).
//!
//! An id belongs permanently to one data directory, and a removed id is never added again. So lists with equal ids
//! contain the same members, and the position of the list in the log need not be compared. A plan that adds members and
//! then makes them voters therefore remains valid after its first half, in which the members are added.

use std::collections::{BTreeMap, BTreeSet};

use seq_core::plan::{Fingerprint, Preconditions};
use tokio::sync::MutexGuard;

use super::changes::{ChangeError, MemberChanges};
use super::plan::{Group, MembershipRequest};
use crate::propose::ProposeError;
use crate::types::Member;

/// Guard that excludes other changes while the preconditions of an operator's change are compared and the change is
/// made.
#[must_use]
#[derive(Debug)]
pub struct ChangeGuard<'a> {
    _one: MutexGuard<'a, ()>,
}

impl MemberChanges {
    /// Locks out other operators' changes, and waits until this member has applied all changes that other operators or
    /// earlier leaders began. No other change begins until the returned guard is dropped.
    pub(crate) async fn exclusive(&self) -> Result<ChangeGuard<'_>, ChangeError> {
        let waited = tokio::time::timeout(self.commit_timeout, self.one.lock()).await;
        let one = waited.map_err(|_| ChangeError::InProgress)?;
        self.catch_up().await?;
        Ok(ChangeGuard { _one: one })
    }

    /// Waits until this member has applied every entry that was committed or written before this function was called.
    ///
    /// A request that was cancelled or timed out may have left a command that is not applied or not even written to the
    /// log yet. This function proposes one more command, which follows all such commands in the log, and waits until it
    /// is applied.
    pub(crate) async fn catch_up(&self) -> Result<(), ProposeError> {
        // This command has no effect, because the id of a leading member is already claimed.
        self.proposer.propose_anew(|| self.replica.claim_member_id(*self.raft.node_id())).await.map(drop)
    }

    /// Returns the fingerprint of the preconditions of a change of voters: the set with its lineage, the requested
    /// change, and the list of members, except for learners that the request adds or removes.
    pub(super) fn plan_of_voters(&self, group: &Group, request: &MembershipRequest) -> Fingerprint {
        let about = |id: &u64| request.add.contains(id) || request.remove.contains(id);
        let change = self.preconditions("voters").numbers(request.add.iter().copied());
        let change = change.numbers(request.remove.iter().copied()).flag(request.allow_even);
        members(change, group, about).fingerprint()
    }

    /// Returns the fingerprint of the preconditions for adding members without a vote: the set with its lineage, the
    /// new members, and the list of the other members.
    pub(super) fn plan_of_learners(&self, group: &Group, wanted: &BTreeMap<u64, Member>) -> Fingerprint {
        let mut change = self.preconditions("learners").numbers(wanted.keys().copied());
        for Member { name, addr, raft_addr, .. } in wanted.values() {
            change = change.text(name).text(addr).text(raft_addr);
        }
        members(change, group, |id| wanted.contains_key(id)).fingerprint()
    }

    /// Returns the fingerprint of the preconditions of a transfer of leadership: the set with its lineage, the next
    /// leader `to`, and the list of members. The present leader is not included, because it may change without an
    /// operator's request.
    pub(super) fn plan_of_transfer(&self, group: &Group, to: u64) -> Fingerprint {
        members(self.preconditions("leader").number(to), group, |_| false).fingerprint()
    }

    /// Returns the fingerprint of the preconditions of a raise of the group's format: the set with its lineage, the
    /// formats before and after the raise, and the list of members with the newest format that each can read.
    pub(super) fn plan_of_format(&self, group: &Group, (from, to): (u16, u16)) -> Fingerprint {
        let newest = group.voters.union(&group.learners).map(|id| u64::from(self.newest_format(*id)));
        let change = self.preconditions("format").number(from.into()).number(to.into()).numbers(newest);
        members(change, group, |_| false).fingerprint()
    }

    fn preconditions(&self, change: &str) -> Preconditions {
        Preconditions::of(change).number(self.replica.history())
    }
}

/// Adds the ids of the voters and learners to the preconditions of a change, except for the learners for which `about`
/// returns true.
fn members(change: Preconditions, group: &Group, about: impl Fn(&u64) -> bool) -> Preconditions {
    let others: BTreeSet<u64> = group.learners.iter().copied().filter(|id| !about(id)).collect();
    change.numbers(group.voters.iter().copied()).numbers(others)
}
