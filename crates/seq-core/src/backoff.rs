//! Waits between failed attempts. The waits double up to a maximum, and are partly random so that nodes do not retry at
//! the same time.

use core::time::Duration;

/// The waits of one series of attempts. The caller draws the random number of each wait.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a series of waits. The first wait is at most `min`, and no wait is longer than `max`.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, next: min }
    }

    /// Returns the next wait. It is half of the current step plus a random part of the other half. The first step is
    /// `min`, and each call doubles the step, up to `max`. `random` is any 32 bits.
    pub fn wait(&mut self, random: u32) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.max);
        let half = step / 2;
        half + Duration::from_nanos(((half.as_nanos() * u128::from(random)) >> u32::BITS) as u64)
    }

    /// Makes the next wait as short as the first wait, after an attempt succeeded.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_are_spread() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(20), ms(100));
        let longest = [20, 40, 80, 100, 100].map(ms);
        for step in longest {
            let wait = backoff.wait(u32::MAX);
            assert!(wait <= step && step - wait < Duration::from_micros(1), "{wait:?} of {step:?}");
        }
        assert_eq!(backoff.wait(0), ms(50));
        backoff.reset();
        assert_eq!(backoff.wait(0), ms(10));
    }
}
