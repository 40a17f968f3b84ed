//! Comparison of this member's wall clock with the clocks of the other members. Its result is shown to operators. A
//! wrong clock breaks the checks of certificates and the times in audit records, but not the Raft protocol.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_core::clock_offset::{self, ClockOffset};
use seq_kit::wall_clock;

/// Milliseconds by which this member's clock is ahead of the median of all members' clocks, as the last round of probes
/// measured it. Negative if this member's clock is behind the median, and `None` before the first response to a probe.
/// Clones share the measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnClock(Arc<Mutex<Option<i64>>>);

impl OwnClock {
    /// Records the clock differences to the members that responded to a round of probes. If no member responded, the
    /// earlier measurement stays.
    pub(crate) fn note(&self, others: impl IntoIterator<Item = ClockOffset>) {
        let mut clocks: Vec<i64> = others.into_iter().filter_map(ClockOffset::precise).collect();
        if !clocks.is_empty() {
            clocks.push(0);
            *self.0.lock() = clock_offset::middle(clocks).map(i64::saturating_neg);
        }
    }

    /// Returns the milliseconds by which this member's clock is ahead of the median of all members' clocks. Negative if
    /// it is behind the median, and `None` while the difference is unknown.
    pub(crate) fn ahead_ms(&self) -> Option<i64> {
        *self.0.lock()
    }

    /// Returns the current median of the members' clocks in milliseconds since 1970. While the other clocks are
    /// unknown, returns the time of this member's clock.
    pub(crate) fn middle_ms(&self) -> u64 {
        wall_clock::now_ms().saturating_add_signed(self.ahead_ms().unwrap_or(0).saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_compared_with_the_middle_of_all_members() {
        let after = |others: &[(i64, i64)]| {
            let clock = OwnClock::default();
            clock.note(
                others.iter().map(|(ahead_ms, error_ms)| ClockOffset { ahead_ms: *ahead_ms, error_ms: *error_ms }),
            );
            clock.ahead_ms()
        };
        assert_eq!(after(&[(2, 1), (3_600_000, 1)]), Some(-2), "another clock is wrong");
        assert_eq!(after(&[(-3_600_000, 1), (-3_600_002, 1)]), Some(3_600_000), "this clock is wrong");
        assert_eq!(after(&[(9_000, 501), (5, 1)]), Some(0), "a response took longer than a second");
        assert_eq!(after(&[(9_000, 501)]), None);
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn the_middle_follows_from_this_clock() {
        let clock = OwnClock::default();
        clock.note([-3_600_000, -3_600_000].map(|ahead_ms| ClockOffset { ahead_ms, error_ms: 1 }));
        let (before, middle, after) = (wall_clock::now_ms(), clock.middle_ms(), wall_clock::now_ms());
        assert!((before..=after).contains(&(middle + 3_600_000)), "{before} {middle} {after}");
    }
}
