//! The service that all endpoints call: it allocates and reads numbers, whichever node owns them.
//!
//! An endpoint decodes requests into these calls and encodes the replies. The implementation serves the sections it
//! owns and forwards the rest, waits for ceilings up to the deadline, and never allocates above one.

use std::future::Future;

use seq_core::route::RouteUpdate;
use seq_core::{Count, Epoch, Reading, Refusal, RouteVersion, Seq, Target, Uid};
use tokio::time::Instant;

/// The context of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When the client stops waiting. Not a lease: it only bounds how long the request may be pending.
    pub deadline: Instant,
    /// How often servers have forwarded the request.
    pub hops: u32,
    /// The endpoint it came through, for the metrics.
    pub via: Via,
}

/// The endpoint that a request came through.
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
    /// From another node that does not own the section.
    Forwarded,
}

impl Via {
    /// All values, in the order of their discriminants.
    pub const ALL: [Via; 5] = [Via::Grpc, Via::Stream, Via::Resp, Via::Json, Via::Forwarded];

    /// The value of the label `via`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Via::Grpc => "grpc",
            Via::Stream => "stream",
            Via::Resp => "resp",
            Via::Json => "json",
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
    /// The number allocated before, or 0 if there was none or the owner does not know it.
    pub prev: Seq,
    /// The epoch of the owner that allocated them.
    pub epoch: Epoch,
    /// Attempts of the same item at owners that were replaced before they responded: each may have allocated as many
    /// numbers.
    pub lost: u32,
}

/// A read of a uid's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The last number or a bound on it.
    pub reading: Reading,
    /// The epoch of the owner that replied.
    pub epoch: Epoch,
}

/// An item of a batch as the endpoint passes it: the decoded item, or the refusal of an invalid one.
pub type DecodedItem = Result<Item, Refusal>;

/// The reply of an item, `None` while it is pending.
pub type ItemReply<T> = Option<Result<T, Refusal>>;

/// The service behind the endpoints. Clones are handles to the same service.
///
/// Dropping a returned future abandons the request; numbers may have been consumed.
pub trait SequenceService: Clone + Send + Sync + 'static {
    /// Allocates numbers of one uid.
    fn next(&self, call: Call, item: Item) -> impl Future<Output = Result<Allocation, Refusal>> + Send;

    /// Allocates what is available locally without waiting: adds one reply for each item of `items` to `replies`, in
    /// order. `None` is an item that must wait, or that another node owns; then the later items of its section are
    /// `None` as well, so that a uid's items stay in order. [`SequenceService::complete_batch`] completes them.
    ///
    /// Never waits; if it completes all items, it uses no heap memory beyond `replies`. The clock is read once for all
    /// items, which must have been received before the call.
    fn try_next_batch(&self, via: Via, items: &[DecodedItem], replies: &mut Vec<ItemReply<Allocation>>);

    /// Completes the items that [`SequenceService::try_next_batch`] left pending: waits and forwards up to the
    /// request's deadline. `items` and `replies` have the same length; every reply is `Some` at the end.
    fn complete_batch(
        &self,
        call: Call,
        items: &[DecodedItem],
        replies: &mut [ItemReply<Allocation>],
    ) -> impl Future<Output = ()> + Send;

    /// Allocates numbers for many uids independently, in order; an item that the endpoint refused keeps its refusal.
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

    /// Reads many uids' last numbers independently, in order. Beside each uid is the newest epoch of its section that
    /// the client has seen.
    fn current_many(
        &self,
        call: Call,
        uids: Vec<(Uid, Epoch)>,
    ) -> impl Future<Output = Vec<Result<Current, Refusal>>> + Send;

    /// Advances a uid to `to`; idempotent. Returns the epoch of the owner that did it. `epoch` is the newest one of the
    /// uid's section that the client has seen.
    ///
    /// Refused with [`Refusal::AlreadyPast`] if the uid is past the number, or may be.
    fn advance(
        &self,
        call: Call,
        uid: Uid,
        to: Target,
        epoch: Epoch,
    ) -> impl Future<Output = Result<Epoch, Refusal>> + Send;

    /// Version of the route table, 0 if there is none yet. Cheap enough for every request.
    fn route_version(&self) -> RouteVersion;

    /// The routes newer than a version, or `None` when there are none.
    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate>;
}
