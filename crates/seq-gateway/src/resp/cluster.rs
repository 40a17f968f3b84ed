//! The slots of Redis Cluster, as the port for its clients shows them: the owner of each bucket of the port's keyspace,
//! at the address of the owner's port of this kind.
//!
//! Each endpoint computes the table of slots anew when the version of the routes has changed. The addresses come from
//! the set file, the owners from the routes. A slot that is in another set, that has no owner, or whose owner has no
//! such port, is shown at one of the nodes that have the port. Any node serves it, by forwarding.
//!
//! **Invariant:** a call is refused instead of forwarded only if each owner in this set has an address, so that the
//! client can always be redirected. The table depends only on the set file and the routes, so nodes with the same
//! version of both show the same slots, except that each node also lists itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use seq_api::service::{Redirects, SequenceService};
use seq_core::keyspace::BUCKETS;
use seq_core::layout::SectionRun;
use seq_core::route::RouteUpdate;
use seq_core::{NodeId, Refusal, RouteVersion, SectionId};
use sha2::{Digest, Sha256};

use crate::keys::KeyRefusal;
use crate::resp::Endpoint;
use crate::resp::encode::Replies;

/// Number of bytes of a node's id, which is shown as twice as many hexadecimal digits.
const ID_BYTES: usize = 20;

/// The nodes of a set that have a port for clients of Redis Cluster.
#[derive(Clone, Debug)]
pub struct ClusterNodes {
    /// Name of this node.
    own: String,
    /// The nodes by name.
    nodes: BTreeMap<String, Shown>,
}

/// A node as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// 40 hexadecimal digits that identify the node permanently.
    pub(super) id: String,
    /// Host in the address of the node's port, without the brackets of an IPv6 address, as in Redis.
    pub(super) host: String,
    pub(super) port: u16,
}

impl ClusterNodes {
    /// Creates the nodes of the set `set` of a cluster. `own` is the name of this node. `addrs` has the names of the
    /// nodes that have the port, each with the address of the port, "host:port".
    #[must_use]
    pub fn new<'a>(
        (cluster, set, own): (&str, &str, &str),
        addrs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> ClusterNodes {
        let shown = |(name, addr): (&str, &str)| {
            let (host, port) = addr.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some((name.to_owned(), Shown { id: id_of(cluster, set, name), host, port: port.parse().ok()? }))
        };
        ClusterNodes { own: own.to_owned(), nodes: addrs.into_iter().filter_map(shown).collect() }
    }

    /// Returns this node; `None` if its name is not among the nodes.
    pub(super) fn own(&self) -> Option<&Shown> {
        self.nodes.get(&self.own)
    }
}

/// Returns the id of a node, which depends on its names only, so that it stays the same when its process restarts.
fn id_of(cluster: &str, set: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{cluster}/{set}/{name}"));
    digest.iter().take(ID_BYTES).fold(String::new(), |mut id, byte| {
        write!(id, "{byte:02x}").expect("a String takes every write");
        id
    })
}

/// The table of slots.
#[derive(Debug)]
pub(super) struct Slots {
    /// Version of the routes when the table was computed.
    pub(super) version: RouteVersion,
    /// The sections of the keyspace; `None` while the keyspace does not exist.
    buckets: Option<SectionRun>,
    /// The nodes of the set that have an address, by their ids.
    by_id: BTreeMap<NodeId, Shown>,
    /// Neighbouring slots that are shown at the same node, in order: the first slot, the last slot and the node.
    pub(super) ranges: Vec<(u16, u16, NodeId)>,
    /// Treatment of a call for a slot of another node.
    pub(super) redirects: Redirects,
    /// This node, if it has registered.
    pub(super) own: Option<NodeId>,
}

impl Slots {
    /// Computes the table from a whole route table. `buckets` are the sections of the keyspace, if it exists.
    fn new(nodes: &ClusterNodes, buckets: Option<SectionRun>, version: RouteVersion, routes: &RouteUpdate) -> Slots {
        let registered = |name: &str| routes.nodes.iter().find(|(_, node)| node.name == name).map(|(id, _)| *id);
        let by_id: BTreeMap<NodeId, Shown> =
            nodes.nodes.iter().filter_map(|(name, shown)| Some((registered(name)?, shown.clone()))).collect();
        let owners = buckets.map_or_else(|| vec![None; BUCKETS.into()], |buckets| owners(buckets, routes));
        let all_have_addresses = owners.iter().flatten().all(|owner| by_id.contains_key(owner));
        let redirects = if all_have_addresses { Redirects::Refuse } else { Redirects::Forward };
        let others = stand_ins(&owners, &by_id, routes);
        let mut ranges: Vec<(u16, u16, NodeId)> = Vec::new();
        for (slot, owner) in (0..BUCKETS).zip(owners) {
            let stand_in = usize::from(slot) * others.len() / usize::from(BUCKETS);
            let shown = owner.filter(|owner| by_id.contains_key(owner)).or_else(|| others.get(stand_in).copied());
            match (ranges.last_mut(), shown) {
                (_, None) => {}
                (Some((_, last, node)), Some(shown)) if *node == shown && *last + 1 == slot => *last = slot,
                (_, Some(shown)) => ranges.push((slot, slot, shown)),
            }
        }
        Slots { version, buckets, by_id, ranges, redirects, own: registered(&nodes.own) }
    }

