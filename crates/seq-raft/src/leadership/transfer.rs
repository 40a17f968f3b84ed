//! Transfer of leadership to a chosen member. Without a transfer, a group whose leader stops has no leader for an
//! election timeout.
//!
//! From the request of a transfer on, the leader accepts no more writes. The chosen member waits until it has the whole
//! log and then stands for election at once.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;

use crate::storage::Raft;

/// Maximum time that a stopping leader waits until another member leads.
pub(crate) const STEP_DOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Transfers leadership to the member `to`, and waits until this member learns that another member leads. Returns the
/// id of the new leader, or `None` if this member learns of no other leader within `timeout`.
pub(crate) async fn transfer_leader(raft: &Raft, to: u64, timeout: Duration) -> Option<u64> {
    let mut metrics = raft.metrics();
    let me = metrics.borrow_watched().id;
    // The only possible error is that the Raft library has stopped. This member then does not lead.
    raft.trigger().transfer_leader(to).await.ok()?;
    let taken_over = async {
        loop {
            let leader = metrics.borrow_watched().current_leader;
            if let Some(leader) = leader.filter(|leader| *leader != me) {
                return Some(leader);
            }
            metrics.changed().await.ok()?;
        }
    };
    tokio::time::timeout(timeout, taken_over).await.ok().flatten()
}

/// Transfers leadership to the voter with the longest log among the other voters, if this member leads.
pub(crate) async fn step_down(raft: &Raft) {
    let Some(target) = transfer_target(raft) else { return };
    if transfer_leader(raft, target, STEP_DOWN_TIMEOUT).await.is_none() {
        tracing::info!(store = target, "leadership was not taken over in time");
    }
}

/// Returns the voter with the longest log among the other voters, if this member leads.
pub(crate) fn transfer_target(raft: &Raft) -> Option<u64> {
    // This check comes before the metrics are borrowed, because `is_leader` borrows the metrics too, and two borrows by
    // one thread deadlock if a writer waits between them.
    if !raft.is_leader() {
        return None;
    }
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let voters: Vec<u64> = metrics.membership_config.membership().voter_ids().collect();
    let followers = metrics.replication.iter().flatten();
    let others = followers.filter(|(id, _)| **id != metrics.id && voters.contains(id));
    others.max_by_key(|(_, matched)| **matched).map(|(id, _)| *id)
}
