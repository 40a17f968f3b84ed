//! Log in sled 0.34.
//!
//! Its safety rests on these rules (docs/adr/0002):
//! * `flush()` writes, but ends in `sync_file_range`, which guarantees nothing after a power cut. So a sync is one
//!   `flush` and then one `fdatasync` of the database's file through a separate descriptor.
//! * Each value is inserted separately, because `apply_batch` takes a lock that all databases of a process share.
//! * Values stay small, and a large record is stored in parts. A page that outgrows a quarter of a segment would become
//!   a file in `blobs/`, which sled never syncs.
//! * sled panics on some damage. While the database opens, a panic becomes an error.
//! * sled writes an index of the log when it opens. If a power cut or a full disk interrupts the write, sled would take
//!   the partial index for a whole index at the next start and refuse it as damage. So a partial index is removed
//!   before sled opens. The log holds all indexed data.
//!
//! Its speed rests on **runs**. An insert takes some microseconds, mostly independent of its size. So small records of
//! consecutive entries that are written together form one value, a run, under the index of the first entry. The frame
//! of each record states the length of that record. A value holds either one part of a record or whole records.

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

/// Maximum length of a value, and so of a run, in bytes. A leaf of sled has up to 16 values, and a few more before it
/// splits. Above a quarter of a segment, which is 128 KiB, the leaf would become a blob.
const PART_BYTES: usize = 4 * 1024;
/// Size of sled's cache of pages in bytes. The log is also held decoded in memory, so pages are read only while sled
/// opens the database or moves pages.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// First byte of the keys of entries. The index and the part follow, both big-endian, so that the keys are in the order
/// of the log.
const ENTRY: u8 = b'e';
/// First byte of the keys of the single records.
const META: u8 = b'm';

/// Makes the database's file durable. Tests replace it, to count syncs and to inject failures.
pub(crate) trait Syncer: Send {
    /// Returns once the file's content and length are durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Syncer for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A database in its own directory.
pub(crate) struct SledBackend {
    db: sled::Db,
    syncer: Box<dyn Syncer>,
    dir: PathBuf,
    /// Declared after `db`, so that this field is dropped after `db`.
    _released: Released,
}

/// Guard that waits, when it is dropped, until sled has released its file. sled's threads release the file a moment
/// after the last handle on the database is dropped. Before that, the database cannot be opened again.
struct Released(File);

/// Maximum time to wait for the release. If the release takes longer, the next opening fails with an error, which does
/// not harm the data.
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
        // Unlocked explicitly, as in `DirLock`.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl SledBackend {
    /// Opens or creates the database, and makes the names of its files durable. `wrap` may replace the [`Syncer`] of
    /// the database's file.
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
                // The first part is written last and removed first, so a record without its first part does not exist.
                continue;
            }
            record.extend_from_slice(&part);
        }
        if let Some(index) = current {
            push_run(loaded, index, &record, &place)?;
        }
        Ok(())
    }

    /// Shortens the last run of the log so that the run ends before the entry `index`. This is a single write, so it
    /// happens completely or not at all.
    fn cut_run(&mut self, index: u64) -> io::Result<()> {
        let Some((key, value)) = self.db.range(entry_key(0, 0)..entry_key(index, 0)).next_back().transpose()? else {
            return Ok(());
        };
        // The value is the last part of a record in parts, which is a single entry before the given entry.
        let (first, 0) = split_key(&key).ok_or_else(stray_key)? else { return Ok(()) };
        let keep: usize = records(&value).take((index - first) as usize).map(<[u8]>::len).sum();
        if keep < value.len() {
            self.db.insert(key, &value[..keep])?;
        }
        Ok(())
    }
}

/// Adds the entries of a run, or the single entry of a record in parts.
fn push_run(loaded: &mut Loaded, first: u64, run: &[u8], place: &str) -> Result<(), LoadError> {
    let mut rest = run;
    for (index, record) in (first..).zip(records(run)) {
        loaded.push(index, record, place)?;
        rest = &rest[record.len()..];
        if rest.is_empty() {
            return Ok(());
        }
    }
    // An incomplete record is damage, and `push` reports it as such.
    loaded.push(first + records(run).count() as u64, rest, place)
}

/// Returns the whole records at the start of a value.
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
        // Parts of a record whose write or removal was interrupted must not mix with the parts of its successor.
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
        // Entries are removed backwards, so that an interruption leaves no hole. The parts of an entry are removed
        // forwards, so that an interruption leaves no partial entry.
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

/// Returns the first key after the keys of entries.
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

/// Makes the files that sled has created durable, and their names.
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

/// Removes an index that sled has written but not renamed because its opening was interrupted. Before the rename, the
/// previous index is whole, or there is no index and sled reads the log.
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

/// Runs a step of opening the database. Converts sled's errors and panics to an error that names the directory.
fn guard<T>(dir: &Path, step: impl FnOnce() -> sled::Result<T>) -> Result<T, LoadError> {
    match panic::catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(unusable(dir, error)),
        Err(payload) => Err(panicked(dir, payload.as_ref())),
    }
}

/// Converts an error of sled. Distinguishes transient errors, such as a full disk, from damaged data.
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
