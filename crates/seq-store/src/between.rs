//! Between sets: what this set's store sends the stores of other sets, and what it takes from them.
//!
//! | module | subject |
//! |---|---|
//! | `service` | requests of other sets' stores |
//! | `link` | the way to the leader of another set's store |
//! | `exchange` | facts and directories, exchanged with every other set; records of closing sets |
//! | `confirm` | asks the sets that a request is about, before anything is proposed |
//! | `migrations` | drives the coordinator of migrations, beside the leader |
//! | `arrivals` | departures that another set has confirmed |
//! | `quarantine` | ends the quarantine of a restored set, beside the leader |
//! | `progress` | what operators see of migrations that are under way |
//!
//! **Invariant:** no step of serving, failover or a change of owner inside the set waits for another set. What is sent
//! is read from the applied state, and what is taken is a permanent fact, committed before the response: so requests
//! may be late, repeated, or from a leader that was deposed.
//!
//! **Invariant:** a request is a hint. A fact of another set is committed once a store of that set has stated it over a
//! connection that this member opened, or under a certificate of that set.

use std::sync::Arc;

use seq_core::SetId;
use seq_core::arbiter::Plan;
use seq_proto::v1;
use tokio::sync::watch;

use crate::replicated_set::ReplicatedSet;

pub(crate) mod arrivals;
mod confirm;
pub(crate) mod exchange;
pub(crate) mod link;
pub(crate) mod migrations;
pub(crate) mod progress;
pub(crate) mod quarantine;
pub(crate) mod service;

/// What the services and tasks between sets share on one member. Clones share it.
#[derive(Clone)]
pub(crate) struct Between {
    /// Name of the cluster.
    pub(crate) cluster: Arc<str>,
    pub(crate) replicated: ReplicatedSet,
    /// The plan of the arbiter beside the leader.
    pub(crate) plan: watch::Receiver<Arc<Plan>>,
    pub(crate) links: Arc<link::SetLinks>,
    pub(crate) arrivals: Arc<arrivals::Arrivals>,
}

impl Between {
    pub(crate) fn new(cluster: &str, replicated: ReplicatedSet, plan: watch::Receiver<Arc<Plan>>) -> Between {
        let links = Arc::new(link::SetLinks::new(replicated.raft().clone()));
        Between { cluster: cluster.into(), replicated, plan, links, arrivals: Arc::default() }
    }

    /// The head of a request to another set; `None` while this one is not defined.
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
