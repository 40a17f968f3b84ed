//! The arbiter's shell: beside the leader, it proposes the changes of owner that the applied state calls for.
//!
//! It looks at the state as it is, not at what happened: whatever wakes it, a plan is made afresh, and a proposal that was
//! lost is made again. Two arbiters, one beside a leader that does not know yet that it was deposed, do no harm: each
//! change names the epoch it was made for.

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_core::RouteVersion;
use seq_core::arbiter::{self, Declared, MAX_REASSIGNS};
use seq_core::set_spec::AllocSpec;
use seq_core::state::{Command, State};
use tokio::time::Instant;

use crate::proposer::{ProposeError, Proposer};
use crate::storage::SharedState;
use crate::types::Raft;

/// Least time between two looks at the state: entries are applied far more often than owners change.
const PACE: Duration = Duration::from_millis(5);

/// When a proposal that failed is made again: about an election later.
const RETRY: Duration = Duration::from_millis(200);

/// What of the state a plan depends on; cheap to read for every look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    routes: RouteVersion,
    /// Sum of all incarnations: grows whenever a life begins.
    lives: u64,
    sections: usize,
    grace_over: bool,
}

/// Plans and proposes while this member leads.
pub(crate) struct Arbiter {
    pub(crate) raft: Raft,
    pub(crate) state: SharedState,
    pub(crate) proposer: Proposer,
    pub(crate) allocs: Vec<AllocSpec>,
    pub(crate) grace: Duration,
}

impl Arbiter {
    /// Runs until it is dropped, or the Raft library has stopped.
    pub(crate) async fn run(self) {
        let mut metrics = self.raft.metrics();
        // When sections began to wait for nodes that have not registered.
        let mut waits_since: Option<Instant> = None;
        let mut settled: Option<Seen> = None;
        loop {
            let mut wake_at = None;
            if self.raft.is_leader() {
                let grace_over = waits_since.is_some_and(|since| since.elapsed() >= self.grace);
                let seen = self.state.read(|state| see(state, grace_over));
                if settled != Some(seen) {
                    match self.settle(grace_over).await {
                        Ok(waits) => {
                            waits_since = if waits { waits_since.or(Some(Instant::now())) } else { None };
                            // A plan that was proposed changed the state: look again.
                            settled = Some(seen);
                        }
                        Err(error) => {
                            tracing::info!(%error, "owners could not be assigned yet");
                            wake_at = Some(Instant::now() + RETRY);
                        }
                    }
                }
                if !grace_over {
                    wake_at = wake_at.or(waits_since.map(|since| since + self.grace));
                }
            } else {
                (waits_since, settled) = (None, None);
            }
            tokio::time::sleep(PACE).await;
            let timer = async {
                match wake_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => {}
                changed = metrics.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Makes a plan, proposes it, and says whether sections wait for nodes.
    async fn settle(&self, grace_over: bool) -> Result<bool, ProposeError> {
        let declared: Vec<Declared<'_>> =
            self.allocs.iter().map(|node| Declared { name: &node.name, weight: node.weight }).collect();
        let (plan, waits) = self.state.read(|state| {
            let plan = arbiter::plan(state, &declared, grace_over);
            (plan, !grace_over && arbiter::waits(state, &declared))
        });
        if !plan.is_empty() {
            tracing::info!(sections = plan.len(), grace_over, "assigning owners");
        }
        for part in plan.chunks(MAX_REASSIGNS) {
            self.proposer.propose(&Command::Reassign(part.to_vec())).await?;
        }
        Ok(waits)
    }
}

fn see(state: &State, grace_over: bool) -> Seen {
    Seen {
        routes: state.route_version,
        lives: state.nodes.iter().map(|node| node.incarnation.0).sum(),
        sections: state.sections.len(),
        grace_over,
    }
}
