//! Access to other sets: the connections, routes, health and calls in flight of each set.
//!
//! Two sets share no connection, batcher or bound, so a set that does not respond costs calls for other sets nothing.
//! `probe_loop` finds out whether a set responds, and fetches its routes; calls only read its results, and never probe.
//!
//! Nodes of this set or nodes of the other set state the addresses of the other set. In both cases a call is sent only
//! to an AllocSvr with a certificate of the set with the stated name.
//!
//! **Invariant:** a set's routes only choose the node that a call is sent to. Any node of the set serves the call or
//! forwards it.

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

/// Limit on sets with their own label in the metrics: more than a cluster has in use, and few enough to be stored.
const MAX_LABELS: usize = 64;

/// Label of the other sets.
const REST: &str = "other";

/// Other sets that calls were forwarded to. Bounded by the sets in the routes, [`seq_core::limits::MAX_SETS`].
#[derive(Debug)]
pub(crate) struct OtherSets {
    /// Name of this set, a label of the metrics.
    set: String,
    /// Name of this node, a label of the metrics.
    node: String,
    /// Number of connections to each node of another set.
    connections: usize,
    dial: Dial,
    /// Connections to nodes of sets that the routes do not have.
    unnamed: Peers,
    sets: RwLock<BTreeMap<SetId, Arc<OtherSet>>>,
    /// Notified when a set has to be probed, or is in use again.
    probe: Arc<Notify>,
}

impl OtherSets {
    /// Creates an empty collection for the node `node` of the set `set`. Each other set will have `connections`
    /// connections to a node.
    pub(crate) fn new(set: &str, node: &str, connections: usize, dial: Dial) -> OtherSets {
        let (set, node) = (set.to_owned(), node.to_owned());
        let unnamed = Peers::new(1, dial.expecting(ExpectedServer::alloc()));
        OtherSets { set, node, connections, dial, unnamed, sets: RwLock::default(), probe: Arc::default() }
    }

    /// Returns the connections to AllocSvrs of sets that the routes do not have. Only the role of the server is
    /// checked, because the name of its set is not known.
    pub(crate) fn unnamed(&self) -> &Peers {
        &self.unnamed
    }

    /// Returns another set, created anew when the routes state another name or other addresses for it; `None` if the
    /// routes do not have the set.
    pub(crate) fn get(&self, id: SetId, routes: &RouteTable) -> Option<Arc<OtherSet>> {
        let stated = routes.other_set(id)?;
        if let Some(set) = self.sets.read().get(&id).filter(|set| set.is_stated(stated)) {
            return Some(set.clone());
        }
        let mut sets = self.sets.write();
        // Another call may have created the set in the meantime.
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
