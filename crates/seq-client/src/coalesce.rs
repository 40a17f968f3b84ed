//! Calls for numbers that wait at the same time share messages of a stream, one stream to each node.
//!
//! A round trip costs a hundred times what a number costs, so calls that are there together travel together. Nothing waits for
//! company: a call that finds nobody in line is sent at once, and those that come while the sender is busy are its next
//! message. Nobody waits for another's number either: messages say that what must wait shall be handed back, and that goes
//! alone, with the whole rest of its time.
//!
//! Only a call's first attempt at the owner goes this way. What is repeated, or goes to a node that forwards, goes alone
//! (docs/adr/0009-coalescing.md).
//!
//! [`lane`] is one node's end; [`mod@line`] is who waits and who was sent, without any I/O; [`stream`] is the task between line
//! and wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use seq_proto::{status, v1};

use crate::answer::Allocation;
use crate::attempts::Attempts;
use crate::error::CallError;

mod lane;
mod line;
mod stream;

use lane::Lane;
use line::Outcome;

pub(crate) use line::Bounds;

/// The lanes of a client, by address of the node; opened by the first call to it.
#[derive(Debug)]
pub(crate) struct Lanes {
    bounds: Bounds,
    lanes: RwLock<BTreeMap<Arc<str>, Arc<Lane>>>,
}

/// Where a call can go together with others.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) lane: Arc<Lane>,
    /// Version of the routes that chose the lane.
    pub(crate) route_version: u64,
    /// Epoch of the uid's section in them.
    pub(crate) epoch: u64,
}

impl Lanes {
    /// No lane yet.
    pub(crate) fn new(bounds: Bounds) -> Lanes {
        Lanes { bounds, lanes: RwLock::default() }
    }

    /// The lane to a node.
    pub(crate) fn get(&self, addr: &Arc<str>) -> Arc<Lane> {
        if let Some(lane) = self.lanes.read().get(addr) {
            return lane.clone();
        }
        let mut lanes = self.lanes.write();
        lanes.entry(addr.clone()).or_insert_with(|| Arc::new(Lane::new(addr.clone(), self.bounds))).clone()
    }

    /// Forgets the lanes to addresses that `keep` does not want. Calls in them run to their end.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.lanes.write().retain(|addr, _| keep(addr));
    }
}

/// Makes a call's first attempt together with others, if it can. `None`: it did not get a number and goes on alone.
pub(crate) async fn ask(attempts: &mut Attempts<'_>, uid: u64, count: u32) -> Result<Option<Allocation>, CallError> {
    let Some(Seat { lane, route_version, epoch }) = attempts.seat(uid) else { return Ok(None) };
    let addr = lane.addr();
    let deadline = attempts.deadline();
    let (sender, told) = futures::channel::oneshot::channel();
    let call = line::Call { uid, count, epoch, route_version, deadline, told: Some(sender) };
    match lane.ask(attempts.shared(), call, told).await {
        Outcome::Given { value, prev, epoch, lost, routes } => {
            attempts.adopt(routes.as_deref(), addr);
            let checked = Allocation::checked(value, prev, epoch, count, addr);
            checked.map(|answer| Some(Allocation { lost, ..answer }))
        }
        Outcome::Refused { item, routes } => {
            attempts.adopt(routes.as_deref(), addr);
            if item.reason != status::WOULD_WAIT {
                attempts.again_item(uid, addr, *item).await?;
            }
            Ok(None)
        }
        Outcome::Failed { status, sent } => attempts.again_streamed(uid, addr, status, sent).await.map(|()| None),
        Outcome::Late { sent } => Err(attempts.late(sent)),
        Outcome::Bad(what) => Err(CallError::BadAnswer { addr: addr.clone(), what }),
        Outcome::NotServed => Ok(None),
    }
}

/// Routes that came with an answer: one caller of the message takes them in.
type NewRoutes = Option<Box<v1::Routes>>;
