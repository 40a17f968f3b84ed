//! Snapshots of the applied state. A snapshot is a file with the encoded state. A manifest in the log's database names
//! the file of the current snapshot.
//!
//! For a new snapshot, its file is written and synced first, then the manifest is replaced, and then the old file is
//! removed. So the durable manifest names a complete file at any moment. The current snapshot is also held in memory,
//! from where it is sent to other members.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::abort::abort_on_io_error;
use super::error::LoadError;
use super::files::Files;
use super::io::{Io, Op};
use crate::comparison::StateDigest;
use crate::encoding::envelope::ReadError;
use crate::encoding::{self, newest};
use crate::state_machine::{Malformed, StateMachine};
use crate::types::{LogId, Snapshot, SnapshotMeta, StoredMembership};

/// Function that encodes a copy of the state as a snapshot, without holding the lock on the state.
pub(crate) type Frozen = Box<dyn FnOnce() -> Snapshot + Send + Sync>;

/// Prefix of the names of snapshot files.
const PREFIX: &str = "snapshot-";

/// Pause before the write of a snapshot is retried because its file could not be opened. The pause is short, because
/// the log grows until the snapshot is written.
const WRITE_RETRY: Duration = Duration::from_millis(500);

/// Decoded contents of a snapshot, which are also the applied state in memory.
#[derive(Clone, Debug)]
pub(crate) struct Contents<M> {
    pub(crate) state: M,
    /// The group's format, in which commands and states are written. It never decreases. The state in an encoded
    /// snapshot has this format.
    pub(crate) format: u16,
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

/// Reason why a snapshot is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// The snapshot's record is damaged, or has a newer format than this program reads.
    #[error("snapshot cannot be read")]
    Record(#[from] ReadError),
    /// The state in the snapshot has a format that this program does not read.
    #[error("snapshot has a state of format version {found}, and this program reads {oldest} to {newest}")]
    StateFormat {
        /// Format of the state.
        found: u16,
        /// Oldest format that this program reads.
        oldest: u16,
        /// Newest format that this program reads.
        newest: u16,
    },
    /// The state or the list of members in the snapshot is malformed.
    #[error("snapshot is malformed, {0}")]
    Malformed(String),
    /// The snapshot covers other entries or another list of members than its sender announced.
    #[error("snapshot covers {found}, not {expected} as announced")]
    Other {
        /// Description of the entries that the snapshot covers.
        found: String,
        /// Description of the entries that the sender announced.
        expected: String,
    },
}

impl From<Malformed> for SnapshotError {
    fn from(Malformed(what): Malformed) -> SnapshotError {
        SnapshotError::Malformed(what)
    }
}

/// Decodes a received snapshot and checks that it matches its description `meta`. The caller must do this before it
/// passes the snapshot to the Raft library, because the library takes a failed installation for a broken disk.
pub(crate) fn decode_announced<M: StateMachine>(
    meta: &SnapshotMeta,
    bytes: &[u8],
) -> Result<Contents<M>, SnapshotError> {
    let contents = decode(bytes)?;
    let found = contents.meta();
    if found != *meta {
        return Err(SnapshotError::Other { found: found.to_string(), expected: meta.to_string() });
    }
    Ok(contents)
}

fn decode<M: StateMachine>(bytes: &[u8]) -> Result<Contents<M>, SnapshotError> {
    let snapshot = encoding::read_snapshot(bytes)?;
    let found = snapshot.state_format;
    if !(M::OLDEST_FORMAT..=M::FORMAT).contains(&found) {
        return Err(SnapshotError::StateFormat { found, oldest: M::OLDEST_FORMAT, newest: M::FORMAT });
    }
    Ok(Contents {
        state: M::decode(found, &snapshot.state)?,
        format: found,
        last_applied: snapshot.last_log_id.map(newest::LogId::into_library),
        membership: snapshot.membership.into_library().map_err(Malformed::from)?,
    })
}

impl<M> Contents<M> {
    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.last_applied, last_membership: self.membership.clone() }
    }
}

impl<M: StateMachine> Contents<M> {
    /// Returns the contents with which a member without a snapshot begins.
    pub(crate) fn empty() -> Contents<M> {
        Contents {
            state: M::default(),
            format: M::FIRST_FORMAT,
            last_applied: None,
            membership: StoredMembership::default(),
        }
    }

    /// Returns the digest of the contents that all members must have in common after the last applied entry. The list
    /// of members is not included. The Raft library itself keeps this list equal on all members, and its encoding
    /// depends on each member's release and not on the group's format.
    ///
    /// # Panics
    /// When no entry has been applied.
    pub(crate) fn digest(&self) -> StateDigest {
        let LogId { leader_id, index } = self.last_applied.expect("an entry marks the state behind itself");
        let mut digest = Sha256::new();
        digest.update(self.format.to_be_bytes());
        for number in [leader_id.term, leader_id.node_id, index] {
            digest.update(number.to_be_bytes());
        }
        digest.update(self.state.encode(self.format));
        StateDigest { index, sha256: digest.finalize().into() }
    }

    /// Encodes these contents as a snapshot.
    pub(crate) fn encode(&self) -> Snapshot {
        let snapshot = encoding::Snapshot {
            last_log_id: self.last_applied.as_ref().map(Into::into),
            membership: (&self.membership).into(),
            state_format: self.format,
            state: self.state.encode(self.format),
        };
        Snapshot { meta: self.meta(), snapshot: encoding::write_snapshot(&snapshot).into() }
    }
}

