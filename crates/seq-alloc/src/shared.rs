//! What the handles and the keepers of one allocator share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seq_api::clock::Clock;
use seq_api::service::{Allocation, Item};
use seq_core::lease::Lease;
use seq_core::owner::{Owner, Session};
use seq_core::route::RouteTable;
use seq_core::{Advance, Epoch, Layout, NodeId, Refusal, SectionId, Seq, SlotIndex, Step, Take, Target};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::AllocOptions;
use crate::counters::Counters;
use crate::halt::HaltLatch;
use crate::handover::HandoverQueue;
use crate::line::Line;
use crate::owned::{Owned, OwnedSection, OwnedTable};
use crate::peers::Peers;
use crate::pending::{PendingCalls, PendingItem};
use crate::target::Receiving;

/// Steps of the ceiling in one advance from which on it is logged: a hundred times the largest count.
const FAR_ADVANCE_STEPS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) set: String,
    pub(crate) name: String,
    pub(crate) advertise: String,
    /// Whether to take the place of a living process of this name at another address.
    pub(crate) replace: bool,
    pub(crate) layout: Layout,
    pub(crate) step: Step,
    pub(crate) options: AllocOptions,
    pub(crate) clock: Clock,
    /// Decides what is owned; changed by [`Shared::step`] only, which carries out what it says. Never locked on the way of
    /// a number.
    pub(crate) owner: Mutex<Owner>,
    pub(crate) lease: Lease,
    /// When the newest question was sent whose answer was taken in, on the boot clock.
    pub(crate) confirmed: AtomicU64,
    pub(crate) owned: OwnedTable,
    pub(crate) routes: ArcSwapOption<RouteTable>,
    /// The node's id, the same in every incarnation; 0 before the first registration.
    pub(crate) node: AtomicU32,
    /// Why the store's answers cannot be used, while they cannot.
    pub(crate) fault: Mutex<Option<String>>,
    /// Where the store's members are, as an answer of the leader stated it last, the leader first; empty before.
    pub(crate) stores: Mutex<Vec<String>>,
    pub(crate) line: Line,
    /// Signalled when what this node knows of owners proved old.
    pub(crate) renew_now: Notify,
    /// Signalled when a peer says that a planned move to this node is committed: the store's grant is asked for at once.
    pub(crate) grants_due: Notify,
    /// Signalled when a held call may go on: the table, the routes or the lease changed.
    pub(crate) update: Notify,
    pub(crate) pending: PendingCalls,
    pub(crate) handovers: HandoverQueue,
    pub(crate) receiving: Receiving,
    /// Connections to the other nodes.
    pub(crate) peers: Peers,
    pub(crate) counters: Counters,
    /// Set when this process may serve no more.
    pub(crate) halt: HaltLatch,
    pub(crate) shutdown: CancellationToken,
}

impl Shared {
    /// Whether the lease holds now. DecodedItem after the call to be answered is in memory, and before the table is read.
    #[inline]
    pub(crate) fn leased(&self) -> bool {
        self.lease.holds(self.clock.now())
    }

