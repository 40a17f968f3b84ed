//! Metrics of series and their lanes, published once a second.

use std::fmt;
use std::sync::OnceLock;

use metrics::{Gauge, gauge};
use seq_api::metrics as names;

use crate::lanes::SeriesIndex;

/// Gauges of one allocator.
pub(crate) struct LaneMetrics {
    set: String,
    /// In the order of [`SeriesIndex::counts`].
    series: [Gauge; 3],
    lanes: Gauge,
    resting: Gauge,
    /// Gauge of the earliest time at which a series runs out of ids. It is created when the first series with such a
    /// time exists, because a value of 0 would state that a series ended in 1970.
    end: OnceLock<Gauge>,
}

impl fmt::Debug for LaneMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneMetrics").field("set", &self.set).finish_non_exhaustive()
    }
}

impl LaneMetrics {
    pub(crate) fn new(set: &str, node: &str) -> LaneMetrics {
        let (set, node) = (set.to_owned(), node.to_owned());
        let series = ["serves", "retired", "unread"];
        LaneMetrics {
            series: series.map(|state| gauge!(names::SERIES, "set" => set.clone(), "state" => state)),
            lanes: gauge!(names::LANES, "set" => set.clone(), "node" => node.clone()),
            resting: gauge!(names::LANES_RESTING, "set" => set.clone(), "node" => node),
            end: OnceLock::new(),
            set,
        }
    }

    /// Publishes the number of owned lanes, and the number of these lanes that allocate no id now.
    pub(crate) fn publish_lanes(&self, lanes: u32, resting: u32) {
        self.lanes.set(f64::from(lanes));
        self.resting.set(f64::from(resting));
    }

    /// Publishes the series.
    pub(crate) fn publish_series(&self, series: &SeriesIndex) {
        for (gauge, count) in self.series.iter().zip(series.counts()) {
            gauge.set(count as f64);
        }
        match (series.first_end_ms(), self.end.get()) {
            (Some(end_ms), _) => {
                let gauge = || gauge!(names::SERIES_END_SECONDS, "set" => self.set.clone());
                self.end.get_or_init(gauge).set(end_ms as f64 / 1_000.0);
            }
            // The last series whose ids contain the time is retired.
            (None, Some(gauge)) => gauge.set(f64::INFINITY),
            (None, None) => {}
        }
    }
}
