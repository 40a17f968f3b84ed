//! Requests between sets. This set's store sends requests to the stores of other sets, and responds to their requests.
//!
//! | module | subject |
//! |---|---|
//! | `service` | requests of other sets' stores |
//! | `link` | connection to the leader of another set's store |
//! | `exchange` | facts and directories, exchanged with every other set; records of closing sets |
//! | `confirm` | confirms a request with the sets that it names, before anything is proposed |
//! | `migrations` | drives the coordinator of migrations, on the leader |
//! | `migration_spans` | spans of the coordinator's requests |
//! | `arrivals` | departures that another set has confirmed |
//! | `quarantine` | ends the quarantine of a restored set, on the leader |
//! | `progress` | progress of migrations, for operators |
//!
//! **Invariant:** no step of serving, failover or a change of owner inside the set waits for another set. This set
//! sends facts that it reads from its applied state. The facts that it receives are permanent, and it commits them
//! before it responds. So requests may be late, repeated, or from a deposed leader.
//!
//! **Invariant:** a request alone proves no fact. This set commits a fact about another set only after a store of that
//! other set has stated the fact, either over a connection that this member opened or under a certificate of the other
//! set.

use std::sync::Arc;

use seq_core::SetId;
use seq_core::arbiter::Plan;
use seq_core::state::CommandRefusal;
use seq_proto::{Reason, v1};
use tokio::sync::watch;
use tonic::Status;

use crate::replicated_set::ReplicatedSet;

pub(crate) mod arrivals;
mod confirm;
pub(crate) mod exchange;
pub(crate) mod link;
mod migration_spans;
pub(crate) mod migrations;
pub(crate) mod progress;
pub(crate) mod quarantine;
pub(crate) mod service;

/// State shared by the services and tasks between sets on one member. Clones share it.
#[derive(Clone)]
pub(crate) struct Between {
    /// Name of the cluster.
    pub(crate) cluster: Arc<str>,
    pub(crate) replicated: ReplicatedSet,
    /// Newest plan of the arbiter; empty while this member does not lead.
    pub(crate) plan: watch::Receiver<Arc<Plan>>,
    pub(crate) links: Arc<link::SetLinks>,
    pub(crate) arrivals: Arc<arrivals::Arrivals>,
}

impl Between {
    pub(crate) fn new(cluster: &str, replicated: ReplicatedSet, plan: watch::Receiver<Arc<Plan>>) -> Between {
        let links = Arc::new(link::SetLinks::new(replicated.raft().clone()));
        Between { cluster: cluster.into(), replicated, plan, links, arrivals: Arc::default() }
    }

    /// Returns the header of a request to another set, or `None` while this set is not defined.
    pub(crate) fn head(&self, to: SetId) -> Option<v1::Between> {
        let (from, lineage) = self.replicated.read(|state| Some((state.set.as_ref()?.id, state.lineage)))?;
        Some(v1::Between {
            cluster: self.cluster.to_string(),
            from_set_id: from.0,
            from_lineage: lineage.0,
            to_set_id: to.0,
        })
    }
}

/// Returns the status of a command that the state refused.
fn refused(refusal: &CommandRefusal) -> Status {
    Reason::of_command(refusal).status(refusal.to_string())
}
