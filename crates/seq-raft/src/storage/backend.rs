//! The seam between the log's rules and the engine that stores its records.

use std::io;

use super::error::LoadError;
use super::loaded::{Loaded, Meta};

/// Stores the records of one log. Used by one thread.
///
/// A write is durable only after [`LogBackend::sync`]. After a crash a backend may come back with any *prefix* of the
/// writes since the last sync, never with a later write and without an earlier one. An error of a write or a sync
/// leaves it in an unknown state: the caller stops the process.
pub(crate) trait LogBackend: Send {
    /// Reads everything. Refuses holes and bad records.
    fn load(&mut self) -> Result<Loaded, LoadError>;

    /// Writes the records of consecutive entries; the first of them, which has this index, follows the last one of the
    /// log.
    fn append(&mut self, first: u64, records: &[Vec<u8>]) -> io::Result<()>;

    /// Removes this entry and those behind it, the last one first.
    fn truncate_from(&mut self, index: u64) -> io::Result<()>;

    /// Removes up to `max_keys` records of entries up to `upto`, the oldest first; `true` when none is left that can
    /// go. A record that also holds later entries stays: the mark of the purge excludes the earlier ones.
    fn purge_step(&mut self, upto: u64, max_keys: usize) -> io::Result<bool>;

    /// Writes one of the single records.
    fn put_meta(&mut self, meta: Meta, record: &[u8]) -> io::Result<()>;

    /// Makes every write durable. The only durability point.
    fn sync(&mut self) -> io::Result<()>;
}
