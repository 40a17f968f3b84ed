//! Calls that cannot be answered at once: held until their section's ceiling is raised, or sent on when the section went.

use std::pin::pin;
use std::sync::Arc;

use seq_core::{Refusal, SectionId, SlotIndex};
use seq_kit::frontend::{Allocation, Ask, Call};
use tokio::time::Instant;

use crate::owned::OwnedSection;
use crate::shared::Shared;

/// An ask that waits, with its place in the call's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) index: usize,
    pub(crate) ask: Ask,
    pub(crate) section: SectionId,
    pub(crate) slot: SlotIndex,
}

/// An item's answer, with its place.
pub(crate) type Settled<T> = (usize, Result<T, Refusal>);

/// What ended a wait at the ceiling.
enum Woken {
    /// The ceiling was raised, or the section is no longer here.
    Changed,
    /// The call may not wait longer.
    Over(Refusal),
}

impl Shared {
    /// Answers items of one section in their order: from here while the section is owned, waiting at its ceiling as long
    /// as the call may, else from its owner.
    ///
    /// Order matters: a later item of the same uid must not be answered before an earlier one that waits.
    pub(crate) async fn settle(&self, call: Call, items: Vec<Item>) -> Vec<Settled<Allocation>> {
        let mut settled = Vec::with_capacity(items.len());
        let mut stalled_since = None;
        let mut rest = items.as_slice();
        while let [item, later @ ..] = rest {
            let Some(owned) = self.owned.load().get(item.section).cloned() else { break };
            if let Some(result) = self.take(&owned, &item.ask, item.slot) {
                self.count(&call, &item.ask, &result);
                settled.push((item.index, result));
                rest = later;
                continue;
            }
            stalled_since.get_or_insert_with(Instant::now);
            match self.changed(&call, &owned, item).await {
                Woken::Changed => {}
                Woken::Over(refusal) => {
                    self.counters.refused(call.via, &refusal, rest.len());
                    settled.extend(rest.iter().map(|item| (item.index, Err(refusal))));
                    rest = &[];
                }
            }
        }
        if let Some(since) = stalled_since {
            self.counters.stalled(since.elapsed());
        }
        if let Some(first) = rest.first() {
            settled.extend(self.send_on(call, first.section, rest.to_vec()).await);
        }
        settled
    }

    /// Waits at the ceiling of a section.
    async fn changed(&self, call: &Call, owned: &Arc<OwnedSection>, item: &Item) -> Woken {
        let mut changed = pin!(owned.changed.notified());
        changed.as_mut().enable();
        // From here on no signal is lost. What was signalled before shows in the table or in the ceiling.
        let here = self.owned.load().get(item.section).is_some_and(|now| Arc::ptr_eq(now, owned));
        let reading = owned.section.current(item.slot);
        let free = reading.is_none_or(|at| at.value.0 + u64::from(item.ask.count.get()) <= owned.section.ceiling().0);
        if !here || free {
            return Woken::Changed;
        }
        tokio::select! {
            () = changed => Woken::Changed,
            () = tokio::time::sleep_until(call.deadline) => {
                Woken::Over(Refusal::CeilingStalled { section: item.section })
            }
            () = self.shutdown.cancelled() => Woken::Over(Refusal::ShuttingDown),
        }
    }

    /// Sends items of one section to its owner.
    async fn send_on(&self, call: Call, section: SectionId, items: Vec<Item>) -> Vec<Settled<Allocation>> {
        let owner = self.owners().elsewhere(&call, section);
        match owner {
            Ok(owner) => self.forward_many(call, owner, items).await,
            Err(refusal) => {
                self.counters.refused(call.via, &refusal, items.len());
                items.into_iter().map(|item| (item.index, Err(refusal))).collect()
            }
        }
    }

    pub(crate) fn count(&self, call: &Call, ask: &Ask, result: &Result<Allocation, Refusal>) {
        match result {
            Ok(_) => self.counters.given(call.via, u64::from(ask.count.get())),
            Err(refusal) => self.counters.refused(call.via, refusal, 1),
        }
    }
}
