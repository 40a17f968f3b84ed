//! Writes files that are complete as soon as they exist under their names. The content of a file is first written to a
//! temporary name, which is renamed once the whole content is on disk. Only the owner may read the files.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes `bytes` to a new file at `path`.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the file exists, or the file cannot be written. After an error, no incomplete
/// file remains.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (unfinished, dir) = unfinished(path, bytes)?;
    unfinished.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Writes `bytes` to the file at `path`, and replaces an existing file.
///
/// # Errors
/// The file cannot be written. An existing file is then unchanged, unless the error occurred after the replacement,
/// while the directory was synced to disk.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (unfinished, dir) = unfinished(path, bytes)?;
    unfinished.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

fn unfinished<'a>(path: &'a Path, bytes: &[u8]) -> io::Result<(NamedTempFile, &'a Path)> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut unfinished = NamedTempFile::new_in(dir)?;
    unfinished.write_all(bytes)?;
    unfinished.as_file().sync_all()?;
    Ok((unfinished, dir))
}
