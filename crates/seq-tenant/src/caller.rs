//! Callers, which send requests, and their rights to numbers.

use std::sync::Arc;

use seq_api::service::{Call, DecodedItem, Item, SequenceService};
use seq_core::{Epoch, Refusal, Seq, Target, Uid};

use crate::quota::Tenant;

/// Sender of a request. Clones share the tenant.
#[derive(Clone, Debug, Default)]
pub enum Caller {
    /// A caller to which only the limits of the node apply. It is a node that forwards requests, a proxy that no tenant
    /// names, an operator, or any client of a node without tenants.
    #[default]
    Unlimited,
    /// Member of a tenant.
    Tenant(Arc<Tenant>),
}

impl Caller {
    /// Counts one request, and turns each item that the caller may not allocate into a refusal.
    pub fn admit(&self, items: &mut [DecodedItem]) {
        let Caller::Tenant(tenant) = self else { return };
        match tenant.admit_call() {
            Ok(()) => tenant.admit_items(items),
            Err(refusal) => items.iter_mut().filter(|item| item.is_ok()).for_each(|item| *item = Err(refusal)),
        }
    }

    /// Counts a request of one item, and returns the item if the caller may allocate it.
    ///
    /// # Errors
    /// The refusal of the item.
    pub fn admit_one(&self, item: Item) -> Result<Item, Refusal> {
        let Caller::Tenant(_) = self else { return Ok(item) };
        let mut items = [Ok(item)];
        self.admit(&mut items);
        items[0]
    }

    /// Returns whether the caller may use a series, and counts the refusal if it may not.
    #[must_use]
    pub fn admit_series(&self, name: &str) -> bool {
        if let Caller::Tenant(tenant) = self { tenant.admit_series(name) } else { true }
    }

    /// Returns whether the caller may use a series.
    #[must_use]
    pub fn has_series(&self, name: &str) -> bool {
        if let Caller::Tenant(tenant) = self { tenant.spec().has_series(name) } else { true }
    }

    /// Charges the ids of a request that was counted already and whose series was admitted.
    ///
    /// # Errors
    /// [`Refusal::CountAboveQuota`], [`Refusal::QuotaExceeded`]
    pub fn admit_ids(&self, item: Item) -> Result<(), Refusal> {
        let Caller::Tenant(tenant) = self else { return Ok(()) };
        let mut items = [Ok(item)];
        tenant.admit_counts(&mut items);
        items[0].map(drop)
    }

    /// Checks the distance by which a request skips numbers of a counter, and charges the skipped numbers to the
    /// tenant. The request advances the counter `lane` to `to`, or requests numbers above `to`.
    ///
    /// # Errors
    /// [`Refusal::AdvanceTooFar`], [`Refusal::QuotaExceeded`], or the refusal of the read of the last number.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn admit_skip(
        &self,
        service: &impl SequenceService,
        call: Call,
        lane: Uid,
        to: Seq,
    ) -> Result<(), Refusal> {
        let Caller::Tenant(tenant) = self else { return Ok(()) };
        // Numbers only grow. If numbers are allocated after this read, the real distance is smaller than the checked
        // distance.
        let current = service.current(call, lane, Epoch(0)).await?;
        tenant.admit_advance(current.reading.value, to)
    }

    /// Returns the maximum count of numbers by which a requested number of a lane may be ahead of the lane's clock.
    #[must_use]
    pub fn max_in_front(&self) -> u64 {
        if let Caller::Tenant(tenant) = self { tenant.spec().max_advance } else { u64::MAX }
    }

    /// Admits items as [`Caller::admit`] does, but counts one request for each item.
    pub fn admit_commands(&self, items: &mut [DecodedItem]) {
        let Caller::Tenant(tenant) = self else { return };
        for item in &mut *items {
            if let Err(refusal) = (*item).and_then(|_| tenant.admit_call()) {
                *item = Err(refusal);
            }
        }
        tenant.admit_items(items);
    }

    /// Counts one request that reads.
    ///
    /// # Errors
    /// [`Refusal::QuotaExceeded`]
    pub fn admit_read(&self) -> Result<(), Refusal> {
        if let Caller::Tenant(tenant) = self { tenant.admit_call() } else { Ok(()) }
    }

    /// Checks whether the caller may read a uid.
    ///
    /// # Errors
    /// [`Refusal::OtherTenantsUid`]
    pub fn admit_uid(&self, uid: Uid) -> Result<(), Refusal> {
        if let Caller::Tenant(tenant) = self { tenant.admit_uid(uid) } else { Ok(()) }
    }

    /// Counts an advance as one request, checks its distance from the last number of the uid, and charges the skipped
    /// numbers to the tenant.
    ///
    /// # Errors
    /// The refusal of the advance, or of the read of the last number.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn admit_advance(
        &self,
        service: &impl SequenceService,
        call: Call,
        uid: Uid,
        to: Target,
    ) -> Result<(), Refusal> {
        let Caller::Tenant(tenant) = self else { return Ok(()) };
        tenant.admit_call()?;
        tenant.admit_uid(uid)?;
        self.admit_skip(service, call, uid, to.seq()).await
    }
}
