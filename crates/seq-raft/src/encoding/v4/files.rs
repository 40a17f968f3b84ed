//! Records that describe the data directory, as opposed to log entries. Each record has the same type in memory and on
//! disk.

use rkyv::{Archive, Deserialize, Serialize};

use super::{LogId, StoredMembership, Vote};

/// Identity of a data directory, which names its cluster and its member.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) node: u64,
    /// Secret random number, not 0, that distinguishes this data directory from all other directories of a member with
    /// this id.
    pub(crate) nonce: [u8; 16],
}

/// Manifest, which names and describes the file of the current snapshot.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Last log entry that the snapshot covers; `None` if it covers no entry.
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// Name of the snapshot's file, without a directory.
    pub(crate) file: String,
    pub(crate) length: u64,
    /// CRC32C of the whole snapshot file.
    pub(crate) crc: u32,
}

/// Watermark, which states how far the member has acknowledged log, vote and snapshot. If the data directory has less
/// data at the next start, the start fails.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// Number that grows with each write of the watermark. The file has two slots, and the intact slot with the greater
    /// generation is valid.
    pub(crate) generation: u64,
    pub(crate) vote: Option<Vote>,
    /// Last acknowledged entry of the log.
    pub(crate) last: Option<LogId>,
    /// Last entry that was purged from the log.
    pub(crate) purged: Option<LogId>,
    /// Last entry that the current snapshot covers.
    pub(crate) snapshot: Option<LogId>,
}

/// Snapshot of the applied state, with the last entry and the list of members that it covers.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Snapshot {
    /// Last log entry that the snapshot covers; `None` if it covers no entry.
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// Format in which the state machine encoded `state`.
    pub(crate) state_format: u16,
    pub(crate) state: Vec<u8>,
}
