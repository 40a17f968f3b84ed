//! Callers, which send requests, and their rights to numbers.

use std::sync::Arc;

use seq_api::service::{Call, DecodedItem, Item, SequenceService};
use seq_core::{Epoch, Refusal, Seq, Target, Uid};

use crate::quota::Tenant;

/// Sender of a request. Clones share the tenant.
#[derive(Clone, Debug, Default)]
pub enum Caller {
    /// A caller to which only the limits of the node apply, and no limits of a tenant. The caller is a node that
    /// forwards requests, a proxy that no tenant lists, an operator, or any client of a node without tenants.
    #[default]
    Unlimited,
    /// Member of a tenant.
    Tenant(Arc<Tenant>),
}

impl Caller {
    /// Counts one request. Turns each item that the caller's tenant may not allocate into a refusal.
    pub fn admit(&self, items: &mut [DecodedItem]) {
        let Caller::Tenant(tenant) = self else { return };
        match tenant.admit_call() {
            Ok(()) => tenant.admit_items(items),
            Err(refusal) => items.iter_mut().filter(|item| item.is_ok()).for_each(|item| *item = Err(refusal)),
        }
    }

    /// Counts one request that consists of `item`, and returns the item if the caller's tenant may allocate it.
    ///
    /// # Errors
    /// The reason why the tenant may not allocate the item.
    pub fn admit_one(&self, item: Item) -> Result<Item, Refusal> {
        let Caller::Tenant(_) = self else { return Ok(item) };
        let mut items = [Ok(item)];
        self.admit(&mut items);
        items[0]
    }

    /// Returns whether the caller's tenant may use the series `name`. If the tenant may not use it, counts a refusal.
    #[must_use]
    pub fn admit_series(&self, name: &str) -> bool {
        if let Caller::Tenant(tenant) = self { tenant.admit_series(name) } else { true }
    }

    /// Returns whether the caller's tenant may use any key of a keyspace. If the tenant may not, counts a refusal.
    #[must_use]
    pub fn admit_keyspace(&self, keyspace: &str) -> bool {
        if let Caller::Tenant(tenant) = self { tenant.admit_keyspace(keyspace) } else { true }
    }

    /// Returns whether the caller's tenant may use a key. If the tenant may not, counts a refusal. `key` is the key as
    /// the caller sends it, before it is hashed.
    #[must_use]
    pub fn admit_key(&self, keyspace: &str, key: &[u8]) -> bool {
        if let Caller::Tenant(tenant) = self { tenant.admit_key(keyspace, key) } else { true }
    }

    /// Charges the counts of `items` to the quota of the caller's tenant, and turns each item that exceeds it into a
    /// refusal. The caller of this function has counted the request before, and checked what the items are for.
    pub fn admit_counts(&self, items: &mut [DecodedItem]) {
        if let Caller::Tenant(tenant) = self {
            tenant.admit_counts(items);
        }
    }

    /// Returns whether the limits of a tenant apply to the caller.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        matches!(self, Caller::Tenant(_))
    }

    /// Checks that the distance of an advance from the last number `from` to `to` does not exceed the tenant's
    /// `max_advance`, and charges the skipped numbers to the tenant's quota.
    ///
    /// # Errors
    /// [`Refusal::AdvanceTooFar`], [`Refusal::QuotaExceeded`]
    pub fn admit_distance(&self, from: Seq, to: Seq) -> Result<(), Refusal> {
        if let Caller::Tenant(tenant) = self { tenant.admit_advance(from, to) } else { Ok(()) }
    }

    /// Returns whether the caller may use a series.
    #[must_use]
    pub fn has_series(&self, name: &str) -> bool {
        if let Caller::Tenant(tenant) = self { tenant.spec().has_series(name) } else { true }
    }

    /// Charges the count of `item`, which is the number of requested ids, to the quota of the caller's tenant. The
    /// caller of this function has counted the request and admitted its series before.
    ///
    /// # Errors
    /// [`Refusal::CountAboveQuota`], [`Refusal::QuotaExceeded`]
    pub fn admit_ids(&self, item: Item) -> Result<(), Refusal> {
        let Caller::Tenant(tenant) = self else { return Ok(()) };
        let mut items = [Ok(item)];
        tenant.admit_counts(&mut items);
        items[0].map(drop)
    }

    /// Reads the last number of the counter `lane`, checks that the distance from it to `to` does not exceed the
    /// tenant's `max_advance`, and charges the skipped numbers to the tenant's quota. The request that is checked
    /// either advances the counter to `to` or requests numbers above `to`.
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

    /// Returns the maximum distance, in numbers of a lane, from the number for the present time to a number that the
    /// caller requests. It applies to series whose ids follow the clock.
    #[must_use]
    pub fn max_in_front(&self) -> u64 {
        if let Caller::Tenant(tenant) = self { tenant.spec().max_advance } else { u64::MAX }
    }

    /// Counts one request for each item, instead of one for all of them, and otherwise checks the items as
    /// [`Caller::admit`] does.
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

    /// Checks whether the caller's tenant may use a uid.
    ///
    /// # Errors
    /// [`Refusal::OtherTenantsUid`]
    pub fn admit_uid(&self, uid: Uid) -> Result<(), Refusal> {
        if let Caller::Tenant(tenant) = self { tenant.admit_uid(uid) } else { Ok(()) }
    }

    /// Counts one request, which advances `uid` to `to`. Checks that the tenant may use the uid and that the distance
    /// from its last number to `to` does not exceed the tenant's `max_advance`, and charges the skipped numbers to the
    /// tenant's quota.
    ///
    /// # Errors
    /// The reason why the tenant may not make the advance, or the refusal of the read of the last number.
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
