//! Mark in the data directory of a member that was outvoted, which means that a majority of the voters has another
//! state. With this mark, a later start fails instead of using the state in the directory.

use std::io;

use super::error::LoadError;
use super::files::Files;

/// Name of the mark's file in the data directory.
const MARK: &str = "outvoted";

/// Marks the data directory as outvoted. `difference` describes how the members' states differ.
///
/// # Errors
/// The mark cannot be written.
pub(crate) fn mark(files: &Files, difference: &str) -> io::Result<()> {
    files.write(MARK, difference.as_bytes())
}

/// Returns an error if [`mark`] has marked the data directory.
///
/// # Errors
/// The directory has the mark, or the file of the mark cannot be read.
pub(crate) fn check(files: &Files) -> Result<(), LoadError> {
    match files.read(MARK)? {
        Some(text) => {
            Err(LoadError::Outvoted { place: files.place(MARK), what: String::from_utf8_lossy(&text).into_owned() })
        }
        None => Ok(()),
    }
}
