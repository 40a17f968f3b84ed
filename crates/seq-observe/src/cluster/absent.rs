//! Nodes that do not respond, with their names, their sets and the possible reasons.

use std::collections::BTreeMap;

use seq_command::store_client::{Node, NodeRole};
use serde::Serialize;

use super::set_view::SetView;
use crate::sample::Sample;
use crate::verdict::age;

/// A node that does not respond.
#[derive(Debug, Serialize)]
pub struct Unreachable {
    /// Address that was queried, as `host:port`.
    pub addr: String,
    /// Name of the node. It is `None` if neither a response of another node nor the set file states it.
    pub name: Option<String>,
    /// Name of the node's set. It is `None` if neither a response of another node nor the set file states it.
    pub set: Option<String>,
    /// Role of the node. It is `None` if neither a response of another node nor the set file states it.
    #[serde(skip)]
    pub role: Option<NodeRole>,
    /// Reason why the node may not respond.
    pub state: Absence,
    /// Whether the store of the node's set lists the node no longer, e.g. because an operator removed it.
    pub removed: bool,
    /// Milliseconds since the StoreSvr last acknowledged the leader of its store. It is `None` if unknown, and for
    /// other nodes.
    pub silent_ms: Option<u64>,
    /// Error of the request, after the reported death of the process if there is one.
    pub why: String,
}

impl Unreachable {
    /// Returns whether the node should respond.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.state, Absence::Silent | Absence::Expired | Absence::Unknown)
    }
}

/// Reason why a node may not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absence {
    /// The node is missing.
    Silent,
    /// The certificate of the node has expired.
    Expired,
    /// An operator drained the node before its process exited.
    Stopped,
    /// The store of the node's set no longer lists the node.
    Removed,
    /// The node responds at another address.
    Moved,
    /// The set of the node is closed.
    Closed,
    /// No set knows the node.
    Unknown,
}

impl Absence {
    /// Returns the word for the reason in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Absence::Silent => "silent",
            Absence::Expired => "expired",
            Absence::Stopped => "stopped",
            Absence::Removed => "removed",
            Absence::Moved => "moved",
            Absence::Closed => "closed",
            Absence::Unknown => "unknown",
        }
    }
}

/// The identity of a node that does not respond, and the reason for its silence, as far as responses of other nodes and
/// the set file state them.
pub(crate) struct Absent {
    pub(crate) state: Absence,
    pub(crate) set: Option<String>,
    pub(crate) role: Option<NodeRole>,
    pub(crate) name: Option<String>,
}

impl Absent {
    /// Returns the identity of the node at `addr`, and the reason why it may not respond. `seed` is the node as the
    /// user named it, if the user did.
    pub(crate) fn of(addr: &str, seed: Option<&Node>, sample: &Sample, sets: &BTreeMap<&str, SetView>) -> Absent {
        let listed = sets.iter().find_map(|(set, view)| Some(((*set).to_owned(), view.node_at(addr)?)));
        let is_listed = listed.is_some();
        let stated = || seed.and_then(|seed| seed.of.clone()).or_else(|| sample.nodes.get(addr).cloned());
        let (set, role, name) = match listed {
            Some((set, (role, name))) => (Some(set), Some(role), Some(name)),
            None => match stated() {
                Some((set, role)) => (Some(set), Some(role), seed.and_then(|seed| seed.name.clone())),
                None => (None, None, seed.and_then(|seed| seed.name.clone())),
            },
        };
        let view = set.as_deref().and_then(|set| sets.get(set));
        let state = match (view, role, &name) {
            (None, ..) if seed.is_some() => Absence::Unknown,
            (None, ..) => Absence::Removed,
            (Some(view), ..) if view.facts.closed => Absence::Closed,
            (Some(view), Some(role), Some(name)) if view.responding.contains_key(&(role, name.clone())) => {
                Absence::Moved
            }
            (Some(view), Some(NodeRole::Alloc), Some(name)) if view.is_stopped(name) => Absence::Stopped,
            // An allocator that is in the set file but not registered was never started, so it counts as missing and
            // not as removed.
            (Some(_), Some(NodeRole::Alloc), Some(_)) => Absence::Silent,
            // Only the list of a store with a majority is up to date, so that a node missing from it was removed.
            (Some(view), ..) if !is_listed && view.facts.quorum && !view.lists(name.as_deref()) => Absence::Removed,
            _ => Absence::Silent,
        };
        Absent { state, set, role, name }
    }

    pub(crate) fn unreachable(self, addr: &str, why: &str, sets: &BTreeMap<&str, SetView>) -> Unreachable {
        let view = self.set.as_deref().and_then(|set| sets.get(set));
        let name = self.name.as_deref();
        let died = view.zip(name).and_then(|(view, name)| view.died_ms(self.role, name));
        let why = died.map_or_else(|| why.to_owned(), |ms| format!("died {} ago (reported); {why}", age(ms)));
        Unreachable {
            silent_ms: view.zip(name).and_then(|(view, name)| view.silent_ms(self.role, name)),
            removed: self.state == Absence::Removed,
            addr: addr.to_owned(),
            name: self.name,
            set: self.set,
            role: self.role,
            state: self.state,
            why,
        }
    }
}
