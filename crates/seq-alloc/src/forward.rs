//! Requests to the owners of other sections, in this set and in others, and what their responses mean.
//!
//! Allocations go through a batcher for each core and owner first (`seq_channel::batch`): what all connections of a
//! core have for an owner in one turn of its event loop shares a message, and the owner completes what it can at once.
//! An item that would wait there is sent again in a request of its own, as reads and advances are.
//!
//! A forwarded request that may have been processed is not repeated here: whether that is wise is the client's
//! decision. The one exception is an owner that was replaced before it responded (`seq_core::calls`), whose attempts
//! are counted in the response.

use std::collections::BTreeMap;
use std::sync::Arc;

use seq_api::service::{Allocation, Call, Current, Item, ItemReply};
use seq_channel::batch::{self, Allocated, CallItems, NodeBatcher, Outcome, QueueFull};
use seq_core::calls::Destination;
use seq_core::{Epoch, NodeId, Reading, Refusal, SectionId, Seq, SetId, Target};
use seq_proto::reason::{Reason, key};
use seq_proto::refusals::{Details, RefusedItem};
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::other_sets::OtherSet;
use crate::pending::PendingItem;
use crate::shared::Shared;

type Owner = SequenceServiceClient<Channel>;

/// The node that a request goes to.
#[derive(Clone, Debug)]
pub(crate) enum ForwardTarget {
    /// The owner, in this set.
    Node(NodeId),
    /// A node of another set, by its address.
    Other(Arc<OtherSet>, Arc<str>),
}

impl ForwardTarget {
    /// Where the call goes, whichever node of another set serves it.
    pub(crate) fn destination(&self) -> Destination {
        match self {
            ForwardTarget::Node(node) => Destination::Node(*node),
            ForwardTarget::Other(set, _) => Destination::Set(set.id()),
        }
    }

    /// Notes of another set that it responded, or that this node of it cannot be reached.
    fn on_response(&self, failure: Option<&Failure>) {
        let ForwardTarget::Other(set, addr) = self else { return };
        match failure {
            Some(Failure::NotProcessed | Failure::Broken) => set.on_unreachable(addr),
            Some(Failure::TimedOut | Failure::NotSent | Failure::QueueFull(_)) => {}
            None | Some(Failure::Refused(_)) => set.on_received(),
        }
    }

    /// Items would wait at the node: in another set it may not be the owner any more.
    fn on_would_wait(&self) {
        if let ForwardTarget::Other(set, _) = self {
            set.on_stale();
        }
    }
}

/// Why an owner gave no usable response.
#[derive(Clone)]
enum Failure {
    /// It certainly did not process the call.
    NotProcessed,
    /// The time was over before the call was sent.
    NotSent,
    /// The connection broke, and it may have processed the call.
    Broken,
    /// The time is over, or the response is none; it may have processed the call.
    TimedOut,
    /// It refused.
    Refused(Refused),
    /// As many items as allowed are on their way to it; nothing was sent.
    QueueFull(usize),
}

/// An owner's refusal, as it is on the wire.
#[derive(Clone)]
struct Refused {
    reason: Reason,
    set: Option<SetId>,
    since: Option<Epoch>,
    bound: Option<Seq>,
}

impl Shared {
    async fn send<Q, A>(
        &self,
        call: &Call,
        to: &ForwardTarget,
        message: Q,
        method: impl AsyncFnOnce(Owner, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        let left = call.deadline.saturating_duration_since(Instant::now());
        let channel = self.channel_to(to).ok_or(Failure::NotProcessed)?;
        if left.is_zero() {
            return Err(Failure::NotSent);
        }
        let owner = SequenceServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let mut request = Request::new(message);
        request.set_timeout(left);
        let response = match tokio::time::timeout(left, method(owner, request)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) if seq_channel::not_processed(&status) => Err(Failure::NotProcessed),
            Ok(Err(status)) => Err(refused(&status)),
            Err(_) => Err(Failure::TimedOut),
        };
        to.on_response(response.as_ref().err());
        response
    }

    fn channel_to(&self, to: &ForwardTarget) -> Option<Channel> {
        match to {
            ForwardTarget::Node(node) => self.channel(*node),
            ForwardTarget::Other(set, addr) => set.peers.here().pool.get(addr).ok(),
        }
    }

