//! Eviction of the counters of keys that no call has used for long, so that the memory of keys is bounded.
//!
//! A round of evictions visits every bucket of this node once in [`AllocOptions::key_idle`](crate::AllocOptions). The
//! rules by which a visit evicts counters are in [`seq_core::key_room`].

use std::sync::Arc;

use seq_core::SectionId;
use seq_core::key_room::KeyBound;
use tokio::time::{Instant, sleep_until};

use crate::shared::Shared;

/// Number of turns in which all buckets are visited. A turn visits 28 of 16,384 buckets: 17,000 of ten million keys,
/// whose counters are copied in about a millisecond.
const TURNS: u32 = 600;

/// Evicts until shutdown.
pub(crate) async fn run(shared: Arc<Shared>) {
    let idle = shared.config.options.key_idle;
    loop {
        let began = Instant::now();
        let buckets = shared.ownership.buckets();
        for (turn, buckets) in (1..).zip(buckets.chunks(buckets_a_turn(buckets.len()))) {
            tokio::select! {
                () = shared.halt.shutdown().cancelled() => return,
                () = sleep_until(began + idle * turn / TURNS) => {}
            }
            visit(&shared, buckets);
        }
        tokio::select! {
            () = shared.halt.shutdown().cancelled() => return,
            () = sleep_until(began + idle) => {}
        }
        shared.ownership.next_round();
    }
}

/// Returns the number of buckets to visit in a turn, so that [`TURNS`] turns visit all of them.
fn buckets_a_turn(buckets: usize) -> usize {
    buckets.div_ceil(TURNS as usize).max(1)
}

/// Evicts counters of these buckets.
fn visit(shared: &Shared, buckets: &[SectionId]) {
    let bound = KeyBound { most: shared.config.options.max_keys };
    let began = Instant::now();
    let mut evicted = 0;
    for bucket in buckets {
        evicted += shared.ownership.evict(*bucket, bound);
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
