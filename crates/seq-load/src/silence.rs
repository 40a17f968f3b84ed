//! The longest time without a success.

use std::time::Duration;

/// Measurement of the longest interval between two successes. Times are on the clock of the caller, which passes them
/// in.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    /// Time of the last success, or the start of the measurement if there was no success yet; `None` if no measurement
    /// was started.
    since: Option<Duration>,
    longest: Duration,
    longest_until: Duration,
}

impl Silence {
    /// Starts a measurement in which silence counts from `now`.
    #[must_use]
    pub fn since(now: Duration) -> Silence {
        Silence { since: Some(now), ..Silence::default() }
    }

    /// Records a success.
    pub fn end(&mut self, now: Duration) {
        self.extend(now);
        self.since = Some(now);
    }

    /// Counts the time from the last success up to `now` as an interval, although there is no success at `now`.
    pub fn extend(&mut self, now: Duration) {
        let silence = self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        if silence > self.longest {
            (self.longest, self.longest_until) = (silence, now);
        }
    }

    /// Returns the time of the last success, or the start of the measurement.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        self.since
    }

    /// Returns the longest interval so far.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the end of the longest interval.
    #[must_use]
    pub fn longest_until(&self) -> Duration {
        self.longest_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_interval_includes_the_one_that_goes_on() {
        let ms = Duration::from_millis;
        let mut silence = Silence::default();
        silence.extend(ms(900));
        assert_eq!(silence.longest(), Duration::ZERO, "nothing was expected yet");
        [ms(1_000), ms(1_300), ms(1_400)].into_iter().for_each(|now| silence.end(now));
        assert_eq!((silence.longest(), silence.longest_until()), (ms(300), ms(1_300)));
        silence.extend(ms(2_000));
        assert_eq!((silence.longest(), silence.last()), (ms(600), Some(ms(1_400))));
    }
}
