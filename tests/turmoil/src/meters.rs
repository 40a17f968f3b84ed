//! The services' own metrics: the situations that a run reached.
//!
//! A counter is named by its metric and the labels of its kind, without set and node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder,
};

/// Labels with the same value in all counters.
const LEFT_OUT: [&str; 3] = ["set", "node", "via"];

/// The counters of one run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Meters(Arc<Mutex<BTreeMap<Key, Arc<Meter>>>>);

#[derive(Debug, Default)]
struct Meter(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    /// Sum of earlier processes: a counter that is set to a smaller value begins anew.
    before: u64,
    now: u64,
}

impl Meters {
    /// Counts the metrics of `run` on this thread.
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        with_local_recorder(self, run)
    }

    /// Returns the counters that are not 0.
    #[must_use]
    pub fn sums(&self) -> BTreeMap<String, u64> {
        let meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (key, meter) in meters.iter().filter(|(_, meter)| meter.sum() > 0) {
            *sums.entry(name(key)).or_default() += meter.sum();
        }
        sums
    }
}

impl Meter {
    fn sum(&self) -> u64 {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.before + count.now
    }
}

impl CounterFn for Meter {
    fn increment(&self, by: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now += by;
    }

    fn absolute(&self, value: u64) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if value < count.now {
            count.before += count.now;
        }
        count.now = value;
    }
}

/// Returns the name of a counter with the labels of its kind.
fn name(key: &Key) -> String {
    let labels = key.labels().filter(|label| !LEFT_OUT.contains(&label.key()));
    labels.fold(key.name().to_owned(), |name, label| format!("{name} {}={}", label.key(), label.value()))
}

impl Recorder for Meters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counter::from_arc(meters.entry(key.clone()).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
