//! Defines [`Series`], the record of a series or of a keyspace in the durable state. A series is a name for unique ids.
//! Its lanes are the counters, and its shape turns the number of a lane into an id.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{RouteVersion, SetId};
use crate::layout::{Lanes, SectionRun};

/// The record of a series, or of a keyspace, in a set's durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Name of the series, `1 ..= 63` characters of `[a-z0-9_.-]`.
    pub name: String,
    /// The encoded shape of the ids, at most [`MAX_SHAPE_BYTES`](crate::limits::MAX_SHAPE_BYTES) bytes. The durable
    /// state keeps these bytes without decoding them.
    pub shape: Vec<u8>,
    /// The lanes, or the buckets of a keyspace.
    pub lanes: Lanes,
    /// The sections of the lanes.
    pub sections: SectionRun,
    /// Time when the series was created, in milliseconds since 1970 by the clock of the store's leader. It is only
    /// shown to people.
    pub created_ms: u64,
    /// The set that created the series. The sections of the lanes began in this set.
    pub home: SetId,
    /// Whether the series is retired, so that it allocates no more ids.
    pub retired: bool,
    /// Version of the set's route table that last changed this record, because the series was created, adopted from
    /// another set, or retired.
    pub routed: RouteVersion,
}

impl Series {
    /// Returns whether this is the record of a keyspace.
    #[must_use]
    pub fn is_keyspace(&self) -> bool {
        self.lanes.keys.is_some()
    }
}