    /// Returns a node of the table.
    pub(super) fn node(&self, id: NodeId) -> Option<&Shown> {
        self.by_id.get(&id)
    }

    /// Returns the nodes that are shown with slots, and this node, in the order of their ids.
    pub(super) fn shown(&self) -> impl Iterator<Item = (NodeId, &Shown)> {
        let with_slots: BTreeSet<NodeId> = self.ranges.iter().map(|(_, _, node)| *node).chain(self.own).collect();
        with_slots.into_iter().filter_map(|id| Some((id, self.by_id.get(&id)?)))
    }

    /// Returns the ranges of slots that are shown at a node.
    pub(super) fn ranges_of(&self, id: NodeId) -> impl Iterator<Item = (u16, u16)> {
        self.ranges.iter().filter(move |(_, _, node)| *node == id).map(|(first, last, _)| (*first, *last))
    }

    /// Returns the slot of a section of the keyspace.
    fn slot(&self, section: SectionId) -> Option<u16> {
        let slot = u16::try_from(section.0.checked_sub(self.buckets?.first.0)?).ok()?;
        (slot < BUCKETS).then_some(slot)
    }
}

/// Returns the owner of each slot; `None` for a slot that has no owner or is in another set.
fn owners(buckets: SectionRun, routes: &RouteUpdate) -> Vec<Option<NodeId>> {
    let mut owners = vec![None; BUCKETS.into()];
    for run in &routes.runs {
        let to_slot = |section: u32| section.saturating_sub(buckets.first.0).min(BUCKETS.into()) as usize;
        let (first, end) = (to_slot(run.first.0), to_slot(run.first.0.saturating_add(run.sections)));
        owners[first..end].fill(run.route.owner);
    }
    owners
}

/// Returns the nodes at which the slots without an owner of their own are shown, in the order of their ids. They are
/// the nodes that own slots. If none does, they are the nodes that own sections of any kind, and otherwise all nodes. A
/// node that is drained or has died owns nothing, so it is among them only in the last case.
fn stand_ins(owners: &[Option<NodeId>], by_id: &BTreeMap<NodeId, Shown>, routes: &RouteUpdate) -> Vec<NodeId> {
    let with_address = |owners: &mut dyn Iterator<Item = NodeId>| -> Vec<NodeId> {
        let owners: BTreeSet<NodeId> = owners.filter(|owner| by_id.contains_key(owner)).collect();
        owners.into_iter().collect()
    };
    let of_slots = with_address(&mut owners.iter().flatten().copied());
    if !of_slots.is_empty() {
        return of_slots;
    }
    let of_sections = with_address(&mut routes.runs.iter().filter_map(|run| run.route.owner));
    if of_sections.is_empty() { by_id.keys().copied().collect() } else { of_sections }
}

/// The newest table of slots of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Option<Arc<Slots>>>);

impl<F: SequenceService> Endpoint<F> {
    /// Returns the table of slots; `None` if this is no port for clients of Redis Cluster, or if the node has no routes
    /// yet.
    pub(super) fn slots(&self) -> Option<Arc<Slots>> {
        let nodes = self.node.cluster.as_ref()?;
        // The version is read before the routes. If the routes become newer in between, the next call computes the
        // table again.
        let version = self.service.route_version();
        let mut newest = self.newest.0.lock();
        if let Some(slots) = newest.as_ref().filter(|slots| slots.version == version) {
            return Some(slots.clone());
        }
        let buckets = self.service.keyspace(&self.node.config.keyspace).map(|keyspace| keyspace.buckets);
        let slots = Arc::new(Slots::new(nodes, buckets, version, &self.service.routes_since(RouteVersion(0))?));
        // A keyspace may become known without a new version of the routes.
        *newest = buckets.map(|_| slots.clone());
        Some(slots)
    }

    /// Returns the treatment of calls of this port for slots of other nodes.
    pub(super) fn redirects(&self) -> Redirects {
        self.slots().map_or(Redirects::Forward, |slots| slots.redirects)
    }
}

/// Encodes the refusal of a command on a key as a redirect, or as another error that clients of Redis Cluster act on.
/// Returns false if the refusal is neither; the caller encodes it as on any port.
pub(super) fn refuse<F: SequenceService>(endpoint: &Endpoint<F>, replies: &mut Replies, refusal: &KeyRefusal) -> bool {
    if endpoint.node.cluster.is_none() {
        return false;
    }
    match refusal {
        KeyRefusal::Numbers(Refusal::NotOwner { section, owner: Some(owner) }) => {
            let Some(slots) = endpoint.slots() else { return false };
            let (Some(slot), Some(Shown { host, port, .. })) = (slots.slot(*section), slots.node(*owner)) else {
                return false;
            };
            replies.error("MOVED", format_args!("{slot} {host}:{port}"));
        }
        KeyRefusal::Numbers(Refusal::Unserved { .. }) => {
            replies.error("CLUSTERDOWN", format_args!("Hash slot not served"));
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests;
