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
    /// Line of help text that describes the ids. For a timed shape, it also states how many ids a lane has in a unit of
    /// time.
    pub about: &'static str,
    /// The shape.
    pub shape: Shape,
    /// The fields that a lane's number consists of, from the highest bits to the lowest; empty for a counter.
    pub lane_fields: &'static [LaneField],
    /// Whether the caller names the lane of a request, for example the shard of a user. Otherwise the server chooses
    /// the lane.
    pub named_lanes: bool,
    /// Default limit, in milliseconds, of the time by which ids of a series may be ahead of the clock; 0 for a counter.
    /// The creator of the series can choose another limit.
    pub ahead_ms: u32,
}

/// Value of [`Preset::ahead_ms`] in all timed presets. A second is acceptable because the ids of Twitter's Snowflake,
/// too, are in the order of time only to within a second.
pub const AHEAD_MS: u32 = 1_000;

/// A field of a lane's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneField {
    /// Its name, as in `worker 26`.
    pub name: &'static str,
    /// The number of its bits.
    pub bits: u8,
}

/// All shapes that have a name, in the order in which help texts list them.
pub const PRESETS: &[Preset] = &[snowflake::PRESET, leaf::PRESET, instagram::PRESET, js53::PRESET, counter::PRESET];

/// Returns the shape with this name.
#[must_use]
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Returns the name and the value of each field of a lane's number, from the highest bits to the lowest.
    pub fn fields_of(&self, lane: u32) -> impl Iterator<Item = (&'static str, u32)> {
        let below = |place: usize| self.lane_fields[place + 1..].iter().map(|field| u32::from(field.bits)).sum::<u32>();
        let fields = self.lane_fields.iter().enumerate();
        fields.map(move |(place, field)| (field.name, lane >> below(place) & ((1 << field.bits) - 1)))
    }
}

#[cfg(test)]
mod tests;
