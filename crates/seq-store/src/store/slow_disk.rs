//! A leader whose disk does not answer gives leadership away.
//!
//! Its followers' disks are enough to commit for a while, so nobody else would depose it: heartbeats need no disk. But what
//! is queued for its disk is held in memory, it takes no vote, and with one more disk lost nothing would be committed. A
//! follower's disk that hangs needs nothing done: the others do not wait for it.
//!
//! Once the Raft library has to save the next leader's vote, it waits for the disk itself and knows no better than that it
//! leads. So whoever proposes something is told here.
//!
//! The process is not stopped: a disk that comes back finds everything still to be written in its queue, in order.

use std::time::Duration;

use tokio::time::Instant;

use crate::handover::{STEP_DOWN_PATIENCE, hand_over, heir};
use crate::proposer::Proposer;
use crate::storage::Stall;
use crate::types::Raft;

/// How long one batch may take to be durable. Far above what a working disk needs under any load, and below the time in which
/// writes should go on elsewhere.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long after a hand-over it is tried again, should nobody have taken over.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Watches the disk of a member for ever.
pub(super) async fn watch(raft: Raft, stall: Stall, proposer: Proposer) {
    let mut handed_over: Option<Instant> = None;
    let mut hung_since: Option<Instant> = None;
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let lasts = stall.lasts();
        if lasts < PATIENCE {
            if let Some(since) = hung_since.take() {
                handed_over = None;
                proposer.stand_aside(None);
                tracing::warn!(seconds = since.elapsed().as_secs_f64(), "the disk answers again");
            }
            continue;
        }
        if hung_since.is_none() {
            tracing::error!(
                seconds = lasts.as_secs_f64(),
                leads = raft.is_leader(),
                "the disk has not answered; nothing that waits for it is acknowledged"
            );
            hung_since = Some(Instant::now());
        }
        if raft.is_leader() && handed_over.is_none_or(|at| at.elapsed() >= AGAIN_AFTER) {
            handed_over = Some(Instant::now());
            if let Some(heir) = heir(&raft) {
                tracing::warn!(to = heir, "leadership is given away");
                proposer.stand_aside(Some(heir));
                hand_over(&raft, heir, STEP_DOWN_PATIENCE).await;
            }
        }
    }
}
