//! Small files of a data directory, on disk or in memory. After a power cut, each file has either all its old contents
//! or all its new contents.
//!
//! A file is written under a temporary name, synced and renamed, and then its directory is synced. So a file exists
//! with all its bytes or not at all. An interrupted write leaves a file whose name ends in `.tmp`, which a later start
//! removes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::DataDir;
use super::error::LoadError;
use super::memory::MemoryDisk;

/// Suffix of the name of a file that is not completely written.
const UNFINISHED: &str = ".tmp";

/// Directory or memory that contains a member's files.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    Dir(PathBuf),
    Memory(Arc<MemoryDisk>),
}

impl Files {
    /// Returns the access to the files in a data directory.
    pub(crate) fn of(data: &DataDir) -> Files {
        match data {
            DataDir::Path(dir) => Files::Dir(dir.clone()),
            DataDir::Memory(disk) => Files::Memory(disk.clone()),
        }
    }

    /// Reads a file. Returns `None` if the file does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>, LoadError> {
        match self {
            Files::Dir(dir) => match fs::read(dir.join(name)) {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(LoadError::Io { place: self.place(name), source }),
            },
            Files::Memory(disk) => Ok(disk.read_file(name)),
        }
    }

    /// Writes a file durably, instead of any previous file with this name. Blocks the thread for up to two syncs.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self {
            Files::Dir(dir) => {
                let unfinished = dir.join(format!("{name}{UNFINISHED}"));
                let mut file = File::create(&unfinished)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                fs::rename(&unfinished, dir.join(name))?;
                sync_dir(dir)
            }
            Files::Memory(disk) => {
                disk.write_file(name, bytes);
                Ok(())
            }
        }
    }

    /// Removes all files whose names begin with `prefix`, except the file `keep`.
    pub(crate) fn remove_others(&self, prefix: &str, keep: Option<&str>) -> io::Result<()> {
        match self {
            Files::Dir(dir) => {
                for file in fs::read_dir(dir)? {
                    let name = file?.file_name();
                    let Some(name) = name.to_str() else { continue };
                    if name.starts_with(prefix) && Some(name) != keep {
                        fs::remove_file(dir.join(name))?;
                    }
                }
                Ok(())
            }
            Files::Memory(disk) => {
                disk.retain_files(|name| !name.starts_with(prefix) || Some(name) == keep);
                Ok(())
            }
        }
    }

    /// Returns the full name of a file for error messages.
    pub(crate) fn place(&self, name: &str) -> String {
        match self {
            Files::Dir(dir) => dir.join(name).display().to_string(),
            Files::Memory(_) => format!("{name} (in memory)"),
        }
    }
}

/// Makes the creation, renaming and removal of files in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Creates a directory if it is missing, and makes its contents and its name in the parent directory durable.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    sync_dir(dir)?;
    // `/` has no parent, and a bare name has the current directory as its parent.
    match dir.canonicalize()?.parent() {
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}
