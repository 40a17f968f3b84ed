//! Operations on the items of a call: allocations, readings and advances. This node carries out an operation itself or
//! forwards it to the owner of the item's section.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use seq_api::batch_clock::BatchClock;
use seq_api::keys::KeyedItems;
use seq_api::service::{Allocation, Call, Current, ItemReply};
use seq_core::{Epoch, Refusal, Seq, Target};

use crate::forward::ForwardTarget;
use crate::ownership::Served;
use crate::pending_item::PendingItem;
use crate::shared::Shared;

mod here;
mod in_lane;
mod of_keys;

pub(crate) use of_keys::{AdvanceKeys, ReadKeys, TakeOfKeys};

/// Operation on items: [`Take`], [`TakeInLane`], [`Read`] or [`Advance`], or one of those on keys.
pub(crate) trait Work: Send + Sync {
    type Output: Send;

    /// Whether an attempt to forward the operation that got no response may have consumed numbers.
    const CONSUMES: bool = false;

    /// Returns how many numbers a completed item allocated.
    fn numbers(item: &PendingItem) -> u64;

    /// Returns `output` with the number of earlier attempts whose outcome is unknown, if the output has a field for
    /// this number.
    fn after_unknown(output: Self::Output, _attempts: u32) -> Self::Output {
        output
    }

    /// Serves an item from a section that this node serves; `None` if the item has to wait.
    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Self::Output, Refusal>>;

    /// Forwards items in their order to their owner, over the stream that all requests to this owner share. The reply
    /// of an item is `None` if the item would have to wait at the owner. If the operation or the owner does not support
    /// the stream, sends nothing and returns `None` instead of replies.
    fn there_at_once(
        &self,
        _shared: &Shared,
        _call: Call,
        _to: &ForwardTarget,
        _items: &[PendingItem],
    ) -> impl Future<Output = Option<Vec<ItemReply<Self::Output>>>> + Send {
        std::future::ready(None)
    }

    /// Forwards items in their order to their owner, in a separate request, for which the owner may let the items wait.
    fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> impl Future<Output = Vec<Result<Self::Output, Refusal>>> + Send;
}

/// Operation on items of uids, which may be sparse.
pub(crate) trait OnUids: Work {
    /// The same operation on keys.
    type OfKeys<'a>: Work<Output = Self::Output>;

    /// Returns the same operation on the keys that sparse uids are.
    fn of_keys<'a>(&self, keys: &'a KeyedItems) -> Self::OfKeys<'a>;
}

/// Allocation of numbers.
pub(crate) struct Take;

/// Allocation of numbers of lanes.
pub(crate) struct TakeInLane {
    /// Number that is smaller than all numbers to allocate.
    pub(crate) above: Seq,
    /// Clock of the endpoint at which the call arrived, if it has one. It is read once for all calls that arrived
    /// together.
    pub(crate) arrivals: Option<Arc<BatchClock>>,
}

/// Reading of the last number.
pub(crate) struct Read;

/// Advance of a uid to a number.
pub(crate) struct Advance {
    to: Target,
    /// Whether it was logged that this advance skips many numbers.
    logged: AtomicBool,
}

impl Advance {
    pub(crate) fn new(to: Target) -> Advance {
        Advance { to, logged: AtomicBool::new(false) }
    }
}

impl Work for Take {
    type Output = Allocation;

    const CONSUMES: bool = true;

    fn numbers(item: &PendingItem) -> u64 {
        item.item.count.get().into()
    }

    fn after_unknown(output: Allocation, attempts: u32) -> Allocation {
        Allocation { lost: output.lost.saturating_add(attempts), ..output }
    }

    #[inline]
    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Allocation, Refusal>> {
        shared.take(served, &item.item, item.slot)
    }

    async fn there_at_once(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Option<Vec<ItemReply<Allocation>>> {
        shared.forward_batched(call, to, items).await
    }

    async fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Allocation, Refusal>> {
        match items {
            [item] => vec![shared.forward_next(call, to, item, None).await],
            items => shared.forward_next_many(call, to, items).await,
        }
    }
}

impl Work for TakeInLane {
    type Output = Allocation;

    const CONSUMES: bool = true;

    fn numbers(item: &PendingItem) -> u64 {
        Take::numbers(item)
    }

    fn after_unknown(output: Allocation, attempts: u32) -> Allocation {
        Take::after_unknown(output, attempts)
    }

    #[inline]
    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Allocation, Refusal>> {
        let now = self.arrivals.as_ref().map_or_else(|| shared.clock.now(), |arrivals| arrivals.now());
        shared.take_in_lane(served, item, self.above, now)
    }

    async fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Allocation, Refusal>> {
        let mut results = Vec::with_capacity(items.len());
        for item in items {
            results.push(shared.forward_next(call, to, item, Some(self.above)).await);
        }
        results
    }
}

impl Work for Read {
    type Output = Current;

    fn numbers(_: &PendingItem) -> u64 {
        0
    }

    fn here(&self, _: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Current, Refusal>> {
        if item.item.epoch > served.epoch() {
            return None;
        }
        let reading = served.current(item.slot)?;
        Some(Ok(Current { reading, epoch: served.epoch() }))
    }

    async fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Current, Refusal>> {
        match items {
            [item] => vec![shared.forward_current(call, to, item).await],
            items => shared.forward_current_many(call, to, items).await,
        }
    }
}

impl Work for Advance {
    type Output = Epoch;

    /// Returns 0, because the numbers that an advance skips are not allocated.
    fn numbers(_: &PendingItem) -> u64 {
        0
    }

    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Epoch, Refusal>> {
        let far = shared.is_far(served.owned(), self.to);
        let result = shared.advance(served, item, self.to);
        if far && !matches!(result, Some(Err(_))) && !self.logged.swap(true, Relaxed) {
            let (uid, section, to) = (item.item.uid.0, served.owned().id.0, self.to.seq().0);
            tracing::warn!(uid, section, to, ceiling = served.owned().ceiling().0, "an advance far above the ceiling");
        }
        result
    }

    async fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Epoch, Refusal>> {
        let mut results = Vec::with_capacity(items.len());
        for item in items {
            results.push(shared.forward_advance(call, to, item, self.to).await);
        }
        results
    }
}
