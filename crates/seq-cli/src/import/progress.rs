//! The progress of an import, which is kept in a file so that an interrupted import can be continued.
//!
//! **Invariant:** every user or series whose key is at most `after` has at least the number that its record had when
//! the file was written. The file is always replaced as a whole, so that its fields belong together. The numbers in the
//! source rise while the former system still serves. Therefore a continued import skips records only if their digest
//! shows that they are the same as when the file was written.

use std::path::{Path, PathBuf};

use seq_command::exit::{Exit, Failure};
use seq_command::whole_file;
use serde::{Deserialize, Serialize};

use super::records::{Records, RecordsDigest};

/// Version of the file's format.
const FORMAT: u32 = 2;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    /// Name of the source, without its password.
    source: String,
    /// SHA-256 of the records with keys up to `after`, in hexadecimal.
    done: String,
    /// Highest key of a finished record. Records are imported in ascending order of their keys. It is absent if no
    /// record is finished.
    after: Option<u64>,
}

/// The progress of one import.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    path: PathBuf,
    records: &'a Records,
    digest: RecordsDigest,
    stored: Stored,
    /// Whether finished records have changed in the source since the file was written. If so, the import begins with
    /// the first record again.
    moved_on: bool,
}

impl<'a> Progress<'a> {
    /// Reads the progress of an import from the file at `path`. If the file does not exist, or if finished records have
    /// changed in the source, the progress begins with the first record.
    ///
    /// # Errors
    /// The file cannot be read or written, is not a progress file, or was written for another source than `source`.
    pub(super) fn open(path: &Path, source: &str, records: &'a Records) -> Result<Progress<'a>, Failure> {
        let failure = |what: String| Failure::new(Exit::Usage, format!("{}: {what}", path.display()));
        let digest = RecordsDigest::default();
        let begun = Stored { format: FORMAT, source: source.to_owned(), done: digest.hex(), after: None };
        let mut progress = Progress { path: path.to_owned(), records, digest, stored: begun, moved_on: false };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // The file is written now, so that a path that cannot be written causes an error before anything is
                // imported.
                progress.write()?;
                return Ok(progress);
            }
            Err(error) => return Err(failure(format!("cannot be read: {error}"))),
        };
        let not_one = |error: serde_json::Error| failure(format!("it is not the progress of an import: {error}"));
        let value: serde_json::Value = serde_json::from_str(&text).map_err(not_one)?;
        if let Some(format) = value["format"].as_u64().filter(|format| *format != u64::from(FORMAT)) {
            let what = format!("it has format {format}, and this release reads {FORMAT}");
            return Err(failure(what).hint("remove the file to begin anew, which lowers no number"));
        }
        let stored: Stored = serde_json::from_value(value).map_err(not_one)?;
        if stored.source != source {
            let what = format!("it is the progress of another source, {}", stored.source);
            return Err(failure(what).hint("name another file, or remove it to begin anew, which lowers no number"));
        }
        if let Some(after) = stored.after {
            progress.digest.extend(records, records.up_to(after));
            if progress.digest.hex() == stored.done {
                progress.stored = stored;
            } else {
                (progress.digest, progress.moved_on) = (RecordsDigest::default(), true);
            }
        }
        Ok(progress)
    }

    /// Returns the key of the last finished record.
    pub(super) fn after(&self) -> Option<u64> {
        self.stored.after
    }

    /// Returns whether the import begins with the first record again because finished records have changed in the
    /// source.
    pub(super) fn moved_on(&self) -> bool {
        self.moved_on
    }

    /// Records that all records with keys up to `after` are finished.
    pub(super) fn advance(&mut self, after: u64) -> Result<(), Failure> {
        self.digest.extend(self.records, self.records.up_to(after));
        self.stored.done = self.digest.hex();
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

    fn records(values: &[(&str, &str)]) -> Records {
        let mut draft = Draft::default();
        for (uid, value) in values {
            draft.add(1, "f:1", uid, value);
        }
        draft.finish(|line| format!("f:{line}")).unwrap()
    }

    #[test]
    fn it_is_of_one_source_and_passes_over_only_what_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let first = records(&[("42", "7"), ("43", "9")]);
        let mut progress = Progress::open(&path, "redis://h:1 seq:*", &first).unwrap();
        assert_eq!(progress.after(), None);
        progress.advance(42).unwrap();
        let open = |records: &Records| {
            let progress = Progress::open(&path, "redis://h:1 seq:*", records).unwrap();
            (progress.after(), progress.moved_on())
        };
        assert_eq!(open(&first), (Some(42), false));
        assert_eq!(open(&records(&[("42", "7"), ("43", "11")])), (Some(42), false), "the rest has moved on");
        for moved in [records(&[("42", "8"), ("43", "9")]), records(&[("41", "1"), ("42", "7")])] {
            assert_eq!(open(&moved), (None, true), "what was done has moved on");
        }
        let refused = Progress::open(&path, "redis://g:1 seq:*", &first).unwrap_err().to_string();
        assert!(refused.ends_with("it is the progress of another source, redis://h:1 seq:*"), "{refused}");
        for (text, flaw) in
            [("{}", "is not the progress"), (r#"{"format":1,"records":"","after":null}"#, "it has format 1")]
        {
            std::fs::write(&path, text).unwrap();
            let refused = Progress::open(&path, "s", &first).unwrap_err().to_string();
            assert!(refused.contains(flaw), "{refused}");
        }
        let refused = Progress::open(&dir.path().join("no/such"), "s", &first).unwrap_err().to_string();
        assert!(refused.contains("cannot be written"), "{refused}");
    }
}
