//! The sharded ids of Instagram, after "Sharding & IDs at Instagram", 2012.
//!
//! In Instagram's ids, the time has 41 bits, so ids in a signed 64-bit column are negative from 2046-06-27 on. In this
//! shape, the time has 40 bits, and the ids end on that day.

use super::{AHEAD_MS, LaneField, Preset};
use crate::shape::{Shape, TimedShape};

pub(super) const PRESET: Preset = Preset {
    name: "instagram",
    about: "Instagram's ids, with the shard of the caller: 1,024 per ms and shard",
    shape: Shape::Timed(TimedShape {
        // 2011-08-24T21:07:01.721Z
        epoch_ms: 1_314_220_021_721,
        unit_ms: 1,
        time_bits: 40,
        lane_bits: 13,
        seq_bits: 10,
        spread: true,
    }),
    lane_fields: &[LaneField { name: "shard", bits: 13 }],
    named_lanes: true,
    ahead_ms: AHEAD_MS,
};
