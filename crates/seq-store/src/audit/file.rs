//! The file `audit.jsonl` in a member's data directory: the audit log as JSON lines, longer than the state keeps it.
//!
//! **Invariant:** every file is an intact chain. What an interrupted write left is removed at the start; where the log does not
//! continue the file, as after this member was away for long, the file gets another name and a new one begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seq_core::state::{AuditEvent, AuditHash};
use seq_kit::tasks::TaskGroup;

use super::lines;
use crate::replicated_set::ReplicatedSet;

/// The file that is written.
const NAME: &str = "audit.jsonl";

/// Names of files that are complete begin with this, before the index of their first event.
const COMPLETE: &str = "audit-";

/// Length from which on another file is begun: some ten thousand operations.
const MAX_BYTES: u64 = 8 << 20;

/// Most complete files that are kept: with [`MAX_BYTES`], 64 MiB of a data directory.
const MAX_FILES: usize = 8;

/// Interval at which the applied state is compared with the file. An operation is in the committed state at once.
const INTERVAL: Duration = Duration::from_millis(250);

/// Shortest time between two warnings about a disk that does not take the file, in intervals.
const WARN_INTERVALS: u32 = 240;

/// Writes the file.
pub(crate) struct AuditFile {
    dir: PathBuf,
    replicated: ReplicatedSet,
}

/// The end of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    index: u64,
    hash: AuditHash,
    /// Index of the first event; 0 for none.
    first: u64,
    bytes: u64,
}

impl AuditFile {
    pub(crate) fn new(dir: &Path, replicated: ReplicatedSet) -> AuditFile {
        AuditFile { dir: dir.to_owned(), replicated }
    }

    /// Appends events as they are applied, until the group shuts down.
    pub(crate) async fn run(self, tasks: TaskGroup) {
        let stopping = tasks.token();
        let (mut end, mut failures) = (None, 0u32);
        loop {
            let (dir, replicated) = (self.dir.clone(), self.replicated.clone());
            // Behind what is applied by now, so the events of before a shutdown are written.
            let is_last = stopping.is_cancelled();
            let due = replicated.read(|state| end.is_none_or(|end: End| end.index != state.audit.last().0));
            if due {
                let written = tokio::task::spawn_blocking(move || step(&dir, end, &replicated)).await;
                match written.map_err(io::Error::other).flatten() {
                    Ok(written) => (end, failures) = (Some(written), 0),
                    Err(error) => {
                        // Read again at the next attempt: what was written is not known.
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

/// Appends what the file lacks. Blocks while it writes.
fn step(dir: &Path, end: Option<End>, replicated: &ReplicatedSet) -> io::Result<End> {
    let mut end = match end {
        Some(end) => end,
        None => open(dir)?,
    };
    let (continues, base, events) = replicated.read(|state| {
        let (base, removed) = state.audit.base();
        let at_end = state.audit.events().find(|event| event.index == end.index).map(|event| event.hash);
        let at_end = if end.index == removed { Some(base) } else { at_end };
        let continues = at_end == Some(end.hash);
        let after = if continues { end.index } else { 0 };
        let newer = state.audit.events().filter(|event| event.index > after).cloned();
        (continues, base, newer.collect::<Vec<AuditEvent>>())
    });
    if !continues {
        if end.bytes > 0 {
            tracing::warn!(dir = %dir.display(), last = end.index, "the audit log does not continue its file: another one is begun");
        }
        rotate(dir, end)?;
        end = End { hash: base, ..End::default() };
    }
    if !events.is_empty() {
        end = append(dir, end, &events)?;
    }
    if end.bytes > MAX_BYTES {
        rotate(dir, end)?;
        end = End { first: 0, bytes: 0, ..end };
    }
    Ok(end)
}

/// Reads the end of the file, and removes what an interrupted write left. Where there is none, the last complete file goes on.
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
            // Kept for an investigation; it is not continued.
            tracing::error!(path = %path.display(), %damage, "the file of the audit log was changed: another one is begun");
            fs::rename(&path, dir.join(format!("{COMPLETE}damaged-{}.jsonl", super::wall_clock_ms())))?;
            Ok(End::default())
        }
    }
}

/// Names of the complete files, the oldest first.
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

/// Appends events durably.
fn append(dir: &Path, mut end: End, events: &[AuditEvent]) -> io::Result<End> {
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

/// Gives the file the name of a complete one, and removes the oldest of those.
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
