//! Request coalescing: concurrent calls for numbers share the messages of one `NextStream` per node.
//!
//! A round trip costs a hundred times as much as a number, so concurrent calls are batched. There is no batching delay:
//! a call that finds the queue empty is sent at once, and calls that arrive while the sender is busy are its next
//! message. No call waits for the item of another: messages set `now_only`, and an item that would have to wait is
//! refused with `WOULD_WAIT` and retried as a unary request, with all its remaining time.
//!
//! Only the first attempt of a call, to the owner, is coalesced. Retries and requests to a node that forwards are unary
//! (docs/adr/0009-coalescing.md).
//!
//! [`node_batcher`] is the entry point for the calls to one node; [`queue`] holds the pending and the in-flight calls,
//! without any I/O; [`stream`] is the task between queue and wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use seq_proto::{Reason, v1};

use crate::allocation::Allocation;
use crate::attempts::Attempts;
use crate::error::CallError;

mod node_batcher;
mod queue;
mod stream;

use node_batcher::NodeBatcher;
use queue::Outcome;

pub(crate) use queue::Bounds;

/// The batchers of a client, by address of the node; created by the first call to it.
#[derive(Debug)]
pub(crate) struct Batchers {
    bounds: Bounds,
    by_addr: RwLock<BTreeMap<Arc<str>, Arc<NodeBatcher>>>,
}

/// The batcher of a uid's owner, and the route information that the call carries.
#[derive(Debug)]
pub(crate) struct StreamTarget {
    pub(crate) batcher: Arc<NodeBatcher>,
    /// Version of the routes that chose the owner.
    pub(crate) route_version: u64,
    /// Epoch of the uid's section in them.
    pub(crate) epoch: u64,
}

impl Batchers {
    /// No batcher yet.
    pub(crate) fn new(bounds: Bounds) -> Batchers {
        Batchers { bounds, by_addr: RwLock::default() }
    }

    /// The batcher of a node.
    pub(crate) fn get(&self, addr: &Arc<str>) -> Arc<NodeBatcher> {
        if let Some(batcher) = self.by_addr.read().get(addr) {
            return batcher.clone();
        }
        let mut by_addr = self.by_addr.write();
        by_addr.entry(addr.clone()).or_insert_with(|| Arc::new(NodeBatcher::new(addr.clone(), self.bounds))).clone()
    }

    /// Drops the batchers of addresses for which `keep` is false. Their calls run to completion.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.by_addr.write().retain(|addr, _| keep(addr));
    }
}

/// Makes the first attempt of a call in the owner's stream. `None`: no number was allocated, continue with unary
/// requests.
pub(crate) async fn next(attempts: &mut Attempts<'_>, uid: u64, count: u32) -> Result<Option<Allocation>, CallError> {
    let Some(StreamTarget { batcher, route_version, epoch }) = attempts.stream_target(uid) else { return Ok(None) };
    let addr = batcher.addr();
    let deadline = attempts.deadline();
    let (reply, outcome) = futures::channel::oneshot::channel();
    let call = queue::Call { uid, count, epoch, route_version, deadline, reply: Some(reply) };
    match batcher.send(attempts.shared(), call, outcome).await {
        Outcome::Allocated { value, prev, epoch, lost, routes } => {
            attempts.adopt(routes.as_deref(), addr);
            let checked = Allocation::checked(value, prev, epoch, count, addr);
            checked.map(|allocation| Some(Allocation { lost, ..allocation }))
        }
        Outcome::Refused { item, routes } => {
            attempts.adopt(routes.as_deref(), addr);
            if item.reason != Reason::WouldWait {
                attempts.prepare_item_retry(uid, addr, *item).await?;
            }
            Ok(None)
        }
        Outcome::Failed { status, sent } => attempts.prepare_stream_retry(uid, addr, status, sent).await.map(|()| None),
        Outcome::TimedOut { sent } => Err(attempts.timed_out(sent)),
        Outcome::Invalid(what) => Err(CallError::BadAnswer { addr: addr.clone(), what }),
        Outcome::Unsupported => Ok(None),
    }
}

/// Routes of a response: one caller of the message adopts them.
type NewRoutes = Option<Box<v1::Routes>>;
