//! Shared by `replay` and `bench`: the service that allocates the numbers, its replies, and the latency histogram.
//!
//! Both check every reply against the history in [`seq_order`]. A replay sends its requests through the SDK, behind the
//! trait [`Service`]: tests of its loop use services that violate the order.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use seq_core::Seq;
use serde::Serialize;

use seq_order::Outcome;

pub(crate) mod raises;
pub(crate) mod sdk;
pub(crate) mod verdict;

/// Allocates numbers, one for each uid.
pub(crate) trait Service {
    /// Allocates the next number of every uid independently; one reply for each uid, in their order.
    fn next_many(&self, uids: &[u64]) -> impl Future<Output = Vec<Reply>>;
}

/// The reply for one uid.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A number was allocated.
    Given {
        /// The number.
        value: Seq,
        /// The number before, or 0 if the owner does not know it.
        prev: Seq,
        /// Earlier attempts of the same call that may have advanced the counter.
        lost: u32,
    },
    /// No number.
    Failed(Rc<Failure>),
}

/// The reason for no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason in capitals, from the server or the SDK.
    pub(crate) reason: String,
    /// The readable message.
    pub(crate) message: String,
    /// Whether a retry can succeed.
    pub(crate) retryable: bool,
    /// Attempts without a response that may have advanced the counter.
    pub(crate) lost: u32,
}

impl Reply {
    /// The outcome for the history.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Reply::Given { value, prev, lost } => {
                Outcome::Given { value: value.0, prev: prev.0, count: 1, lost: *lost }
            }
            Reply::Failed(failure) if failure.lost == 0 => Outcome::Refused,
            Reply::Failed(failure) => Outcome::Maybe { lost: failure.lost },
        }
    }
}

/// Failures by reason.
pub(crate) type Reasons = BTreeMap<String, u64>;

/// A histogram of call latencies.
#[derive(Debug)]
pub(crate) struct Latency {
    micros: Histogram<u64>,
}

/// Upper bound of the histogram, an hour; longer calls count as that.
const LONGEST_MICROS: u64 = 3_600_000_000;

/// Percentiles of [`Latency`], in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// 50 of 100 calls were at most as slow.
    pub(crate) p50_us: u64,
    /// 90 of 100 calls were.
    pub(crate) p90_us: u64,
    /// 99 of 100 calls were.
    pub(crate) p99_us: u64,
    /// 999 of 1,000 calls were.
    #[serde(rename = "p99_9_us")]
    pub(crate) p999_us: u64,
    /// The slowest call.
    pub(crate) max_us: u64,
}

impl Latency {
    /// An empty histogram.
    pub(crate) fn new() -> Latency {
        let micros = Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order");
        Latency { micros }
    }

    /// Adds a call.
    pub(crate) fn record(&mut self, took: Duration) {
        self.record_n(took, 1);
    }

    /// Adds calls of the same latency.
    pub(crate) fn record_n(&mut self, took: Duration, calls: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.saturating_record_n(micros.clamp(1, LONGEST_MICROS), calls);
    }

    /// Number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.micros.len()
    }

    /// The percentiles, to three digits.
    pub(crate) fn percentiles(&self) -> Percentiles {
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
pub(crate) fn millis(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// Formats a rate with a unit that keeps it short.
pub(crate) fn per_second(count: u64, time: Duration) -> String {
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
    fn numbers_are_written_for_people() {
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
