//! A set in a client's directory: the addresses of its nodes, and the state that all calls to the set share.
//!
//! Invariant: the version of the set's own routes never falls. A set that is known only from the routes of other sets
//! has version 0.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seq_core::route::RouteUpdate;
use seq_core::{Layout, NodeId, RouteVersion, SetId};
use tokio::time::Instant;

use crate::budget::Budget;

/// Limit on the number of addresses that the client keeps for a set because the routes of other sets state them. It is
/// large enough that at least one address usually reaches a running node.
const MAX_LEARNED_ADDRS: usize = 16;

/// Minimum interval between two requests for the whole route table of a set that has not sent routes yet. A whole table
/// is large, and a client that has just learned of a set makes many calls to it.
const WHOLE_INTERVAL: Duration = Duration::from_secs(1);

/// Nodes and state of a set.
#[derive(Clone, Debug)]
pub(crate) struct SetRoutes {
    pub(super) id: SetId,
    /// Empty while only the set's id is known.
    pub(super) name: String,
    pub(super) layout: Layout,
    /// Version of the set's own routes; 0 if it has not sent any.
    pub(super) version: RouteVersion,
    addrs: BTreeMap<NodeId, Arc<str>>,
    /// Seeds that sent the set's routes.
    seeds: Vec<Arc<str>>,
    /// Addresses of the set that the routes of other sets state.
    learned: Vec<Arc<str>>,
    /// All addresses to which requests for the set are sent: the addresses of its nodes and seeds. While the set has
    /// not sent the addresses of its nodes, the addresses that other sets state for it are used instead.
    hosts: Vec<Arc<str>>,
    pub(super) state: Arc<SetState>,
}

/// State of one set that all calls to the set and all snapshots of the directory share. Retries to a set that is down
/// spend only that set's budget.
#[derive(Debug)]
pub(crate) struct SetState {
    pub(crate) budget: Budget,
    /// Time of the last request for routes to another set that was made because no node of this set could be reached.
    /// The lock is held during the request.
    pub(crate) others_asked: tokio::sync::Mutex<Option<Instant>>,
    /// Whether the next request to the set asks for the set's whole route table. It is set after a response contained
    /// only the changes since a version that this client does not have.
    want_whole: AtomicBool,
    /// Time of the last request for the set's whole route table, as long as the set has not sent any routes.
    whole_asked: Mutex<Option<Instant>>,
}

impl SetState {
    fn new() -> SetState {
        SetState {
            budget: Budget::new(Instant::now()),
            others_asked: tokio::sync::Mutex::default(),
            want_whole: AtomicBool::new(false),
            whole_asked: Mutex::default(),
        }
    }

    /// Makes the next request to the set ask for the set's whole table.
    pub(super) fn want_whole(&self) {
        self.want_whole.store(true, Relaxed);
    }
}

impl SetRoutes {
    /// Creates a set without routes or addresses.
    pub(super) fn new(id: SetId, layout: Layout) -> SetRoutes {
        SetRoutes {
            id,
            name: String::new(),
            layout,
            version: RouteVersion(0),
            addrs: BTreeMap::new(),
            seeds: Vec::new(),
            learned: Vec::new(),
            hosts: Vec::new(),
            state: Arc::new(SetState::new()),
        }
    }

    /// Returns the set's id.
    pub(crate) fn id(&self) -> SetId {
        self.id
    }

    /// Returns the set's name; empty while only its id is known.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of the set's own routes; 0 if it has not sent any.
    pub(crate) fn version(&self) -> RouteVersion {
        self.version
    }

