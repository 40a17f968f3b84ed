//! Histogram of the latencies of calls, its percentiles, and functions that format durations and rates as text.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A histogram of call latencies.
#[derive(Debug)]
pub struct Latency {
    micros: Histogram<u64>,
}

/// Largest latency that the histogram records, an hour in microseconds. A call that took longer counts as an hour.
const LONGEST_MICROS: u64 = 3_600_000_000;

/// Percentiles of [`Latency`], in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Latency that 50 of 100 calls did not exceed.
    pub p50_us: u64,
    /// Latency that 90 of 100 calls did not exceed.
    pub p90_us: u64,
    /// Latency that 99 of 100 calls did not exceed.
    pub p99_us: u64,
    /// Latency that 999 of 1,000 calls did not exceed.
    #[serde(rename = "p99_9_us")]
    pub p999_us: u64,
    /// Latency of the slowest call.
    pub max_us: u64,
}

impl Latency {
    /// Creates an empty histogram.
    ///
    /// # Panics
    /// Never: the bounds are constants.
    #[must_use]
    pub fn new() -> Latency {
        let micros = Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order");
        Latency { micros }
    }

    /// Adds a call.
    pub fn record(&mut self, took: Duration) {
        self.record_n(took, 1);
    }

    /// Adds calls with the same latency.
    pub fn record_n(&mut self, took: Duration, calls: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.saturating_record_n(micros.clamp(1, LONGEST_MICROS), calls);
    }

    /// Removes all calls.
    pub fn reset(&mut self) {
        self.micros.reset();
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.micros.len()
    }

    /// Returns the percentiles, with an error below 0.1%.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.micros.value_at_quantile(quantile);
        Percentiles {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.micros.max(),
        }
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |micros: u64| millis(Duration::from_micros(micros));
        write!(
            f,
            "p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
            show(self.p50_us),
            show(self.p90_us),
            show(self.p99_us),
            show(self.p999_us),
            show(self.max_us)
        )
    }
}

/// Formats a duration in a suitable unit, to three digits.
#[must_use]
pub fn millis(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// Formats the rate of `count` events in the time `time`, in events, thousands or millions per second.
#[must_use]
pub fn per_second(count: u64, time: Duration) -> String {
    let rate = count as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
    match rate {
        1e6.. => format!("{:.2} M/s", rate / 1e6),
        1e4.. => format!("{:.1} k/s", rate / 1e3),
        _ => format!("{rate:.0}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_rates_are_formatted_in_a_suitable_unit() {
        let times = [7, 1_234, 12_345, 1_234_567].map(|micros| millis(Duration::from_micros(micros)));
        assert_eq!(times, ["7 us", "1.23 ms", "12.3 ms", "1.23 s"]);
        assert_eq!(per_second(3_000_000, Duration::from_secs(2)), "1.50 M/s");
    }

    #[test]
    fn percentiles_separate_slow_calls_from_fast_ones() {
        let mut latency = Latency::new();
        (0..990).for_each(|_| latency.record(Duration::from_micros(100)));
        (0..10).for_each(|_| latency.record(Duration::from_millis(20)));
        latency.record(Duration::from_secs(7_200));
        let Percentiles { p50_us, p90_us, p99_us, p999_us, max_us } = latency.percentiles();
        assert_eq!((p50_us, p90_us), (100, 100));
        assert!((19_900..=20_100).contains(&p99_us), "{p99_us}");
        assert!(p999_us >= 20_000 && max_us >= LONGEST_MICROS, "{p999_us} {max_us}");
    }
}
