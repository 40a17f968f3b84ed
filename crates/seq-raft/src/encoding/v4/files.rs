//! The records that are the storage's own: they are the same in memory and on disk.

use rkyv::{Archive, Deserialize, Serialize};

use super::{LogId, StoredMembership, Vote};

/// Owner of a data directory.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) node: u64,
    /// Random, not 0: distinguishes this directory from any other of the same node.
    pub(crate) nonce: [u8; 16],
}

/// Which snapshot is the current one.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The last entry it covers; `None` when it covers none.
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// Name of its file, without a directory.
    pub(crate) file: String,
    pub(crate) length: u64,
    /// CRC32C of the whole file.
    pub(crate) crc: u32,
}

/// Bounds of what was acknowledged: the log must hold at least that much at the next start.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// Grows with each write; of two intact slots the one with the larger generation counts.
    pub(crate) generation: u64,
    pub(crate) vote: Option<Vote>,
    /// The last entry of the log.
    pub(crate) last: Option<LogId>,
    /// The last entry that was purged.
    pub(crate) purged: Option<LogId>,
    /// The last entry that the current snapshot covers.
    pub(crate) snapshot: Option<LogId>,
}

/// A snapshot: the applied state, and the entries that it covers.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Snapshot {
    /// The last entry it covers; `None` when it covers none.
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// Format of `state`, a number of the state machine's own.
    pub(crate) state_format: u16,
    pub(crate) state: Vec<u8>,
}
