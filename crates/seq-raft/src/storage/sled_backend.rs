//! Log backend on the embedded database sled 0.34.
//!
//! It uses sled safely because of these rules (docs/adr/0002):
//! * sled's `flush()` writes the data, but ends with a `sync_file_range`, after which a power cut can still lose the
//!   data. So a sync consists of one `flush` and then one `fdatasync` of the database's file through a separate
//!   descriptor.
//! * Each value is inserted by its own call, because `apply_batch` takes a lock that all databases of a process share.
//! * Values stay small, and a large record is stored in parts. sled would move a page that outgrows a quarter of a
//!   segment to a file in `blobs/`, which it never syncs.
//! * sled panics on some kinds of damage. A panic while the database is opened is converted to an error.
//! * When sled opens a database, it writes an index of its own log. If a power cut or a full disk interrupts this, sled
//!   would take the partial index for a complete one at the next start, and report damage. So a partial index is
//!   removed before sled opens the database. No data is lost, because sled's log contains all indexed data.
//!
//! It is fast because of **runs**. An insert takes some microseconds, almost independent of the length of its value. So
//! small records of consecutive entries that are written together form one value, a run, under the index of the first
//! entry. The frame of each record states the length of the record. A value contains either one part of a large record,
//! or one or more whole records.

use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::backend::LogBackend;
use super::error::{LoadError, may_pass};
use super::files;
use super::loaded::{Loaded, Meta};
use crate::encoding::envelope;

/// Maximum length in bytes of a value, and therefore of a run. A leaf page of sled has up to 16 values, and a few more
/// before it splits. If a leaf were larger than a quarter of a segment, which is 128 KiB, sled would move it to a
/// separate file.
const PART_BYTES: usize = 4 * 1024;
/// Size in bytes of sled's page cache. A small cache suffices, because entries are read from memory, so sled's pages
/// are read only while sled opens the database or moves pages.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// First byte of the key of an entry. The index of the entry and the number of the part follow, both big-endian, so
/// that the order of the keys is the order of the log.
const ENTRY: u8 = b'e';
/// First byte of the key of a record that is not a log entry.
const META: u8 = b'm';

