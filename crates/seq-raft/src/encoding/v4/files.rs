//! Records of the storage itself. Each record has the same type in memory and on disk.

use rkyv::{Archive, Deserialize, Serialize};

use super::{LogId, StoredMembership, Vote};

/// Owner of a data directory.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) node: u64,
    /// Random number, not 0, that distinguishes this directory from all other directories of the same node.
    pub(crate) nonce: [u8; 16],
}

/// Reference to the current snapshot.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Last entry that it covers; `None` for no entry.
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// File name, without a directory.
    pub(crate) file: String,
    pub(crate) length: u64,
    /// CRC32C of the whole file.
    pub(crate) crc: u32,
}

/// Bounds of the acknowledged log, vote and snapshot. At the next start, the data in the directory must reach these
/// bounds.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// Number that grows with each write. Of the two slots in the file, the intact slot with the larger generation is
    /// valid.
    pub(crate) generation: u64,
    pub(crate) vote: Option<Vote>,
    /// Last entry of the log.
    pub(crate) last: Option<LogId>,
    /// Last purged entry.
    pub(crate) purged: Option<LogId>,
    /// Last entry that the current snapshot covers.
    pub(crate) snapshot: Option<LogId>,
}

/// A snapshot: the applied state, and the entries that it covers.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Snapshot {
    /// Last entry that it covers; `None` for no entry.
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// Format of `state`, numbered by the state machine.
    pub(crate) state_format: u16,
    pub(crate) state: Vec<u8>,
}
