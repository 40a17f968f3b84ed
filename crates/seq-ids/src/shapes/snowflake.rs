//! Snowflake of Twitter, after `IdWorker` of github.com/twitter-archive/snowflake, tag `snowflake-2010`.

use super::{AHEAD_MS, LaneField, Preset};
use crate::shape::{Shape, TimedShape};

pub(super) const PRESET: Preset = Preset {
    name: "snowflake",
    about: "Twitter's ids: 4,096 per ms and worker",
    shape: Shape::Timed(TimedShape {
        // 2010-11-04T01:42:54.657Z
        epoch_ms: 1_288_834_974_657,
        unit_ms: 1,
        time_bits: 41,
        lane_bits: 10,
        seq_bits: 12,
        spread: true,
    }),
    lane_fields: &[LaneField { name: "datacenter", bits: 5 }, LaneField { name: "worker", bits: 5 }],
    named_lanes: false,
    ahead_ms: AHEAD_MS,
};
