//! The file `audit.jsonl` in a member's data directory. It contains the audit log as lines of JSON, and keeps events
//! for a longer time than the replicated state does.
//!
//! **Invariant:** in each file, every event contains the hash of the event before it. If a write was interrupted, the
//! next start removes the incomplete line. If the replicated state no longer has the event that follows the last event
//! in the file, for example because this member was unreachable for a long time, the file is renamed and a new file is
//! begun.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seq_core::state::{Audit, AuditEvent, AuditHash};
use seq_kit::tasks::TaskGroup;
use seq_kit::wall_clock;

use super::lines;
use crate::replicated_set::ReplicatedSet;

/// Name of the file to which events are appended.
const NAME: &str = "audit.jsonl";

/// Prefix of the names of complete files. The index of a file's first event follows it.
const COMPLETE: &str = "audit-";

/// Length in bytes above which a new file is begun. A file with this length contains some ten thousand operations.
const MAX_BYTES: u64 = 8 << 20;

/// Maximum number of complete files that are kept. With a length of [`MAX_BYTES`] each, they take 64 MiB.
const MAX_FILES: usize = 8;

/// Interval at which new events in the applied state are appended to the file. The replicated state itself contains an
/// operation as soon as it is committed.
const INTERVAL: Duration = Duration::from_millis(250);

/// Minimum time between two warnings that a write to the file has failed, as a number of [`INTERVAL`]s.
const WARN_INTERVALS: u32 = 240;

/// Task that writes the file.
pub(crate) struct AuditFile {
    dir: PathBuf,
    replicated: ReplicatedSet,
}

/// Position up to which events are written to the file: the index and the hash of the last event, and the length of the
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    index: u64,
    hash: AuditHash,
    /// Index of the first event in the file; 0 if the file has no event.
    first: u64,
    bytes: u64,
}

impl AuditFile {
    pub(crate) fn new(dir: &Path, replicated: ReplicatedSet) -> AuditFile {
        AuditFile { dir: dir.to_owned(), replicated }
    }

