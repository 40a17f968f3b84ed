//! Measures how far this node's clock is ahead of its store's clock, from the raises of sections whose numbers are
//! ticks, that is, follow the time.
//!
//! The store's leader commits no ceiling of ticks that is ahead of its own clock by more than the lanes' raise step
//! (`lead_ms`) and ten seconds. If a raise requests more, the leader commits this bound, that is, it cuts the raise
//! short. If the bound is below the time of this node's clock, the node cannot allocate a number for its present time
//! until one of the two clocks changes. Therefore the node refuses calls for such lanes at once, instead of letting
//! them wait, and lanes of other nodes are chosen for new calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seq_core::Seq;
use seq_core::layout::TickClock;
use seq_core::lease::Clocks;

/// Time for which a measured difference between the clocks is used, in nanoseconds. The first call after this time
/// requests a raise again, waits for its outcome, and so measures the difference anew.
const COUNTS_FOR_NS: u64 = 1_000_000_000;

/// Smallest difference between the clocks, in milliseconds, that is taken as proof that this node's clock is ahead. A
/// smaller difference is no proof, because the store also cuts the raise of a lane short if the clocks agree but the
/// lane is ahead of them by the largest possible `ahead`.
const MIN_AHEAD_MS: u64 = 1_000;

/// Difference between this node's clock and the store's clock, as measured at the last raise whose committed ceiling
/// was below the time of this node's clock.
#[derive(Debug, Default)]
pub(crate) struct ClockAhead {
    /// Milliseconds by which this node's clock was ahead of the store's clock; 0 if no committed ceiling was below the
    /// time of this node's clock.
    ahead_ms: AtomicU64,
    /// Time of the boot clock, in nanoseconds, until which the measured difference of the clocks is used.
    until: AtomicU64,
}

impl ClockAhead {
    /// Updates the difference of the clocks from `ceiling`, which the store committed when it cut a raise of ticks
    /// short. Returns whether the store cut it short because this node's clock is ahead of the store's clock.
    pub(crate) fn on_cut_short(&self, clock: &TickClock, ceiling: Seq, now: Clocks) -> bool {
        let now_ms = ms(now);
        let ahead_ms = now_ms.saturating_sub(clock.clamped_at(ceiling));
        if ceiling < clock.tick(now_ms) {
            self.until.store(now.boottime.saturating_add(COUNTS_FOR_NS), Relaxed);
            self.ahead_ms.store(ahead_ms, Relaxed);
        }
        ahead_ms >= MIN_AHEAD_MS
    }

    /// Returns the milliseconds by which this node's clock is ahead of the store's clock, if the store would for this
    /// reason not raise a section whose ceiling is `ceiling` to the present time of this node. Returns `None`
    /// otherwise.
    pub(crate) fn bounds(&self, clock: &TickClock, ceiling: Seq, now: Clocks) -> Option<u64> {
        let ahead_ms = self.ahead_ms.load(Relaxed);
        if ahead_ms == 0 || now.boottime >= self.until.load(Relaxed) {
            return None;
        }
        let now_ms = ms(now);
        let present = clock.tick(now_ms);
        (ceiling < present && clock.clamp(now_ms.saturating_sub(ahead_ms)) < present).then_some(ahead_ms)
    }
}

/// Returns the time of the wall clock in `now`, in milliseconds since 1970.
fn ms(now: Clocks) -> u64 {
    now.realtime / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: TickClock = TickClock { epoch_ms: 1_000_000, unit_ms: 1, seq_bits: 12, lead_ms: 2_000 };

    /// A lead of a minute, in units of a second.
    const SLOW: TickClock = TickClock { epoch_ms: 0, unit_ms: 1_000, seq_bits: 16, lead_ms: 60_000 };

    fn at(wall_ms: u64, boottime_ms: u64) -> Clocks {
        Clocks { boottime: boottime_ms * 1_000_000, raw: 0, realtime: wall_ms * 1_000_000 }
    }

    #[test]
    fn a_raise_that_ends_below_the_clock_states_the_difference() {
        let (ahead, store_ms) = (ClockAhead::default(), 50_000_000);
        let (now, ceiling) = (at(store_ms + 71_000, 5), CLOCK.clamp(store_ms));
        assert_eq!(ahead.bounds(&CLOCK, ceiling, now), None, "no raise yet");
        assert!(ahead.on_cut_short(&CLOCK, ceiling, now));
        assert_eq!(ahead.bounds(&CLOCK, ceiling, now), Some(71_000));
        assert_eq!(ahead.bounds(&SLOW, Seq(7), now), Some(71_000), "its raise ends a second below the clock");
        assert_eq!(ahead.bounds(&CLOCK, CLOCK.tick(store_ms + 71_000), now), None, "served under this ceiling");
        assert_eq!(ahead.bounds(&CLOCK, ceiling, at(store_ms + 72_000, 1_005)), None, "out of date");
    }

    #[test]
    fn a_difference_below_the_lead_and_the_margin_keeps_no_section_back() {
        let (ahead, store_ms) = (ClockAhead::default(), 50_000_000);
        let now = at(store_ms + 15_000, 5);
        assert!(ahead.on_cut_short(&SLOW, SLOW.clamp(store_ms), now), "cut short, but above the clock");
        assert_eq!(ahead.bounds(&SLOW, Seq(7), now), None);
        assert!(ahead.on_cut_short(&CLOCK, CLOCK.clamp(store_ms), now));
        assert_eq!(ahead.bounds(&CLOCK, Seq(7), now), Some(15_000));
        assert_eq!(ahead.bounds(&SLOW, Seq(7), now), None, "its lead is longer");
        let right = at(store_ms, 5);
        assert!(!ahead.on_cut_short(&CLOCK, CLOCK.clamp(store_ms), right), "the lane is ahead of a right clock");
    }
}
