//! Rate limit on log lines about a lasting fault. The first line is logged at once, and then one line a minute, which
//! states the number of suppressed lines.

use std::time::Duration;

use tokio::time::Instant;

/// Interval of log lines about one lasting fault. It is short enough to show that the fault lasts, and long enough that
/// even a fault that lasts for hours does not fill the log.
pub const REPEAT_EVERY: Duration = Duration::from_secs(60);

/// Rate limit that admits the first event of a kind, and then one event every [`REPEAT_EVERY`].
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    admitted: Option<Instant>,
    suppressed: u64,
}

impl Repeats {
    /// Decides whether an event is logged now. If it is, returns the number of events that were suppressed since the
    /// last logged event; otherwise returns `None`.
    #[must_use]
    pub fn admit(&mut self) -> Option<u64> {
        if self.admitted.is_some_and(|at| at.elapsed() < REPEAT_EVERY) {
            self.suppressed += 1;
            return None;
        }
        self.admitted = Some(Instant::now());
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Records that the fault has ended, so that the next event is logged at once. Returns the number of events since
    /// the last logged event, counting the logged event itself; 0 if there was no event.
    pub fn end(&mut self) -> u64 {
        let Repeats { admitted, suppressed } = std::mem::take(self);
        suppressed + u64::from(admitted.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_is_logged_then_one_a_minute_with_a_count() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.admit(), Some(0));
        for _ in 0..1_000 {
            assert_eq!(repeats.admit(), None);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(REPEAT_EVERY).await;
        assert_eq!(repeats.admit(), Some(1_000));
        assert_eq!(repeats.end(), 1);
        assert_eq!(repeats.end(), 0);
        assert_eq!(repeats.admit(), Some(0), "a new fault is logged at once");
    }
}
