//! Allocations and advances in sections that this node serves.

use seq_api::service::{Allocation, Item};
use seq_core::section::RaiseTicket;
use seq_core::{Advance, Epoch, Refusal, SlotIndex, Take, Target};

use crate::counters::Burned;
use crate::ownership::{OwnedSection, Served};
use crate::pending_item::PendingItem;
use crate::shared::Shared;

/// Minimum distance above the ceiling of an advance that is logged, in steps. With the default step of 10,000 it is
/// 10^10 numbers, ten times the default limit on an advance.
const FAR_ADVANCE_STEPS: u64 = 1_000_000;

impl Shared {
    /// Takes an item's numbers from a section that this node serves; `None` if the item has to wait. It has to wait if
    /// the numbers are above the ceiling and a raise is queued, if the section is frozen, or if the caller has seen a
    /// newer ownership.
    #[inline]
    pub(crate) fn take(&self, served: Served<'_>, item: &Item, slot: SlotIndex) -> Option<Result<Allocation, Refusal>> {
        if item.epoch > served.epoch() {
            return None;
        }
        self.taken(served, item, served.take(slot, item.count))
    }

    /// Returns the result of a call for numbers. If the call made a raise due, enqueues the raise.
    #[inline]
    pub(crate) fn taken(&self, served: Served<'_>, item: &Item, taken: Take) -> Option<Result<Allocation, Refusal>> {
        match taken {
            Take::Given { value, prev, ticket } => {
                if let Some(ticket) = ticket {
                    self.enqueue_raise(served, ticket);
                }
                Some(Ok(Allocation { value, prev, epoch: served.epoch(), lost: 0 }))
            }
            Take::AtCeiling { ticket: Some(ticket), .. } => {
                self.enqueue_raise(served, ticket);
                None
            }
            Take::AtCeiling { ticket: None, .. } | Take::Frozen => None,
            Take::Exhausted => Some(Err(Refusal::Exhausted { uid: item.uid, count: item.count.get() })),
        }
    }

    /// Enqueues a raise. It is not inlined, so that [`Shared::take`] stays small enough to be inlined into the loop of
    /// a batch.
    #[cold]
    #[inline(never)]
    fn enqueue_raise(&self, served: Served<'_>, ticket: RaiseTicket) {
        self.raises.enqueue(served.owned().clone(), ticket);
    }

    /// Advances a uid of a section that this node serves; `None` if the item has to wait, for the same causes as in
    /// [`Shared::take`].
    pub(super) fn advance(&self, served: Served<'_>, item: &PendingItem, to: Target) -> Option<Result<Epoch, Refusal>> {
        if item.item.epoch > served.epoch() {
            return None;
        }
        let (answer, ticket) = match served.advance(item.slot, to, self.config.options.max_advance) {
            Advance::Done { skipped, ticket } => {
                self.counters.burned(Burned::Advance, skipped);
                (Some(Ok(served.epoch())), ticket)
            }
            Advance::AtCeiling { ticket } => (None, ticket),
            Advance::TooFar { bound } => (Some(Err(Refusal::AdvanceTooFar { to: to.seq().0, bound })), None),
            Advance::Past => (Some(Err(Refusal::AlreadyPast { uid: item.item.uid })), None),
            Advance::Frozen => (None, None),
        };
        if let Some(ticket) = ticket {
            self.enqueue_raise(served, ticket);
        }
        answer
    }

    /// Returns whether the target of an advance is so far above the section's ceiling that the advance is logged for an
    /// operator.
    pub(super) fn is_far(&self, owned: &OwnedSection, to: Target) -> bool {
        let distance = to.seq().0.saturating_sub(owned.ceiling().0);
        distance / self.ownership.raise_step().0 >= FAR_ADVANCE_STEPS
    }
}
