//! Transfer of leadership away from a leader that AllocSvrs cannot reach. `seq_core::leader_reach` decides when
//! leadership is transferred.
//!
//! [`watch()`] passes to that module the clock, the number of control calls that arrived, and the live incarnations in
//! the arbiter's plan, and makes the transfer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seq_api::metrics::RAFT_UNREACHED_TRANSFERS_TOTAL;
use seq_core::arbiter::Plan;
use seq_core::leader_reach::{LeaderReach, Live, Observation};
use seq_kit::repeats::Repeats;
use seq_raft::QuorumStatus;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::replicated_set::ReplicatedSet;

/// Interval at which the inputs of the decision are observed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Counter of control calls from current incarnations that reached this member, directly or through a follower. Clones
/// share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlCalls(Arc<AtomicU64>);

impl ControlCalls {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Observes whether AllocSvrs reach this member, and transfers leadership if `seq_core::leader_reach` decides so. Runs
/// until the future is dropped.
pub(crate) async fn watch(
    (set, node): (String, String),
    replicated: ReplicatedSet,
    plan: watch::Receiver<Arc<Plan>>,
    calls: ControlCalls,
) {
    let (mut reach, mut failures, origin) = (LeaderReach::default(), Repeats::default(), Instant::now());
    let raft = replicated.raft();
    let mut tick = tokio::time::interval(POLL_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let plan = plan.borrow().clone();
        let inputs = Observation {
            term: raft.leads(),
            quorum: raft.quorum() == QuorumStatus::Leads,
            calls: calls.get(),
            live: replicated.read(|state| Live::of(state, &plan)),
        };
        let Some(silence) = reach.observe(origin.elapsed(), inputs) else { continue };
        match raft.transfer_leadership().await {
            Ok(to) => {
                reach.transferred(origin.elapsed());
                let labels = [("set", set.clone()), ("node", node.clone())];
                metrics::counter!(RAFT_UNREACHED_TRANSFERS_TOTAL, &labels).increment(1);
                tracing::info!(set, node, to, ?silence, "no AllocSvr reached this leader: it transferred leadership");
            }
            Err(error) => {
                if let Some(repeated) = failures.admit() {
                    tracing::info!(set, node, %error, ?silence, repeated, "no AllocSvr reaches this leader");
                }
            }
        }
    }
}
