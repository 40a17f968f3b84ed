//! Metrics of series and their lanes, published once a second.

use std::fmt;
use std::sync::OnceLock;

use metrics::{Gauge, gauge};
use seq_api::metrics as names;
use seq_core::lane_clock::LaneClock;
use seq_core::lease::Clocks;

use crate::lanes::{SeriesIndex, unix_ms};
use crate::ownership::OwnedSection;
use crate::shared::Shared;

/// Gauges of one allocator.
pub(crate) struct LaneMetrics {
    set: String,
    /// In the order of [`SeriesIndex::counts`].
    series: [Gauge; 3],
    lanes: Gauge,
    resting: Gauge,
    /// Created with the first series that has a time, because 0 would state that one ended in 1970.
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

    fn publish_series(&self, series: &SeriesIndex) {
        for (gauge, count) in self.series.iter().zip(series.counts()) {
            gauge.set(count as f64);
        }
        match (series.first_end_ms(), self.end.get()) {
            (Some(end_ms), _) => {
                let gauge = || gauge!(names::SERIES_END_SECONDS, "set" => self.set.clone());
                self.end.get_or_init(gauge).set(end_ms as f64 / 1_000.0);
            }
            // The last one is retired.
            (None, Some(gauge)) => gauge.set(f64::INFINITY),
            (None, None) => {}
        }
    }
}

impl Shared {
    /// Brings the metrics of series and lanes up to date.
    pub(crate) fn publish_lanes(&self, now: Clocks) {
        let (mut lanes, mut resting) = (0, 0);
        for owned in self.ownership.owned().iter() {
            let Some(clock) = owned.clock else { continue };
            lanes += owned.uids();
            if self.rests(owned, &clock, now) {
                resting += owned.uids();
            }
        }
        self.lane_metrics.lanes.set(f64::from(lanes));
        self.lane_metrics.resting.set(f64::from(resting));
        self.lane_metrics.publish_series(&self.ownership.series());
    }

    /// Returns whether the lanes of a section give out no id now: it began ahead of the clock, or no raise reaches the
    /// clock.
    pub(crate) fn rests(&self, owned: &OwnedSection, clock: &LaneClock, now: Clocks) -> bool {
        owned.rests(unix_ms(now)) || self.clock_ahead.bounds(&clock.clock, owned.ceiling(), now).is_some()
    }
}