    /// Returns the set's nodes with their addresses, in order of id.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.addrs.iter().map(|(id, addr)| (*id, &**addr))
    }

    /// Returns the addresses of the set that the routes of other sets state.
    pub(crate) fn learned(&self) -> impl Iterator<Item = &str> {
        self.learned.iter().map(|addr| &**addr)
    }

    /// Returns the layout of the set's cluster, as stated by this set or another set.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the state that all calls to the set share.
    pub(crate) fn state(&self) -> &Arc<SetState> {
        &self.state
    }

    /// Returns every known address of the set, including the addresses that only other sets state.
    pub(crate) fn all_addrs(&self) -> impl Iterator<Item = &Arc<str>> {
        self.hosts.iter().chain(&self.learned)
    }

    /// Returns whether a seed is known to be of this set.
    pub(super) fn has_seed(&self, seed: &Arc<str>) -> bool {
        self.seeds.contains(seed)
    }

    /// Returns the address of a node.
    pub(crate) fn addr(&self, node: NodeId) -> Option<&Arc<str>> {
        self.addrs.get(&node)
    }

    /// Returns the route version that a request to the set states as known, which decides which routes the response
    /// contains. 0 asks for the whole route table. `None` asks for no routes; it is returned if the set has not sent
    /// any routes yet and another request has just asked for the whole table.
    #[inline]
    pub(crate) fn known_version(&self) -> Option<u64> {
        if self.version == RouteVersion(0) {
            return self.whole_due().then_some(0);
        }
        // Almost all calls only read this flag. It is written only by the call that clears it.
        let want_whole = &self.state.want_whole;
        if want_whole.load(Relaxed) && want_whole.swap(false, Relaxed) { Some(0) } else { Some(self.version.0) }
    }

    #[cold]
    fn whole_due(&self) -> bool {
        let mut asked = self.state.whole_asked.lock();
        let due = asked.is_none_or(|asked| asked.elapsed() >= WHOLE_INTERVAL);
        if due {
            *asked = Some(Instant::now());
        }
        due
    }

    /// Adopts the set's name, layout, version and addresses from a newer update that the set itself sent. The caller
    /// merges the routes of sections in the update. Returns whether an address changed.
    pub(super) fn adopt(&mut self, update: &RouteUpdate) -> bool {
        self.name.clone_from(&update.set);
        self.layout.clone_from(&update.layout);
        self.version = update.version;
        let unchanged = self.addrs.len() == update.nodes.len()
            && self.addrs.iter().zip(&update.nodes).all(|(have, (id, node))| have.0 == id && **have.1 == *node.addr);
        if !unchanged {
            self.addrs = update.nodes.iter().map(|(id, node)| (*id, Arc::from(node.addr.as_str()))).collect();
            self.find_hosts();
        }
        !unchanged
    }

    /// Adds a seed that sent this set's routes.
    pub(super) fn add_seed(&mut self, seed: &Arc<str>) {
        self.seeds.push(seed.clone());
        self.find_hosts();
    }

    /// Adopts the name and addresses that another set sent for this set; returns whether anything changed.
    pub(super) fn learn(&mut self, name: &str, addrs: &[String]) -> bool {
        let addrs = &addrs[..addrs.len().min(MAX_LEARNED_ADDRS)];
        let same_addrs = self.learned.iter().map(|addr| &**addr).eq(addrs.iter().map(String::as_str));
        // For the name of the set, its own routes take precedence over the statement of another set.
        let same_name = self.name == name || self.version > RouteVersion(0);
        if same_addrs && same_name {
            return false;
        }
        self.learned = addrs.iter().map(|addr| Arc::from(addr.as_str())).collect();
        if !same_name {
            name.clone_into(&mut self.name);
        }
        self.find_hosts();
        true
    }

    fn find_hosts(&mut self) {
        let nodes = self.addrs.values().chain(self.addrs.is_empty().then_some(&self.learned).into_iter().flatten());
        let mut hosts: Vec<Arc<str>> = Vec::with_capacity(self.addrs.len() + self.seeds.len());
        for host in nodes.chain(&self.seeds) {
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        self.hosts = hosts;
    }

    /// Returns the address to which a request for a section of this set is sent; `None` if no address is known. An
    /// address is good if it is neither `excluded` nor suspect, that is, recently unreachable. Returns the owner's
    /// address if it is good, otherwise a random good address of another node, which forwards the request, otherwise a
    /// good address that another set states. If no address is good, returns any address that is not excluded, or else
    /// any address.
    pub(crate) fn host(
        &self,
        owner: Option<NodeId>,
        excluded: Option<&str>,
        is_suspect: impl Fn(&str) -> bool,
    ) -> Option<Arc<str>> {
        let is_excluded = |host: &str| Some(host) == excluded;
        let is_good = |host: &&Arc<str>| !is_excluded(host) && !is_suspect(host);
        if let Some(owner) = owner.and_then(|owner| self.addrs.get(&owner)).filter(is_good) {
            return Some(owner.clone());
        }
        if self.hosts.is_empty() {
            return None;
        }
        let (back, front) = self.hosts.split_at(fastrand::usize(..self.hosts.len()));
        let hosts = || front.iter().chain(back);
        let host = hosts().find(is_good).or_else(|| self.learned.iter().find(is_good));
        host.or_else(|| hosts().find(|host| !is_excluded(host))).or_else(|| hosts().next()).cloned()
    }

    /// Returns whether the set has no known address, or every known address was unreachable recently.
    pub(crate) fn is_down(&self, is_suspect: impl Fn(&str) -> bool) -> bool {
        self.all_addrs().all(|addr| is_suspect(addr))
    }
}
