//! A plain counter, as in a PostgreSQL sequence, in the segment mode of Leaf and in Flickr's ticket servers.

use super::Preset;
use crate::id::Id;
use crate::shape::{CounterShape, Shape};

pub(super) const PRESET: Preset = Preset {
    name: "counter",
    about: "1, 2, 3, ..., as a PostgreSQL sequence or Leaf in its segment mode",
    shape: Shape::Counter(CounterShape { offset: 1, increment: 1, max_id: Id::MAX }),
    lane_fields: &[],
    named_lanes: false,
    ahead_ms: 0,
};
