//! Eviction of the counters of keys that no call has used for long, so that the memory of keys is bounded.
//!
//! A pass visits every bucket of this node once in [`AllocOptions::key_idle`](crate::AllocOptions). While the node or
//! a bucket is crowded, a visit evicts the bucket's counters that no call has used since the visit before, so counters
//! that were used within that time stay. The node is crowded if it has room for more than 90 % of the keys that it may
//! have. If it had no room for a large bucket in this pass or the pass before, 45 % are enough.

use std::sync::Arc;

use seq_core::SectionId;
use tokio::time::{Instant, sleep_until};

use crate::shared::Shared;

/// Number of turns in which all buckets are visited. A turn visits 28 of 16,384 buckets: 17,000 of ten million keys,
/// whose counters are copied in about a millisecond.
const TURNS: u32 = 600;

/// Evicts until shutdown.
pub(crate) async fn run(shared: Arc<Shared>) {
    let idle = shared.config.options.key_idle;
    let mut was_refused = false;
    loop {
        let began = Instant::now();
        let mut is_refused = false;
        let buckets = shared.ownership.buckets();
        for (turn, buckets) in (1..).zip(buckets.chunks(buckets_a_turn(buckets.len()))) {
            tokio::select! {
                () = shared.halt.shutdown().cancelled() => return,
                () = sleep_until(began + idle * turn / TURNS) => {}
            }
            is_refused |= shared.ownership.was_room_refused();
            visit(&shared, buckets, was_refused || is_refused);
        }
        tokio::select! {
            () = shared.halt.shutdown().cancelled() => return,
            () = sleep_until(began + idle) => {}
        }
        was_refused = is_refused;
    }
}

/// Returns the number of buckets to visit in a turn, so that [`TURNS`] turns visit all of them.
fn buckets_a_turn(buckets: usize) -> usize {
    buckets.div_ceil(TURNS as usize).max(1)
}

/// Evicts counters of crowded buckets, or of all these buckets if the node is crowded.
fn visit(shared: &Shared, buckets: &[SectionId], was_refused: bool) {
    let most = shared.config.options.max_keys / if was_refused { 2 } else { 1 };
    let began = Instant::now();
    let mut evicted = 0;
    for bucket in buckets {
        evicted += shared.ownership.evict(*bucket, most);
    }
    shared.counters.keys.evicted(evicted);
    if evicted > 0 {
        let (set, name, took) = (&shared.config.set, &shared.config.name, began.elapsed());
        tracing::debug!(set, name, evicted, ?took, "counters of keys evicted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_buckets_are_visited_within_the_turns() {
        for count in [0, 1, 599, 600, 601, 16_384] {
            let turns = usize::div_ceil(count, buckets_a_turn(count));
            assert!(turns <= TURNS as usize, "{count} buckets in {turns} turns");
        }
    }
}
