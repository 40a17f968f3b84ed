//! The way to other sets: for each one its connections, its routes, whether it responds, and how much is under way.
//!
//! Nothing is shared between two sets: connections, batchers and bounds are apart, so a set that does not respond costs
//! calls for other sets nothing. `probe_loop` finds out whether a set responds, and fetches its routes; calls only read
//! what it found, and never probe.
//!
//! An address of another set is stated by nodes of this set, or by nodes of that one. Whichever it is, only an AllocSvr
//! whose certificate is of the set with the stated name receives a call there.
//!
//! **Invariant:** a set's routes only choose the node that a call is sent to. Any node of the set serves it, or
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

/// Most sets with a label of their own in the metrics: more than one cluster has in use, and few enough to be stored.
const MAX_LABELS: usize = 64;

/// The label of the others.
const REST: &str = "other";

/// The other sets that calls were forwarded to. At most as many as the routes have, [`seq_core::limits::MAX_SETS`].
#[derive(Debug)]
pub(crate) struct OtherSets {
    /// The labels of this node's metrics.
    set: String,
    node: String,
    connections: usize,
    dial: Dial,
    /// To nodes of sets that the routes do not have.
    unnamed: Peers,
    sets: RwLock<BTreeMap<SetId, Arc<OtherSet>>>,
    /// Notified when a set is to be probed, or is in use again.
    probe: Arc<Notify>,
}

impl OtherSets {
    /// None yet, of a node of this set. Each will have so many connections to a node.
    pub(crate) fn new(set: &str, node: &str, connections: usize, dial: Dial) -> OtherSets {
        let (set, node) = (set.to_owned(), node.to_owned());
        let unnamed = Peers::new(1, dial.expecting(ExpectedServer::alloc()));
        OtherSets { set, node, connections, dial, unnamed, sets: RwLock::default(), probe: Arc::default() }
    }

    /// Connections to AllocSvrs of a set that the routes do not have: its name is not known, so only the role is
    /// checked.
    pub(crate) fn unnamed(&self) -> &Peers {
        &self.unnamed
    }

    /// A set, by what the routes of this one state of it; made anew when its name or addresses changed. `None`: the
    /// routes do not have it.
    pub(crate) fn get(&self, id: SetId, routes: &RouteTable) -> Option<Arc<OtherSet>> {
        let stated = routes.other_set(id)?;
        if let Some(set) = self.sets.read().get(&id).filter(|set| set.is_stated(stated)) {
            return Some(set.clone());
        }
        let mut sets = self.sets.write();
        // Another call may have been here meanwhile.
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
