//! Whole files that are there after a power cut, in a directory or in memory.
//!
//! A file is written under another name, synced, renamed, and its directory synced. So it is there with all its bytes
//! or not at all; what an interrupted write leaves behind ends in `.tmp` and is removed by the next start.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::DataDir;
use super::error::LoadError;
use super::memory::MemoryDisk;

/// Ending of a file that is not complete.
const UNFINISHED: &str = ".tmp";

/// Where a member's whole files are.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    Dir(PathBuf),
    Memory(Arc<MemoryDisk>),
}

impl Files {
    /// Those of a data directory.
    pub(crate) fn of(data: &DataDir) -> Files {
        match data {
            DataDir::Path(dir) => Files::Dir(dir.clone()),
            DataDir::Memory(disk) => Files::Memory(disk.clone()),
        }
    }

    /// Reads a file; `None` when there is none.
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

    /// Writes a whole file durably. Blocks for a sync or two.
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

    /// Removes every file with this beginning, but for one.
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

    /// Name of a file in errors.
    pub(crate) fn place(&self, name: &str) -> String {
        match self {
            Files::Dir(dir) => dir.join(name).display().to_string(),
            Files::Memory(_) => format!("{name} (in memory)"),
        }
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes a directory, with its own name in its parent, durable. It may be there already.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    sync_dir(dir)?;
    // `/` has no parent, and that of a bare name is the current directory.
    match dir.canonicalize()?.parent() {
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}
