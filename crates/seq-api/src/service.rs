//! The service behind all endpoints. It allocates and reads the numbers of any uid, including uids whose sections
//! another node owns.
//!
//! An endpoint decodes requests into calls of [`SequenceService`] and encodes the results. The implementation serves
//! items of sections that its node owns, and forwards the other items. If an item has to wait, e.g. for a raise of a
//! ceiling, the implementation waits until the request's deadline at the latest. It never allocates a number above a
//! ceiling.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use seq_core::calls::Redirects;
use seq_core::route::RouteUpdate;
use seq_core::{Count, Epoch, Reading, Refusal, RouteVersion, Seq, Target, Uid};
use tokio::time::Instant;

use crate::ids::{IdRequest, IdSeries};
use crate::keys::{self, KeyRefused, KeyedItem, KeyedItems, Keyspace, WholeKey};

/// Number of lanes that a request tries one after another without a wait. It tries the next lane if a lane is too far
/// ahead of the clock, or if the clock of the lane's owner is wrong. If the last of them is too far ahead, the request
/// waits and then tries lanes of another section. If the clock of its owner is wrong, the request is refused.
const TRIED_LANES: u32 = 4;

/// Time for which a request waits if all lanes that it tried are too far ahead of the clock. It is the unit of time in
/// the ids of most series.
pub const AHEAD_WAIT: Duration = Duration::from_millis(1);

/// Context of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time at which the client stops waiting. This time only limits how long the request may be pending. No check of a
    /// lease uses it.
    pub deadline: Instant,
    /// Number of times that servers have forwarded the request.
    pub hops: u32,
    /// Whether the request is forwarded to the owner of its section in this set. A forwarded request always is.
    pub redirects: Redirects,
    /// Endpoint that the request came through, for the metrics.
    pub via: Via,
}

/// Endpoint that a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// From a client, over gRPC.
    Grpc,
    /// From a client, as a message of a gRPC stream.
    Stream,
    /// From a client, over the Redis protocol.
    Resp,
    /// From a client, as JSON or plain text over HTTP.
    Json,
    /// From a client, for ids of a series, over any protocol.
    Id,
    /// From another node, because that node does not own the section.
    Forwarded,
}

impl Via {
    /// All values, in the order of their discriminants.
    pub const ALL: [Via; 6] = [Via::Grpc, Via::Stream, Via::Resp, Via::Json, Via::Id, Via::Forwarded];

    /// Returns the value of the label `via`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Via::Grpc => "grpc",
            Via::Stream => "stream",
            Via::Resp => "resp",
            Via::Json => "json",
            Via::Id => "id",
            Via::Forwarded => "forwarded",
        }
    }
}

/// One item of an allocation request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The user.
    pub uid: Uid,
    /// The number of seqs.
    pub count: Count,
    /// Newest epoch of the uid's section that the client has seen; 0 for none.
    pub epoch: Epoch,
}

/// Allocated numbers: `value - count + 1 ..= value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The last number allocated.
    pub value: Seq,
    /// The number of the uid that was allocated directly before these numbers; 0 if there was none, or if the owner
    /// does not know it.
    pub prev: Seq,
    /// The epoch of the owner that allocated these numbers.
    pub epoch: Epoch,
    /// Number of earlier attempts of the same item at owners that were replaced before they responded. Each of these
    /// attempts may have allocated `count` numbers, which are then skipped.
    pub lost: u32,
}

/// A read of a uid's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The last number, or an upper bound of it.
    pub reading: Reading,
    /// The epoch of the owner that replied.
    pub epoch: Epoch,
}

/// An item of a batch as an endpoint passes it to the service: the decoded item, or the endpoint's refusal of an
/// invalid item.
pub type DecodedItem = Result<Item, Refusal>;

/// The reply to an item; `None` while the item is pending.
pub type ItemReply<T> = Option<Result<T, Refusal>>;

