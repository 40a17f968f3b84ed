//! A series: a name for unique ids, with the lanes that count and the shape that makes an id of a lane's number.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{RouteVersion, SetId};
use crate::layout::{Lanes, SectionRun};

/// A series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Name of the series, `1 ..= 63` characters of `[a-z0-9_.-]`.
    pub name: String,
    /// The encoded shape of its ids, at most [`MAX_SHAPE_BYTES`](crate::limits::MAX_SHAPE_BYTES) bytes. The state keeps
    /// the bytes and does not decode them.
    pub shape: Vec<u8>,
    /// The lanes.
    pub lanes: Lanes,
    /// The sections of the lanes.
    pub sections: SectionRun,
    /// Time when the series was created, in milliseconds since 1970 by the clock of the store's leader. Only shown to
    /// people.
    pub created_ms: u64,
    /// The set that created the series, in which its sections began.
    pub home: SetId,
    /// Whether the series is retired, so that it allocates no more ids.
    pub retired: bool,
    /// Version of the route table in which the series was created, adopted or retired.
    pub routed: RouteVersion,
}
