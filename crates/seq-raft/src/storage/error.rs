//! Errors of opening a data directory. Every message names the fault and the file or record that has it.

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
    /// The process runs as another user than the owner of the directory.
    #[error(
        "data directory {dir} belongs to user {owner}, and this process runs as user {user}: the owner could not read its \
         files; run it as user {owner}"
    )]
    OtherUser {
        /// The directory.
        dir: PathBuf,
        /// User id of the directory's owner.
        owner: u32,
        /// User id of the process.
        user: u32,
    },
    /// Users other than the owner may write in the directory, and the process cannot remove this permission.
    #[error(
        "data directory {dir} may be written by others than its owner (mode {mode:04o}), who could forge acknowledged data, \
         and it cannot be closed to them: {cause}; run `chmod -R go= {dir}`"
    )]
    WritableByOthers {
        /// The directory.
        dir: PathBuf,
        /// Permissions of the directory.
        mode: u32,
        /// Error with which the change of the permissions failed.
        cause: std::io::Error,
    },
    /// The directory belongs to another cluster.
    #[error("data directory {place} belongs to cluster {found:?}, not to {expected:?}")]
    OtherCluster {
        /// The directory.
        place: String,
        /// Name of the cluster to which the directory belongs.
        found: String,
        /// Name of the cluster in the configuration.
        expected: String,
    },
    /// The directory belongs to another member.
    #[error("data directory {place} belongs to node {found}, not to node {expected}")]
    OtherNode {
        /// The directory.
        place: String,
        /// Raft id of the member to which the directory belongs.
        found: u64,
        /// Raft id of the member in the configuration.
        expected: u64,
    },
    /// The directory contains a log or a snapshot, but no identity.
    #[error("data directory {dir} holds {found} but no identity file; it is not treated as empty")]
    NoIdentity {
        /// The directory.
        dir: PathBuf,
        /// Name of the file or directory with the data.
        found: String,
    },
    /// The directory in which the data of a restored member is to be created is not empty.
    #[error("data directory {dir} is not empty, it holds {found}: give an empty directory, or remove its contents")]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// Name of a file or directory in it.
        found: String,
    },
    /// The contents of the directory cannot be loaded.
    #[error("stored data cannot be loaded")]
    Load(#[from] LoadError),
}

impl OpenError {
    /// Returns whether a later start may succeed with the same data, because this start failed only because the disk is
    /// full or too many files are open.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, OpenError::Load(LoadError::Io { source, .. }) if may_pass(source))
    }
}

/// Returns whether the error is caused by a full disk or by too many open files, and not by the stored data.
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
    /// The log's database cannot be opened, or reports that it is damaged.
    #[error("log database {place} cannot be read, {what}")]
    Database {
        /// Directory of the database.
        place: String,
        /// Error text of the database.
        what: String,
    },
    /// A record is damaged, or has a newer format than this program reads.
    #[error("cannot read {place}")]
    Record {
        /// The file, or the database and the key, of the record.
        place: String,
        /// The fault of the record.
        source: ReadError,
    },
    /// A record is stored under the key of another record, or does not belong in this database.
    #[error("{place} holds {what}")]
    Misplaced {
        /// The database and the key of the record.
        place: String,
        /// Description of the record that was found.
        what: String,
    },
    /// Log entries are missing between entries that exist.
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
        /// Description of the difference.
        what: String,
    },
    /// The state in this directory was found to differ from the state of a majority of the voters.
    #[error(
        "the state in this data directory is not that of the majority ({place}): {what}; replace this member under a new node \
         id: `seqsvr store replace`"
    )]
    Outvoted {
        /// The file that marks the directory as outvoted.
        place: String,
        /// Description of the difference.
        what: String,
    },
    /// The directory contains less data than the member has acknowledged to other members.
    #[error("data that was acknowledged is lost: {what}; replace this member under a new node id")]
    Lost {
        /// Description of the lost data, and of the data found in its place.
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
