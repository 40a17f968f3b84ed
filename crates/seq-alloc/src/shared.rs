//! State that is shared by all handles and tasks of one allocator.

use std::sync::Arc;

use arc_swap::Guard;
use seq_api::clock::Clock;
use seq_api::node_events::NodeEvents;
use seq_api::service::Via;
use seq_core::layout;
use seq_core::owner::{Effects, Owner, OwnershipUpdate, Session};
use seq_core::route::RouteTable;
use seq_core::{Layout, NodeId, Refusal, RenewSeq, SectionId, SetId, SlotIndex, Uid};
use seq_kit::telemetry::traces::Span;
use seq_proto::owners::{self, OwnershipUpdateError};
use seq_proto::v1;

use crate::activity::NodeActivity;
use crate::clock_ahead::ClockAhead;
use crate::config::NodeConfig;
use crate::counters::{Burned, Counters};
use crate::halt::HaltLatch;
use crate::other_sets::{OtherSet, OtherSets};
use crate::ownership::{Followup, Ownership, Serving};
use crate::peers::Peers;
use crate::raise_queue::RaiseInbox;
use crate::store_link::StoreError;

mod handover_state;
mod pending_calls;
mod reachability;
mod registration;

pub(crate) use handover_state::HandoverState;
pub(crate) use pending_calls::{AwaitsOwner, PendingCalls, PendingPermit};
pub(crate) use reachability::Reachability;
pub(crate) use registration::Registration;

/// State of one allocator, in groups. Each group keeps its own invariants. The methods of this type are the operations
/// that involve several groups.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Identity and configuration of this node; constant.
    pub(crate) config: NodeConfig,
    pub(crate) clock: Clock,
    /// Owned sections, routes and lease. Invariant: they are changed by [`Shared::step`] only, so that every change is
    /// followed by the requests and notifications that it causes.
    pub(crate) ownership: Ownership,
    /// Registration of this node with the store, and the requests of other tasks for renewals.
    pub(crate) registration: Registration,
    /// Sections whose ceilings have to be raised.
    pub(crate) raises: RaiseInbox,
    /// Difference between this node's clock and the store's clock, if it prevents lanes from being served.
    pub(crate) clock_ahead: ClockAhead,
    /// Calls that wait for a ceiling, an owner or a lease.
    pub(crate) pending: PendingCalls,
    pub(crate) handovers: HandoverState,
    /// Results of the checks of this node and its peers.
    pub(crate) reachability: Reachability,
    /// Connections to the other nodes of the set.
    pub(crate) peers: Peers,
    /// Connections to other sets, with their routes and health.
    pub(crate) other_sets: Arc<OtherSets>,
    /// Numbers and raises of the owned sections over time.
    pub(crate) activity: NodeActivity,
    pub(crate) counters: Counters,
    /// Event log of this node.
    pub(crate) events: NodeEvents,
    /// Cause for which this process no longer serves, which is set at most once, and the token of the allocator's
    /// shutdown.
    pub(crate) halt: HaltLatch,
}

