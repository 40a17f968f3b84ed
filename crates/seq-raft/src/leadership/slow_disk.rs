//! Transfer of leadership away from a leader whose disk does not respond.
//!
//! The disks of its followers suffice to commit for a while, and heartbeats need no disk, so no member would depose the
//! leader. But the writes queued for its disk are held in memory, it grants no vote, and after the loss of one more
//! disk nothing would be committed. A follower's hanging disk needs no action: the other members do not wait for it.
//!
//! When the Raft library must save the next leader's vote, it waits for the disk itself and still reports that it
//! leads. So proposals are redirected here.
//!
//! The process is not stopped: a disk that recovers finds all pending writes in its queue, in order.

use std::time::Duration;

use tokio::time::Instant;

use super::transfer::{STEP_DOWN_TIMEOUT, transfer_leader, transfer_target};
use crate::propose::Proposer;
use crate::storage::{Raft, Stall};

/// How long one batch may take to become durable: far longer than a working disk needs under any load, and shorter than
/// writes should wait for another leader.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of the checks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Pause before a transfer is retried if no member has taken over.
const TRANSFER_RETRY: Duration = Duration::from_secs(2);

/// Watches the disk of a member, without end.
pub(crate) async fn watch(raft: Raft, stall: Stall, proposer: Proposer) {
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
                tracing::warn!(seconds = since.elapsed().as_secs_f64(), "the disk responds again");
            }
            continue;
        }
        if hung_since.is_none() {
            tracing::error!(
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