/// The service behind the endpoints. Clones of a value are handles to the same service.
///
/// If a future that a method returned is dropped, the request is abandoned. It may have consumed numbers in that case.
pub trait SequenceService: Clone + Send + Sync + 'static {
    /// Allocates numbers of one uid.
    fn next(&self, call: Call, item: Item) -> impl Future<Output = Result<Allocation, Refusal>> + Send;

    /// Allocates numbers for all items that neither have to wait nor have to be forwarded to another node. Adds one
    /// reply for each item of `items` to `replies`, in order. The reply is `None` if the item must wait or another node
    /// owns its section. In that case the replies to all later items of the same section are `None` too, so that the
    /// items of a uid stay in order. [`SequenceService::complete_batch`] completes the items without a reply.
    ///
    /// Never waits. If it completes all items, it uses no heap memory except that of `replies`. It reads the clock once
    /// for all items, so all items must have been received before this call.
    fn try_next_batch(&self, via: Via, items: &[DecodedItem], replies: &mut Vec<ItemReply<Allocation>>);

    /// Completes the items that [`SequenceService::try_next_batch`] left without a reply. For these items it waits or
    /// forwards them to other nodes, until the request's deadline at the latest. `items` and `replies` have the same
    /// length. When the future completes, every reply is `Some`.
    fn complete_batch(
        &self,
        call: Call,
        items: &[DecodedItem],
        replies: &mut [ItemReply<Allocation>],
    ) -> impl Future<Output = ()> + Send;

    /// Allocates numbers for many uids. Each item succeeds or is refused independently of the others. The results are
    /// in the order of the items. The result of an item that the endpoint refused is that refusal.
    fn next_many(
        &self,
        call: Call,
        items: &[DecodedItem],
    ) -> impl Future<Output = Vec<Result<Allocation, Refusal>>> + Send {
        async move {
            let mut replies = Vec::with_capacity(items.len());
            self.try_next_batch(call.via, items, &mut replies);
            if replies.iter().any(Option::is_none) {
                self.complete_batch(call, items, &mut replies).await;
            }
            replies.into_iter().map(|reply| reply.expect("every item has a reply")).collect()
        }
    }

    /// Reads one uid's last number.
    fn current(&self, call: Call, uid: Uid, epoch: Epoch) -> impl Future<Output = Result<Current, Refusal>> + Send;

    /// Reads the last numbers of many uids. Each read succeeds or is refused independently of the others. The results
    /// are in the order of `uids`. Each uid is paired with the newest epoch of its section that the client has seen.
    fn current_many(
        &self,
        call: Call,
        uids: Vec<(Uid, Epoch)>,
    ) -> impl Future<Output = Vec<Result<Current, Refusal>>> + Send;

    /// Advances a uid to `to`, so that its next number is greater than `to`. It is idempotent. `epoch` is the newest
    /// epoch of the uid's section that the client has seen. Returns the epoch of the ownership that applied the
    /// advance.
    ///
    /// Refuses with [`Refusal::AlreadyPast`] if the last number of the uid is greater than `to`, or may be greater.
    fn advance(
        &self,
        call: Call,
        uid: Uid,
        to: Target,
        epoch: Epoch,
    ) -> impl Future<Output = Result<Epoch, Refusal>> + Send;

    /// Allocates numbers of one lane of a series. All of them are greater than `above`, and, if the lane follows a
    /// clock, none of them is below the present time of the clock. This default implementation is for a service without
    /// series, which has no lanes.
    ///
    /// Refuses with [`Refusal::LaneAhead`] if the numbers would be too far ahead of the clock, and with
    /// [`Refusal::AfterTooFar`] if `above` itself is too far ahead of the clock.
    fn next_in_lane(
        &self,
        call: Call,
        item: Item,
        above: Seq,
    ) -> impl Future<Output = Result<Allocation, Refusal>> + Send {
        let _ = above;
        self.next(call, item)
    }

    /// Allocates the numbers from which the ids for a request are made, all of them in one lane. It is the lane that
    /// the caller names, or else a lane that the service chooses. Returns the lane together with the numbers. If the
    /// numbers of a chosen lane would be too far ahead of the clock, the service tries a few other lanes. If the lanes
    /// that it tried are all too far ahead, or if the caller named the lane, the service waits and then tries again.
    ///
    /// Refuses in the same cases as [`SequenceService::next_in_lane`], and with [`Refusal::Exhausted`] if no id that
    /// the request allows is left in the lane.
    fn next_in_series(
        &self,
        call: Call,
        request: &IdRequest,
    ) -> impl Future<Output = Result<(u32, Allocation), Refusal>> + Send {
        async move {
            let IdRequest { series, count, lane: named, .. } = request;
            let mut tried = 0_u32;
            loop {
                let lane = named.or_else(|| self.choose_lane(series, tried / TRIED_LANES)).unwrap_or(0);
                tried = tried.wrapping_add(1);
                let item = Item { uid: series.address(lane), count: *count, epoch: Epoch(0) };
                match self.next_in_lane(call, item, request.above(lane)?).await {
                    Err(Refusal::LaneAhead { .. } | Refusal::ClockAhead { .. })
                        if named.is_none() && !tried.is_multiple_of(TRIED_LANES) => {}
                    Err(Refusal::LaneAhead { .. }) if Instant::now() + AHEAD_WAIT < call.deadline => {
                        tokio::time::sleep(AHEAD_WAIT).await;
                    }
                    taken => return taken.map(|taken| (lane, taken)),
                }
            }
        }
    }

    /// Returns a series by its name.
    fn series(&self, name: &str) -> Option<Arc<IdSeries>> {
        self.all_series().into_iter().find(|series| series.name == name)
    }

    /// Returns all series of the cluster, in the order in which they were created.
    fn all_series(&self) -> Vec<Arc<IdSeries>> {
        Vec::new()
    }

    /// Returns a lane of a series that can be served now, if possible by this node; `None` if no lane has an owner.
    /// Repeated calls return different lanes. `attempt` is the number of sections whose lanes the request has already
    /// tried and found too far ahead of the clock.
    fn choose_lane(&self, series: &IdSeries, attempt: u32) -> Option<u32> {
        let _ = (series, attempt);
        None
    }

    /// Returns a keyspace by its name; `None` if this node does not know the keyspace, or if the service has none.
    fn keyspace(&self, name: &str) -> Option<Arc<Keyspace>> {
        let _ = name;
        None
    }

    /// Allocates numbers of keys. Each item succeeds or is refused independently of the others. The results are in the
    /// order of the items. This default implementation is for a service without keyspaces.
    fn next_keys(
        &self,
        call: Call,
        items: KeyedItems,
    ) -> impl Future<Output = Vec<Result<Allocation, Refusal>>> + Send {
        let _ = call;
        std::future::ready(items.items.iter().map(|item| Err(unserved(item))).collect())
    }

    /// Allocates numbers of the keys that neither have to wait nor have to be forwarded to another node, and returns a
    /// reply for each item: `None` for an item that was not tried or would have to wait. Never waits.
    fn try_next_keys(&self, via: Via, items: &KeyedItems) -> Vec<ItemReply<Allocation>> {
        let _ = via;
        vec![None; items.items.len()]
    }

    /// Reads the last numbers of keys, as [`SequenceService::next_keys`] allocates numbers.
    fn current_keys(
        &self,
        call: Call,
        items: KeyedItems,
    ) -> impl Future<Output = Vec<Result<Current, Refusal>>> + Send {
        let _ = call;
        std::future::ready(items.items.iter().map(|item| Err(unserved(item))).collect())
    }

    /// Advances each key to `to`, as [`SequenceService::advance`] advances a uid. Returns the epochs of the ownerships
    /// that applied the advances.
    fn advance_keys(
        &self,
        call: Call,
        items: KeyedItems,
        to: Target,
    ) -> impl Future<Output = Vec<Result<Epoch, Refusal>>> + Send {
        let _ = (call, to);
        std::future::ready(items.items.iter().map(|item| Err(unserved(item))).collect())
    }

    /// Allocates numbers of keys as the caller sent them. The results are in the order of the keys. This default
    /// implementation hashes the keys. A service that forwards requests to other processes, which know the seed of the
    /// keyspace, sends the keys themselves.
    fn next_whole_keys(
        &self,
        call: Call,
        keyspace: &Keyspace,
        keys: &[WholeKey<'_>],
    ) -> impl Future<Output = Vec<Result<Allocation, KeyRefused>>> + Send {
        let hashed = keyspace.hashed(keys).map_err(|refusal| vec![Err(refusal.into()); keys.len()]);
        async move {
            match hashed {
                Ok(items) => keys::refused(self.next_keys(call, items).await),
                Err(refused) => refused,
            }
        }
    }

    /// Reads the last numbers of keys, as [`SequenceService::next_whole_keys`] allocates numbers.
    fn current_whole_keys(
        &self,
        call: Call,
        keyspace: &Keyspace,
        keys: &[WholeKey<'_>],
    ) -> impl Future<Output = Vec<Result<Current, KeyRefused>>> + Send {
        let hashed = keyspace.hashed(keys).map_err(|refusal| vec![Err(refusal.into()); keys.len()]);
        async move {
            match hashed {
                Ok(items) => keys::refused(self.current_keys(call, items).await),
                Err(refused) => refused,
            }
        }
    }

    /// Advances a key to `to`, as [`SequenceService::next_whole_keys`] allocates numbers.
    fn advance_whole_key(
        &self,
        call: Call,
        keyspace: &Keyspace,
        key: WholeKey<'_>,
        to: Target,
    ) -> impl Future<Output = Result<Epoch, KeyRefused>> + Send {
        let hashed = keyspace.hashed(&[key]);
        async move {
            let mut results = self.advance_keys(call, hashed?, to).await;
            Ok(results.pop().expect("one result for one key")?)
        }
    }

    /// Returns the version of the node's route table; 0 if the node has no route table yet. This is cheap enough to be
    /// called for every request.
    fn route_version(&self) -> RouteVersion;

    /// Returns the routes that are newer than the version `since`; `None` if there are none.
    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate>;
}

/// Returns the refusal of an item of a keyspace by a service without keyspaces.
fn unserved(item: &KeyedItem) -> Refusal {
    Refusal::Unserved { section: item.key.section }
}
