//! Why storage cannot be opened. Every message says what is wrong and where it lies.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::encoding::envelope::ReadError;

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("data directory {dir} is in use by another process")]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// It belongs to another user than the process.
    #[error(
        "data directory {dir} belongs to user {owner}, and this process runs as user {user}: what it writes, the other could \
         not read; run it as user {owner}"
    )]
    OtherUser {
        /// The directory.
        dir: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of the user that the process runs as.
        user: u32,
    },
    /// Users other than its owner may write in it.
    #[error(
        "data directory {dir} may be written by others than its owner (mode {mode:04o}): they could forge acknowledged data; \
         run `chmod go-w {dir}`"
    )]
    WritableByOthers {
        /// The directory.
        dir: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to another cluster.
    #[error("data directory {place} belongs to cluster {found:?}, not to {expected:?}")]
    OtherCluster {
        /// The directory.
        place: String,
        /// The cluster it belongs to.
        found: String,
        /// The cluster of the configuration.
        expected: String,
    },
    /// It belongs to another node.
    #[error("data directory {place} belongs to node {found}, not to node {expected}")]
    OtherNode {
        /// The directory.
        place: String,
        /// The node it belongs to.
        found: u64,
        /// The node of the configuration.
        expected: u64,
    },
    /// There is data without an identity.
    #[error("data directory {dir} holds {found} but no identity file; it is not taken for an empty one")]
    NoIdentity {
        /// The directory.
        dir: PathBuf,
        /// What lies in it.
        found: String,
    },
    /// It is to be formed, and has contents.
    #[error("data directory {dir} is not empty, it holds {found}: give a new one, or remove what is in it")]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// What lies in it.
        found: String,
    },
    /// Its contents cannot be loaded.
    #[error("stored data cannot be loaded")]
    Load(#[from] LoadError),
}

impl OpenError {
    /// Whether a later start may succeed as it is: the disk is full, or too many files are open.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, OpenError::Load(LoadError::Io { source, .. }) if may_pass(source))
    }
}

/// Whether the cause of an error is a lack of room, which says nothing about the data.
pub(super) fn may_pass(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let no_room = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    no_room || matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE))
}

/// Why what is stored cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or directory cannot be read or written.
    #[error("cannot use {place}")]
    Io {
        /// The file or directory.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The database does not open, or reports damage of its own.
    #[error("log database {place} cannot be read, {what}")]
    Database {
        /// Its directory.
        place: String,
        /// Its report.
        what: String,
    },
    /// A record is damaged or of a newer format.
    #[error("cannot read {place}")]
    Record {
        /// File, or database and key.
        place: String,
        /// What is wrong with it.
        source: ReadError,
    },
    /// A record under a key that is not its own, or one that the database should not hold.
    #[error("{place} holds {what}")]
    Misplaced {
        /// Database and key.
        place: String,
        /// What lies there.
        what: String,
    },
    /// Entries are missing in the middle of the log.
    #[error("log entries {first} to {last} are missing in {place}")]
    Hole {
        /// The database.
        place: String,
        /// First missing index.
        first: u64,
        /// Last missing index.
        last: u64,
    },
    /// The snapshot file is not the one that the manifest describes.
    #[error("snapshot {place} is not the one its manifest describes, {what}")]
    OtherSnapshot {
        /// The file.
        place: String,
        /// What differs.
        what: String,
    },
    /// A majority of the voters contradicted its state.
    #[error(
        "the state in this data directory is not that of the majority ({place}): {what}; replace this member under a new node \
         id: `seqsvr store replace`"
    )]
    Outvoted {
        /// The file that marks it.
        place: String,
        /// The difference that was found.
        what: String,
    },
    /// Less is there than was acknowledged.
    #[error("data that was acknowledged is lost: {what}; replace this member under a new node id")]
    Lost {
        /// What is lost, and what was found instead.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_room_may_pass_and_damage_does_not() {
        let io = |source| OpenError::from(LoadError::Io { place: "d".into(), source });
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE] {
            assert!(io(errno.into()).may_pass(), "{errno}");
        }
        // As sled passes errors on, without their number.
        assert!(io(io::Error::new(io::ErrorKind::StorageFull, "sled")).may_pass());
        assert!(!io(Errno::ACCESS.into()).may_pass() && !io(Errno::IO.into()).may_pass());
        assert!(!OpenError::from(LoadError::Lost { what: "an entry".into() }).may_pass());
    }
}
