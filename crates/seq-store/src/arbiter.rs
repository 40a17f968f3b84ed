//! The arbiter's shell: beside the leader, it has the changes of owner committed that `seq_core::arbiter` proposes, and shows
//! what it wants of the owners to the control service.
//!
//! It looks at the state as it is, not at what happened: whatever wakes it, it looks afresh, and a proposal that was lost is
//! made again. Two arbiters, one beside a leader that does not know yet that it was deposed, do no harm: each change names
//! what it was made for.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_api::clock::Clock;
use seq_core::arbiter::{Arbiter, ArbiterTimeouts, Declared, MAX_REASSIGNS, Plan};
use seq_core::lease::Clocks;
use seq_core::set_spec::AllocSpec;
use seq_core::state::{Answer, Command};
use tokio::sync::watch;

use crate::proposer::{ProposeError, Proposer};
use crate::storage::SharedState;
use crate::types::Raft;

/// Least time between two looks at the state: entries are applied far more often than owners change.
const PACE: Duration = Duration::from_millis(5);

/// When a proposal that failed is made again: about an election later.
const RETRY: Duration = Duration::from_millis(200);

/// Looks and proposes while this member leads.
pub(crate) struct ArbiterShell {
    raft: Raft,
    state: SharedState,
    proposer: Proposer,
    allocs: Vec<AllocSpec>,
    timeouts: ArbiterTimeouts,
    clock: Clock,
    /// What is wanted of the owners; empty while this member does not lead.
    plan: watch::Sender<Arc<Plan>>,
}

impl ArbiterShell {
    /// A shell that waits as long, by that clock; and where it shows what it wants of the owners.
    pub(crate) fn new(
        raft: Raft,
        state: SharedState,
        proposer: Proposer,
        allocs: Vec<AllocSpec>,
        (timeouts, clock): (ArbiterTimeouts, Clock),
    ) -> (ArbiterShell, watch::Receiver<Arc<Plan>>) {
        let (plan, shown) = watch::channel(Arc::default());
        (ArbiterShell { raft, state, proposer, allocs, timeouts, clock, plan }, shown)
    }

    /// Runs until it is dropped, or the Raft library has stopped.
    pub(crate) async fn run(self) {
        let mut metrics = self.raft.metrics();
        // Made when leadership begins and thrown away when it ends: nothing has to be armed again.
        let mut machine: Option<Arbiter> = None;
        let origin = self.clock.now();
        loop {
            let mut look_again = None;
            if self.raft.is_leader() {
                let machine = machine.get_or_insert_with(|| Arbiter::new(self.timeouts));
                let plan = self.evaluate(machine, origin);
                self.show(&plan);
                let now = self.clock.now().at_least_since(origin);
                look_again = machine.next_deadline().map(|at| at.saturating_sub(now));
                if let Err(error) = self.propose(&plan).await {
                    tracing::info!(%error, "owners could not be assigned yet");
                    look_again = Some(RETRY);
                }
            } else {
                machine = None;
                self.show(&Arc::default());
            }
            tokio::time::sleep(PACE).await;
            let timer = async {
                match look_again {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => {}
                changed = metrics.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Looks at the state and reads the clock, in that order: nothing is applied between the two, because the state is held.
    fn evaluate(&self, machine: &mut Arbiter, origin: Clocks) -> Arc<Plan> {
        let declared: Vec<Declared<'_>> =
            self.allocs.iter().map(|node| Declared { name: &node.name, weight: node.weight }).collect();
        let clock = || self.clock.now().at_least_since(origin);
        self.state.read(|state| machine.evaluate(state, &declared, clock).clone())
    }

    fn show(&self, plan: &Arc<Plan>) {
        self.plan.send_if_modified(|shown| {
            let newer = shown != plan;
            if newer {
                shown.clone_from(plan);
            }
            newer
        });
    }

    async fn propose(&self, plan: &Plan) -> Result<(), ProposeError> {
        for part in plan.reassigns.chunks(MAX_REASSIGNS) {
            let answer = self.proposer.propose(&Command::Reassign(part.to_vec())).await?;
            let Answer::Reassigned(outcome) = answer else { panic!("a reassignment was answered with {answer:?}") };
            let made = outcome.iter().flatten().count();
            tracing::info!(sections = made, overtaken = part.len() - made, "owners assigned");
        }
        Ok(())
    }
}
