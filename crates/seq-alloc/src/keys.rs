//! Calls for keys. A first pass serves all items whose buckets this node serves and that need not wait, as for uids.
//! Only the remaining items, which have to wait or to be forwarded, cost more.
//!
//! **Invariant:** an item is served only if its hash was made under the seed of the keyspace to which its section
//! belongs here. Otherwise a key would have two counters.

use std::collections::BTreeSet;

use seq_api::keys::{HashedKey, KeyedItem, KeyedItems};
use seq_api::service::{Call, Item, ItemReply, Via};
use seq_core::calls::UnknownAttempts;
use seq_core::key_room::KeyBound;
use seq_core::layout::address;
use seq_core::{Refusal, SlotIndex};

use crate::ownership::{Served, Serving};
use crate::pending_item::PendingItem;
use crate::shared::Shared;
use crate::work::Work;

/// Number of counters that are loaded into the processor's cache before they are used, as for uids.
const PREFETCHED: usize = 16;

impl Shared {
    /// Serves the items that can be served now, and adds one reply to `replies` for each item. The reply is `None` for
    /// an item that becomes pending. `serving` must have been obtained after the request arrived, so that the lease was
    /// checked after that time.
    pub(crate) fn first_pass_of_keys<W: Work>(
        &self,
        work: &W,
        via: Via,
        serving: Option<&Serving<'_>>,
        keyed: &KeyedItems,
        replies: &mut Vec<ItemReply<W::Output>>,
    ) {
        let mut waiting = BTreeSet::new();
        let (mut numbers, mut prefetched) = (0, 0);
        let buckets = self.buckets(keyed.digest);
        for (chunk, items) in keyed.items.chunks(PREFETCHED).enumerate() {
            let mut served = [None; PREFETCHED];
            for (served, KeyedItem { key: HashedKey { section, hash }, .. }) in served.iter_mut().zip(items) {
                *served = serving.and_then(|serving| serving.get(*section));
                prefetched |= served.map_or(0, |served: Served<'_>| served.warm_key(*hash));
            }
            for (index, (item, served)) in (chunk * PREFETCHED..).zip(items.iter().zip(served)) {
                let section = item.key.section;
                if !buckets.contains(&section.0) {
                    replies.push(Some(Err(Refusal::Unserved { section })));
                    continue;
                }
                let item = pending(index, item);
                let served = served.filter(|_| !waiting.contains(&section));
                let reply = served.and_then(|served| work.here(self, served, &item));
                match &reply {
                    Some(Ok(_)) => numbers += W::numbers(&item),
                    None if served.is_some() => _ = waiting.insert(section),
                    _ => {}
                }
                replies.push(reply);
            }
        }
        std::hint::black_box(prefetched);
        self.counters.given(via, numbers);
    }

    /// Completes the items that the first pass left pending, and returns the results of all items.
    pub(crate) async fn complete_keys<W: Work>(
        &self,
        work: &W,
        call: Call,
        keyed: &KeyedItems,
        mut replies: Vec<ItemReply<W::Output>>,
    ) -> Vec<Result<W::Output, Refusal>> {
        if replies.iter().any(Option::is_none) {
            let left = keyed.items.iter().zip(&replies).enumerate().filter(|(_, (_, reply))| reply.is_none());
            let left = left.map(|(index, (item, _))| pending(index, item)).collect();
            for (index, result) in self.second_pass(work, call, left).await.into_iter().flatten() {
                replies[index] = Some(result);
            }
        }
        replies.into_iter().map(|reply| reply.expect("every item has a result")).collect()
    }

    /// Returns the sections of the keyspace with this digest of its seed; an empty range if this node does not know the
    /// keyspace.
    fn buckets(&self, digest: u64) -> std::ops::Range<u32> {
        let index = self.ownership.series();
        let buckets = index.keyspace_with(digest).map(|keyspace| keyspace.buckets);
        buckets.and_then(|buckets| Some(buckets.first.0..buckets.end()?)).unwrap_or_default()
    }

    /// Makes room for the counter of another key in a bucket. Returns `None` if the item has to wait for the larger
    /// bucket, and otherwise its refusal.
    #[cold]
    pub(crate) fn make_room(&self, full: Served<'_>) -> Option<Refusal> {
        let bound = KeyBound { most: self.config.options.max_keys };
        let refused = self.ownership.grow(full.owned(), bound).is_err();
        refused.then_some(Refusal::KeysExhausted { section: full.owned().id })
    }
}

/// Returns an item without a result. Its uid is the address of the only lane of its section.
fn pending(index: usize, item: &KeyedItem) -> PendingItem {
    let KeyedItem { key: HashedKey { section, .. }, count, epoch } = *item;
    let (uid, slot) = (address(section, SlotIndex(0)), SlotIndex(0));
    PendingItem { index, item: Item { uid, count, epoch }, section, slot, unknown: UnknownAttempts::default() }
}
