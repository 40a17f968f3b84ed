//! Calls for many uids: what is here is answered in one pass over one state of the table; only what waits or lies
//! elsewhere costs more.

use std::collections::BTreeMap;

use futures::future;
use seq_core::{Count, Epoch, NodeId, Refusal, SectionId, Uid};
use seq_kit::frontend::{Allocation, Ask, Call, Current};

use crate::allocator::Allocator;
use crate::settle::{Item, Read, Settled, Take, Work, passes};
use crate::shared::Shared;

/// The items of a batch that the first pass could not answer.
#[derive(Default)]
struct Later {
    /// To be settled section by section, in order. Once one item waits, the section's later ones wait behind it: the same
    /// uid may be among them.
    waiting: BTreeMap<SectionId, Vec<Item>>,
    /// Other nodes', by owner, in order.
    elsewhere: BTreeMap<NodeId, Vec<Item>>,
}

/// Results in request order; `None` while an item is not settled.
type Results<T> = Vec<Option<Result<T, Refusal>>>;

impl Allocator {
    /// Takes numbers for many uids.
    pub(crate) async fn take_many(
        &self,
        call: Call,
        asks: Vec<Result<Ask, Refusal>>,
    ) -> Vec<Result<Allocation, Refusal>> {
        let results = self.many::<Take>(call, asks).await;
        for refusal in results.iter().filter_map(|result| result.as_ref().err()) {
            self.shared.counters.refused(call.via, refusal, 1);
        }
        results
    }

    /// Reads many uids' last numbers.
    pub(crate) async fn read_many(&self, call: Call, uids: Vec<Uid>) -> Vec<Result<Current, Refusal>> {
        let ask = |uid| Ok(Ask { uid, count: Count::ONE, epoch: Epoch(0) });
        self.many::<Read>(call, uids.into_iter().map(ask).collect()).await
    }

    async fn many<W: Work>(&self, call: Call, asks: Vec<Result<Ask, Refusal>>) -> Vec<Result<W::Answer, Refusal>> {
        let (mut results, later) = self.shared.first_pass::<W>(&call, asks);
        if !(later.waiting.is_empty() && later.elsewhere.is_empty()) {
            for (index, result) in Box::pin(self.shared.second_pass::<W>(call, later)).await {
                results[index] = Some(result);
            }
        }
        results.into_iter().map(|result| result.expect("every item is settled")).collect()
    }
}

impl Shared {
    /// Answers what can be answered now.
    fn first_pass<W: Work>(&self, call: &Call, asks: Vec<Result<Ask, Refusal>>) -> (Results<W::Answer>, Later) {
        // The lease first, then the table: see `seq_core::lease`.
        let leased = self.leased();
        let table = self.owned.load();
        let owners = self.owners();
        let mut later = Later::default();
        let mut numbers = 0;
        let mut results = Vec::with_capacity(asks.len());
        for (index, ask) in asks.into_iter().enumerate() {
            let item = ask.and_then(|ask| {
                let (section, slot) = self.layout.locate(ask.uid)?;
                Ok(Item { index, ask, section, slot })
            });
            let item = match item {
                Ok(item) => item,
                Err(refusal) => {
                    results.push(Some(Err(refusal)));
                    continue;
                }
            };
            let owned = table.get(item.section);
            let may = leased && !later.waiting.contains_key(&item.section);
            let done = owned.filter(|_| may).and_then(|owned| W::here(self, owned, &item));
            numbers += if matches!(done, Some(Ok(_))) { W::numbers(&item) } else { 0 };
            if done.is_none() {
                match owners.elsewhere(call, item.section) {
                    Ok(owner) if owned.is_none() => later.elsewhere.entry(owner).or_default().push(item),
                    _ => later.waiting.entry(item.section).or_default().push(item),
                }
            }
            results.push(done);
        }
        self.counters.given(call.via, numbers);
        (results, later)
    }

    /// Waits for sections and asks other owners, all at a time.
    async fn second_pass<W: Work>(&self, call: Call, later: Later) -> Vec<Settled<W::Answer>> {
        let waits = later.waiting.into_values().map(|items| self.settle::<W>(call, items));
        let asked = later.elsewhere.into_iter().map(|(to, items)| self.ask_then_settle::<W>(call, to, items));
        let (waited, asked) = future::join(future::join_all(waits), future::join_all(asked)).await;
        waited.into_iter().chain(asked).flatten().collect()
    }

    /// Has one owner answer all of its items in one call, and settles section by section what it did not.
    async fn ask_then_settle<W: Work>(&self, call: Call, to: NodeId, items: Vec<Item>) -> Vec<Settled<W::Answer>> {
        let Some(first) = items.first() else { return Vec::new() };
        let mut settled = Vec::with_capacity(items.len());
        let mut left: BTreeMap<SectionId, Vec<Item>> = BTreeMap::new();
        match self.asked::<W>(call, first.section, to, &items).await {
            None => items.iter().for_each(|item| left.entry(item.section).or_default().push(*item)),
            Some(answers) => {
                for ((index, result), item) in answers.into_iter().zip(&items) {
                    match result {
                        Err(refusal) if passes(&refusal) => left.entry(item.section).or_default().push(*item),
                        result => settled.push((index, result)),
                    }
                }
            }
        }
        let rest = future::join_all(left.into_values().map(|items| self.settle::<W>(call, items))).await;
        settled.extend(rest.into_iter().flatten());
        settled
    }
}
