//! State that this node keeps about one other set: connections and batchers, routes, health, and limits on calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use metrics::Counter;
use seq_core::calls::MAX_PENDING_OF_SET;
use seq_core::route::{Adopted, RouteSet, RouteTable, RouteUpdate};
use seq_core::set_health::{Due, FALLEN, Health, IN_USE, Observed, PROBE_TIMEOUT, RECOVERY, ROUNDS};
use seq_core::{SectionId, SetId};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::peers::Peers;

/// Limit on how long a call waits for the first rounds of probes of a set. It is the sum of the timeouts of these
/// rounds and some time for tasks to wake.
const FIRST_ROUNDS: Duration = PROBE_TIMEOUT.saturating_mul(ROUNDS + 1);

/// Another set.
#[derive(Debug)]
pub(crate) struct OtherSet {
    id: SetId,
    name: String,
    /// Addresses of the set's nodes, as stated by the routes of this node's own set.
    stated: Vec<String>,
    /// Addresses of all known nodes of the set: the stated addresses, and the addresses in the set's own routes.
    nodes: ArcSwap<Vec<Arc<str>>>,
    /// The set's own routes, as one of its nodes sent them most recently.
    routes: ArcSwapOption<RouteTable>,
    /// Connections and batchers for calls.
    pub(crate) peers: Peers,
    /// Connections for probes only, so that a probe is never delayed by requests that wait at the other set.
    pub(super) probes: Peers,
    /// Number of items forwarded to the set.
    forwarded: Counter,
    /// Number of calls in flight to the set.
    in_flight: AtomicUsize,
    /// Number of calls that wait for a section of the set.
    pending: AtomicUsize,
    /// Origin of the following times, which are in milliseconds.
    origin: Instant,
    /// Time of the last response.
    received: AtomicU64,
    /// Time of the last call.
    used: AtomicU64,
    /// Whether newer routes of the set have to be fetched.
    stale: AtomicBool,
    /// Whether a call could not reach a node since the last round of probes began.
    unreachable: AtomicBool,
    /// Number of consecutive rounds of probes without a response.
    missed: AtomicU32,
    /// Time of the last change of the set's health from up to down; `u64::MAX` if there was no such change.
    fell: AtomicU64,
    health: watch::Sender<Health>,
    probe: Arc<Notify>,
}

/// Permit of a call that is in flight to another set, or that waits for a section of another set.
#[derive(Debug)]
pub(crate) struct SetPermit {
    set: Arc<OtherSet>,
    in_flight: bool,
}

impl Drop for SetPermit {
    fn drop(&mut self) {
        self.set.count(self.in_flight).fetch_sub(1, Relaxed);
    }
}

impl OtherSet {
    /// Creates a set of unknown health, without routes.
    pub(super) fn new(
        id: SetId,
        stated: &RouteSet,
        [peers, probes]: [Peers; 2],
        forwarded: Counter,
        probe: Arc<Notify>,
    ) -> OtherSet {
        OtherSet {
            id,
            forwarded,
            name: stated.name.clone(),
            nodes: ArcSwap::from_pointee(stated.allocs.iter().map(|addr| Arc::from(addr.as_str())).collect()),
            stated: stated.allocs.clone(),
            routes: ArcSwapOption::empty(),
            peers,
            probes,
            in_flight: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            origin: Instant::now(),
            received: AtomicU64::new(0),
            used: AtomicU64::new(0),
            // No routes are known yet.
            stale: AtomicBool::new(true),
            unreachable: AtomicBool::new(false),
            missed: AtomicU32::new(0),
            fell: AtomicU64::new(u64::MAX),
            health: watch::Sender::new(Health::Unknown),
            probe,
        }
    }

    /// Returns whether `stated`, the entry for the set in the routes of this node's own set, has the same name and
    /// addresses as this value.
    pub(super) fn is_stated(&self, stated: &RouteSet) -> bool {
        self.name == stated.name && self.stated == stated.allocs
    }

    /// Returns the id of the set.
    pub(crate) fn id(&self) -> SetId {
        self.id
    }

    /// Counts items that are sent to the set.
    pub(crate) fn forwarded(&self, items: usize) {
        self.forwarded.increment(items as u64);
    }

