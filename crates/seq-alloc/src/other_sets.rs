//! Access to the other sets of the cluster. For each other set this module keeps separate connections, routes, a
//! health, and a count of calls in flight.
//!
//! No two sets share a connection, a batcher or a limit, so a set that does not respond does not slow down calls for
//! other sets. `probe_loop` finds out whether a set responds, and fetches its routes. Calls only use these results and
//! never probe a set themselves.
//!
//! The addresses of another set's nodes are stated by the routes of this set or by nodes of the other set. In both
//! cases a call is sent only to an AllocSvr whose certificate has the name that the routes of this set state for the
//! other set.
//!
//! **Invariant:** another set's routes only decide to which node of that set a call is sent. If that node does not own
//! the section, it forwards the call to the owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::counter;
use parking_lot::RwLock;
use seq_api::metrics::FORWARDED_TO_SETS_TOTAL;
use seq_channel::{Dial, ExpectedServer};
use seq_core::SetId;
use seq_core::route::RouteTable;
use tokio::sync::Notify;

use crate::peers::Peers;

mod other_set;
mod probe_loop;

pub(crate) use other_set::{OtherSet, SetPermit};
pub(crate) use probe_loop::probe_loop;

/// Limit on the number of sets that have their own label in the metrics. It is larger than the number of sets of usual
/// clusters, and small enough for the systems that store metrics.
const MAX_LABELS: usize = 64;

/// Label of the sets beyond [`MAX_LABELS`].
const REST: &str = "other";

/// The other sets to which calls were forwarded. Their number is limited by the number of sets in the routes, which is
/// at most [`seq_core::limits::MAX_SETS`].
#[derive(Debug)]
pub(crate) struct OtherSets {
    /// Name of this set, a label of the metrics.
    set: String,
    /// Name of this node, a label of the metrics.
    node: String,
    /// Number of connections to each node of another set.
    connections: usize,
    dial: Dial,
    /// Connections to nodes of sets that are not in the routes.
    unnamed: Peers,
    sets: RwLock<BTreeMap<SetId, Arc<OtherSet>>>,
    /// Notified when a set has to be probed, or when a call is sent to a set that had no calls for some time.
    probe: Arc<Notify>,
}

impl OtherSets {
    /// Creates an empty collection for the node `node` of the set `set`. `connections` is the number of connections to
    /// each node of another set.
    pub(crate) fn new(set: &str, node: &str, connections: usize, dial: Dial) -> OtherSets {
        let (set, node) = (set.to_owned(), node.to_owned());
        let unnamed = Peers::new(1, dial.expecting(ExpectedServer::alloc()));
        OtherSets { set, node, connections, dial, unnamed, sets: RwLock::default(), probe: Arc::default() }
    }

    /// Returns the connections to AllocSvrs of sets that are not in the routes. These connections check only the role
    /// of the server, because the name of its set is not known.
    pub(crate) fn unnamed(&self) -> &Peers {
        &self.unnamed
    }

    /// Returns the other set with the id `id`; `None` if the routes do not have it. If the routes now state another
    /// name or other addresses for it than its [`OtherSet`] has, a new [`OtherSet`] replaces it.
    pub(crate) fn get(&self, id: SetId, routes: &RouteTable) -> Option<Arc<OtherSet>> {
        let stated = routes.other_set(id)?;
        if let Some(set) = self.sets.read().get(&id).filter(|set| set.is_stated(stated)) {
            return Some(set.clone());
        }
        let mut sets = self.sets.write();
        // Another call may have created the set between the two locks.
        if let Some(set) = sets.get(&id).filter(|set| set.is_stated(stated)) {
            return Some(set.clone());
        }
        let known = sets.len() < MAX_LABELS || sets.contains_key(&id);
        let to = if known { stated.name.clone() } else { REST.to_owned() };
        let labels = [("set", self.set.clone()), ("node", self.node.clone()), ("to", to)];
        let forwarded = counter!(FORWARDED_TO_SETS_TOTAL, &labels);
        let dial = self.dial.expecting(ExpectedServer::alloc().of_set(&stated.name));
        let peers = [self.connections, 1].map(|connections| Peers::new(connections, dial.clone()));
        let set = Arc::new(OtherSet::new(id, stated, peers, forwarded, self.probe.clone()));
        sets.insert(id, set.clone());
        Some(set)
    }

    fn all(&self) -> Vec<Arc<OtherSet>> {
        self.sets.read().values().cloned().collect()
    }
}
