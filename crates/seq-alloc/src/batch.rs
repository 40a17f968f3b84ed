//! Calls for many uids: what is here is answered in one pass over one state of the table; only what waits or lies
//! elsewhere costs more.

use std::collections::BTreeMap;

use futures::future;
use seq_core::{Count, Epoch, NodeId, Refusal, SectionId, Uid};
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

/// What the first pass made of a sound item.
enum First {
    Given(Allocation),
    /// Left to the second pass.
    Later(SectionId),
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
        let mut elsewhere: BTreeMap<NodeId, Vec<Item>> = BTreeMap::new();
        {
            let table = shared.owned.load();
            let owners = shared.owners();
            for (index, uid) in uids.into_iter().enumerate() {
                let result = shared.layout.locate(uid).and_then(|(section, slot)| {
                    if let Some(owned) = table.get(section) {
                        return self.read(owned, slot, Epoch(0));
                    }
                    let ask = Ask { uid, count: Count::ONE, epoch: Epoch(0) };
                    let owner = owners.elsewhere(&call, section)?;
                    elsewhere.entry(owner).or_default().push(Item { index, ask, section, slot });
                    Err(Refusal::Unserved { section })
                });
                results.push(result);
            }
        }
        let forwards = elsewhere.into_iter().map(|(to, items)| shared.forward_current_many(call, to, items));
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
            let result = ask.and_then(|ask| {
                let (section, slot) = self.layout.locate(ask.uid)?;
                let item = Item { index, ask, section, slot };
                let Some(owned) = table.get(section) else {
                    let owner = owners.elsewhere(call, section)?;
                    later.elsewhere.entry(owner).or_default().push(item);
                    return Ok(First::Later(section));
                };
                if let Some(waiting) = later.at_ceiling.get_mut(&section) {
                    waiting.push(item);
                    return Ok(First::Later(section));
                }
                let Some(taken) = self.take(owned, &ask, slot) else {
                    later.at_ceiling.insert(section, vec![item]);
                    return Ok(First::Later(section));
                };
                numbers += u64::from(ask.count.get()) * u64::from(taken.is_ok());
                taken.map(First::Given)
            });
            results.push(match result {
                Ok(First::Given(given)) => Ok(given),
                Ok(First::Later(section)) => Err(Refusal::Unserved { section }),
                Err(refusal) => {
                    self.counters.refused(call.via, &refusal, 1);
                    Err(refusal)
                }
            });
        }
        self.counters.given(call.via, numbers);
        (results, later)
    }

    /// Waits for ceilings and asks other owners, all at a time.
    async fn second_pass(&self, call: Call, later: Later) -> Vec<Settled<Allocation>> {
        let waits = later.at_ceiling.into_values().map(|items| self.settle(call, items));
        let forwards =
            later.elsewhere.into_iter().map(|(to, items)| async move { self.forward_many(call, to, items).await });
        let (waited, forwarded) = future::join(future::join_all(waits), future::join_all(forwards)).await;
        waited.into_iter().chain(forwarded).flatten().collect()
    }
}