    /// Admits a call that is to be sent to the set; `None` if the allowed number of calls is already in flight.
    pub(crate) fn admit(self: &Arc<OtherSet>) -> Option<SetPermit> {
        let now = self.now();
        let idle = now.saturating_sub(Duration::from_millis(self.used.swap(as_ms(now), Relaxed))) >= IN_USE / 2;
        let permit = self.permit(true)?;
        if self.in_flight.load(Relaxed) == 1 {
            self.on_received();
        }
        if idle {
            // The results of probes that were made before the idle time are too old to be used.
            self.missed.store(0, Relaxed);
            self.health.send_if_modified(|health| {
                let down = *health == Health::Down;
                *health = if down { Health::Unknown } else { *health };
                down
            });
        }
        if idle || *self.health.borrow() == Health::Unknown {
            self.probe.notify_one();
        }
        Some(permit)
    }

    /// Admits a call that waits for a section of the set; `None` if the allowed number of calls is already waiting.
    pub(crate) fn admit_pending(self: &Arc<OtherSet>) -> Option<SetPermit> {
        self.permit(false)
    }

    fn permit(self: &Arc<OtherSet>, in_flight: bool) -> Option<SetPermit> {
        if self.count(in_flight).fetch_add(1, Relaxed) >= MAX_PENDING_OF_SET {
            self.count(in_flight).fetch_sub(1, Relaxed);
            return None;
        }
        Some(SetPermit { set: self.clone(), in_flight })
    }

    fn count(&self, in_flight: bool) -> &AtomicUsize {
        if in_flight { &self.in_flight } else { &self.pending }
    }

    /// Returns whether a call can be sent to the set, that is, whether the set is up. If its health is unknown, waits
    /// for the first rounds of probes. If the set went down within the last [`FALLEN`], waits up to [`RECOVERY`] for it
    /// to respond again. If it has been down for longer, returns `false` at once.
    pub(crate) async fn responds(&self) -> bool {
        let mut health = self.health.subscribe();
        let current = *health.borrow_and_update();
        let most = match current {
            Health::Up => return true,
            Health::Unknown => FIRST_ROUNDS,
            Health::Down if self.has_fallen() => RECOVERY,
            Health::Down => return false,
        };
        let changed = tokio::time::timeout(most, health.wait_for(|health| *health != current)).await;
        // The wait cannot fail, because the sender is in `self`.
        matches!(changed, Ok(Ok(health)) if *health == Health::Up)
    }

    /// Returns whether the set went down within the last [`FALLEN`].
    fn has_fallen(&self) -> bool {
        let fell = self.fell.load(Relaxed);
        fell != u64::MAX && self.now().saturating_sub(Duration::from_millis(fell)) < FALLEN
    }

    /// Waits until the set is down, because a request in flight to it will then get no response. Cancel safe.
    pub(crate) async fn down(&self) {
        let _ = self.health.subscribe().wait_for(|health| *health == Health::Down).await;
    }

    /// Notes that a message was received from the set.
    pub(crate) fn on_received(&self) {
        self.received.store(as_ms(self.now()), Relaxed);
    }

    /// Records that a node does not own a section that the set's routes assign to this node. The next probe fetches
    /// newer routes.
    pub(crate) fn on_stale(&self) {
        if !self.stale.swap(true, Relaxed) {
            self.probe.notify_one();
        }
    }

    /// Records that the node at `addr` could not be reached. For a while, calls are sent to other nodes of the set if
    /// possible. A round of probes begins at once.
    pub(crate) fn on_unreachable(&self, addr: &str) {
        self.peers.here().pool.suspect(addr);
        if !self.unreachable.swap(true, Relaxed) {
            self.probe.notify_one();
        }
    }

