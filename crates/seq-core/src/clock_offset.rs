//! Compares another machine's wall clock with this machine's, based on one request and its response. The result is used
//! only for reports to operators and for the times in certificates. No allocation depends on it.

use alloc::vec::Vec;
use core::time::Duration;

/// Largest error, in milliseconds, at which a comparison is still used. It is half of the smallest difference between
/// two clocks that operators should notice.
const MAX_ERROR_MS: i64 = 500;

/// The wall clock of another machine, compared with this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// Milliseconds by which the other machine's clock is ahead of this machine's clock; negative if it is behind.
    pub ahead_ms: i64,
    /// Largest error of `ahead_ms`, in milliseconds. It is half of the round trip, because the other clock is assumed
    /// to have been read in the middle of the round trip.
    pub error_ms: i64,
}

impl ClockOffset {
    /// Compares the time `theirs_ms` in a response with `sent_ms`, the time on this machine's clock when the request
    /// was sent. Both are in milliseconds since 1970. Returns `None` if `theirs_ms` is 0, because older releases, which
    /// do not state their clock, send 0.
    #[must_use]
    pub fn measure(theirs_ms: u64, sent_ms: u64, round_trip: Duration) -> Option<ClockOffset> {
        let half = i64::try_from(round_trip.as_millis() / 2).ok()?;
        let (theirs, sent) = (i64::try_from(theirs_ms).ok()?, i64::try_from(sent_ms).ok()?);
        (theirs > 0)
            .then(|| ClockOffset { ahead_ms: theirs.saturating_sub(sent).saturating_sub(half), error_ms: half + 1 })
    }

    /// Returns the milliseconds by which the other machine's clock is ahead; `None` if the error of this value may be
    /// more than half a second.
    #[must_use]
    pub fn precise(self) -> Option<i64> {
        (self.error_ms <= MAX_ERROR_MS).then_some(self.ahead_ms)
    }
}

/// Returns the median of `clocks`; `None` if there are none. Each clock is given as the milliseconds by which it is
/// ahead of this machine's clock. If there are three or more clocks, one wrong clock cannot move the median out of the
/// range of the other clocks. If two clocks are in the middle, the result is the lower of these two.
#[must_use]
pub fn middle(clocks: impl IntoIterator<Item = i64>) -> Option<i64> {
    let mut sorted: Vec<i64> = clocks.into_iter().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_counts_as_read_at_the_middle_of_the_round_trip() {
        let measured = |theirs, ms| ClockOffset::measure(theirs, 10_000, Duration::from_millis(ms));
        assert_eq!(measured(10_400, 200), Some(ClockOffset { ahead_ms: 300, error_ms: 101 }));
        assert_eq!(measured(4_000, 20), Some(ClockOffset { ahead_ms: -6_010, error_ms: 11 }));
        assert_eq!(measured(10_400, 998).and_then(ClockOffset::precise), Some(-99));
        assert_eq!(measured(10_400, 1_000).and_then(ClockOffset::precise), None, "it may be wrong by 501 ms");
        assert_eq!(measured(0, 20), None, "an older release states none");
        assert_eq!(measured(u64::MAX, 20), None, "no time");
    }

    #[test]
    fn one_wrong_clock_does_not_move_the_middle() {
        assert_eq!(middle([0, 3_600_000, 4]), Some(4));
        assert_eq!(middle([0, -3_600_000, -3_600_004]), Some(-3_600_000), "this machine's clock is wrong");
        assert_eq!(middle([0, 3_600_000]), Some(0));
        assert_eq!(middle([]), None);
    }
}
