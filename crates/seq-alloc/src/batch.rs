//! Calls for many uids. A first pass serves all items that this node can serve now, from a single load of the table of
//! served sections. Only the remaining items, which have to wait or to be forwarded, cost more.

use std::collections::BTreeSet;

use futures::future;
use seq_api::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, Via};
use seq_core::calls::UnknownAttempts;
use seq_core::{Count, Epoch, Refusal, Uid};

use crate::ownership::Serving;
use crate::pending::ItemResult;
use crate::pending_item::PendingItem;
use crate::shared::Shared;
use crate::work::{OnUids, Read, Take, Work};

/// Number of slots that are loaded into the processor's cache before they are used. It is large enough for their loads
/// to overlap, and small enough that the first slot is still in the cache when the last slot has been loaded.
const PREFETCHED: usize = 16;

impl Shared {
    /// Serves the items that can be served now, and adds one reply to `replies` for each item. The reply is `None` for
    /// an item that becomes pending. `serving` must have been obtained after the request arrived, so that the lease was
    /// checked after that time.
    pub(crate) fn first_pass<W: OnUids>(
        &self,
        work: &W,
        via: Via,
        serving: Option<&Serving<'_>>,
        items: &[DecodedItem],
        replies: &mut Vec<ItemReply<W::Output>>,
    ) {
        let before = replies.len();
        let mut any_outside = false;
        // Once an item of a section waits, the later items of that section wait too, because they may be for the same
        // uid.
        let mut waiting = BTreeSet::new();
        let mut numbers = 0;
        let mut prefetched = 0;
        // The section and slot of each item are looked up only once, because these two steps are most of the cost of a
        // number.
        let mut located = [None; PREFETCHED];
        for (chunk, items) in items.chunks(PREFETCHED).enumerate() {
            for (located, item) in located.iter_mut().zip(items) {
                let target = item.ok().and_then(|item| self.locate(item.uid, via).ok());
                *located =
                    target.map(|(section, slot)| (section, slot, serving.and_then(|serving| serving.get(section))));
                if let (Some((_, slot, Some(served))), 2..) = (*located, items.len()) {
                    prefetched |= served.warm(slot);
                }
            }
            for (index, (item, located)) in (chunk * PREFETCHED..).zip(items.iter().zip(located)) {
                let (Ok(item), Some((section, slot, served))) = (*item, located) else {
                    replies.push(self.pending_item(index, item, via).err().map(Err));
                    any_outside = true;
                    continue;
                };
                let item = PendingItem { index, item, section, slot, unknown: UnknownAttempts::default() };
                let served = served.filter(|_| !waiting.contains(&item.section));
                let reply = served.and_then(|served| work.here(self, served, &item));
                match &reply {
                    Some(Ok(_)) => numbers += W::numbers(&item),
                    None if served.is_some() => _ = waiting.insert(item.section),
                    _ => {}
                }
                replies.push(reply);
            }
        }
        std::hint::black_box(prefetched);
        self.counters.given(via, numbers);
        if any_outside {
            self.first_pass_of_sparse(work, via, serving, items, &mut replies[before..]);
        }
    }

    fn pending_item(&self, index: usize, item: &DecodedItem, via: Via) -> Result<PendingItem, Refusal> {
        let item = (*item)?;
        let (section, slot) = self.locate(item.uid, via)?;
        Ok(PendingItem { index, item, section, slot, unknown: UnknownAttempts::default() })
    }

    /// Allocates for the items that the first pass left pending.
    pub(crate) async fn complete_batch(
        &self,
        call: Call,
        items: &[DecodedItem],
        replies: &mut [ItemReply<Allocation>],
    ) {
        for (index, result) in self.complete_open(&Take, call, items, replies).await.into_iter().flatten() {
            if let Err(refusal) = &result {
                self.counters.refused(call.via, refusal, 1);
            }
            replies[index] = Some(result);
        }
    }

    /// Counts the refusals of a first pass.
    pub(crate) fn count_refused(&self, via: Via, replies: &[ItemReply<Allocation>]) {
        for refusal in replies.iter().flatten().filter_map(|reply| reply.as_ref().err()) {
            self.counters.refused(via, refusal, 1);
        }
    }

    /// Reads many uids' last numbers.
    pub(crate) async fn read_many(&self, call: Call, uids: Vec<(Uid, Epoch)>) -> Vec<Result<Current, Refusal>> {
        let item = |(uid, epoch)| Ok(Item { uid, count: Count::ONE, epoch });
        let items: Vec<DecodedItem> = uids.into_iter().map(item).collect();
        let mut replies = Vec::with_capacity(items.len());
        self.first_pass(&Read, call.via, self.serve().as_ref(), &items, &mut replies);
        if replies.iter().any(Option::is_none) {
            let results = Box::pin(self.complete_open(&Read, call, &items, &replies)).await;
            for (index, result) in results.into_iter().flatten() {
                replies[index] = Some(result);
            }
        }
        replies.into_iter().map(|reply| reply.expect("every item has a result")).collect()
    }

    /// Completes the items whose reply is `None`, and returns their results as [`Shared::second_pass`] does.
    async fn complete_open<W: OnUids>(
        &self,
        work: &W,
        call: Call,
        items: &[DecodedItem],
        replies: &[ItemReply<W::Output>],
    ) -> Vec<Vec<ItemResult<W::Output>>> {
        let open = replies.iter().filter(|reply| reply.is_none()).count();
        let mut pending = Vec::with_capacity(open);
        pending.extend(self.pending_items(&call, items, replies));
        if pending.len() == open {
            return self.second_pass(work, call, pending).await;
        }
        let of_sparse = Box::pin(self.complete_sparse(work, call, items, replies));
        let (mut groups, of_sparse) = future::join(self.second_pass(work, call, pending), of_sparse).await;
        groups.push(of_sparse);
        groups
    }

    /// Returns the items whose reply is `None` and whose uids or lanes are in a section.
    fn pending_items<T>(
        &self,
        call: &Call,
        items: &[DecodedItem],
        replies: &[ItemReply<T>],
    ) -> impl Iterator<Item = PendingItem> {
        let pending = items.iter().zip(replies).enumerate().filter(|(_, (_, reply))| reply.is_none());
        pending.filter_map(|(index, (item, _))| self.pending_item(index, item, call.via).ok())
    }

    /// Completes pending items. Sends all items for the same node in one request, and completes the
    /// other items section by section. Returns one list of results for each group of items. The results in a list are
    /// in no particular order.
    pub(crate) async fn second_pass<W: Work>(
        &self,
        work: &W,
        call: Call,
        pending: Vec<PendingItem>,
    ) -> Vec<Vec<ItemResult<W::Output>>> {
        let groups = self.groups(&call, pending);
        let groups = groups.into_iter().map(|group| self.complete_group(work, call, group));
        future::join_all(groups).await
    }
}
