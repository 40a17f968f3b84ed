//! Metrics of ids. A request is counted where it is processed, with one uncontended atomic add, because each core has
//! its own endpoint with its own counts. A task publishes the counts once a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Histogram, counter, histogram};
use parking_lot::Mutex;
use seq_api::ids::IdSeries;
use seq_api::metrics::{IDS_AHEAD_SECONDS, IDS_TOTAL};
use seq_api::service::Via;
use seq_ids::{Id, PRESETS, Shape};
use seq_kit::tasks::{Kind, TaskGroup};
use seq_kit::wall_clock;
use seq_proto::reason::code_name;
use tonic::Code;

/// Interval at which the counts are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Number of gRPC codes, including OK.
const CODES: usize = 17;

const VIAS: usize = Via::ALL.len();

/// Number of values of the label `shape`: the presets, and `timed` for all other shapes whose ids contain a time.
const SHAPES: usize = PRESETS.len() + 1;

/// Counts by shape, protocol and code.
type Table<T> = [[[T; CODES]; VIAS]; SHAPES];

/// Counts of one endpoint.
pub(crate) struct IdCounts {
    set: String,
    /// Counts by shape, protocol and code. A count for the code OK is a number of ids. A count for any other code is a
    /// number of refused requests.
    outcomes: Box<Table<AtomicU64>>,
    /// Part of the counts that the metrics already include.
    published: Mutex<Box<Table<u64>>>,
    ahead: Histogram,
}

impl IdCounts {
    /// Creates the counts of an endpoint of the set `set`, and starts a task that publishes them until the group shuts
    /// down.
    pub(crate) fn start(set: &str, group: &TaskGroup) -> Arc<IdCounts> {
        let counts = Arc::new(IdCounts::new(set));
        let (published, shutdown) = (counts.clone(), group.token());
        group.spawn("metrics of ids", Kind::Disposable, async move {
            while shutdown.run_until_cancelled(tokio::time::sleep(PUBLISH_EVERY)).await.is_some() {
                published.publish();
            }
            published.publish();
        });
        counts
    }

    fn new(set: &str) -> IdCounts {
        IdCounts {
            set: set.to_owned(),
            outcomes: Box::default(),
            published: Mutex::default(),
            ahead: histogram!(IDS_AHEAD_SECONDS, "set" => set.to_owned()),
        }
    }

    /// Adds `count` to the count of ids if the code is OK, and to the count of refused requests with this code
    /// otherwise.
    pub(crate) fn add(&self, series: &IdSeries, via: Via, code: Code, count: u64) {
        self.outcomes[shape_index(&series.shape)][via as usize][code as usize].fetch_add(count, Relaxed);
    }

    /// Records the time by which the last id of a response is ahead of this node's clock.
    pub(crate) fn record_ahead(&self, series: &IdSeries, last: u64) {
        if let Some((unix_ms, _)) = Id::new(last).and_then(|last| series.shape.parts(last)?.timed) {
            self.ahead.record(Duration::from_millis(unix_ms.saturating_sub(wall_clock::now_ms())));
        }
    }

    fn publish(&self) {
        let mut published = self.published.lock();
        for (shape, (counts, shown)) in self.outcomes.iter().zip(published.iter_mut()).enumerate() {
            for (via, (counts, shown)) in Via::ALL.into_iter().zip(counts.iter().zip(shown)) {
                for (code, (count, shown)) in counts.iter().zip(shown).enumerate() {
                    let count = count.load(Relaxed);
                    if count > *shown {
                        let labels = [
                            ("set", self.set.clone()),
                            ("shape", shape_name(shape).to_owned()),
                            ("via", via.name().to_owned()),
                            ("code", code_name(Code::from_i32(code as i32))),
                        ];
                        counter!(IDS_TOTAL, &labels).increment(count - *shown);
                        *shown = count;
                    }
                }
            }
        }
    }
}

/// Returns the index of a shape among the presets, or the number of presets if the shape is not a preset. All counters
/// have the same index.
fn shape_index(shape: &Shape) -> usize {
    let is = |known: &Shape| match (known, shape) {
        (Shape::Counter(_), Shape::Counter(_)) => true,
        (known, shape) => known == shape,
    };
    PRESETS.iter().position(|preset| is(&preset.shape)).unwrap_or(PRESETS.len())
}

/// Returns the value of the label `shape`.
fn shape_name(index: usize) -> &'static str {
    PRESETS.get(index).map_or("timed", |preset| preset.name)
}

#[cfg(test)]
mod tests {
    use seq_ids::{CounterShape, TimedShape, preset};

    use super::*;

    #[test]
    fn a_shape_is_counted_under_its_name() {
        let shape = |name: &str| preset(name).unwrap().shape;
        let Shape::Timed(snowflake) = shape("snowflake") else { unreachable!() };
        for (shape, name) in [
            (shape("snowflake"), "snowflake"),
            (shape("instagram"), "instagram"),
            (shape("js53"), "js53"),
            (Shape::Timed(TimedShape { seq_bits: 11, ..snowflake }), "timed"),
            (Shape::Counter(CounterShape { offset: 2, increment: 7, max_id: 90 }), "counter"),
        ] {
            assert_eq!(shape_name(shape_index(&shape)), name, "{shape}");
        }
    }
}
