//! The snowflake mode of Leaf: `SnowflakeIDGenImpl` of github.com/Meituan-Dianping/Leaf. Its segment mode is a counter.

use super::{LaneField, Preset};
use crate::shape::{Shape, TimedShape};

pub(super) const PRESET: Preset = Preset {
    name: "leaf",
    about: "Meituan's Leaf in its snowflake mode: 4,096 per ms and worker",
    shape: Shape::Timed(TimedShape {
        // 2010-11-04T01:42:54.657Z, as of Snowflake.
        epoch_ms: 1_288_834_974_657,
        unit_ms: 1,
        time_bits: 41,
        lane_bits: 10,
        seq_bits: 12,
        spread: true,
    }),
    lane_fields: &[LaneField { name: "worker", bits: 10 }],
};