/// Function that makes the database's file durable. Tests replace it to count syncs and to inject failures.
pub(crate) trait Syncer: Send {
    /// Makes the content and length of the file durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Syncer for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Log backend on a sled database in its own directory.
pub(crate) struct SledBackend {
    db: sled::Db,
    syncer: Box<dyn Syncer>,
    dir: PathBuf,
    /// Declared after `db`, so that this field is dropped after `db`.
    _released: Released,
}

/// Guard whose drop waits until sled has released the lock on its file. sled's threads release it a moment after the
/// last handle on the database is dropped, and until then the database cannot be opened again.
struct Released(File);

/// Maximum time that [`Released`] waits for sled to release its file. If sled needs longer, the next attempt to open
/// the database fails with an error, but no data is lost.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

impl Drop for Released {
    #[expect(clippy::disallowed_methods, reason = "a destructor cannot wait in another way")]
    fn drop(&mut self) {
        let start = Instant::now();
        while rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive).is_err() {
            if start.elapsed() > RELEASE_TIMEOUT {
                tracing::warn!("sled still holds its file");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The file is unlocked explicitly, for the same reason as in `DirLock`.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl SledBackend {
    /// Opens the database or creates it, and makes the existence of its files durable. `wrap` may replace the
    /// [`Syncer`] of the database's file.
    pub(crate) fn open(dir: &Path, wrap: impl FnOnce(File) -> Box<dyn Syncer>) -> Result<SledBackend, LoadError> {
        let place = || dir.display().to_string();
        let failed = |source| LoadError::Io { place: place(), source };
        files::create_dir(dir).map_err(failed)?;
        remove_unfinished(dir).map_err(failed)?;
        let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
        let db = guard(dir, || config.open())?;
        sync_tree(dir).map_err(failed)?;
        let file = || File::open(dir.join("db")).map_err(failed);
        let (syncer, released) = (wrap(file()?), Released(file()?));
        Ok(SledBackend { db, syncer, dir: dir.to_owned(), _released: released })
    }

    #[cfg(test)]
    pub(crate) fn remove_first_part(&mut self, index: u64) {
        self.db.remove(entry_key(index, 0)).unwrap();
    }

    fn read_all(&self, loaded: &mut Loaded) -> Result<(), LoadError> {
        let place = self.dir.display().to_string();
        let broken = |error: sled::Error| unusable(&self.dir, error);
        for meta in Meta::ALL {
            if let Some(record) = self.db.get(meta_key(meta)).map_err(broken)? {
                loaded.set(meta, &record, &place)?;
            }
        }
        let mut record = Vec::new();
        let mut current = None;
        for item in self.db.scan_prefix([ENTRY]) {
            let (key, part) = item.map_err(broken)?;
            let Some((index, number)) = split_key(&key) else {
                return Err(LoadError::Misplaced {
                    place: format!("key {key:?} of {place}"),
                    what: "a stray record".into(),
                });
            };
            if number == 0 {
                if let Some(index) = current.replace(index) {
                    push_run(loaded, index, &record, &place)?;
                }
                record.clear();
            } else if current != Some(index) {
                // The first part is written last and removed first, so a record without its first part counts as
                // missing.
                continue;
            }
            record.extend_from_slice(&part);
        }
        if let Some(index) = current {
            push_run(loaded, index, &record, &place)?;
        }
        Ok(())
    }

    /// Shortens the last run of the log so that it ends before the entry at `index`. This is a single write, so a crash
    /// leaves either the old run or the shortened run.
    fn cut_run(&mut self, index: u64) -> io::Result<()> {
        let Some((key, value)) = self.db.range(entry_key(0, 0)..entry_key(index, 0)).next_back().transpose()? else {
            return Ok(());
        };
        // If the value is the last part of a large record, this record is a single entry before the given entry and
        // stays.
        let (first, 0) = split_key(&key).ok_or_else(stray_key)? else { return Ok(()) };
        let keep: usize = records(&value).take((index - first) as usize).map(<[u8]>::len).sum();
        if keep < value.len() {
            self.db.insert(key, &value[..keep])?;
        }
        Ok(())
    }
}

/// Decodes the entries of a run, or the single entry of a record that was stored in parts, and adds them to `loaded`.
/// `first` is the index of the first entry.
fn push_run(loaded: &mut Loaded, first: u64, run: &[u8], place: &str) -> Result<(), LoadError> {
    let mut rest = run;
    for (index, record) in (first..).zip(records(run)) {
        loaded.push(index, record, place)?;
        rest = &rest[record.len()..];
        if rest.is_empty() {
            return Ok(());
        }
    }
    // An incomplete record means damage, and `push` returns an error for it.
    loaded.push(first + records(run).count() as u64, rest, place)
}

/// Returns the complete records at the start of a value, in their order.
fn records(run: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let (record, next) = rest.split_at_checked(envelope::record_len(rest)?)?;
        rest = next;
        Some(record)
    })
}

impl LogBackend for SledBackend {
    fn load(&mut self) -> Result<Loaded, LoadError> {
        let mut loaded = Loaded::default();
        let read = panic::catch_unwind(AssertUnwindSafe(|| self.read_all(&mut loaded)));
        read.unwrap_or_else(|payload| Err(panicked(&self.dir, payload.as_ref())))?;
        // Parts that remain from a record whose write or removal was interrupted must not mix with the parts of a new
        // record at this index.
        let end = loaded.last().map_or(0, |last| last.index + 1);
        self.truncate_from(end).map_err(|source| LoadError::Io { place: self.dir.display().to_string(), source })?;
        Ok(loaded)
    }

