//! Leadership goes to a member that is chosen, so that the group is not without a leader for an election timeout.
//!
//! From the moment it is asked, a leader takes no more writes; the chosen member waits until it has the whole log, and stands
//! for election at once.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;

use crate::types::Raft;

/// How long a leader that stops waits for another one to take over.
pub(crate) const STEP_DOWN_PATIENCE: Duration = Duration::from_millis(500);

/// Hands over and waits until somebody else leads, as far as this member knows; answers who, or `None` when nobody does
/// within `patience`.
pub(crate) async fn hand_over(raft: &Raft, to: u64, patience: Duration) -> Option<u64> {
    let mut metrics = raft.metrics();
    let me = metrics.borrow_watched().id;
    // Its only error is that the Raft library has stopped, and nobody leads here then.
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
    tokio::time::timeout(patience, taken_over).await.ok().flatten()
}

/// Makes the follower with the longest log lead, where this member does.
pub(crate) async fn step_down(raft: &Raft) {
    let Some(next) = heir(raft) else { return };
    if hand_over(raft, next, STEP_DOWN_PATIENCE).await.is_none() {
        tracing::info!(store = next, "leadership was not taken over in time");
    }
}

/// The voter with the longest log beside this member, where this one leads.
pub(crate) fn heir(raft: &Raft) -> Option<u64> {
    // Asked first: it looks at the metrics, too, and two looks of one thread at a time wait for each other when somebody
    // writes in between.
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
