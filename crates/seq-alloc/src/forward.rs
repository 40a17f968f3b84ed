//! Forwards items whose sections this node does not own to the sections' owners, which are nodes of this set or of
//! other sets, and decodes the owners' responses.
//!
//! On each core there is one batcher for each owner (`seq_channel::batch`). An allocation is sent through this batcher
//! first. All items for the same owner that arrive on the connections of a core in one turn of its event loop are sent
//! in one message. The owner completes the items that it can complete at once. Each item that would have to wait at the
//! owner is sent again in a separate request. Reads and advances are always sent in separate requests.
//!
//! If a forwarded request may have been processed, this node does not repeat it, because only the client may decide on
//! a repetition. There is one exception: if the routes name another owner before the first owner responds
//! (`seq_core::calls`), this node repeats the request, and the response states the number of attempts with an unknown
//! outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_api::service::{Allocation, Call, Current, Item, ItemReply};
use seq_channel::batch::{self, Allocated, CallItems, NodeBatcher, Outcome, QueueFull};
use seq_core::calls::Destination;
use seq_core::{Epoch, NodeId, Refusal, SectionId, Seq, Target};
use seq_kit::telemetry::traces;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::{Reason, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use self::response::{Failure, given, read};
use crate::fault_metrics::Violation;
use crate::other_sets::OtherSet;
use crate::pending_item::PendingItem;
use crate::shared::Shared;

mod keys;
mod response;

type Owner = SequenceServiceClient<Channel>;

/// Node to which a request is sent.
#[derive(Clone, Debug)]
pub(crate) enum ForwardTarget {
    /// Owner in this set.
    Node(NodeId),
    /// Node of another set: the set, and the address of the node.
    Other(Arc<OtherSet>, Arc<str>),
}

impl ForwardTarget {
    /// Returns the destination of a call that is sent to this target. For a node of another set, the destination is
    /// that set and not the node, because the call may be sent to any node of that set.
    pub(crate) fn destination(&self) -> Destination {
        match self {
            ForwardTarget::Node(node) => Destination::Node(*node),
            ForwardTarget::Other(set, _) => Destination::Set(set.id()),
        }
    }

    /// If the target is a node of another set, records whether that set responded or the node could not be reached.
    /// `failure` is `None` if the request succeeded.
    fn on_response(&self, failure: Option<&Failure>) {
        let ForwardTarget::Other(set, addr) = self else { return };
        match failure {
            Some(Failure::NotProcessed | Failure::Broken) => set.on_unreachable(addr),
            Some(Failure::TimedOut | Failure::NotSent | Failure::QueueFull(_)) => {}
            None | Some(Failure::Refused(_)) => set.on_received(),
        }
    }

    /// Records that items would have to wait at the target. If the target is in another set, this is a sign that the
    /// target no longer owns the section, so newer routes are fetched.
    fn on_would_wait(&self) {
        if let ForwardTarget::Other(set, _) = self {
            set.on_stale();
        }
    }
}

impl Shared {
    async fn send<Q, A>(
        &self,
        call: &Call,
        to: &ForwardTarget,
        message: Q,
        method: impl AsyncFnOnce(Owner, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        let (channel, left) = self.open(call, to)?;
        let owner = SequenceServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        receive(to, left, method(owner, timed(message, left))).await
    }

    /// Returns the channel to a node, and the time that is left for a request.
    fn open(&self, call: &Call, to: &ForwardTarget) -> Result<(Channel, Duration), Failure> {
        let left = call.deadline.saturating_duration_since(Instant::now());
        let channel = self.channel_to(to).ok_or(Failure::NotProcessed)?;
        if left.is_zero() { Err(Failure::NotSent) } else { Ok((channel, left)) }
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

    /// Allocates numbers for `items` at their owner, over the stream that this call shares with other calls. Returns
    /// one reply for each item. The reply is `None` if the item would have to wait at the owner. Returns `None` instead
    /// of replies if the owner does not support the stream.
    pub(crate) async fn forward_batched(
        &self,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Option<Vec<ItemReply<Allocation>>> {
        let Some(batcher) = self.batcher(to) else { return Some(self.replies(to, items, &Failure::NotProcessed)) };
        let part = |item: &PendingItem| {
            let Item { uid, count, epoch } = item.item;
            batch::Item { counter: uid.0, count: count.get(), epoch: epoch.0 }
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
                        Some(self.given(value, prev, epoch, lost).ok_or_else(|| timed_out(item.section, to)))
                    }
                    Err(error) if error.reason == Reason::WouldWait => None,
                    Err(error) => Some(Err(self.refusal(Failure::of_item(error), to, item))),
                };
                let replies: Vec<_> = items.iter().zip(response.results()).map(reply).collect();
                if replies.iter().any(Option::is_none) {
                    to.on_would_wait();
                }
                return Some(replies);
            }
            Ok(Outcome::Unsupported) => return None,
            Ok(Outcome::Refused(error)) => Failure::of_item(&error),
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

    /// Returns the batcher that this thread uses for calls to a node.
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

    /// Returns the replies to `items` after their request failed.
    fn replies<T>(&self, to: &ForwardTarget, items: &[PendingItem], failure: &Failure) -> Vec<ItemReply<T>> {
        items.iter().map(|item| Some(Err(self.refusal(failure.clone(), to, item)))).collect()
    }

    /// Allocates numbers for `item` with a separate request to the item's owner. If the item is for a lane, all its
    /// numbers are greater than `above`.
    pub(crate) async fn forward_next(
        &self,
        call: Call,
        to: &ForwardTarget,
        item: &PendingItem,
        above: Option<Seq>,
    ) -> Result<Allocation, Refusal> {
        let Item { uid, count, epoch } = item.item;
        let message = v1::NextRequest {
            above: above.map(|above| above.0),
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
                let given = self.given(response.value, response.prev, response.epoch, lost);
                given.ok_or(timed_out(item.section, to))
            }
            Err(failure) => {
                let above = above.map(|above| above.0);
                Err(failure.refusal(to.destination(), item, above, &self.config.layout))
            }
        }
    }

    /// Allocates numbers for several items with a separate request to their common owner. The results are in the order
    /// of the items.
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
                    self.given(*values.get(at)?, *prevs.get(at)?, *epochs.get(at)?, lost(at))
                })
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// Returns the allocation in an owner's response, or `None` if its numbers contradict each other. Counts and logs a
    /// number that is not above the number before it.
    fn given(&self, value: u64, prev: u64, epoch: u64, lost: u32) -> Option<Allocation> {
        let given = given(value, prev, epoch, lost);
        if given.is_none() && value <= prev {
            self.counters.faults.violated(Violation::Response);
            tracing::error!(
                value,
                prev,
                epoch,
                "an owner responded with a number that is not above the number before it"
            );
        }
        given
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
            Err(failure) => Err(failure.refusal(owner.destination(), item, Some(to), &self.config.layout)),
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

    /// Reads the last numbers of several uids with a request to the common owner of their sections. The results are in
    /// the order of the items.
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

    /// Returns the result of each item of a request with several items. `errors` are the refusals in the response, and
    /// `value` returns the value in the response for the item with the given index. If the response has neither for an
    /// item, the item counts as timed out.
    fn item_results<T>(
        &self,
        to: &ForwardTarget,
        items: &[PendingItem],
        errors: Vec<v1::ItemError>,
        value: impl Fn(usize) -> Option<T>,
    ) -> Vec<Result<T, Refusal>> {
        let mut errors: BTreeMap<_, _> = errors.into_iter().map(|error| (error.index, error)).collect();
        let result = |(at, item): (u32, &PendingItem)| match errors.remove(&at) {
            Some(error) => Err(self.refusal(Failure::of_item(&error), to, item)),
            None => value(at as usize).ok_or(timed_out(item.section, to)),
        };
        (0..).zip(items).map(result).collect()
    }

    /// Returns the refusal of each of `items`, after the request for all of them failed.
    fn failed<T>(&self, to: &ForwardTarget, items: &[PendingItem], failure: &Failure) -> Vec<Result<T, Refusal>> {
        items.iter().map(|item| Err(self.refusal(failure.clone(), to, item))).collect()
    }

    /// Returns the refusal that is sent to the caller of an item after the forwarding of an allocation or a reading
    /// failed.
    fn refusal(&self, failure: Failure, to: &ForwardTarget, item: &PendingItem) -> Refusal {
        failure.refusal(to.destination(), item, None, &self.config.layout)
    }
}

fn timed_out(section: SectionId, to: &ForwardTarget) -> Refusal {
    to.destination().timed_out(section)
}

/// Returns the request with a message. It carries the time that is left for it, and the trace of the call.
fn timed<Q>(message: Q, left: Duration) -> Request<Q> {
    let mut request = Request::new(message);
    request.set_timeout(left);
    traces::inject(request.metadata_mut());
    request
}

/// Waits for the response to a request to a node, for the time that is left.
async fn receive<A>(
    to: &ForwardTarget,
    left: Duration,
    response: impl Future<Output = Result<Response<A>, Status>>,
) -> Result<A, Failure> {
    let response = match tokio::time::timeout(left, response).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Failure::of_status(&status)),
        Err(_) => Err(Failure::TimedOut),
    };
    to.on_response(response.as_ref().err());
    response
}
