//! Transfer of leadership away from a leader whose disk does not respond.
//!
//! Without this transfer, no member would depose such a leader, because the followers' disks suffice for commits and
//! heartbeats need no disk. But the writes that wait for the leader's disk take up memory, the leader grants no vote,
//! and the loss of one more disk would stop all commits. If the disk of a follower does not respond, nothing needs to
//! be done, because the other members do not wait for that disk.
//!
//! When another member stands for election, the old leader's Raft library must save its vote for that member. As long
//! as the library waits for the disk to do so, it still reports that the old leader leads. So this module makes the old
//! leader refuse proposals and name the new leader.
//!
//! The process is not stopped, because a disk that recovers completes all waiting writes in their order.

use std::time::Duration;

use seq_api::node_events::NodeEvents;
use seq_core::node_events::Fact;
use tokio::time::Instant;

use super::transfer::{STEP_DOWN_TIMEOUT, transfer_leader, transfer_target};
use crate::propose::Proposer;
use crate::storage::{Raft, STALL_TIMEOUT, Stall};

/// Interval at which the disk is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Pause before a transfer of leadership is retried because no other member has become leader.
const TRANSFER_RETRY: Duration = Duration::from_secs(2);

/// Watches the disk of this member. If the disk does not respond and this member leads, transfers leadership and
/// redirects proposals until the disk responds again. Runs until the future is dropped.
pub(crate) async fn watch(raft: Raft, stall: Stall, proposer: Proposer, events: NodeEvents) {
    let mut transferred: Option<Instant> = None;
    let mut hung_since: Option<Instant> = None;
    let mut tick = tokio::time::interval(POLL_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let lasts = stall.lasts();
        if lasts < STALL_TIMEOUT {
            if let Some(since) = hung_since.take() {
                transferred = None;
                proposer.redirect(None);
                let event = events.note(Fact::Disk { responds: true });
                tracing::warn!(event, seconds = since.elapsed().as_secs_f64(), "the disk responds again");
            }
            continue;
        }
        if hung_since.is_none() {
            let event = events.note(Fact::Disk { responds: false });
            tracing::error!(
                event,
                seconds = lasts.as_secs_f64(),
                leads = raft.is_leader(),
                "the disk does not respond; no write is acknowledged until it does"
            );
            hung_since = Some(Instant::now());
        }
        if raft.is_leader() && transferred.is_none_or(|at| at.elapsed() >= TRANSFER_RETRY) {
            transferred = Some(Instant::now());
            if let Some(target) = transfer_target(&raft) {
                tracing::warn!(to = target, "leadership is transferred");
                proposer.redirect(Some(target));
                transfer_leader(&raft, target, STEP_DOWN_TIMEOUT).await;
            }
        }
    }
}
