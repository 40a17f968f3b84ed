//! The shapes that have a name.

mod counter;
mod instagram;
mod js53;
mod leaf;
mod snowflake;

use crate::shape::Shape;

/// A shape with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name, as in `--shape snowflake`.
    pub name: &'static str,
    /// The system that it is of, and its most ids, in a line.
    pub about: &'static str,
    /// The shape.
    pub shape: Shape,
    /// The fields of a lane, from the highest bit to the lowest; none for a counter.
    pub lane_fields: &'static [LaneField],
    /// Whether the caller names the lane, as of a shard; otherwise the server chooses it.
    pub named_lanes: bool,
    /// Time by which the ids of a series may be ahead of the clock unless its creator chooses another, in milliseconds;
    /// 0 for a counter.
    pub ahead_ms: u32,
}

/// [`Preset::ahead_ms`] of the timed shapes: a second, within which Snowflake's ids are sorted by time.
pub const AHEAD_MS: u32 = 1_000;

/// A field of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneField {
    /// Its name, as in `worker 26`.
    pub name: &'static str,
    /// Its bits.
    pub bits: u8,
}

/// All shapes that have a name, in the order of help texts.
pub const PRESETS: &[Preset] = &[snowflake::PRESET, leaf::PRESET, instagram::PRESET, js53::PRESET, counter::PRESET];

/// Returns the shape with a name.
#[must_use]
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Returns the fields of a lane with their values, from the highest bit to the lowest.
    pub fn fields_of(&self, lane: u32) -> impl Iterator<Item = (&'static str, u32)> {
        let below = |place: usize| self.lane_fields[place + 1..].iter().map(|field| u32::from(field.bits)).sum::<u32>();
        let fields = self.lane_fields.iter().enumerate();
        fields.map(move |(place, field)| (field.name, lane >> below(place) & ((1 << field.bits) - 1)))
    }
}

#[cfg(test)]
mod tests;
