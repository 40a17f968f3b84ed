//! Enforces the limits of a tenant on uids, series, keys, rates, counts of numbers, and connections. A request is never
//! delayed by a limit. The module immediately refuses each item that exceeds a quota.
//!
//! Rates are limited by the generic cell rate algorithm. After a second without requests, a tenant may use its quota
//! for one second at once.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use metrics::{Counter, Gauge, counter, gauge};
use seq_api::metrics::{TENANT_CONNECTIONS, TENANT_NUMBERS_TOTAL, TENANT_REFUSED_TOTAL};
use seq_api::service::{DecodedItem, Item};
use seq_core::layout::ADDRESSES;
use seq_core::{Refusal, Seq, Uid};
use tokio::time::Instant;

use crate::file::TenantSpec;

/// Number of tenants whose metrics have the tenant's name as label. All tenants further down in the tenants file share
/// the label `other`.
const LABELLED_TENANTS: usize = 64;

/// A tenant on this node.
#[derive(Debug)]
pub struct Tenant {
    /// Definition in the tenants file.
    spec: TenantSpec,
    calls: Option<Bucket>,
    numbers: Option<Bucket>,
    connections: Arc<AtomicU32>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Metrics {
    numbers: Counter,
    /// Requests and items that were refused because they exceed a rate.
    rate: Counter,
    /// Items that were refused because the tenant may not use their uid.
    uid: Counter,
    /// Requests that were refused because the tenant may not use the series.
    series: Counter,
    /// Requests and items that were refused because the tenant may not use their keys.
    key: Counter,
    /// Items that were refused because of their count, and advances that were refused because they skip too many
    /// numbers.
    cap: Counter,
    /// Connections that were refused because the tenant already has its maximum number of open connections.
    connection: Counter,
    connections: Gauge,
}

impl Metrics {
    fn new(node: &str, tenant: &str) -> Metrics {
        let labels = [("node", node.to_owned()), ("tenant", tenant.to_owned())];
        let refused = |cause: &'static str| counter!(TENANT_REFUSED_TOTAL, "node" => node.to_owned(), "tenant" => tenant.to_owned(), "cause" => cause);
        Metrics {
            numbers: counter!(TENANT_NUMBERS_TOTAL, &labels),
            rate: refused("rate"),
            uid: refused("uid"),
            series: refused("series"),
            key: refused("key"),
            cap: refused("cap"),
            connection: refused("connections"),
            connections: gauge!(TENANT_CONNECTIONS, &labels),
        }
    }
}

impl Tenant {
    /// Creates a tenant that has used nothing of its quotas. `index` is its position in the tenants file. `former` is
    /// the tenant with the same name that the new tenant replaces, if there is one. The open connections of `former`
    /// count for the new tenant too.
    pub(crate) fn new(spec: TenantSpec, node: &str, index: usize, former: Option<&Tenant>) -> Tenant {
        let label = if index < LABELLED_TENANTS { spec.name.as_str() } else { "other" };
        Tenant {
            calls: spec.calls_per_s.map(Bucket::new),
            numbers: spec.numbers_per_s.map(Bucket::new),
            connections: former.map(|former| former.connections.clone()).unwrap_or_default(),
            metrics: Metrics::new(node, label),
            spec,
        }
    }

    /// Returns the definition of the tenant.
    #[must_use]
    pub fn spec(&self) -> &TenantSpec {
        &self.spec
    }

    /// Counts one request.
    ///
    /// # Errors
    /// [`Refusal::QuotaExceeded`]
    pub(crate) fn admit_call(&self) -> Result<(), Refusal> {
        if self.calls.as_ref().is_none_or(|calls| calls.take(NonZeroU32::MIN)) {
            return Ok(());
        }
        self.metrics.rate.increment(1);
        Err(Refusal::QuotaExceeded)
    }

    /// Checks a uid.
    ///
    /// # Errors
    /// [`Refusal::OtherTenantsUid`]
    pub(crate) fn admit_uid(&self, uid: Uid) -> Result<(), Refusal> {
        // A proxy may send the address of a lane instead of a uid. Because the address does not contain the series, it
        // is refused to a tenant with a list of series.
        let is_lane = uid.0 >= ADDRESSES && self.spec.series.is_some();
        if !is_lane && (self.spec.uids.is_empty() || self.spec.uids.iter().any(|uids| uids.contains(&uid.0))) {
            return Ok(());
        }
        self.metrics.uid.increment(1);
        Err(Refusal::OtherTenantsUid { uid })
    }

    /// Returns whether the tenant may use the series `name`. If it may not, counts a refusal.
    pub(crate) fn admit_series(&self, name: &str) -> bool {
        let admitted = self.spec.has_series(name);
        if !admitted {
            self.metrics.series.increment(1);
        }
        admitted
    }

    /// Returns whether the tenant may use any key of a keyspace. If it may not, counts a refusal.
    pub(crate) fn admit_keyspace(&self, keyspace: &str) -> bool {
        let admitted = self.spec.has_keyspace(keyspace);
        if !admitted {
            self.metrics.key.increment(1);
        }
        admitted
    }