    /// Returns the address of the node to which a request for a section is sent on the current runtime. It is the
    /// owner's address. If the owner is unknown or is suspected of being unreachable, it is the address of another node
    /// of the set. Returns `None` if no address is known.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn addr_for(&self, section: SectionId) -> Option<Arc<str>> {
        let connections = self.peers.here();
        let is_good = |addr: &Arc<str>| !connections.pool.is_suspect(addr);
        if let Some(owner) = self.owner_of(section).filter(is_good) {
            return Some(owner);
        }
        let nodes = self.nodes.load();
        if nodes.is_empty() {
            return None;
        }
        let (back, front) = nodes.split_at(fastrand::usize(..nodes.len()));
        let all = || front.iter().chain(back);
        all().find(|addr| is_good(addr)).or_else(|| all().next()).cloned()
    }

    /// Returns the address of the node that owns a section according to the set's routes.
    pub(crate) fn owner_of(&self, section: SectionId) -> Option<Arc<str>> {
        let routes = self.routes.load();
        let owner = routes.as_ref().and_then(|routes| routes.node(routes.get(section)?.owner?))?;
        self.nodes.load().iter().find(|addr| ***addr == *owner.addr).cloned()
    }

    /// Returns whether a node of the set has this address.
    pub(crate) fn is_node(&self, addr: &str) -> bool {
        self.nodes.load().iter().any(|node| **node == *addr)
    }

    /// Returns all known addresses.
    pub(super) fn nodes(&self) -> Vec<Arc<str>> {
        self.nodes.load().to_vec()
    }

    /// Returns the version of the known routes of the set; 0 without routes.
    pub(super) fn route_version(&self) -> u64 {
        self.routes.load().as_ref().map_or(0, |routes| routes.version().0)
    }

    /// Returns when the next round of probes of the set is due. `probed` is the time at which the last round began.
    pub(super) fn due(&self, probed: Option<Instant>) -> Due {
        let observed = Observed {
            health: *self.health.borrow(),
            received: Duration::from_millis(self.received.load(Relaxed)),
            used: Duration::from_millis(self.used.load(Relaxed)),
            probed: probed.map(|probed| probed.saturating_duration_since(self.origin)),
            in_flight: self.in_flight.load(Relaxed),
            stale: self.stale.load(Relaxed),
            unreachable: self.unreachable.load(Relaxed),
            missed: self.missed.load(Relaxed),
            fallen: self.has_fallen(),
        };
        observed.due(self.now())
    }

    /// Converts a time that [`OtherSet::due`] returned to an instant.
    pub(super) fn at(&self, due: Duration) -> Instant {
        self.origin + due
    }

    /// Notes the begin of a round of probes.
    pub(super) fn on_probing(&self) {
        self.unreachable.store(false, Relaxed);
    }

    /// Returns whether newer routes of the set have to be fetched. After this call they no longer have to be, because
    /// the caller fetches them.
    pub(super) fn take_stale(&self) -> bool {
        self.stale.swap(false, Relaxed)
    }

    /// Records the end of a round of probes. `responded` is whether any node responded in the round.
    pub(super) fn on_probed(&self, responded: bool) {
        if responded {
            self.on_received();
        }
        let known = *self.health.borrow();
        let (health, missed) = known.after_round(self.missed.load(Relaxed), responded);
        self.missed.store(missed, Relaxed);
        if (known, health) == (Health::Up, Health::Down) {
            self.fell.store(as_ms(self.now()), Relaxed);
        }
        let changed = self.health.send_if_modified(|current| std::mem::replace(current, health) != health);
        if changed {
            let (set, name) = (self.id.0, &self.name);
            match health {
                Health::Down => tracing::warn!(set, name, "no node of another set responds: its calls are refused"),
                _ => tracing::info!(set, name, "another set responds"),
            }
        }
    }

    /// Adopts routes of the set that one of its nodes sent, if they are newer than the known routes.
    pub(super) fn adopt(&self, update: &RouteUpdate) {
        let known = self.routes.load_full();
        let mut next = match known.as_deref() {
            Some(known) if known.layout().agrees(&update.layout) => known.clone(),
            _ => match RouteTable::from_whole(update) {
                Some(whole) => whole,
                None => return self.forget_routes(),
            },
        };
        match next.adopt(update) {
            Adopted::Newer | Adopted::NotNewer => {}
            // The next fetch then requests the whole route table.
            Adopted::Mismatch => return self.forget_routes(),
        }
        let mut nodes: Vec<Arc<str>> = self.stated.iter().map(|addr| Arc::from(addr.as_str())).collect();
        for node in next.nodes().values().filter(|node| !self.stated.contains(&node.addr)) {
            nodes.push(Arc::from(node.addr.as_str()));
        }
        self.nodes.store(Arc::new(nodes));
        self.routes.store(Some(Arc::new(next)));
    }

    fn forget_routes(&self) {
        self.routes.store(None);
        self.on_stale();
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