    /// Appends each event after it has been applied, until the group `tasks` shuts down.
    pub(crate) async fn run(self, tasks: TaskGroup) {
        let stopping = tasks.token();
        let (mut end, mut failures) = (None, 0u32);
        loop {
            let (dir, replicated) = (self.dir.clone(), self.replicated.clone());
            // Because the file may lag behind the applied state, the events before a shutdown are written before this
            // task ends.
            let is_last = stopping.is_cancelled();
            let due = replicated.read(|state| end.is_none_or(|end: End| end.index != state.audit.last().0));
            if due {
                let read = move |end| replicated.read(|state| lacks(&state.audit, end));
                let written = tokio::task::spawn_blocking(move || step(&dir, end, read)).await;
                match written.map_err(io::Error::other).flatten() {
                    Ok(written) => (end, failures) = (Some(written), 0),
                    Err(error) => {
                        // The end of the file is read again at the next attempt, because it is unknown how much the
                        // failed write has written.
                        end = None;
                        if failures % WARN_INTERVALS == 0 {
                            tracing::warn!(dir = %self.dir.display(), %error, "the audit log is not written to its file");
                        }
                        failures = failures.saturating_add(1);
                    }
                }
            }
            if is_last {
                return;
            }
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }
}

/// Events of the applied state that the file lacks.
#[derive(Debug, PartialEq, Eq)]
enum Lacks {
    /// It is unknown which events are missing, because the applied state has not reached the end of the file yet, as is
    /// possible after a start.
    Waits,
    /// The events that follow the last event in the file.
    Events(Vec<AuditEvent>),
    /// The events with which a new file begins, because the state no longer has the events that follow the end of the
    /// file, or because the state contradicts the file. The hash is the hash of the event before the first of them.
    Anew(AuditHash, Vec<AuditEvent>),
}

fn lacks(audit: &Audit, end: End) -> Lacks {
    let ((base, removed), (last, _)) = (audit.base(), audit.last());
    if end.index > last {
        return Lacks::Waits;
    }
    let after = |index| audit.events().filter(move |event| event.index > index).cloned().collect();
    let at_end = audit.events().find(|event| event.index == end.index).map(|event| event.hash);
    let continues = if end.index == removed { base == end.hash } else { at_end == Some(end.hash) };
    if continues { Lacks::Events(after(end.index)) } else { Lacks::Anew(base, after(0)) }
}

/// Appends the events that the file lacks, as `read` returns them for the end of the file. Returns the new end. Blocks
/// the thread while it writes.
fn step(dir: &Path, end: Option<End>, read: impl FnOnce(End) -> Lacks) -> io::Result<End> {
    let end = match end {
        Some(end) => end,
        None => open(dir)?,
    };
    let mut end = match read(end) {
        Lacks::Waits => end,
        Lacks::Events(events) => append(dir, end, &events)?,
        Lacks::Anew(base, events) => {
            if end.index > 0 {
                tracing::warn!(dir = %dir.display(), last = end.index, "the audit log does not continue its file: a new file is begun");
            }
            rotate(dir, end)?;
            append(dir, End { hash: base, ..End::default() }, &events)?
        }
    };
    if end.bytes > MAX_BYTES {
        rotate(dir, end)?;
        (end.first, end.bytes) = (0, 0);
    }
    Ok(end)
}

/// Returns the end of the file, after removing the incomplete line of an interrupted write. If there is no file,
/// returns the end of the newest complete file.
fn open(dir: &Path) -> io::Result<End> {
    let path = dir.join(NAME);
    let mut file = match fs::read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let whole = file.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < file.len() {
        file.truncate(whole);
        let open = OpenOptions::new().write(true).open(&path)?;
        open.set_len(whole as u64)?;
        open.sync_all()?;
    }
    if file.is_empty() {
        let last = complete(dir)?.pop().map(|name| fs::read(dir.join(name))).transpose()?;
        let last = last.and_then(|file| lines::verify(&file).ok()).and_then(|verified| verified.events.last().cloned());
        return Ok(last.map_or_else(End::default, |last| End { index: last.index, hash: last.hash, ..End::default() }));
    }
    match lines::verify(&file) {
        Ok(verified) => {
            let (first, last) = (&verified.events[0], verified.events.last().expect("at least one"));
            Ok(End { index: last.index, hash: last.hash, first: first.index, bytes: file.len() as u64 })
        }
        Err(damage) => {
            // The damaged file is kept for an investigation, but no more events are appended to it.
            tracing::error!(path = %path.display(), %damage, "the file of the audit log was changed: a new file is begun");
            fs::rename(&path, dir.join(format!("{COMPLETE}damaged-{}.jsonl", wall_clock::now_ms())))?;
            Ok(End::default())
        }
    }
}

/// Returns the names of the complete files, beginning with the oldest.
fn complete(dir: &Path) -> io::Result<Vec<String>> {
    let mut complete = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let digits = name.strip_prefix(COMPLETE).and_then(|name| name.strip_suffix(".jsonl"));
        if digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            complete.push(name);
        }
    }
    complete.sort_unstable();
    Ok(complete)
}

/// Appends events to the file durably. Returns the new end of the file.
fn append(dir: &Path, mut end: End, events: &[AuditEvent]) -> io::Result<End> {
    if events.is_empty() {
        return Ok(end);
    }
    let mut text = String::new();
    for event in events {
        text.push_str(&lines::line(event, end.hash));
        text.push('\n');
        (end.index, end.hash) = (event.index, event.hash);
    }
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join(NAME))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    if end.bytes == 0 {
        File::open(dir)?.sync_all()?;
    }
    end.first = if end.first == 0 { events[0].index } else { end.first };
    end.bytes += text.len() as u64;
    Ok(end)
}

