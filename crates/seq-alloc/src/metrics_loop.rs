//! Publishes the metrics of an allocator.

use std::sync::Arc;
use std::time::Duration;

use seq_core::Seq;
use seq_core::lease::Clocks;

use crate::shared::Shared;

/// Interval at which the metrics are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Publishes the metrics until shutdown.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        shared.publish();
        tokio::select! {
            () = shared.halt.shutdown().cancelled() => return,
            () = tokio::time::sleep(PUBLISH_EVERY) => {}
        }
    }
}

impl Shared {
    /// Brings the process' metrics up to date.
    pub(crate) fn publish(&self) {
        self.counters.publish();
        let now = self.clock.now();
        let lease = self.ownership.lease_left(now);
        let owned = self.ownership.owned();
        // Without a lease, this node owns its sections but does not serve them.
        let served = if lease.is_zero() { 0 } else { owned.iter().count() };
        self.counters.publish_state(served, self.ownership.route_version().0, lease);
        // Ceilings in ticks are left out, because callers regard them as times and not as numbers.
        let ceilings = owned.iter().filter(|owned| !owned.is_in_ticks()).map(|owned| owned.ceiling());
        self.counters.publish_ceiling(ceilings.max().unwrap_or(Seq::ZERO));
        self.counters.keys.publish(&owned, self.ownership.key_room(), self.config.options.max_keys);
        self.publish_lanes(now);
    }

    /// Brings the metrics of series and lanes up to date.
    fn publish_lanes(&self, now: Clocks) {
        let (mut lanes, mut resting) = (0, 0);
        for owned in self.ownership.owned().iter() {
            let Some(clock) = owned.clock else { continue };
            lanes += owned.uids();
            if self.rests(owned, &clock, now) {
                resting += owned.uids();
            }
        }
        self.counters.lanes.publish_lanes(lanes, resting);
        self.counters.lanes.publish_series(&self.ownership.series());
    }
}
