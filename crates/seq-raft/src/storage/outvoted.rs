//! Mark of the data directory of an outvoted member. Because of the mark, no later start uses the state in the
//! directory.

use std::io;

use super::error::LoadError;
use super::files::Files;

/// Name of the file in the data directory.
const MARK: &str = "outvoted";

/// Marks the data directory with the text of a difference.
///
/// # Errors
/// The mark cannot be written.
pub(crate) fn mark(files: &Files, difference: &str) -> io::Result<()> {
    files.write(MARK, difference.as_bytes())
}

/// Refuses a data directory that [`mark`] has marked.
///
/// # Errors
/// The directory has the mark, or the mark cannot be read.
pub(crate) fn check(files: &Files) -> Result<(), LoadError> {
    match files.read(MARK)? {
        Some(text) => {
            Err(LoadError::Outvoted { place: files.place(MARK), what: String::from_utf8_lossy(&text).into_owned() })
        }
        None => Ok(()),
    }
}
