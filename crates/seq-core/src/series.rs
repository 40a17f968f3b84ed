//! A series: a name for lanes, and the shape that makes ids of their numbers.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{RouteVersion, SetId};
use crate::layout::{Lanes, SectionRun};

/// A series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Name of the series, `1 ..= 63` characters of `[a-z0-9_.-]`.
    pub name: String,
    /// The shape of its ids, at most [`MAX_SHAPE_BYTES`](crate::limits::MAX_SHAPE_BYTES). The state keeps the bytes and
    /// does not read them.
    pub shape: Vec<u8>,
    /// The lanes.
    pub lanes: Lanes,
    /// The sections of the lanes.
    pub sections: SectionRun,
    /// Milliseconds since 1970 by the leader's clock when the series was created. For people alone.
    pub created_ms: u64,
    /// The set that created the series, in which its sections began.
    pub home: SetId,
    /// Whether the series gives out no more ids.
    pub retired: bool,
    /// Version of the route table in which the series was created, adopted or retired.
    pub routed: RouteVersion,
}