    pub(crate) fn channel(&self, node: NodeId) -> Option<Channel> {
        let routes = self.routes();
        let addr = &routes.as_ref()?.node(node)?.addr;
        self.peers
            .here()
            .pool
            .get(addr)
            .inspect_err(|error| tracing::warn!(owner = node.0, %error, "cannot forward"))
            .ok()
    }

    /// Allocates for items at their owner, in a message of the stream to it that other calls share. A reply is `None`
    /// for an item that would wait there. `None`: the owner has no such stream.
    pub(crate) async fn forward_batched(
        &self,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Option<Vec<ItemReply<Allocation>>> {
        let Some(batcher) = self.batcher(to) else { return Some(self.replies(to, items, &Failure::NotProcessed)) };
        let part = |item: &PendingItem| {
            let Item { uid, count, epoch } = item.item;
            batch::Item { uid: uid.0, count: count.get(), epoch: epoch.0 }
        };
        let parts = match items {
            [item] => CallItems::One(part(item)),
            items => CallItems::Many(items.iter().map(part).collect()),
        };
        let call = batch::Call { items: parts, hops: call.hops + 1, route_version: None, deadline: call.deadline };
        let failure = match batcher.try_send(call).await {
            Ok(Outcome::Response(response)) => {
                to.on_response(None);
                let reply = |(item, result): (&PendingItem, Result<Allocated, &v1::ItemError>)| match result {
                    Ok(Allocated { value, prev, epoch, lost }) => {
                        Some(given(value, prev, epoch, lost).ok_or_else(|| timed_out(item.section, to)))
                    }
                    Err(error) if error.reason == Reason::WouldWait => None,
                    Err(error) => Some(Err(self.refusal(failure_of_item(error), to, item))),
                };
                let replies: Vec<_> = items.iter().zip(response.results()).map(reply).collect();
                if replies.iter().any(Option::is_none) {
                    to.on_would_wait();
                }
                return Some(replies);
            }
            Ok(Outcome::Unsupported) => return None,
            Ok(Outcome::Refused(error)) => failure_of_item(&error),
            Ok(Outcome::Failed { sent: false, .. }) => Failure::NotProcessed,
            Ok(Outcome::TimedOut { sent: false }) => Failure::NotSent,
            Ok(Outcome::Failed { status, .. }) if seq_channel::is_broken(&status) => Failure::Broken,
            Ok(Outcome::Failed { .. } | Outcome::TimedOut { .. }) => Failure::TimedOut,
            Ok(Outcome::Invalid(what)) => {
                tracing::warn!(addr = &**batcher.addr(), what, "a response to forwarded calls breaks the protocol");
                Failure::TimedOut
            }
            Err(QueueFull { items }) => Failure::QueueFull(items),
        };
        to.on_response(Some(&failure));
        Some(self.replies(to, items, &failure))
    }

    /// The batcher of this thread's calls to a node.
    fn batcher(&self, to: &ForwardTarget) -> Option<Arc<NodeBatcher>> {
        let to = match to {
            ForwardTarget::Node(to) => to,
            ForwardTarget::Other(set, addr) => {
                return Some(set.peers.here().batcher(addr, |addr| set.is_node(addr)));
            }
        };
        let routes = self.routes();
        let nodes = routes.as_ref()?.nodes();
        let is_node = |addr: &str| nodes.values().any(|node| node.addr == addr);
        Some(self.peers.here().batcher(&nodes.get(to)?.addr, is_node))
    }

    /// The replies to a call whose request failed.
    fn replies<T>(&self, to: &ForwardTarget, items: &[PendingItem], failure: &Failure) -> Vec<ItemReply<T>> {
        items.iter().map(|item| Some(Err(self.refusal(failure.clone(), to, item)))).collect()
    }

    /// Allocates for one item at its owner.
    pub(crate) async fn forward_next(
        &self,
        call: Call,
        to: &ForwardTarget,
        item: &PendingItem,
    ) -> Result<Allocation, Refusal> {
        let Item { uid, count, epoch } = item.item;
        let message = v1::NextRequest {
            uid: Some(uid.0),
            count: count.get(),
            route_version: None,
            epoch: epoch.0,
            hops: call.hops + 1,
        };
        let response = self.send(&call, to, message, async |mut owner, request| owner.next(request).await).await;
        match response {
            Ok(response) => {
                let lost = response.lost.unwrap_or(0);
                given(response.value, response.prev, response.epoch, lost).ok_or(timed_out(item.section, to))
            }
            Err(failure) => Err(self.refusal(failure, to, item)),
        }
    }

    /// Allocates for many items at their owner, in their order.
    pub(crate) async fn forward_next_many(
        &self,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Allocation, Refusal>> {
        let message = v1::NextManyRequest {
            uids: items.iter().map(|item| item.item.uid.0).collect(),
            counts: items.iter().map(|item| item.item.count.get()).collect(),
            route_version: None,
            hops: call.hops + 1,
            known_epochs: items.iter().map(|item| item.item.epoch.0).collect(),
        };
        match self.send(&call, to, message, async |mut owner, request| owner.next_many(request).await).await {
            Ok(response) => {
                let v1::NextManyResponse { values, prevs, epochs, errors, lost, .. } = response;
                let lost = lost.unwrap_or_default();
                let lost: BTreeMap<_, _> = lost.indexes.into_iter().zip(lost.attempts).collect();
                let lost = |at: usize| lost.get(&(at as u32)).copied().unwrap_or(0);
                self.item_results(to, items, errors, |at| {
                    given(*values.get(at)?, *prevs.get(at)?, *epochs.get(at)?, lost(at))
                })
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// Advances one uid at its owner.
    pub(crate) async fn forward_advance(
        &self,
        call: Call,
        owner: &ForwardTarget,
        item: &PendingItem,
        to: Target,
    ) -> Result<Epoch, Refusal> {
        let Item { uid, epoch, .. } = item.item;
        let (to, hops) = (to.seq().0, call.hops + 1);
        let message = v1::AdvanceRequest { uid: Some(uid.0), to: Some(to), route_version: None, epoch: epoch.0, hops };
        match self.send(&call, owner, message, async |mut owner, request| owner.advance(request).await).await {
            Ok(response) if response.epoch > 0 => Ok(Epoch(response.epoch)),
            Ok(_) => Err(timed_out(item.section, owner)),
            Err(failure) => Err(self.refusal_of(failure, owner, item, Some(to))),
        }
    }

    /// Reads one uid's last number at its owner.
    pub(crate) async fn forward_current(
        &self,
        call: Call,
        to: &ForwardTarget,
        item: &PendingItem,
    ) -> Result<Current, Refusal> {
        let Item { uid, epoch, .. } = item.item;
        let message = v1::CurrentRequest { uid: Some(uid.0), route_version: None, epoch: epoch.0, hops: call.hops + 1 };
        match self.send(&call, to, message, async |mut owner, request| owner.current(request).await).await {
            Ok(response) => read(response.value, response.exactness, response.epoch).ok_or(timed_out(item.section, to)),
            Err(failure) => Err(self.refusal(failure, to, item)),
        }
    }

    /// Reads many uids' last numbers at their owner, in order.
    pub(crate) async fn forward_current_many(
        &self,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Current, Refusal>> {
        let message = v1::CurrentManyRequest {
            uids: items.iter().map(|item| item.item.uid.0).collect(),
            route_version: None,
            hops: call.hops + 1,
            known_epochs: items.iter().map(|item| item.item.epoch.0).collect(),
        };
        match self.send(&call, to, message, async |mut owner, request| owner.current_many(request).await).await {
            Ok(response) => {
                let v1::CurrentManyResponse { values, exactness, epochs, errors, .. } = response;
                self.item_results(to, items, errors, |at| read(*values.get(at)?, *exactness.get(at)?, *epochs.get(at)?))
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// The results of a batch, item by item. An item without a usable result counts as timed out.
    fn item_results<T>(
        &self,
        to: &ForwardTarget,
        items: &[PendingItem],
        errors: Vec<v1::ItemError>,
        value: impl Fn(usize) -> Option<T>,
    ) -> Vec<Result<T, Refusal>> {
        let mut errors: BTreeMap<_, _> = errors.into_iter().map(|error| (error.index, error)).collect();
        let result = |(at, item): (u32, &PendingItem)| match errors.remove(&at) {
            Some(error) => Err(self.refusal(failure_of_item(&error), to, item)),
            None => value(at as usize).ok_or(timed_out(item.section, to)),
        };
        (0..).zip(items).map(result).collect()
    }

    /// The results of a batch whose request failed.
    fn failed<T>(&self, to: &ForwardTarget, items: &[PendingItem], failure: &Failure) -> Vec<Result<T, Refusal>> {
        items.iter().map(|item| Err(self.refusal(failure.clone(), to, item))).collect()
    }

    /// Returns the owner's failure as the refusal of an item.
    fn refusal(&self, failure: Failure, to: &ForwardTarget, item: &PendingItem) -> Refusal {
        self.refusal_of(failure, to, item, None)
    }

    /// As [`Shared::refusal`], of an advance to a number.
    fn refusal_of(&self, failure: Failure, to: &ForwardTarget, item: &PendingItem, target: Option<u64>) -> Refusal {
        let section = item.section;
        let destination = to.destination();
        let refused = match (failure, destination) {
            (Failure::NotSent, _) => return Refusal::DeadlinePassed { section },
            (Failure::NotProcessed, Destination::Node(owner)) => return Refusal::OwnerUnreachable { section, owner },
            (Failure::NotProcessed, Destination::Set(set)) => return Refusal::SetUnavailable { section, set },
            (Failure::QueueFull(pending), Destination::Node(_)) => return Refusal::TooManyPending { section, pending },
            (Failure::QueueFull(pending), Destination::Set(set)) => {
                return Refusal::TooManyPendingOfSet { section, set, pending };
            }
            (Failure::Broken, Destination::Node(owner)) => return Refusal::OwnerConnectionLost { section, owner },
            (Failure::Broken | Failure::TimedOut, _) => return timed_out(section, to),
            (Failure::Refused(refused), _) => refused,
        };
        let owner = if let Destination::Node(owner) = destination { owner } else { NodeId(0) };
        let Item { uid, count, epoch } = item.item;
        let (count, uids) = (count.get(), self.layout.uids());
        let about = RefusedItem { uid, count, to: target, epoch, section, owner, uids };
        let Refused { reason, set, since, bound } = refused;
        // A text states the quota of a tenant, and nodes count no tenant among each other.
        let details = Details { set, since, bound, text: "" };
        match (about.refusal(reason, details), destination) {
            // A node of the other set could not reach the owner there, and nothing was sent.
            (Some(Refusal::OwnerUnreachable { .. }), Destination::Set(set)) => Refusal::SetUnavailable { section, set },
            (Some(Refusal::OwnerConnectionLost { .. }), Destination::Set(_)) | (None, _) => timed_out(section, to),
            (Some(refusal), _) => refusal,
        }
    }
}

/// Decodes an owner's refusal.
fn refused(status: &Status) -> Failure {
    let number = |key| status::metadata(status, key).and_then(|number| number.parse().ok());
    match status::reason(status) {
        Some(reason) => {
            let (set, since) = (number(key::SET).map(SetId), number(key::SINCE).map(Epoch));
            let bound = number(key::BOUND).map(Seq);
            failure_of(&reason, |reason| Refused { reason, set, since, bound })
        }
        None if seq_channel::is_broken(status) => Failure::Broken,
        None => Failure::TimedOut,
    }
}

/// Decodes the refusal of an item.
fn failure_of_item(error: &v1::ItemError) -> Failure {
    let v1::ItemError { reason, set_id, since, .. } = error;
    let (set, since) = (set_id.map(SetId), since.map(Epoch));
    failure_of(reason, |reason| Refused { reason, set, since, bound: None })
}

/// Returns the failure of a refusal. A refusal whose reason this version does not know counts as no response: numbers
/// may have been consumed.
fn failure_of(reason: &str, refused: impl FnOnce(Reason) -> Refused) -> Failure {
    Reason::parse(reason).map_or(Failure::TimedOut, |reason| Failure::Refused(refused(reason)))
}

fn timed_out(section: SectionId, to: &ForwardTarget) -> Refusal {
    to.destination().timed_out(section)
}

/// An allocation as an owner responded it; `None` when it cannot be one.
fn given(value: u64, prev: u64, epoch: u64, lost: u32) -> Option<Allocation> {
    let sound = value > prev && value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost })
}

/// A reading as an owner responded it; `None` when it cannot be one.
fn read(value: u64, exactness: i32, epoch: u64) -> Option<Current> {
    let exact = match v1::Exactness::try_from(exactness).ok()? {
        v1::Exactness::Exact => true,
        v1::Exactness::UpperBound => false,
        v1::Exactness::Unspecified => return None,
    };
    let sound = value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Current { reading: Reading { value: Seq(value), exact }, epoch: Epoch(epoch) })
}
