//! Errors of opening storage. Every message names the fault and its place.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::encoding::envelope::ReadError;

/// Reason why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory open.
    #[error("data directory {dir} is in use by another process")]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory belongs to another user than the process.
    #[error(
        "data directory {dir} belongs to user {owner}, and this process runs as user {user}: the owner could not read its \
         files; run it as user {owner}"
    )]
    OtherUser {
        /// The directory.
        dir: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of the user that the process runs as.
        user: u32,
    },
    /// Users other than the owner may write in the directory, and their permission cannot be removed.
    #[error(
        "data directory {dir} may be written by others than its owner (mode {mode:04o}), who could forge acknowledged data, \
         and it cannot be closed to them: {cause}; run `chmod -R go= {dir}`"
    )]
    WritableByOthers {
        /// The directory.
        dir: PathBuf,
        /// Permissions of the directory.
        mode: u32,
        /// What failed.
        cause: std::io::Error,
    },
    /// The directory belongs to another cluster.
    #[error("data directory {place} belongs to cluster {found:?}, not to {expected:?}")]
    OtherCluster {
        /// The directory.
        place: String,
        /// The cluster that it belongs to.
        found: String,
        /// The cluster of the configuration.
        expected: String,
    },
    /// The directory belongs to another node.
    #[error("data directory {place} belongs to node {found}, not to node {expected}")]
    OtherNode {
        /// The directory.
        place: String,
        /// The node that it belongs to.
        found: u64,
        /// The node of the configuration.
        expected: u64,
    },
    /// The directory holds data without an identity.
    #[error("data directory {dir} holds {found} but no identity file; it is not treated as empty")]
    NoIdentity {
        /// The directory.
        dir: PathBuf,
        /// Name of the data.
        found: String,
    },
    /// A directory to be formed has contents.
    #[error("data directory {dir} is not empty, it holds {found}: give an empty directory, or remove its contents")]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// Name of the contents.
        found: String,
    },
    /// The contents of the directory cannot be loaded.
    #[error("stored data cannot be loaded")]
    Load(#[from] LoadError),
}

impl OpenError {
    /// Returns whether a later start may succeed without a change of the data, because the disk is full or too many
    /// files are open.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, OpenError::Load(LoadError::Io { source, .. }) if may_pass(source))
    }
}

/// Returns whether the error is caused only by a full disk or by too many open files, and not by the data.
pub(super) fn may_pass(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let no_room = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    no_room || matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE))
}

/// Reason why the stored data cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or directory cannot be read or written.
    #[error("cannot use {place}")]
    Io {
        /// The file or directory.
        place: String,
        /// The cause.
        source: io::Error,
    },
    /// The database does not open, or reports damage itself.
    #[error("log database {place} cannot be read, {what}")]
    Database {
        /// Directory of the database.
        place: String,
        /// The database's report.
        what: String,
    },
    /// A record is damaged or of a newer format.
    #[error("cannot read {place}")]
    Record {
        /// File, or database and key.
        place: String,
        /// The fault of the record.
        source: ReadError,
    },
    /// A record is stored under the key of another record, or does not belong in the database.
    #[error("{place} holds {what}")]
    Misplaced {
        /// Database and key.
        place: String,
        /// Description of the record.
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
    /// The snapshot file does not match its manifest.
    #[error("snapshot {place} does not match its manifest, {what}")]
    OtherSnapshot {
        /// The file.
        place: String,
        /// The difference.
        what: String,
    },
    /// A majority of the voters contradicted the state in this directory.
    #[error(
        "the state in this data directory is not that of the majority ({place}): {what}; replace this member under a new node \
         id: `seqsvr store replace`"
    )]
    Outvoted {
        /// The file that marks it.
        place: String,
        /// The difference.
        what: String,
    },
    /// The directory holds less than was acknowledged.
    #[error("data that was acknowledged is lost: {what}; replace this member under a new node id")]
    Lost {
        /// The lost data, and the data found in its place.
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
        // sled passes errors on without their number.
        assert!(io(io::Error::new(io::ErrorKind::StorageFull, "sled")).may_pass());
        assert!(!io(Errno::ACCESS.into()).may_pass() && !io(Errno::IO.into()).may_pass());
        assert!(!OpenError::from(LoadError::Lost { what: "an entry".into() }).may_pass());
    }
}
