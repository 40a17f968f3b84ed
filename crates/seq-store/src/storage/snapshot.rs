//! Snapshots: the state's body in a file, named by a manifest in the log's database.
//!
//! The file is written and synced first, then the manifest, and then the file before it is removed. So at any moment the
//! durable manifest names a whole file. The current snapshot is also kept as bytes, to be sent to other members.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use seq_core::state::State;
use tokio::sync::Mutex;

use super::error::LoadError;
use super::files::Files;
use super::io::{Io, Op, die};
use crate::disk;
use crate::envelope::ReadError;
use crate::types::{LogId, Snapshot, SnapshotMeta, StoredMembership};

/// Beginning of the names of snapshot files.
const PREFIX: &str = "snapshot-";

/// When a snapshot is written again for which no file could be opened. The log grows meanwhile, so not much later.
const WRITE_AGAIN: Duration = Duration::from_millis(500);

/// What a snapshot holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) state: State,
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

/// Why a snapshot is refused.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Its bytes are damaged or of a newer format.
    #[error("snapshot cannot be read")]
    Record(#[from] ReadError),
    /// Its parts contradict each other.
    #[error("snapshot is malformed, {0}")]
    Malformed(&'static str),
    /// It is another one than it was said to be.
    #[error("snapshot covers {found}, not {expected} as announced")]
    Other {
        /// What its bytes say.
        found: String,
        /// What came with it.
        expected: String,
    },
}

/// Checks a received snapshot. Do it before handing one to Raft, which takes a failed installation for a broken disk.
///
/// # Errors
/// What is wrong with it.
pub fn check_snapshot(meta: &SnapshotMeta, bytes: &[u8]) -> Result<(), SnapshotError> {
    decode_announced(meta, bytes).map(drop)
}

pub(crate) fn decode_announced(meta: &SnapshotMeta, bytes: &[u8]) -> Result<Contents, SnapshotError> {
    let contents = decode(bytes)?;
    let found = contents.meta();
    if found != *meta {
        return Err(SnapshotError::Other { found: found.to_string(), expected: meta.to_string() });
    }
    Ok(contents)
}

fn decode(bytes: &[u8]) -> Result<Contents, SnapshotError> {
    let snapshot = disk::read_snapshot(bytes)?;
    Ok(Contents {
        state: snapshot.state.into_core().map_err(SnapshotError::Malformed)?,
        last_applied: snapshot.last_log_id.map(disk::newest::LogId::into_core),
        membership: snapshot.membership.into_core().map_err(SnapshotError::Malformed)?,
    })
}

impl Contents {
    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.last_applied, last_membership: self.membership.clone() }
    }

    fn encode(&self) -> Bytes {
        let snapshot = disk::Snapshot {
            last_log_id: self.last_applied.as_ref().map(Into::into),
            membership: (&self.membership).into(),
            state: (&self.state).into(),
        };
        disk::write_snapshot(&snapshot).into()
    }
}

/// The current snapshot, on disk and in memory.
pub(crate) struct Snapshots {
    files: Files,
    io: Io,
    /// Held while a snapshot is written, so that an older one never replaces a newer one.
    current: Mutex<Option<Snapshot>>,
}

impl Snapshots {
    /// Loads the snapshot that the manifest names.
    pub(crate) fn load(files: &Files, manifest: &disk::Manifest) -> Result<(Contents, Snapshot), LoadError> {
        let place = files.place(&manifest.file);
        let other = |what: String| LoadError::OtherSnapshot { place: place.clone(), what };
        let bytes = files.read(&manifest.file)?.ok_or_else(|| other("it is missing".into()))?;
        if bytes.len() as u64 != manifest.length {
            return Err(other(format!("it has {} bytes instead of {}", bytes.len(), manifest.length)));
        }
        let contents = decode(&bytes).map_err(|error| match error {
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

    /// Removes what interrupted writes left behind. Only after the current one was loaded.
    pub(crate) fn remove_leftovers(files: &Files, manifest: Option<&disk::Manifest>) -> io::Result<()> {
        files.remove_others(PREFIX, manifest.map(|manifest| manifest.file.as_str()))
    }

    pub(crate) fn new(files: Files, io: Io, current: Option<Snapshot>) -> Arc<Snapshots> {
        Arc::new(Snapshots { files, io, current: Mutex::new(current) })
    }

    pub(crate) async fn current(&self) -> Option<Snapshot> {
        self.current.lock().await.clone()
    }

    /// Encodes and keeps a snapshot; answers the current one, which may be newer.
    pub(crate) async fn build(&self, contents: Contents) -> io::Result<Snapshot> {
        let meta = contents.meta();
        let bytes = if self.io.is_threaded() {
            tokio::task::spawn_blocking(move || contents.encode()).await.map_err(io::Error::other)?
        } else {
            contents.encode()
        };
        self.keep(Snapshot { meta, snapshot: bytes }).await
    }

    /// Makes a snapshot the current one, durably. One that is not newer than the current one is dropped.
    pub(crate) async fn keep(&self, snapshot: Snapshot) -> io::Result<Snapshot> {
        let mut current = self.current.lock().await;
        if let Some(current) = &*current
            && current.meta.last_log_id >= snapshot.meta.last_log_id
        {
            return Ok(current.clone());
        }
        let file = match snapshot.meta.last_log_id {
            Some(id) => format!("{PREFIX}{}-{}-{}", id.index, id.leader_id.term, id.leader_id.node_id),
            None => format!("{PREFIX}empty"),
        };
        self.write(&file, &snapshot.snapshot).await;
        let manifest = disk::Manifest {
            last_log_id: snapshot.meta.last_log_id.as_ref().map(Into::into),
            membership: (&snapshot.meta.last_membership).into(),
            length: snapshot.snapshot.len() as u64,
            crc: crc32c::crc32c(&snapshot.snapshot),
            file: file.clone(),
        };
        self.io.durable(|done| Op::Manifest(manifest, done)).await?;
        if let Err(error) = self.files.remove_others(PREFIX, Some(&file)) {
            // Harmless: the next start removes it.
            tracing::warn!(%error, "an old snapshot file cannot be removed");
        }
        *current = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Writes a file durably, or stops the process. Where no file can be opened for the moment, nothing was written and
    /// nothing was acknowledged: it is tried again.
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
                    tracing::warn!(file = place, %error, "a snapshot cannot be written now; it is tried again");
                    tokio::time::sleep(WRITE_AGAIN).await;
                }
                Err(error) => die(&format!("writing {}", self.files.place(file)), &error),
            }
        }
    }
}

/// Whether the process or the machine had no room for one more open file, or a signal came: the disk did not fail.
fn is_transient(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::INTR))
}