impl Shared {
    /// Runs `step` on the owner's state machine, and sends the requests and notifications that it causes. Returns the
    /// result of `step`.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Owner, &mut Effects) -> T) -> T {
        let (outcome, followup) = self.ownership.step(step);
        self.follow_up(followup);
        outcome
    }

    fn follow_up(&self, followup: Followup) {
        let Followup { requests, renew_now, changed, extended, unserved: (time, sections), transitions } = followup;
        for request in requests {
            self.handovers.queue.push(request);
        }
        if renew_now {
            self.registration.request_grant();
        }
        if !time.is_zero() {
            self.counters.faults.without_lease(time, sections);
        }
        self.counters.copies_lost(transitions.copies_lost);
        let of_each = transitions.skipped.checked_div(transitions.at_ceiling as u64).unwrap_or(0);
        let of_handovers = of_each * transitions.copies_lost.min(transitions.at_ceiling) as u64;
        self.counters.burned(Burned::Handover, of_handovers);
        self.counters.burned(Burned::Takeover, transitions.skipped - of_handovers);
        transitions.log(&self.config.set, &self.config.name);
        self.pending.on_ownership_step(changed, extended);
    }

    /// Ends the incarnation of `session` if it is still the current incarnation. Afterwards no number is allocated
    /// under it.
    pub(crate) fn end_session(&self, session: Session) {
        self.step(|owner, effects| owner.on_session_over(session, effects));
        self.registration.request_renewal();
    }

    /// Checks whether `error`, the store's response to a request of `session`, means that this process may no longer
    /// serve. If so, halts the process.
    pub(crate) fn judge(&self, session: Session, error: &StoreError) {
        // The state machine has the number of the next renewal, which is one more than the number of the last renewal
        // that got a response.
        let renewal = self.ownership.machine().renewal().filter(|renewal| renewal.session == session);
        let renewed = RenewSeq(renewal.map_or(0, |renewal| renewal.renew_seq.0 - 1));
        self.halt.judge(session, renewed, &self.config.advertise, error);
    }

    /// Adds the names of this node and its set to a trace span.
    pub(crate) fn described(&self, mut span: Span) -> Span {
        span.set("seqsvr.set", self.config.set.as_str());
        span.set("seqsvr.node", self.config.name.as_str());
        span
    }

    /// Decodes an ownership update from the store. Also stores the addresses of the planned handovers' targets that the
    /// update states.
    pub(crate) fn read_update(
        &self,
        update: Option<&v1::OwnershipUpdate>,
        me: NodeId,
    ) -> Result<OwnershipUpdate, OwnershipUpdateError> {
        let decoded = owners::update(update, &self.layout(), me)?;
        if let Some(update) = update {
            self.handovers.targets.adopt(update);
        }
        Ok(decoded)
    }

    /// Returns the layout in the newest routes. Before this node has routes, returns the layout of the set file.
    pub(crate) fn layout(&self) -> Layout {
        self.routes().as_ref().map_or_else(|| self.config.layout.clone(), |routes| routes.layout().clone())
    }

    /// Returns the section and the slot of a uid, or of a lane, which has an address instead of a uid. A caller that
    /// names the address of a lane as a uid is refused.
    #[inline]
    pub(crate) fn locate(&self, uid: Uid, via: Via) -> Result<(SectionId, SlotIndex), Refusal> {
        self.config.layout.locate(uid).or_else(|refusal| self.locate_lane(uid, via, refusal))
    }

    #[cold]
    fn locate_lane(&self, address: Uid, via: Via, refusal: Refusal) -> Result<(SectionId, SlotIndex), Refusal> {
        let section = layout::locate(address).filter(|_| matches!(via, Via::Id | Via::Forwarded));
        let Some((section, _)) = section else { return Err(refusal) };
        // A node that has just started may not know the newest series yet.
        let routes = self.routes();
        let located = routes.as_ref().and_then(|routes| routes.layout().locate(address).ok());
        located.ok_or(Refusal::Unserved { section })
    }

    /// Returns access to the served sections if the lease holds now; otherwise `None`. It is for calls that arrived
    /// before this function is called.
    #[inline]
    pub(crate) fn serve(&self) -> Option<Serving<'_>> {
        self.ownership.serve(self.clock.now())
    }

    /// Returns whether the lease holds now.
    pub(crate) fn is_leased(&self) -> bool {
        self.ownership.is_leased(self.clock.now())
    }

    /// Returns the newest routes. The returned guard must not be held across an await.
    #[inline]
    pub(crate) fn routes(&self) -> Guard<Option<Arc<RouteTable>>> {
        self.ownership.routes()
    }

    /// Returns the owner of a section according to the newest routes if the owner is another node; otherwise `None`.
    pub(crate) fn other_owner(&self, section: SectionId) -> Option<NodeId> {
        self.ownership.other_owner(section, self.registration.node())
    }

    /// Returns the other set with the id `id`; `None` while the routes have no addresses for it.
    pub(crate) fn other_set(&self, id: SetId) -> Option<Arc<OtherSet>> {
        self.other_sets.get(id, self.routes().as_ref()?)
    }
}
