//! What `replay` and `bench` share: who gives the numbers out, and how a run is measured.
//!
//! Both hold every answer against the history in [`seq_order`]. A replay sends its calls through the SDK; the trait
//! [`Service`] stands between, so that its loop is tested against services that break the promise.

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

/// Gives numbers out, one for each uid.
pub(crate) trait Service {
    /// Takes the next number of every uid, each by itself; as many answers as uids, in their order.
    fn next_many(&self, uids: &[u64]) -> impl Future<Output = Vec<Answer>>;
}

/// How the ask for one uid ended.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A number was given out.
    Given {
        /// The number.
        value: Seq,
        /// The one before, or 0 when the owner does not know it.
        prev: Seq,
        /// Attempts before, inside the same call, that may have moved the counter.
        lost: u32,
    },
    /// No number.
    Failed(Rc<Failure>),
}

/// Why there was no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason in capitals, as servers and SDK name it.
    pub(crate) reason: String,
    /// For people.
    pub(crate) message: String,
    /// Whether asking again can succeed.
    pub(crate) retryable: bool,
    /// Attempts that may have moved the counter although nobody heard of it.
    pub(crate) lost: u32,
}

impl Answer {
    /// The answer as the history sees it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Answer::Given { value, prev, lost } => {
                Outcome::Given { value: value.0, prev: prev.0, count: 1, lost: *lost }
            }
            Answer::Failed(failure) if failure.lost == 0 => Outcome::Refused,
            Answer::Failed(failure) => Outcome::Maybe { lost: failure.lost },
        }
    }
}

/// Failures by reason.
pub(crate) type Reasons = BTreeMap<String, u64>;

/// How long calls took.
#[derive(Debug)]
pub(crate) struct Latency {
    micros: Histogram<u64>,
}

/// Longest time told apart, an hour; whatever took longer counts as that.
const LONGEST_MICROS: u64 = 3_600_000_000;

/// Percentiles of [`Latency`], in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// Half of the calls were as fast.
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
    /// No call yet.
    pub(crate) fn new() -> Latency {
        let micros = Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order");
        Latency { micros }
    }

    /// Adds a call.
    pub(crate) fn record(&mut self, took: Duration) {
        self.record_n(took, 1);
    }

    /// Adds calls that took the same time.
    pub(crate) fn record_n(&mut self, took: Duration, calls: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.saturating_record_n(micros.clamp(1, LONGEST_MICROS), calls);
    }

    /// Number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.micros.len()
    }

    /// Where the calls lie, to three digits.
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

/// A duration in the unit that suits it, to three digits.
pub(crate) fn millis(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// A rate with a unit that keeps it short.
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
    fn percentiles_tell_slow_calls_from_fast() {
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