    fn append(&mut self, first: u64, records: &[Vec<u8>]) -> io::Result<()> {
        let mut run = Vec::with_capacity(PART_BYTES);
        let mut begin = first;
        for (index, record) in (first..).zip(records) {
            if !run.is_empty() && run.len() + record.len() > PART_BYTES {
                self.db.insert(entry_key(begin, 0), run.as_slice())?;
                run.clear();
            }
            if record.len() > PART_BYTES {
                for (number, part) in record.chunks(PART_BYTES).enumerate().rev() {
                    self.db.insert(entry_key(index, number), part)?;
                }
                continue;
            }
            if run.is_empty() {
                begin = index;
            }
            run.extend_from_slice(record);
        }
        if !run.is_empty() {
            self.db.insert(entry_key(begin, 0), run)?;
        }
        Ok(())
    }

    fn truncate_from(&mut self, index: u64) -> io::Result<()> {
        // Entries are removed from the last to the first, so that an interruption leaves no missing entry between
        // others. The parts of an entry are removed from the first to the last, so that an interruption leaves no
        // partial entry.
        while let Some((key, _)) = self.db.range(entry_key(index, 0)..after_entries()).next_back().transpose()? {
            let (last, parts) = split_key(&key).ok_or_else(stray_key)?;
            for number in 0..=parts {
                self.db.remove(entry_key(last, usize::from(number)))?;
            }
        }
        self.cut_run(index)
    }

    fn purge_step(&mut self, upto: u64, max_keys: usize) -> io::Result<bool> {
        let mut stored = self.db.range(entry_key(0, 0)..entry_key(upto.saturating_add(1), 0));
        for _ in 0..max_keys {
            let Some((key, value)) = stored.next().transpose()? else { return Ok(true) };
            let (first, part) = split_key(&key).ok_or_else(stray_key)?;
            if part == 0 && first + (records(&value).count() as u64).max(1) > upto + 1 {
                return Ok(true);
            }
            self.db.remove(key)?;
        }
        Ok(false)
    }

    fn put_meta(&mut self, meta: Meta, record: &[u8]) -> io::Result<()> {
        self.db.insert(meta_key(meta), record)?;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.db.flush()?;
        self.syncer.sync()
    }
}

fn meta_key(meta: Meta) -> Vec<u8> {
    [&[META], meta.key().as_bytes()].concat()
}

fn entry_key(index: u64, part: usize) -> [u8; 11] {
    let part = u16::try_from(part).expect("a record has fewer than 65,536 parts");
    let mut key = [ENTRY; 11];
    key[1..9].copy_from_slice(&index.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

/// Returns a key that is greater than the keys of all entries.
fn after_entries() -> [u8; 11] {
    [ENTRY + 1; 11]
}

fn stray_key() -> io::Error {
    io::Error::other("a stray key in the log")
}

fn split_key(key: &[u8]) -> Option<(u64, u16)> {
    let (index, part) = key.strip_prefix(&[ENTRY])?.split_at_checked(8)?;
    Some((u64::from_be_bytes(index.try_into().ok()?), u16::from_be_bytes(part.try_into().ok()?)))
}

/// Makes the contents and the existence of all files below `dir` durable.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    files::sync_dir(dir)
}

/// Removes an index that sled has written but not yet renamed, because its opening was interrupted. In this case, the
/// previous index is still complete, or there is no index and sled reads its whole log.
fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::info!(file = %entry.path().display(), "an incomplete index is removed");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Calls `step`, which opens the database. Converts sled's errors and panics to an error that names the directory.
fn guard<T>(dir: &Path, step: impl FnOnce() -> sled::Result<T>) -> Result<T, LoadError> {
    match panic::catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(unusable(dir, error)),
        Err(payload) => Err(panicked(dir, payload.as_ref())),
    }
}

/// Converts an error of sled. A transient error, such as a full disk, becomes [`LoadError::Io`], and any other error
/// becomes [`LoadError::Database`].
fn unusable(dir: &Path, error: sled::Error) -> LoadError {
    let place = dir.display().to_string();
    match error {
        sled::Error::Io(source) if may_pass(&source) => LoadError::Io { place, source },
        error => LoadError::Database { place, what: error.to_string() },
    }
}

fn panicked(dir: &Path, payload: &(dyn std::any::Any + Send)) -> LoadError {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    LoadError::Database { place: dir.display().to_string(), what: format!("sled panicked: {text}") }
}
