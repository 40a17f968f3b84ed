//! Interface between the log's rules and the engine that stores its records.

use std::io;

use super::error::LoadError;
use super::loaded::{Loaded, Meta};

/// Storage of the records of one log. A single thread uses it.
///
/// A write is durable only after [`LogBackend::sync`]. After a crash a backend may return any *prefix* of the writes
/// since the last sync, but never a later write without the earlier writes. After an error of a write or a sync, the
/// state of the backend is unknown, and the caller stops the process.
pub(crate) trait LogBackend: Send {
    /// Reads all records. Refuses holes and bad records.
    fn load(&mut self) -> Result<Loaded, LoadError>;

    /// Writes the records of consecutive entries. `first` is the index of the first entry, which follows the last entry
    /// of the log.
    fn append(&mut self, first: u64, records: &[Vec<u8>]) -> io::Result<()>;

    /// Removes this entry and all later entries, the last entry first.
    fn truncate_from(&mut self, index: u64) -> io::Result<()>;

    /// Removes at most `max_keys` records of entries up to the entry `upto`, the oldest first. Returns `true` when no
    /// removable record is left. A record that also holds later entries stays, and the purge mark excludes its earlier
    /// entries.
    fn purge_step(&mut self, upto: u64, max_keys: usize) -> io::Result<bool>;

    /// Writes one of the single records.
    fn put_meta(&mut self, meta: Meta, record: &[u8]) -> io::Result<()>;

    /// Makes every write durable. The only durability point.
    fn sync(&mut self) -> io::Result<()>;
}
