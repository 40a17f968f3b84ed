//! Requests between sets. The leader of this set's store sends requests to the stores of other sets, and responds to
//! their requests.
//!
//! | module | subject |
//! |---|---|
//! | `service` | service for the requests of other sets' stores |
//! | `link` | connection to the leader of another set's store |
//! | `exchange` | exchange of facts and directories with every other set; inheritance of the records of closing sets |
//! | `confirm` | confirmation of a request's statements by the sets that they concern, before anything is proposed |
//! | `migrations` | task of the leader that runs the coordinator of migrations |
//! | `migration_spans` | trace spans of the coordinator's requests |
//! | `arrivals` | departures whose arrival another set has confirmed |
//! | `quarantine` | task of the leader that ends the quarantine of a restored set |
//! | `progress` | progress of migrations, as operators see it |
//!
//! **Invariant:** serving, failover and changes of owner inside a set never wait for another set. A set sends only
//! facts from its applied state. It commits the facts that it receives before it responds, and these facts never become
//! untrue. So it is harmless if a request arrives late or repeatedly, or comes from a leader that was replaced.
//!
//! **Invariant:** a request alone proves no fact. This set commits a fact about another set only after a store of that
//! other set has stated the fact, either in a response on a connection that this member opened, or in a request with a
//! certificate of the other set.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_core::SetId;
use seq_core::arbiter::{Plan, Reserver};
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

/// State that the services and tasks of this module share on one member. Clones refer to the same state.
#[derive(Clone)]
pub(crate) struct Between {
    /// Name of the cluster.
    pub(crate) cluster: Arc<str>,
    pub(crate) replicated: ReplicatedSet,
    /// Receiver of the arbiter's newest plan. The plan is empty while this member does not lead.
    pub(crate) plan: watch::Receiver<Arc<Plan>>,
    /// Chooser of the owners of sections that arrive. Requests of other sets take turns at it.
    pub(crate) reserver: Arc<Mutex<Reserver>>,
    pub(crate) links: Arc<link::SetLinks>,
    pub(crate) arrivals: Arc<arrivals::Arrivals>,
}

impl Between {
    pub(crate) fn new(cluster: &str, replicated: ReplicatedSet, plan: watch::Receiver<Arc<Plan>>) -> Between {
        let links = Arc::new(link::SetLinks::new(replicated.raft().clone()));
        let cluster = cluster.into();
        Between { cluster, replicated, plan, reserver: Arc::default(), links, arrivals: Arc::default() }
    }

    /// Returns the header of a request to the set `to`, or `None` while this set is not defined.
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

/// Returns the gRPC error for a command that the state refused.
fn refused(refusal: &CommandRefusal) -> Status {
    Reason::of_command(refusal).status(refusal.to_string())
}
