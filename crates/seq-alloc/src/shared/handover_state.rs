//! State of the handovers from this node and of the handovers to it.

use std::collections::{BTreeMap, VecDeque};
use std::mem::discriminant;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use seq_core::NodeId;
use seq_core::owner::handover::{Handover, HandoverRequest, MAX_INCOMING_SLOTS};
use seq_proto::{Reason, v1};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tonic::Status;

/// State of the handovers from this node and to it.
#[derive(Debug, Default)]
pub(crate) struct HandoverState {
    /// Steps of handovers from this node, sent by `handover`.
    pub(crate) queue: HandoverQueue,
    /// Addresses of the nodes to which sections are handed over, at the nodes' ports for peers.
    pub(crate) targets: TargetAddrs,
    /// Limit on the copies that are being received in handovers to this node. `handover_service` enforces it.
    pub(crate) receiving: Receiving,
}

/// Requests of the owner's state machine that have to be sent. There are at most as many as handovers in progress,
/// because each handover waits for one response at a time.
#[derive(Debug, Default)]
pub(crate) struct HandoverQueue {
    pending: Mutex<VecDeque<HandoverRequest>>,
    arrived: Notify,
    /// Number of requests that were pushed and whose outcome is not known yet.
    open: AtomicUsize,
}

impl HandoverQueue {
    pub(crate) fn push(&self, request: HandoverRequest) {
        self.open.fetch_add(1, SeqCst);
        self.pending.lock().push_back(request);
        self.arrived.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<HandoverRequest> {
        self.pending.lock().pop_front()
    }

    /// Removes and returns the first `most` requests that are of the same kind, incarnation and target as `first`, and
    /// that `fits` accepts. It does not change the order of requests that remain.
    pub(crate) fn pop_like(
        &self,
        first: &HandoverRequest,
        most: usize,
        mut fits: impl FnMut(&Handover) -> bool,
    ) -> Vec<HandoverRequest> {
        let target = |one: &Handover| (one.session, one.to, one.incarnation, one.departure.is_none());
        let is_like = |other: &HandoverRequest| {
            discriminant(other) == discriminant(first) && target(other.handover()) == target(first.handover())
        };
        let mut like = Vec::new();
        self.pending.lock().retain(|other| {
            let goes = like.len() < most && is_like(other) && fits(other.handover());
            if goes {
                like.push(other.clone());
            }
            !goes
        });
        like
    }

    /// Records that the outcome of a request is known. If this outcome leads to further requests, the caller must push
    /// them before this call, so that [`HandoverQueue::are_done`] does not return `true` too early.
    pub(crate) fn done(&self) {
        self.open.fetch_sub(1, SeqCst);
    }

    /// Returns whether the outcome of every pushed request is known.
    pub(crate) fn are_done(&self) -> bool {
        self.open.load(SeqCst) == 0
    }

    /// Waits until a request has been pushed since the previous wait completed. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

/// Addresses of other nodes of the set at their ports for peers, as stated most recently in the planned handovers to
/// these nodes. The routes do not contain these addresses, but only the addresses for callers.
#[derive(Debug, Default)]
pub(crate) struct TargetAddrs(Mutex<BTreeMap<NodeId, String>>);

impl TargetAddrs {
    /// Adopts the addresses of the planned handovers in an ownership update.
    pub(crate) fn adopt(&self, update: &v1::OwnershipUpdate) {
        for planned in update.handovers.iter().filter(|planned| !planned.to_addr.is_empty()) {
            self.0.lock().insert(NodeId(planned.to_node_id), planned.to_addr.clone());
        }
    }

    /// Returns the address of a node at its port for peers; `None` if the store has not stated the node's address.
    pub(crate) fn get(&self, node: NodeId) -> Option<String> {
        self.0.lock().get(&node).cloned()
    }
}

/// Limit on the total number of touched uids, that is, slots, in all copies that are being received. It equals the
/// limit on the touched uids of received copies that the node keeps.
#[derive(Debug)]
pub(crate) struct Receiving(Semaphore);

impl Default for Receiving {
    fn default() -> Receiving {
        Receiving(Semaphore::new(MAX_INCOMING_SLOTS))
    }
}

impl Receiving {
    /// Returns a permit to receive a copy. The permit has no room for slots until [`Receiving::make_room`] adds room.
    pub(crate) fn begin(&self) -> Result<SemaphorePermit<'_>, Status> {
        self.0.try_acquire_many(0).map_err(|closed| Status::internal(closed.to_string()))
    }

    /// Adds room for `slots` more slots to `held`, the permit of a copy. The room is free again when the permit is
    /// dropped.
    pub(crate) fn make_room<'a>(&'a self, held: &mut SemaphorePermit<'a>, slots: usize) -> Result<(), Status> {
        let more = u32::try_from(slots).ok().and_then(|slots| self.0.try_acquire_many(slots).ok());
        let more = more.ok_or_else(|| {
            let text = format!("copies of {MAX_INCOMING_SLOTS} touched uids are being received already");
            Reason::TooMuchStaged.status(text)
        })?;
        held.merge(more);
        Ok(())
    }
}