/// Returns the name of the file for a snapshot that covers the log up to the entry `end`.
pub(crate) fn file_name(end: Option<&LogId>) -> String {
    match end {
        Some(id) => format!("{PREFIX}{}-{}-{}", id.index, id.leader_id.term, id.leader_id.node_id),
        None => format!("{PREFIX}empty"),
    }
}

/// Returns the manifest of a snapshot that is stored in `file`.
pub(crate) fn manifest(snapshot: &Snapshot, file: String) -> encoding::Manifest {
    encoding::Manifest {
        last_log_id: snapshot.meta.last_log_id.as_ref().map(Into::into),
        membership: (&snapshot.meta.last_membership).into(),
        length: snapshot.snapshot.len() as u64,
        crc: crc32c::crc32c(&snapshot.snapshot),
        file,
    }
}

/// Keeper of the current snapshot on disk and in memory.
pub(crate) struct Snapshots {
    files: Files,
    io: Io,
    /// The current snapshot. It is locked while a new snapshot is written, so that an older snapshot never replaces a
    /// newer snapshot.
    current: Mutex<Option<Snapshot>>,
}

impl Snapshots {
    /// Loads the snapshot whose file the manifest names, and checks the file against the manifest.
    pub(crate) fn load<M: StateMachine>(
        files: &Files,
        manifest: &encoding::Manifest,
    ) -> Result<(Contents<M>, Snapshot), LoadError> {
        let place = files.place(&manifest.file);
        let other = |what: String| LoadError::OtherSnapshot { place: place.clone(), what };
        let bytes = files.read(&manifest.file)?.ok_or_else(|| other("it is missing".into()))?;
        if bytes.len() as u64 != manifest.length {
            return Err(other(format!("it has {} bytes instead of {}", bytes.len(), manifest.length)));
        }
        let contents: Contents<M> = decode(&bytes).map_err(|error| match error {
            SnapshotError::Record(source) => LoadError::Record { place: place.clone(), source },
            error => other(error.to_string()),
        })?;
        let crc = crc32c::crc32c(&bytes);
        if crc != manifest.crc {
            return Err(other(format!("its checksum is {crc:#010x} instead of {:#010x}", manifest.crc)));
        }
        let covers = (contents.last_applied.as_ref().map(Into::into), (&contents.membership).into());
        if covers != (manifest.last_log_id, manifest.membership.clone()) {
            return Err(other(format!("it covers {}", contents.meta())));
        }
        let meta = contents.meta();
        Ok((contents, Snapshot { meta, snapshot: bytes }))
    }

    /// Removes the snapshot files that remain from interrupted writes, which are all files except the file that the
    /// manifest names. Called only after the current snapshot was loaded.
    pub(crate) fn remove_leftovers(files: &Files, manifest: Option<&encoding::Manifest>) -> io::Result<()> {
        files.remove_others(PREFIX, manifest.map(|manifest| manifest.file.as_str()))
    }

    pub(crate) fn new(files: Files, io: Io, current: Option<Snapshot>) -> Arc<Snapshots> {
        Arc::new(Snapshots { files, io, current: Mutex::new(current) })
    }

    pub(crate) async fn current(&self) -> Option<Snapshot> {
        self.current.lock().await.clone()
    }

    /// Encodes a snapshot with `frozen`, and passes it to [`Snapshots::keep`]. Returns the current snapshot, which may
    /// be newer than the encoded one.
    pub(crate) async fn build(&self, frozen: Frozen) -> io::Result<Snapshot> {
        let snapshot = if self.io.is_threaded() {
            tokio::task::spawn_blocking(frozen).await.map_err(io::Error::other)?
        } else {
            frozen()
        };
        self.keep(snapshot).await
    }

    /// Makes `snapshot` the current snapshot durably, unless the current snapshot covers at least as many entries.
    /// Returns the current snapshot.
    pub(crate) async fn keep(&self, snapshot: Snapshot) -> io::Result<Snapshot> {
        let mut current = self.current.lock().await;
        if let Some(current) = &*current
            && current.meta.last_log_id >= snapshot.meta.last_log_id
        {
            return Ok(current.clone());
        }
        let file = file_name(snapshot.meta.last_log_id.as_ref());
        self.write(&file, &snapshot.snapshot).await;
        let manifest = manifest(&snapshot, file.clone());
        self.io.durable(|done| Op::Manifest(manifest, done)).await?;
        if let Err(error) = self.files.remove_others(PREFIX, Some(&file)) {
            // This is harmless, because the next start removes the file.
            tracing::warn!(%error, "an old snapshot file cannot be removed");
        }
        *current = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Writes a file durably, or stops the process if this fails. If the file cannot be opened at the moment, retries
    /// the write, because then no data was written or acknowledged.
    async fn write(&self, file: &str, bytes: &Bytes) {
        loop {
            let (files, name, bytes) = (self.files.clone(), file.to_owned(), bytes.clone());
            let write = move || files.write(&name, &bytes);
            let written = if self.io.is_threaded() {
                tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(io::Error::other(error)))
            } else {
                write()
            };
            match written {
                Ok(()) => return,
                Err(error) if is_transient(&error) => {
                    let place = self.files.place(file);
                    tracing::warn!(file = place, %error, "a snapshot cannot be written now; the write is retried");
                    tokio::time::sleep(WRITE_RETRY).await;
                }
                Err(error) => abort_on_io_error(&format!("writing {}", self.files.place(file)), &error),
            }
        }
    }
}

/// Returns whether too many open files or a signal caused the error, so that the disk is not at fault.
fn is_transient(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::INTR))
}
