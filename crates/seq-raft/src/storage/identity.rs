//! Identity of a data directory, and the lock with which only one process can use the directory.
//!
//! The identity of a fresh directory is written after the watermark, and only when the member opens the directory. So
//! if other members refuse the member before then, it leaves no data behind.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode};

use super::DataDir;
use super::error::{LoadError, OpenError};
use super::files::{self, Files};
use super::memory::MemoryDisk;
use super::watermark;
use crate::encoding::{self, Identity};
use crate::nonce::Nonce;

/// Name of the file that contains the identity.
const FILE: &str = "identity";
/// Name of the lock file.
const LOCK: &str = "lock";
/// Name of the log's directory.
pub(crate) const LOG_DIR: &str = "log";

/// Permission bits that allow the group and other users to write.
const OTHERS_WRITE: u32 = 0o022;
/// All permission bits of the group and of other users.
const OTHERS: u32 = 0o077;

/// Lock that this process holds on a data directory. It is released when this value is dropped.
pub(crate) enum DirLock {
    File(File),
    Memory(Arc<MemoryDisk>),
}

impl Drop for DirLock {
    fn drop(&mut self) {
        match self {
            // Closing the file is not enough, because a child process that is just being forked has the file open too.
            DirLock::File(file) => drop(rustix::fs::flock(file, FlockOperation::Unlock)),
            DirLock::Memory(disk) => disk.unlock(),
        }
    }
}

/// Locks the data directory, and creates it if it is missing. If users other than the owner may write in the directory,
/// removes all their permissions.
pub(crate) fn lock(data: &DataDir) -> Result<DirLock, OpenError> {
    match data {
        DataDir::Path(dir) => {
            let failed = |source| LoadError::Io { place: dir.display().to_string(), source };
            // Only this user may read the files of this process, because a process with a copy of the nonce could
            // impersonate this member.
            rustix::process::umask(Mode::RWXG | Mode::RWXO);
            files::create_dir(dir).map_err(failed)?;
            let metadata = fs::metadata(dir).map_err(failed)?;
            let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
            if owner != user {
                return Err(OpenError::OtherUser { dir: dir.clone(), owner, user });
            }
            let mode = metadata.permissions().mode() & 0o7777;
            if mode & OTHERS_WRITE != 0 {
                narrow(dir).map_err(|cause| OpenError::WritableByOthers { dir: dir.clone(), mode, cause })?;
                let (dir, mode) = (dir.display(), format_args!("{mode:04o}"));
                tracing::warn!(%dir, %mode, "others than its owner could write the data directory; it is closed to them");
            }
            let open = OpenOptions::new().create(true).write(true).truncate(false).open(dir.join(LOCK));
            let file = open.map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(DirLock::File(file)),
                Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse { dir: dir.clone() }),
                Err(error) => Err(failed(error.into()).into()),
            }
        }
        DataDir::Memory(disk) if disk.lock() => Ok(DirLock::Memory(disk.clone())),
        DataDir::Memory(_) => Err(OpenError::InUse { dir: "(in memory)".into() }),
    }
}

/// Removes all permissions of users other than the owner from a directory and its contents. An orchestrator may have
/// given a group access to the volume.
fn narrow(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            narrow(&entry.path())?;
        } else if kind.is_file() {
            take(&entry.path(), &entry.metadata()?)?;
        }
    }
    take(dir, &fs::metadata(dir)?)
}

fn take(path: &Path, metadata: &Metadata) -> std::io::Result<()> {
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) }
}

/// Reads the identity and checks that it has the given cluster and Raft id. If the directory is fresh, returns a new
/// identity, which is not written yet, and `true`.
pub(crate) fn read_or_draw(files: &Files, cluster: &str, node: u64) -> Result<(Identity, bool), OpenError> {
    let place = files.place(FILE);
    let Some(record) = files.read(FILE)? else {
        if let Files::Dir(dir) = files {
            refuse_data(dir)?;
        }
        return Ok((Identity { cluster: cluster.into(), node, nonce: Nonce::draw().bytes() }, true));
    };
    let identity = decode(&record, &place)?;
    if identity.cluster != cluster {
        return Err(OpenError::OtherCluster { place, found: identity.cluster, expected: cluster.into() });
    }
    if identity.node != node {
        return Err(OpenError::OtherNode { place, found: identity.node, expected: node });
    }
    Ok((identity, false))
}

/// Reads the identity of a data directory that is not fresh.
pub(crate) fn read(files: &Files) -> Result<Identity, LoadError> {
    let place = files.place(FILE);
    let Some(record) = files.read(FILE)? else {
        return Err(LoadError::Io { place, source: std::io::ErrorKind::NotFound.into() });
    };
    decode(&record, &place)
}

fn decode(record: &[u8], place: &str) -> Result<Identity, LoadError> {
    let read = encoding::read_identity(record);
    let identity = read.map_err(|source| LoadError::Record { place: place.to_owned(), source })?;
    if Nonce::from_bytes(&identity.nonce).is_none() {
        return Err(LoadError::Misplaced { place: place.to_owned(), what: "no number of the directory".into() });
    }
    Ok(identity)
}

/// Writes the watermark file and the identity of a fresh directory durably.
pub(crate) fn write(files: &Files, identity: &Identity) -> Result<(), LoadError> {
    let failed = |name| move |source| LoadError::Io { place: files.place(name), source };
    watermark::create(files).map_err(failed(watermark::FILE))?;
    put(files, identity)
}

/// Writes the file with the identity durably. The caller must have written all other files of the data directory
/// before.
pub(crate) fn put(files: &Files, identity: &Identity) -> Result<(), LoadError> {
    let written = files.write(FILE, &encoding::write_identity(identity));
    written.map_err(|source| LoadError::Io { place: files.place(FILE), source })
}

/// Returns an error if a directory without an identity contains a log or a snapshot.
fn refuse_data(dir: &Path) -> Result<(), OpenError> {
    let failed = |source| LoadError::Io { place: dir.display().to_string(), source };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name == LOG_DIR || name.starts_with("snapshot-") {
            return Err(OpenError::NoIdentity { dir: dir.into(), found: name });
        }
    }
    Ok(())
}
