//! What the handles and the loops of one allocator share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::Guard;
use parking_lot::Mutex;
use seq_api::clock::Clock;
use seq_api::service::{Allocation, Item};
use seq_core::calls::SetRoute;
use seq_core::owner::{Effects, Owner};
use seq_core::raise;
use seq_core::route::RouteTable;
use seq_core::section::RaiseTicket;
use seq_core::self_check::Decision;
use seq_core::{Advance, Epoch, Layout, NodeId, Refusal, SectionId, Seq, SetId, SlotIndex, Take, Target};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::AllocOptions;
use crate::counters::{Burned, Counters};
use crate::halt::HaltLatch;
use crate::handover::HandoverQueue;
use crate::handover_service::Receiving;
use crate::other_sets::{OtherSet, OtherSets};
use crate::ownership::{Followup, OwnedSection, Ownership, Served, Serving};
use crate::peers::Peers;
use crate::pending::{PendingCalls, PendingItem};
use crate::raise_queue::RaiseInbox;

/// Steps of the ceiling in one advance from which on it is logged: a hundred times the largest count.
const FAR_ADVANCE_STEPS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) set: String,
    pub(crate) name: String,
    pub(crate) advertise: String,
    /// Where the other AllocSvrs reach its port for peers; `None`: where callers do.
    pub(crate) advertise_to_peers: Option<String>,
    /// Whether to replace a running process of this name at another address.
    pub(crate) replace: bool,
    pub(crate) layout: Layout,
    pub(crate) options: AllocOptions,
    pub(crate) clock: Clock,
    /// What is owned and for how long. Changed by [`Shared::step`].
    pub(crate) ownership: Ownership,
    /// The node's id, the same in every incarnation; 0 before the first registration.
    pub(crate) node: AtomicU32,
    /// Why no response of the store can be used, while none can.
    pub(crate) fault: Mutex<Option<String>>,
    /// Where the store's members are, as a response of the leader reported it last, the leader first; empty before.
    pub(crate) stores: Mutex<Vec<String>>,
    /// Where other nodes of the set take handovers, as planned handovers stated last: routes have the ports for
    /// callers.
    pub(crate) peer_addrs: Mutex<BTreeMap<NodeId, String>>,
    pub(crate) raises: RaiseInbox,
    /// Notified when the routes known here proved stale.
    pub(crate) renew_now: Notify,
    /// Notified when a peer reports that a handover to this node is committed: a renewal is sent at once, for the
    /// grant.
    pub(crate) grants_due: Notify,
    /// Notified when a pending call may go on: the table, the routes or the lease changed.
    pub(crate) ownership_changed: Notify,
    pub(crate) pending: PendingCalls,
    pub(crate) handovers: HandoverQueue,
    pub(crate) receiving: Receiving,
    /// Connections to the other nodes of the set.
    pub(crate) peers: Peers,
    /// The way to other sets.
    pub(crate) other_sets: OtherSets,
    pub(crate) counters: Counters,
    /// Whether callers reach this node, as decided last.
    pub(crate) self_check: Mutex<Decision>,
    /// Names of other nodes of the set that this node does not reach at their addresses for callers.
    pub(crate) unreached: Mutex<Vec<String>>,
    /// Set when this process may no longer serve.
    pub(crate) halt: HaltLatch,
    /// The newest incarnation of this node that a session had; 0 for none.
    pub(crate) last_incarnation: AtomicU64,
    pub(crate) shutdown: CancellationToken,
}

