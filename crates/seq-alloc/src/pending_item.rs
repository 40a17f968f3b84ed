//! Items of calls that have no result yet.

use seq_api::service::Item;
use seq_core::calls::UnknownAttempts;
use seq_core::{SectionId, SlotIndex};

/// Item without a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingItem {
    /// Index in the call.
    pub(crate) index: usize,
    pub(crate) item: Item,
    pub(crate) section: SectionId,
    pub(crate) slot: SlotIndex,
    /// Number of earlier attempts to forward the item whose outcome is unknown.
    pub(crate) unknown: UnknownAttempts,
}
