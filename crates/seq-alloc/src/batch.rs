//! Calls for many uids: what is here is answered in one pass over one state of the table; only what waits or lies
//! elsewhere costs more.

use std::collections::{BTreeMap, BTreeSet};

use futures::future;
use seq_core::{Count, Epoch, NodeId, Refusal, SectionId, Uid};
use seq_kit::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, Via};

use crate::ownership::Serving;
use crate::settle::{Lost, PendingItem, Read, Settled, Take, Work, passes};
use crate::shared::Shared;

/// Slots that are brought near before they are needed: enough for their loads to run side by side, and so few that the first
/// is still near when the last has come.
const AHEAD: usize = 16;

/// The items of a batch that the first pass could not answer.
#[derive(Default)]
struct Later {
    /// To be settled section by section, in order. Once one item waits, the section's later ones wait behind it: the same
    /// uid may be among them.
    waiting: BTreeMap<SectionId, Vec<PendingItem>>,
    /// Other nodes', by owner, in order.
    elsewhere: BTreeMap<NodeId, Vec<PendingItem>>,
}

impl Shared {
    /// Answers what can be answered now, and adds an answer for each ask; `None` for the others. What is
    /// served was found out after the asks had arrived.
    pub(crate) fn first_pass<W: Work>(
        &self,
        work: &W,
        via: Via,
        serving: Option<&Serving<'_>>,
        items: &[DecodedItem],
        answers: &mut Vec<ItemReply<W::Answer>>,
    ) {
        let mut waiting = BTreeSet::new();
        let mut numbers = 0;
        let mut warmth = 0;
        for (chunk, items) in items.chunks(AHEAD).enumerate() {
            if items.len() > 1 {
                for ask in items.iter().flatten() {
                    let located = self.layout.locate(ask.uid);
                    let owned = located.ok().and_then(|(section, slot)| Some((serving?.get(section)?, slot)));
                    warmth |= owned.map_or(0, |(owned, slot)| owned.warm(slot));
                }
            }
            for (index, ask) in (chunk * AHEAD..).zip(items) {
                let item = match self.item(index, ask) {
                    Ok(item) => item,
                    Err(refusal) => {
                        answers.push(Some(Err(refusal)));
                        continue;
                    }
                };
                let owned = serving.and_then(|serving| serving.get(item.section));
                let owned = owned.filter(|_| !waiting.contains(&item.section));
                let answer = owned.and_then(|owned| work.here(self, owned, &item));
                match &answer {
                    Some(Ok(_)) => numbers += W::numbers(&item),
                    None if owned.is_some() => _ = waiting.insert(item.section),
                    _ => {}
                }
                answers.push(answer);
            }
        }
        std::hint::black_box(warmth);
        self.counters.given(via, numbers);
    }

    fn item(&self, index: usize, ask: &DecodedItem) -> Result<PendingItem, Refusal> {
        let ask = (*ask)?;
        let (section, slot) = self.layout.locate(ask.uid)?;
        Ok(PendingItem { index, ask, section, slot, lost: Lost::default() })
    }

    /// Takes the numbers that the first pass left open.
    pub(crate) async fn complete_batch(
        &self,
        call: Call,
        items: &[DecodedItem],
        answers: &mut [ItemReply<Allocation>],
    ) {
        for (index, result) in self.second_pass(&Take, call, items, answers).await {
            if let Err(refusal) = &result {
                self.counters.refused(call.via, refusal, 1);
            }
            answers[index] = Some(result);
        }
    }

    /// Counts the refusals of a first pass.
    pub(crate) fn count_refused(&self, via: Via, answers: &[ItemReply<Allocation>]) {
        for refusal in answers.iter().flatten().filter_map(|answer| answer.as_ref().err()) {
            self.counters.refused(via, refusal, 1);
        }
    }

    /// Reads many uids' last numbers.
    pub(crate) async fn read_many(&self, call: Call, uids: Vec<Uid>) -> Vec<Result<Current, Refusal>> {
        let ask = |uid| Ok(Item { uid, count: Count::ONE, epoch: Epoch(0) });
        let items: Vec<DecodedItem> = uids.into_iter().map(ask).collect();
        let mut answers = Vec::with_capacity(items.len());
        self.first_pass(&Read, call.via, self.serve().as_ref(), &items, &mut answers);
        if answers.iter().any(Option::is_none) {
            for (index, result) in Box::pin(self.second_pass(&Read, call, &items, &answers)).await {
                answers[index] = Some(result);
            }
        }
        answers.into_iter().map(|answer| answer.expect("every item is settled")).collect()
    }

    /// Answers the items that have no answer yet: waits for sections and asks other owners, all at a time.
    async fn second_pass<W: Work>(
        &self,
        work: &W,
        call: Call,
        items: &[DecodedItem],
        answers: &[ItemReply<W::Answer>],
    ) -> Vec<Settled<W::Answer>> {
        let open = items.iter().zip(answers).enumerate().filter(|(_, (_, answer))| answer.is_none());
        let items = open.filter_map(|(index, (ask, _))| self.item(index, ask).ok());
        let later = self.cut(call, items);
        let waits = later.waiting.into_values().map(|items| self.settle(work, call, items));
        let asked = later.elsewhere.into_iter().map(|(to, items)| self.ask_then_settle(work, call, to, items));
        let (waited, asked) = future::join(future::join_all(waits), future::join_all(asked)).await;
        waited.into_iter().chain(asked).flatten().collect()
    }

    /// Sorts open items by what they wait for.
    fn cut(&self, call: Call, items: impl Iterator<Item = PendingItem>) -> Later {
        let table = self.ownership.owned();
        let owners = self.owners();
        let mut later = Later::default();
        for item in items {
            let elsewhere =
                if table.get(item.section).is_some() { None } else { owners.elsewhere(&call, item.section).ok() };
            match elsewhere {
                Some(owner) => later.elsewhere.entry(owner).or_default().push(item),
                None => later.waiting.entry(item.section).or_default().push(item),
            }
        }
        later
    }

    /// Has one owner answer all of its items in one call, and settles section by section what it did not.
    async fn ask_then_settle<W: Work>(
        &self,
        work: &W,
        call: Call,
        to: NodeId,
        items: Vec<PendingItem>,
    ) -> Vec<Settled<W::Answer>> {
        let Some(first) = items.first() else { return Vec::new() };
        let mut settled = Vec::with_capacity(items.len());
        let mut left: BTreeMap<SectionId, Vec<PendingItem>> = BTreeMap::new();
        match self.asked(work, call, first.section, to, &items).await {
            None => items.iter().for_each(|item| left.entry(item.section).or_default().push(item.given_up::<W>(to))),
            Some(answers) => {
                for ((index, result), item) in answers.into_iter().zip(&items) {
                    match result {
                        Err(refusal) if passes(&refusal) => left.entry(item.section).or_default().push(*item),
                        result => settled.push((index, result)),
                    }
                }
            }
        }
        let rest = future::join_all(left.into_values().map(|items| self.settle(work, call, items))).await;
        settled.extend(rest.into_iter().flatten());
        settled
    }
}
