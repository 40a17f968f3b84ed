//! Operations on keys. The hashes of the keys are in the work, at the indexes of the items in their call.

use seq_api::keys::KeyedItems;
use seq_api::service::{Allocation, Call, Current};
use seq_core::keyspace::KeyHash;
use seq_core::{Epoch, Refusal, Target};

use super::{Advance, OnUids, Read, Take, Work};
use crate::forward::ForwardTarget;
use crate::ownership::Served;
use crate::pending_item::PendingItem;
use crate::shared::Shared;

/// Allocation of numbers of keys.
pub(crate) struct TakeOfKeys<'a>(pub(crate) &'a KeyedItems);

/// Reading of the last numbers of keys.
pub(crate) struct ReadKeys<'a>(pub(crate) &'a KeyedItems);

/// Advance of keys to a number.
pub(crate) struct AdvanceKeys<'a> {
    pub(crate) keys: &'a KeyedItems,
    pub(crate) to: Target,
}

impl OnUids for Take {
    type OfKeys<'a> = TakeOfKeys<'a>;

    fn of_keys<'a>(&self, keys: &'a KeyedItems) -> TakeOfKeys<'a> {
        TakeOfKeys(keys)
    }
}

impl OnUids for Read {
    type OfKeys<'a> = ReadKeys<'a>;

    fn of_keys<'a>(&self, keys: &'a KeyedItems) -> ReadKeys<'a> {
        ReadKeys(keys)
    }
}

impl OnUids for Advance {
    type OfKeys<'a> = AdvanceKeys<'a>;

    fn of_keys<'a>(&self, keys: &'a KeyedItems) -> AdvanceKeys<'a> {
        AdvanceKeys { keys, to: self.to }
    }
}

/// Returns the hash of an item's key.
fn hash(keys: &KeyedItems, item: &PendingItem) -> KeyHash {
    keys.items[item.index].key.hash
}

impl Work for TakeOfKeys<'_> {
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
        if item.item.epoch > served.epoch() {
            return None;
        }
        match served.take_of_key(hash(self.0, item), item.item.count) {
            Ok(taken) => shared.taken(served, &item.item, taken),
            Err(_) => shared.make_room(served).map(Err),
        }
    }

    async fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Allocation, Refusal>> {
        shared.forward_next_keys(call, to, self.0, items).await
    }
}

impl Work for ReadKeys<'_> {
    type Output = Current;

    fn numbers(_: &PendingItem) -> u64 {
        0
    }

    fn here(&self, _: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Current, Refusal>> {
        if item.item.epoch > served.epoch() {
            return None;
        }
        let reading = served.current_of_key(hash(self.0, item))?;
        Some(Ok(Current { reading, epoch: served.epoch() }))
    }

    async fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: &ForwardTarget,
        items: &[PendingItem],
    ) -> Vec<Result<Current, Refusal>> {
        shared.forward_current_keys(call, to, self.0, items).await
    }
}

impl Work for AdvanceKeys<'_> {
    type Output = Epoch;

    /// Returns 0, because the numbers that an advance skips are not allocated.
    fn numbers(_: &PendingItem) -> u64 {
        0
    }

    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Epoch, Refusal>> {
        if item.item.epoch > served.epoch() {
            return None;
        }
        let limit = shared.config.options.max_advance;
        match served.advance_key(hash(self.keys, item), self.to, limit) {
            Ok(advance) => shared.advanced(served, item, self.to, advance),
            Err(_) => shared.make_room(served).map(Err),
        }
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
            results.push(shared.forward_advance_key(call, to, self.keys, item, self.to).await);
        }
        results
    }
}