impl Shared {
    /// Has the owner's machine take a step, and starts what follows from it.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Owner, &mut Effects) -> T) -> T {
        let (outcome, followup) = self.ownership.step(step);
        self.follow_up(followup);
        outcome
    }

    fn follow_up(&self, followup: Followup) {
        let Followup { requests, renew_now, changed, extended, transitions } = followup;
        for request in requests {
            self.handovers.push(request);
        }
        if renew_now {
            self.grants_due.notify_one();
        }
        self.counters.copies_lost(transitions.copies_lost);
        let most = raise::most_skipped(self.ownership.raise_step());
        let lost = transitions.copies_lost.min(transitions.at_ceiling);
        self.counters.burned(Burned::Handover, most * lost as u64);
        self.counters.burned(Burned::Takeover, most * (transitions.at_ceiling - lost) as u64);
        transitions.log(&self.set, &self.name);
        // Some pending calls wait for a response of the store as such.
        if changed || (extended && self.pending.await_owner()) {
            self.ownership_changed.notify_waiters();
        }
    }

    /// What may be served now, for calls that are in memory.
    #[inline]
    pub(crate) fn serve(&self) -> Option<Serving<'_>> {
        self.ownership.serve(self.clock.now())
    }

    /// Whether the lease holds now.
    pub(crate) fn is_leased(&self) -> bool {
        self.ownership.is_leased(self.clock.now())
    }

    /// Takes an item's numbers from a section that is served here. `None`: not now. They are above the ceiling and a
    /// raise is queued, or the section is frozen, or the caller has seen a newer ownership.
    #[inline]
    pub(crate) fn take(&self, served: Served<'_>, item: &Item, slot: SlotIndex) -> Option<Result<Allocation, Refusal>> {
        if item.epoch > served.epoch() {
            return None;
        }
        match served.take(slot, item.count) {
            Take::Given { value, prev, ticket } => {
                if let Some(ticket) = ticket {
                    self.enqueue_raise(served, ticket);
                }
                Some(Ok(Allocation { value, prev, epoch: served.epoch(), lost: 0 }))
            }
            Take::AtCeiling { ticket: Some(ticket), .. } => {
                self.enqueue_raise(served, ticket);
                None
            }
            Take::AtCeiling { ticket: None, .. } | Take::Frozen => None,
            Take::Exhausted => Some(Err(Refusal::Exhausted { uid: item.uid, count: item.count.get() })),
        }
    }

    /// A call of its own, so that a batch's loop around [`Shared::take`] stays small enough to hold all of it.
    #[cold]
    #[inline(never)]
    fn enqueue_raise(&self, served: Served<'_>, ticket: RaiseTicket) {
        self.raises.enqueue(served.owned().clone(), ticket);
    }

    /// Raises a uid of a section that is served here. `None`: not now, as for [`Shared::take`].
    pub(crate) fn advance(&self, served: Served<'_>, item: &PendingItem, to: Target) -> Option<Result<Epoch, Refusal>> {
        if item.item.epoch > served.epoch() {
            return None;
        }
        let (answer, ticket) = match served.advance(item.slot, to, self.options.max_advance) {
            Advance::Done { skipped, ticket } => {
                self.counters.burned(Burned::Advance, skipped);
                (Some(Ok(served.epoch())), ticket)
            }
            Advance::AtCeiling { ticket } => (None, ticket),
            Advance::TooFar { bound } => (Some(Err(Refusal::AdvanceTooFar { to: to.seq().0, bound })), None),
            Advance::Past => (Some(Err(Refusal::AlreadyPast { uid: item.item.uid })), None),
            Advance::Frozen => (None, None),
        };
        if let Some(ticket) = ticket {
            self.enqueue_raise(served, ticket);
        }
        answer
    }

    /// Whether an advance burns so many of the section's numbers that an operator should know of it.
    pub(crate) fn is_far(&self, owned: &OwnedSection, to: Target) -> bool {
        let distance = to.seq().0.saturating_sub(owned.ceiling().0);
        distance / self.ownership.raise_step().0 >= FAR_ADVANCE_STEPS
    }

    /// Another node that owns a section, by the routes as they stand.
    pub(crate) fn other_owner(&self, section: SectionId) -> Option<NodeId> {
        let mine = NodeId(self.node.load(Relaxed));
        let owner = self.routes().as_ref().and_then(|routes| routes.get(section)).and_then(|route| route.owner);
        owner.filter(|owner| *owner != mine)
    }

    /// The set that a section is in, by the routes as they stand.
    pub(crate) fn set_route(&self, section: SectionId) -> SetRoute {
        let routes = self.routes();
        let Some(routes) = routes.as_ref() else { return SetRoute::default() };
        let route = routes.get(section).unwrap_or_default();
        SetRoute { own: routes.id(), other: route.other_set(), epoch: route.epoch }
    }

    /// Another set; `None` while the routes do not have its addresses.
    pub(crate) fn other_set(&self, id: SetId) -> Option<Arc<OtherSet>> {
        self.other_sets.get(id, self.routes().as_ref()?)
    }

    /// Id of this set; `SetId(0)` before the first routes.
    pub(crate) fn set_id(&self) -> SetId {
        self.routes().as_ref().map_or(SetId(0), |routes| routes.id())
    }

    /// The routes as they stand.
    #[inline]
    pub(crate) fn routes(&self) -> Guard<Option<Arc<RouteTable>>> {
        self.ownership.routes()
    }

    /// Brings the process' metrics up to date.
    pub(crate) fn publish(&self) {
        self.counters.publish();
        let version = self.routes().as_ref().map_or(0, |routes| routes.version().0);
        let lease = self.ownership.lease_left(self.clock.now());
        let owned = self.ownership.owned();
        // Without a lease nothing is served, whatever is owned.
        let served = if lease.is_zero() { 0 } else { owned.iter().count() };
        self.counters.publish_state(served, version, lease);
        self.counters.publish_ceiling(owned.iter().map(|owned| owned.ceiling()).max().unwrap_or(Seq::ZERO));
    }

    /// Bytes that hold counters of touched pages. Visits every page there could be.
    pub(crate) fn slot_bytes(&self) -> u64 {
        self.ownership.owned().iter().map(|owned| owned.slot_bytes() as u64).sum()
    }
}

/// How often the metrics are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// How many times the other metrics are published for each time the memory of all pages is added up: that walk takes
/// milliseconds in a set of many sections.
const PUBLISHES_PER_WALK: u32 = 15;

/// Publishes the metrics until shutdown.
pub(crate) async fn metrics_loop(shared: Arc<Shared>) {
    for turn in (0..PUBLISHES_PER_WALK).cycle() {
        shared.publish();
        if turn == 0 {
            shared.counters.publish_slots(shared.slot_bytes());
        }
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = tokio::time::sleep(PUBLISH_EVERY) => {}
        }
    }
}
