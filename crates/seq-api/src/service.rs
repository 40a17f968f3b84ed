//! The service behind all endpoints. It allocates and reads numbers of any uid, including uids that another node owns.
//!
//! An endpoint decodes requests into these calls and encodes the replies. The implementation serves the sections that
//! it owns, forwards the items of other sections, and waits for ceilings up to the deadline. It never allocates above a
//! ceiling.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use seq_core::route::RouteUpdate;
use seq_core::{Count, Epoch, Reading, Refusal, RouteVersion, Seq, Target, Uid};
use tokio::time::Instant;

use crate::ids::{IdRequest, IdSeries};

/// Number of lanes of a section that a request tries if they are too far ahead of the clock, or if the clock of their
/// owner is wrong. In the first case it then waits, in the second case it tries lanes of another section.
const TRIED_LANES: u32 = 4;

/// Time for which a request waits if the lanes it tried are too far ahead of the clock. It is the unit of time of most
/// clocks.
pub const AHEAD_WAIT: Duration = Duration::from_millis(1);

/// Context of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time at which the client stops waiting. It is not a lease, and only limits how long the request may be pending.
    pub deadline: Instant,
    /// Number of times that servers have forwarded the request.
    pub hops: u32,
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
    /// From another node, which does not own the section.
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
    /// The number of the uid that was allocated before these; 0 if there was none, or if the owner does not know it.
    pub prev: Seq,
    /// The epoch of the owner that allocated these numbers.
    pub epoch: Epoch,
    /// Number of attempts of the same item at owners that were replaced before they responded. Each of them may have
    /// allocated `count` numbers.
    pub lost: u32,
}

/// A read of a uid's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The last number, or a bound on it.
    pub reading: Reading,
    /// The epoch of the owner that replied.
    pub epoch: Epoch,
}

/// An item of a batch in the form in which the endpoint passes it: a decoded item, or the refusal of an invalid item.
pub type DecodedItem = Result<Item, Refusal>;

/// The reply to an item; `None` while the item is pending.
pub type ItemReply<T> = Option<Result<T, Refusal>>;

/// The service behind the endpoints. Clones of it are handles to the same service.
///
/// If a returned future is dropped, the request is abandoned. Numbers may have been consumed in that case.
pub trait SequenceService: Clone + Send + Sync + 'static {
    /// Allocates numbers of one uid.
    fn next(&self, call: Call, item: Item) -> impl Future<Output = Result<Allocation, Refusal>> + Send;

    /// Allocates numbers for all items that need neither a wait nor another node. Adds one reply for each item of
    /// `items` to `replies`, in order. The reply is `None` if the item must wait or another node owns its section. In
    /// that case the replies to later items of the same section are `None` too, so that the items of a uid stay in
    /// order. [`SequenceService::complete_batch`] completes these items.
    ///
    /// Never waits. If it completes all items, it uses no heap memory except `replies`. The clock is read once for all
    /// items, and all items must have been received before this call.
    fn try_next_batch(&self, via: Via, items: &[DecodedItem], replies: &mut Vec<ItemReply<Allocation>>);

    /// Completes the items that [`SequenceService::try_next_batch`] left pending. For these items it waits, and
    /// forwards them to other nodes, up to the request's deadline. `items` and `replies` have the same length. When the
    /// future completes, every reply is `Some`.
    fn complete_batch(
        &self,
        call: Call,
        items: &[DecodedItem],
        replies: &mut [ItemReply<Allocation>],
    ) -> impl Future<Output = ()> + Send;

    /// Allocates numbers for many uids. The items are independent, and their results are in the order of the items. An
    /// item that the endpoint refused keeps its refusal.
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

    /// Reads the last numbers of many uids. The reads are independent, and their results are in the order of the uids.
    /// Each uid is paired with the newest epoch of its section that the client has seen.
    fn current_many(
        &self,
        call: Call,
        uids: Vec<(Uid, Epoch)>,
    ) -> impl Future<Output = Vec<Result<Current, Refusal>>> + Send;

    /// Advances a uid to `to`. Idempotent. Returns the epoch of the owner that advanced the uid. `epoch` is the newest
    /// epoch of the uid's section that the client has seen.
    ///
    /// Refuses with [`Refusal::AlreadyPast`] if the uid is past the number, or may be past it.
    fn advance(
        &self,
        call: Call,
        uid: Uid,
        to: Target,
        epoch: Epoch,
    ) -> impl Future<Output = Result<Epoch, Refusal>> + Send;

    /// Allocates numbers of one lane of a series. All of them are above `above`, and if the lane has a clock, they are
    /// not below the time of the clock. A service without series has no lane.
    ///
    /// Refuses with [`Refusal::LaneAhead`] if the numbers would be too far ahead of the clock, and with
    /// [`Refusal::AfterTooFar`] if `above` is too far ahead.
    fn next_in_lane(
        &self,
        call: Call,
        item: Item,
        above: Seq,
    ) -> impl Future<Output = Result<Allocation, Refusal>> + Send {
        let _ = above;
        self.next(call, item)
    }

    /// Allocates the numbers from which the ids for a request are made. They are of the lane that the caller names, or
    /// of a lane that the service chooses. Returns the lane together with the numbers. If the numbers of a chosen lane
    /// would be too far ahead of the clock, the service tries other lanes. If this does not help, or if the caller
    /// named the lane, it waits.
    ///
    /// Refuses in the same cases as [`SequenceService::next_in_lane`], and with [`Refusal::Exhausted`] if the lane has
    /// no such id.
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

    /// Returns a lane of a series that can be served now, in the common case without another node; `None` if no lane
    /// has an owner. Repeated calls return different lanes. `attempt` is the number of sections whose lanes the request
    /// has tried and found too far ahead of the clock.
    fn choose_lane(&self, series: &IdSeries, attempt: u32) -> Option<u32> {
        let _ = (series, attempt);
        None
    }

    /// Returns the version of the route table; 0 if there is no route table yet. The call is cheap enough for every
    /// request.
    fn route_version(&self) -> RouteVersion;

    /// Returns the routes newer than the version `since`; `None` if there are none.
    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate>;
}