    /// When the newest request was sent whose response of the store was adopted, on the boot clock.
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed.load(Acquire)
    }

    /// Takes an ask's numbers from a section that this node owns, under a lease that holds. `None`: not now. They are above
    /// the ceiling and a raise is on its way, or the section is frozen, or the caller has seen a newer ownership.
    #[inline]
    pub(crate) fn take(
        &self,
        owned: &Arc<OwnedSection>,
        item: &Item,
        slot: SlotIndex,
    ) -> Option<Result<Allocation, Refusal>> {
        if item.epoch > owned.epoch {
            return None;
        }
        match owned.section.take(slot, item.count) {
            Take::Given { value, prev, raise_due } => {
                if raise_due {
                    self.enqueue_raise(owned);
                }
                Some(Ok(Allocation { value, prev, epoch: owned.epoch, lost: 0 }))
            }
            Take::AtCeiling { raise_due: true, .. } => {
                self.enqueue_raise(owned);
                None
            }
            Take::AtCeiling { .. } | Take::Frozen => None,
            Take::Exhausted => Some(Err(Refusal::Exhausted { uid: item.uid, count: item.count.get() })),
        }
    }

    /// Out of line, so that a batch's loop around [`Shared::take`] stays small enough to hold all of it.
    #[cold]
    #[inline(never)]
    fn enqueue_raise(&self, owned: &Arc<OwnedSection>) {
        self.line.join(owned.clone());
    }

    /// Raises a uid of a section that this node owns, under a lease that holds. `None`: not now, as for [`Shared::take`].
    pub(crate) fn advance(
        &self,
        owned: &Arc<OwnedSection>,
        item: &PendingItem,
        to: Target,
    ) -> Option<Result<Epoch, Refusal>> {
        if item.item.epoch > owned.epoch {
            return None;
        }
        let (answer, raise_due) = match owned.section.advance(item.slot, to, self.options.max_advance) {
            Advance::Done { raise_due } => (Some(Ok(owned.epoch)), raise_due),
            Advance::AtCeiling { raise_due } => (None, raise_due),
            Advance::TooFar { bound } => (Some(Err(Refusal::AdvanceTooFar { to: to.seq().0, bound })), false),
            Advance::Past => (Some(Err(Refusal::AlreadyPast { uid: item.item.uid })), false),
            Advance::Frozen => (None, false),
        };
        if raise_due {
            self.line.join(owned.clone());
        }
        answer
    }

    /// Whether an advance burns so many of the section's numbers that an operator should know of it.
    pub(crate) fn is_far(&self, owned: &OwnedSection, to: Target) -> bool {
        let distance = to.seq().0.saturating_sub(owned.section.ceiling().0);
        distance / self.step.0 >= FAR_ADVANCE_STEPS
    }

    /// Another node that owns a section, by the routes as they stand.
    pub(crate) fn other_owner(&self, section: SectionId) -> Option<NodeId> {
        let mine = NodeId(self.node.load(Relaxed));
        let owner = self.routes().as_ref().and_then(|routes| routes.get(section)).and_then(|route| route.owner);
        owner.filter(|owner| *owner != mine)
    }

    /// The current incarnation and the sections it owns; `None` between lives, when nothing is owned.
    pub(crate) fn held(&self) -> Option<(Session, Guard<Arc<Owned>>)> {
        let owner = self.owner.lock();
        owner.session().map(|session| (session, self.owned.load()))
    }

    /// The routes as they stand.
    #[inline]
    pub(crate) fn routes(&self) -> Guard<Option<Arc<RouteTable>>> {
        self.routes.load()
    }

    /// Brings the process' metrics up to date.
    pub(crate) fn publish(&self) {
        self.counters.publish();
        let version = self.routes().as_ref().map_or(0, |routes| routes.version().0);
        let lease = self.lease.left(self.clock.now());
        let owned = self.owned.load();
        // Without a lease nothing is served, whatever is owned.
        let served = if lease.is_zero() { 0 } else { owned.iter().count() };
        self.counters.publish_state(served, version, lease);
        self.counters.publish_ceiling(owned.iter().map(|owned| owned.section.ceiling()).max().unwrap_or(Seq::ZERO));
    }

    /// Bytes that hold counters of touched pages. Looks at every page there could be.
    pub(crate) fn slot_bytes(&self) -> u64 {
        self.owned.load().iter().map(|owned| owned.section.slot_bytes() as u64).sum()
    }
}

/// How often the metrics are brought up to date.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// How many times the other metrics are published for each time the memory of all pages is added up: that walk takes
/// milliseconds in a set of many sections.
const PUBLISHES_PER_WALK: u32 = 15;

/// Publishes the metrics until shutdown.
pub(crate) async fn publish(shared: Arc<Shared>) {
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
