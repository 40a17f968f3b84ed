//! Calls for many uids: what is here is answered in one pass over one state of the table; only what waits or lies
//! elsewhere costs more.

use std::collections::BTreeMap;

use futures::future;
use seq_core::{Epoch, NodeId, Refusal, SectionId, Uid};
use seq_kit::frontend::{Allocation, Ask, Call, Current};

use crate::allocator::Allocator;
use crate::settle::{Item, Settled};
use crate::shared::Shared;

/// The items of a batch that the first pass could not answer.
#[derive(Default)]
struct Later {
    /// At the ceiling, by section, in order. Once one item waits, the section's later ones wait behind it: the same uid may
    /// be among them.
    at_ceiling: BTreeMap<SectionId, Vec<Item>>,
    /// Other nodes', by owner, in order.
    elsewhere: BTreeMap<NodeId, Vec<Item>>,
}

impl Allocator {
    /// Takes numbers for many uids.
    pub(crate) async fn take_many(
        &self,
        call: Call,
        asks: Vec<Result<Ask, Refusal>>,
    ) -> Vec<Result<Allocation, Refusal>> {
        let (mut results, later) = self.shared.first_pass(&call, asks);
        if !(later.at_ceiling.is_empty() && later.elsewhere.is_empty()) {
            for (index, result) in Box::pin(self.shared.second_pass(call, later)).await {
                results[index] = result;
            }
        }
        results
    }

    /// Reads many uids' last numbers.
    pub(crate) async fn read_many(&self, call: Call, uids: Vec<Uid>) -> Vec<Result<Current, Refusal>> {
        let shared = &*self.shared;
        let mut results = Vec::with_capacity(uids.len());
        let mut elsewhere: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        {
            let table = shared.owned.load();
            let owners = shared.owners();
            for (index, uid) in uids.iter().enumerate() {
                let result = shared.layout.locate(*uid).and_then(|(section, slot)| match table.get(section) {
                    Some(owned) => self.read(owned, slot, Epoch(0)),
                    None => {
                        elsewhere.entry(owners.elsewhere(&call, section)?).or_default().push(index);
                        Err(Refusal::Unserved { section })
                    }
                });
                results.push(result);
            }
        }
        let forwards = elsewhere.into_iter().map(|(to, indices)| {
            let places = indices.iter().filter_map(|index| {
                let (section, _) = shared.layout.locate(uids[*index]).ok()?;
                Some((section, uids[*index]))
            });
            let places: Vec<_> = places.collect();
            async move {
                let read = shared.forward_current_many(call, to, &places).await;
                indices.into_iter().zip(read)
            }
        });
        for (index, result) in future::join_all(forwards).await.into_iter().flatten() {
            results[index] = result;
        }
        results
    }
}

impl Shared {
    /// Answers what can be answered now; the others stand as refused for lack of an owner until the second pass.
    fn first_pass(&self, call: &Call, asks: Vec<Result<Ask, Refusal>>) -> (Vec<Result<Allocation, Refusal>>, Later) {
        let table = self.owned.load();
        let owners = self.owners();
        let mut later = Later::default();
        let mut numbers = 0;
        let mut results = Vec::with_capacity(asks.len());
        for (index, ask) in asks.into_iter().enumerate() {
            let place = ask.and_then(|ask| Ok((ask, self.layout.locate(ask.uid)?)));
            let result = place.and_then(|(ask, (section, slot))| {
                let item = Item { index, ask, section, slot };
                let pending = Err(Refusal::Unserved { section });
                let Some(owned) = table.get(section) else {
                    later.elsewhere.entry(owners.elsewhere(call, section)?).or_default().push(item);
                    return pending;
                };
                if let Some(waiting) = later.at_ceiling.get_mut(&section) {
                    waiting.push(item);
                    return pending;
                }
                match self.take(owned, &ask, slot) {
                    Some(result) => {
                        numbers += result.map_or(0, |_| u64::from(ask.count.get()));
                        result.inspect_err(|refusal| self.counters.refused(call.via, refusal, 1))
                    }
                    None => {
                        later.at_ceiling.insert(section, vec![item]);
                        pending
                    }
                }
            });
            results.push(result);
        }
        self.counters.given(call.via, numbers);
        (results, later)
    }

    /// Waits for ceilings and asks other owners, all at a time.
    async fn second_pass(&self, call: Call, later: Later) -> Vec<Settled> {
        let waits = later.at_ceiling.into_values().map(|items| self.settle(call, items));
        let forwards =
            later.elsewhere.into_iter().map(|(to, items)| async move { self.forward_many(call, to, items).await });
        let (waited, forwarded) = future::join(future::join_all(waits), future::join_all(forwards)).await;
        waited.into_iter().chain(forwarded).flatten().collect()
    }
}
