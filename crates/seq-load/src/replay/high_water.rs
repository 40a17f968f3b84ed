//! Files of high-water marks. The high-water mark of a uid is the largest number allocated for the uid. A replay saves
//! the marks in a file, and the next replay checks every reply against them, so the order is checked over the calls of
//! both replays.
//!
//! The file is CSV with the columns `uid,value`. A replay replaces the whole file when it ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use seq_core::{Seq, Uid};

const HEADER: [&str; 2] = ["uid", "value"];

/// The largest number allocated for each uid.
pub type HighWaterMarks = BTreeMap<Uid, Seq>;

/// An error in a file of high-water marks.
#[derive(Debug, thiserror::Error)]
pub enum HighWaterError {
    /// The file cannot be read.
    #[error("{}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: csv::Error,
    },
    /// A line does not consist of two whole numbers.
    #[error("{}:{line}: not a uid and a sequence number", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
    },
}

/// Reads high-water marks. Returns no marks if the file is missing.
///
/// # Errors
/// [`HighWaterError`], which names the file and the line.
pub fn load(path: &Path) -> Result<HighWaterMarks, HighWaterError> {
    let mut floors = HighWaterMarks::new();
    let fail = |source| HighWaterError::Read { file: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(floors),
        Err(error) => return Err(fail(error.into())),
    };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
    for record in reader.records() {
        let record = record.map_err(fail)?;
        let line = record.position().map_or(0, csv::Position::line);
        if line == 1 && record.iter().eq(HEADER) {
            continue;
        }
        let mut numbers = record.iter().map(|text| text.parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.next().flatten(), numbers.next()) {
            (Some(uid), Some(value), None) if value <= Seq::MAX.0 => floors.insert(Uid(uid), Seq(value)),
            _ => return Err(HighWaterError::Line { file: path.to_owned(), line }),
        };
    }
    Ok(floors)
}

/// A new file of high-water marks that replaces the file of the previous run atomically, so that a reader sees either
/// the old marks or the new marks.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    beside: PathBuf,
    file: File,
}

impl Replacement {
    /// Creates the new file in the directory of the file `path`. The file `path` does not change until
    /// [`Replacement::save`].
    ///
    /// # Errors
    /// If the directory is not writable.
    pub fn create(path: &Path) -> io::Result<Replacement> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        Ok(Replacement { path: path.to_owned(), file: File::create(&beside)?, beside })
    }

    /// Writes the marks and replaces the old file.
    ///
    /// # Errors
    /// If the disk write fails.
    pub fn save(self, floors: &HighWaterMarks) -> io::Result<()> {
        let mut file = BufWriter::new(self.file);
        writeln!(file, "{},{}", HEADER[0], HEADER[1])?;
        for (uid, value) in floors {
            writeln!(file, "{uid},{value}")?;
        }
        file.into_inner()?.sync_all()?;
        fs::rename(self.beside, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_loaded_as_they_were_saved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floors.csv");
        assert_eq!(load(&path).unwrap(), HighWaterMarks::new());
        let floors = HighWaterMarks::from([(Uid(3), Seq(7)), (Uid(u64::MAX), Seq::MAX)]);
        let replacement = Replacement::create(&path).unwrap();
        assert_eq!(load(&path).unwrap(), HighWaterMarks::new(), "nothing is replaced before it is saved");
        replacement.save(&floors).unwrap();
        assert_eq!(load(&path).unwrap(), floors);
    }

    #[test]
    fn a_bad_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("floors.csv");
        for bad in ["3", "3,x", "3,4,5", "3,9223372036854775808"] {
            fs::write(&path, format!("uid,value\n1,2\n{bad}\n")).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(error.ends_with("floors.csv:3: not a uid and a sequence number"), "{error}");
        }
    }
}