/// Gives the file the name of a complete file, so that a new file is begun. Removes the oldest complete files above
/// [`MAX_FILES`].
fn rotate(dir: &Path, end: End) -> io::Result<()> {
    if end.bytes == 0 {
        return Ok(());
    }
    fs::rename(dir.join(NAME), dir.join(format!("{COMPLETE}{:020}.jsonl", end.first)))?;
    let complete = complete(dir)?;
    let old = complete.len().saturating_sub(MAX_FILES);
    complete[..old].iter().try_for_each(|name| fs::remove_file(dir.join(name)))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use seq_core::state::{BeginOperation, Command, State};

    use super::*;

    /// Returns the log after this number of begun operations.
    fn log(events: u64) -> Audit {
        let mut state = State::default();
        for number in 1..=events {
            let [principal, node, operation] =
                ["operator/a".to_owned(), "s1".to_owned(), format!("node drain a{number}")];
            let begin = BeginOperation { at_unix_ms: number, principal, node, operation, plan: 0 };
            drop(state.apply(&Command::BeginOperation(begin)));
        }
        state.audit
    }

    /// Writes as a process that has just started.
    fn write(dir: &Path, audit: &Audit) -> End {
        step(dir, None, |end| lacks(audit, end)).unwrap()
    }

    fn verified(dir: &Path, name: &str) -> Vec<u64> {
        let file = fs::read(dir.join(name)).unwrap();
        lines::verify(&file).unwrap().events.iter().map(|event| event.index).collect()
    }

    #[test]
    fn events_are_appended_once_over_restarts_and_torn_writes() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &log(3));
        assert_eq!(verified(dir, NAME), [1, 2, 3]);
        // The state is loaded from a snapshot, and has not applied the rest of the log again.
        let whole = fs::read(dir.join(NAME)).unwrap();
        assert_eq!(write(dir, &log(1)).index, 3);
        assert_eq!(fs::read(dir.join(NAME)).unwrap(), whole);
        // Power is lost during the write of the fourth event.
        write(dir, &log(4));
        let longer = fs::read(dir.join(NAME)).unwrap();
        for length in whole.len()..longer.len() {
            fs::write(dir.join(NAME), &longer[..length]).unwrap();
            write(dir, &log(4));
            assert_eq!(fs::read(dir.join(NAME)).unwrap(), longer, "{length} bytes");
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "no other file is begun");
    }

    #[test]
    fn a_member_that_was_away_for_too_long_begins_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &log(3));
        let kept = seq_core::limits::MAX_AUDIT_EVENTS as u64;
        let end = write(dir, &log(kept + 10));
        assert_eq!(verified(dir, "audit-00000000000000000001.jsonl"), [1, 2, 3]);
        assert_eq!(verified(dir, NAME), (11..=kept + 10).collect::<Vec<_>>());
        // After a rotation for its length, the file begins where the complete file ended.
        rotate(dir, end).unwrap();
        write(dir, &log(kept + 12));
        assert_eq!(verified(dir, NAME), [kept + 11, kept + 12]);
    }

    #[test]
    fn a_changed_file_is_kept_and_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &log(3));
        let mut changed = fs::read(dir.join(NAME)).unwrap();
        changed[20] ^= 1;
        fs::write(dir.join(NAME), &changed).unwrap();
        write(dir, &log(4));
        assert_eq!(verified(dir, NAME), [1, 2, 3, 4]);
        let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let damaged = names.into_iter().find(|name| name.starts_with("audit-damaged-")).unwrap();
        assert_eq!(fs::read(dir.join(damaged)).unwrap(), changed);
    }

    #[test]
    fn the_oldest_complete_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for events in 1..=MAX_FILES as u64 + 3 {
            let end = write(dir, &log(events));
            rotate(dir, end).unwrap();
        }
        let complete = complete(dir).unwrap();
        assert_eq!((complete.len(), &*complete[0]), (MAX_FILES, "audit-00000000000000000004.jsonl"));
    }
}
