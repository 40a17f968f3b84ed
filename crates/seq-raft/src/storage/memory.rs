//! Disk in memory. Simulations use it, and tests compare the behaviour of the real storage with it.
//!
//! The disk distinguishes synced from unsynced writes. [`MemoryDisk::cut_power`] drops the unsynced writes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::backend::LogBackend;
use super::error::LoadError;
use super::loaded::{Loaded, Meta};

/// Name of the disk in error messages.
const PLACE: &str = "the log in memory";

/// Memory that is used like a disk. The data remains when the storage on it is closed.
#[derive(Default)]
pub struct MemoryDisk {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    in_use: bool,
    files: BTreeMap<String, Bytes>,
    synced: Records,
    /// Writes since the last sync, in their order.
    written: Vec<Write>,
}

#[derive(Default)]
struct Records {
    meta: BTreeMap<&'static str, Vec<u8>>,
    log: BTreeMap<u64, Vec<u8>>,
}

enum Write {
    Entry(u64, Vec<u8>),
    TruncateFrom(u64),
    PurgeUpto(u64),
    Meta(Meta, Vec<u8>),
}

impl MemoryDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new() -> Arc<MemoryDisk> {
        Arc::default()
    }

    /// Drops all unsynced writes, as a power cut does. The storage on the disk must be closed.
    ///
    /// # Panics
    /// When the storage on the disk is open.
    pub fn cut_power(&self) {
        let mut inner = self.inner.lock();
        assert!(!inner.in_use, "close the storage first");
        inner.written.clear();
    }

    /// Locks the disk. Returns `false` if it is already locked.
    pub(super) fn lock(&self) -> bool {
        !std::mem::replace(&mut self.inner.lock().in_use, true)
    }

    pub(super) fn unlock(&self) {
        self.inner.lock().in_use = false;
    }

    pub(super) fn read_file(&self, name: &str) -> Option<Bytes> {
        self.inner.lock().files.get(name).cloned()
    }

    pub(super) fn write_file(&self, name: &str, bytes: &[u8]) {
        self.inner.lock().files.insert(name.into(), Bytes::copy_from_slice(bytes));
    }

    pub(super) fn patch_file(&self, name: &str, offset: usize, bytes: &[u8]) {
        let mut inner = self.inner.lock();
        let mut file = inner.files.get(name).map(|file| file.to_vec()).unwrap_or_default();
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        inner.files.insert(name.into(), file.into());
    }

    pub(super) fn retain_files(&self, keep: impl Fn(&str) -> bool) {
        self.inner.lock().files.retain(|name, _| keep(name));
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryDisk")
    }
}

impl Records {
    fn write(&mut self, write: Write) {
        match write {
            Write::Entry(index, record) => drop(self.log.insert(index, record)),
            Write::TruncateFrom(index) => drop(self.log.split_off(&index)),
            Write::PurgeUpto(index) => self.log = self.log.split_off(&(index + 1)),
            Write::Meta(meta, record) => drop(self.meta.insert(meta.key(), record)),
        }
    }
}

impl Inner {
    fn sync(&mut self) {
        for write in self.written.drain(..) {
            self.synced.write(write);
        }
    }
}

/// Log backend on a [`MemoryDisk`].
pub(crate) struct MemoryBackend(pub(super) Arc<MemoryDisk>);

impl LogBackend for MemoryBackend {
    fn load(&mut self) -> Result<Loaded, LoadError> {
        let mut inner = self.0.inner.lock();
        // A restarted process finds all writes of the previous process, even if they were not synced.
        inner.sync();
        let mut loaded = Loaded::default();
        for meta in Meta::ALL {
            if let Some(record) = inner.synced.meta.get(meta.key()) {
                loaded.set(meta, record, PLACE)?;
            }
        }
        for (index, record) in &inner.synced.log {
            loaded.push(*index, record, PLACE)?;
        }
        Ok(loaded)
    }

    fn append(&mut self, first: u64, records: &[Vec<u8>]) -> io::Result<()> {
        let writes = (first..).zip(records).map(|(index, record)| Write::Entry(index, record.clone()));
        self.0.inner.lock().written.extend(writes);
        Ok(())
    }

    fn truncate_from(&mut self, index: u64) -> io::Result<()> {
        self.0.inner.lock().written.push(Write::TruncateFrom(index));
        Ok(())
    }

    fn purge_step(&mut self, upto: u64, _: usize) -> io::Result<bool> {
        self.0.inner.lock().written.push(Write::PurgeUpto(upto));
        Ok(true)
    }

    fn put_meta(&mut self, meta: Meta, record: &[u8]) -> io::Result<()> {
        self.0.inner.lock().written.push(Write::Meta(meta, record.to_vec()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.inner.lock().sync();
        Ok(())
    }
}
