//! Ids that are exact in a double, so that JavaScript and spreadsheets keep every digit.

use super::{AHEAD_MS, LaneField, Preset};
use crate::shape::{Shape, TimedShape};

pub(super) const PRESET: Preset = Preset {
    name: "js53",
    about: "below 2^53, exact as numbers in JavaScript: 65,536 per second and worker",
    shape: Shape::Timed(TimedShape {
        // 2026-01-01T00:00:00Z
        epoch_ms: 1_767_225_600_000,
        unit_ms: 1_000,
        time_bits: 31,
        lane_bits: 6,
        seq_bits: 16,
        spread: true,
    }),
    lane_fields: &[LaneField { name: "worker", bits: 6 }],
    named_lanes: false,
    ahead_ms: AHEAD_MS,
};
