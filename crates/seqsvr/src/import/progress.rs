//! How far an import has come, in a file, so that one that was interrupted is resumed.
//!
//! **Invariant:** every user up to `after` is at its number or above. The file is replaced as a whole, so it is of one
//! moment.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::records::Records;
use crate::exit::{Exit, Failure};
use crate::whole_file;

/// The format of the file.
const FORMAT: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    /// SHA-256 of the records, which a resumed import has as well.
    records: String,
    /// The last user of those that are done, ascending; absent before the first.
    after: Option<u64>,
}

/// The progress of one import.
#[derive(Debug)]
pub(super) struct Progress {
    path: PathBuf,
    stored: Stored,
}

impl Progress {
    /// The progress of these records in a file; none where the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read or is not of this kind, or it is of other records.
    pub(super) fn open(path: &Path, records: &Records) -> Result<Progress, Failure> {
        let failure = |what: String| Failure::new(Exit::Usage, format!("{}: {what}", path.display()));
        let begun = Stored { format: FORMAT, records: records.digest(), after: None };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let progress = Progress { path: path.to_owned(), stored: begun };
                // A path that cannot be written fails before anything is imported.
                progress.write()?;
                return Ok(progress);
            }
            Err(error) => return Err(failure(format!("cannot be read: {error}"))),
        };
        let stored: Stored = serde_json::from_str(&text)
            .map_err(|error| failure(format!("it is not the progress of an import: {error}")))?;
        if stored.format != FORMAT {
            let what = format!("it has format {}, and this release reads {FORMAT}", stored.format);
            return Err(failure(what));
        }
        if stored.records != begun.records {
            let what = "it is the progress of other records".to_owned();
            return Err(failure(what)
                .hint("the source has changed since: remove the file to begin anew, which lowers no number"));
        }
        Ok(Progress { path: path.to_owned(), stored })
    }

    /// The last user that is done.
    pub(super) fn after(&self) -> Option<u64> {
        self.stored.after
    }

    /// All users up to this one are done.
    pub(super) fn advance(&mut self, after: u64) -> Result<(), Failure> {
        self.stored.after = Some(after);
        self.write()
    }

    fn write(&self) -> Result<(), Failure> {
        let text = serde_json::to_vec(&self.stored).expect("plain fields are JSON");
        let failure = |error| Failure::new(Exit::Usage, format!("{}: cannot be written: {error}", self.path.display()));
        whole_file::replace(&self.path, &text).map_err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::records::Draft;

    fn records(value: &str) -> Records {
        let mut draft = Draft::default();
        draft.add(1, "f:1", "42", value);
        draft.finish(|line| format!("f:{line}")).unwrap()
    }

    #[test]
    fn it_is_of_the_same_records_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let mut progress = Progress::open(&path, &records("7")).unwrap();
        assert_eq!(progress.after(), None);
        progress.advance(42).unwrap();
        assert_eq!(Progress::open(&path, &records("7")).unwrap().after(), Some(42));
        let refused = Progress::open(&path, &records("8")).unwrap_err();
        assert!(refused.to_string().ends_with("it is the progress of other records"), "{refused}");
        for (text, flaw) in
            [("{}", "is not the progress"), (r#"{"format":2,"records":"","after":null}"#, "it has format 2")]
        {
            std::fs::write(&path, text).unwrap();
            let refused = Progress::open(&path, &records("7")).unwrap_err().to_string();
            assert!(refused.contains(flaw), "{refused}");
        }
        let refused = Progress::open(&dir.path().join("no/such"), &records("7")).unwrap_err().to_string();
        assert!(refused.contains("cannot be written"), "{refused}");
    }
}