    /// Returns whether the tenant may use a key. If it may not, counts a refusal.
    pub(crate) fn admit_key(&self, keyspace: &str, key: &[u8]) -> bool {
        let admitted = self.spec.has_key(keyspace, key);
        if !admitted {
            self.metrics.key.increment(1);
        }
        admitted
    }

    /// Turns each item that the tenant may not allocate into a refusal. If the quota of numbers does not suffice for
    /// all items, the items are checked in their order, and each is admitted if the rest of the quota suffices for it.
    pub(crate) fn admit_items(&self, items: &mut [DecodedItem]) {
        for item in &mut *items {
            if let Err(refusal) = (*item).and_then(|item| self.admit_uid(item.uid)) {
                *item = Err(refusal);
            }
        }
        self.admit_counts(items);
    }

    /// Turns each item that exceeds the tenant's limits on numbers into a refusal, as [`Tenant::admit_items`] does, but
    /// does not check the uids of the items.
    pub(crate) fn admit_counts(&self, items: &mut [DecodedItem]) {
        for item in &mut *items {
            if let Err(refusal) = (*item).and_then(|item| self.admit_count(item)) {
                *item = Err(refusal);
            }
        }
        let total: u64 = items.iter().flatten().map(|item| u64::from(item.count.get())).sum();
        let Some(numbers) = &self.numbers else { return self.metrics.numbers.increment(total) };
        let at_once = u32::try_from(total).ok().and_then(NonZeroU32::new);
        if total == 0 || at_once.is_some_and(|total| numbers.take(total)) {
            return self.metrics.numbers.increment(total);
        }
        let (mut admitted, mut refused) = (0, 0);
        for item in items {
            let Ok(Item { count, .. }) = *item else { continue };
            if NonZeroU32::new(count.get()).is_some_and(|count| numbers.take(count)) {
                admitted += u64::from(count.get());
            } else {
                *item = Err(Refusal::QuotaExceeded);
                refused += 1;
            }
        }
        self.metrics.numbers.increment(admitted);
        self.metrics.rate.increment(refused);
    }

    /// Returns the maximum count of one item. It is the lower of the tenant's `max_count` and `numbers_per_s`, because
    /// the numbers of more than a second are never available at once.
    fn most(&self) -> u32 {
        let rate = self.spec.numbers_per_s.map_or(u32::MAX, NonZeroU32::get);
        self.spec.max_count.unwrap_or(u32::MAX).min(rate)
    }

    fn admit_count(&self, item: Item) -> Result<(), Refusal> {
        let (count, most) = (item.count.get(), self.most());
        if count <= most {
            return Ok(());
        }
        self.metrics.cap.increment(1);
        Err(Refusal::CountAboveQuota { count, most })
    }

    /// Checks that the tenant may advance a counter from its last number `from` to `to`, and charges the skipped
    /// numbers to the tenant's quota.
    ///
    /// # Errors
    /// [`Refusal::AdvanceTooFar`], [`Refusal::QuotaExceeded`]
    pub(crate) fn admit_advance(&self, from: Seq, to: Seq) -> Result<(), Refusal> {
        // A distance that the rate never allows at once is too far as well.
        let rate = self.spec.numbers_per_s.map_or(u64::MAX, |rate| rate.get().into());
        let bound = Seq(from.0.saturating_add(self.spec.max_advance.min(rate)));
        if to > bound {
            self.metrics.cap.increment(1);
            return Err(Refusal::AdvanceTooFar { to: to.0, bound });
        }
        let distance = to.0.saturating_sub(from.0);
        let charged = self.numbers.as_ref().zip(u32::try_from(distance).ok().and_then(NonZeroU32::new));
        if charged.is_some_and(|(numbers, distance)| !numbers.take(distance)) {
            self.metrics.rate.increment(1);
            return Err(Refusal::QuotaExceeded);
        }
        self.metrics.numbers.increment(distance);
        Ok(())
    }

    /// Counts a connection as open until the returned value is dropped. Returns `None` if the tenant already has its
    /// maximum number of open connections.
    pub(crate) fn connect(self: &Arc<Tenant>) -> Option<Connected> {
        let most = self.spec.connections.unwrap_or(u32::MAX);
        let counted =
            self.connections.fetch_update(Relaxed, Relaxed, |open| open.checked_add(1).filter(|open| *open <= most));
        if counted.is_err() {
            self.metrics.connection.increment(1);
            return None;
        }
        self.metrics.connections.increment(1.0);
        Some(Connected(self.clone()))
    }
}

/// A connection counted for a tenant.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Tenant>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
        self.0.metrics.connections.decrement(1.0);
    }
}

/// Limiter of a rate.
#[derive(Debug)]
struct Bucket(RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Duration>>);

impl Bucket {
    /// Creates a limiter that admits `rate` units per second, and at most `rate` units at once.
    fn new(rate: NonZeroU32) -> Bucket {
        let clock = RuntimeClock(Instant::now());
        Bucket(RateLimiter::direct_with_clock(Quota::per_second(rate), clock))
    }

    /// Takes all `units`, or none if fewer are available. Returns whether it took them.
    fn take(&self, units: NonZeroU32) -> bool {
        matches!(self.0.check_n(units), Ok(Ok(())))
    }
}

/// Clock that returns the time since the contained instant. It uses the clock of the async runtime, which tests can
/// pause.
#[derive(Clone, Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests;
