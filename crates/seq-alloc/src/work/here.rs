//! Carries out allocations and advances in sections that this node serves.

use seq_api::service::{Allocation, Item};
use seq_core::section::RaiseTicket;
use seq_core::{Advance, Epoch, Refusal, SlotIndex, Take, Target};

use crate::counters::Burned;
use crate::ownership::{OwnedSection, Served};
use crate::pending_item::PendingItem;
use crate::shared::Shared;

/// Minimum distance of an advance's target above the section's ceiling for the advance to be logged, in steps of
/// raises. With the default step of 10,000 it is 10^10 numbers, ten times the default limit on an advance.
const FAR_ADVANCE_STEPS: u64 = 1_000_000;

impl Shared {
    /// Allocates an item's numbers from a section that this node serves; `None` if the item has to wait. It has to wait
    /// if the numbers would be above the ceiling until a raise that is enqueued has been made, if the section is
    /// frozen, or if the item states a larger epoch than this ownership has.
    #[inline]
    pub(crate) fn take(&self, served: Served<'_>, item: &Item, slot: SlotIndex) -> Option<Result<Allocation, Refusal>> {
        if item.epoch > served.epoch() {
            return None;
        }
        self.taken(served, item, served.take(slot, item.count))
    }

    /// Converts `taken`, the outcome of an attempt to take numbers, to the item's result. If a raise of the section
    /// became due, enqueues the raise.
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

    /// Enqueues a raise of a section. This function is not inlined, so that [`Shared::take`] stays small enough to be
    /// inlined into the loop over the items of a batch.
    #[cold]
    #[inline(never)]
    fn enqueue_raise(&self, served: Served<'_>, ticket: RaiseTicket) {
        self.raises.enqueue(served.owned().clone(), ticket);
    }

    /// Advances an item's uid to the number `to`, in a section that this node serves; `None` if the item has to wait,
    /// for the same causes as in [`Shared::take`].
    pub(super) fn advance(&self, served: Served<'_>, item: &PendingItem, to: Target) -> Option<Result<Epoch, Refusal>> {
        if item.item.epoch > served.epoch() {
            return None;
        }
        let advance = served.advance(item.slot, to, self.config.options.max_advance);
        self.advanced(served, item, to, advance)
    }

    /// Converts `advance`, the outcome of an attempt to advance an item's uid or key, to the item's result. If a raise
    /// of the section became due, enqueues the raise.
    pub(super) fn advanced(
        &self,
        served: Served<'_>,
        item: &PendingItem,
        to: Target,
        advance: Advance,
    ) -> Option<Result<Epoch, Refusal>> {
        let (answer, ticket) = match advance {
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

    /// Returns whether `to`, the target of an advance, is so far above the section's ceiling that the advance is logged
    /// for an operator.
    pub(super) fn is_far(&self, owned: &OwnedSection, to: Target) -> bool {
        let distance = to.seq().0.saturating_sub(owned.ceiling().0);
        distance / self.ownership.raise_step().0 >= FAR_ADVANCE_STEPS
    }
}
