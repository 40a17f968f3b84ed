//! Log lines that would repeat for as long as a fault lasts: the first at once, then one a minute with a count.

use std::time::Duration;

use tokio::time::Instant;

/// Between two lines about one lasting fault: often enough to see that it lasts, seldom enough for a night.
pub const REPEAT_EVERY: Duration = Duration::from_secs(60);

/// Admits the first event of a kind, then one every [`REPEAT_EVERY`].
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    admitted: Option<Instant>,
    left_out: u64,
}

impl Repeats {
    /// Whether an event that happens now is logged: the number of events left out since the last one that was, or
    /// `None`.
    #[must_use]
    pub fn admit(&mut self) -> Option<u64> {
        if self.admitted.is_some_and(|at| at.elapsed() < REPEAT_EVERY) {
            self.left_out += 1;
            return None;
        }
        self.admitted = Some(Instant::now());
        Some(std::mem::take(&mut self.left_out))
    }

    /// The fault is over: the next one is logged at once. Answers how many events there were, 0 when there was none.
    pub fn end(&mut self) -> u64 {
        let Repeats { admitted, left_out } = std::mem::take(self);
        left_out + u64::from(admitted.is_some())
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
