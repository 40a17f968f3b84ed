//! The snowflake mode of Leaf, after `SnowflakeIDGenImpl` of github.com/Meituan-Dianping/Leaf. For Leaf's segment mode,
//! use the shape `counter`.

use super::{AHEAD_MS, LaneField, Preset, snowflake};

pub(super) const PRESET: Preset = Preset {
    name: "leaf",
    about: "Meituan's Leaf in its snowflake mode: 4,096 per ms and worker",
    shape: snowflake::PRESET.shape,
    lane_fields: &[LaneField { name: "worker", bits: 10 }],
    named_lanes: false,
    ahead_ms: AHEAD_MS,
};
