//! The number of an AllocSvr process, by which its parent reports its death ([`seq_core::state::Died`]).
//!
//! A process draws its number when it starts, before its first registration. systemd is the parent of the process in a
//! unit: the process writes the number to a file in the runtime directory of the unit, and `seqsvr alloc died` reads
//! the file after systemd has reaped the process. A guard draws the number for the process that it starts.
//!
//! **Invariant:** two runs of the program never state the same number. Otherwise the report of one death would give
//! away the sections of a process that still serves.

use std::path::{Path, PathBuf};

use seq_command::exit::{Exit, Failure};
use seq_command::{environment, process, whole_file};

/// Name of the file in the runtime directory.
const FILE: &str = "process";

/// Returns the file with the number, in the runtime directory that the supervisor made; `None` if it made none.
pub(super) fn file() -> Option<PathBuf> {
    environment::runtime_directory().map(|dir| dir.join(FILE))
}

/// The number that a guard hands to the process that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guarded {
    /// Process id of the guard.
    pub(super) guard: u32,
    /// Number of the process.
    pub(super) number: u64,
}

impl Guarded {
    /// Returns the text for the variable [`environment::GUARD`].
    pub(super) fn text(self) -> String {
        format!("{} {}", self.guard, self.number)
    }

    fn parse(text: &str) -> Option<Guarded> {
        let (guard, number) = text.split_once(' ')?;
        Some(Guarded { guard: guard.parse().ok()?, number: number.parse().ok().filter(|number| *number > 0)? })
    }
}

/// Returns the number of this process, which a guard has drawn or which is drawn now. Returns 0 if the process has no
/// parent that could report its death.
///
/// # Errors
/// The guard that started this process has ended.
pub(super) fn of_this_process() -> Result<u64, Failure> {
    if let Some(text) = environment::guard() {
        let guarded = Guarded::parse(&text);
        let is_child = |guarded: &Guarded| process::end_with_parent(guarded.guard).unwrap_or(false);
        let found = guarded.filter(is_child).ok_or_else(|| {
            Failure::new(
                Exit::Failed,
                format!("{} is set, and the parent of this process is no guard", environment::GUARD),
            )
        });
        return found.map(|guarded| guarded.number);
    }
    let Some(file) = file() else { return Ok(0) };
    let number = process::draw_instance();
    match whole_file::replace(&file, number.to_string().as_bytes()) {
        Ok(()) => Ok(number),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "the death of this process cannot be reported");
            Ok(0)
        }
    }
}

/// Reads the number of a process from its file.
///
/// # Errors
/// The file is absent or has no number; the error names the path.
pub(super) fn read(file: &Path) -> Result<u64, Failure> {
    let wrong = |what: String| Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let number = text.trim_end().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| wrong("it has no number of a process".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_hands_on_what_the_process_reads() {
        let guarded = Guarded { guard: 1, number: u64::MAX };
        assert_eq!(Guarded::parse(&guarded.text()), Some(guarded));
        for wrong in ["", "1", "1 0", "1 a", "a 1", "1 1 1", "-1 1"] {
            assert_eq!(Guarded::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_file_without_a_number_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        let refused = |file: &Path| {
            let failure = read(file).unwrap_err();
            assert_eq!(failure.exit(), Exit::Usage);
            failure.to_string()
        };
        assert!(refused(&file).starts_with(&file.display().to_string()));
        for wrong in ["", "0", "a", "1 2"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(refused(&file).ends_with("it has no number of a process"), "{wrong:?}");
        }
        std::fs::write(&file, "7\n").unwrap();
        assert_eq!(read(&file).unwrap(), 7);
    }
}
