//! Interface of the engines that store the records of a log: sled, or memory.

use std::io;

use super::error::LoadError;
use super::loaded::{Loaded, Meta};

/// Storage engine for the records of one log. Only one thread uses it.
///
/// A write is durable only after [`LogBackend::sync`]. After a crash, a backend may contain any *prefix* of the writes
/// since the last sync, but never a later write without all earlier writes. If a write or a sync fails, the state of
/// the backend is unknown, and the caller stops the process.
pub(crate) trait LogBackend: Send {
    /// Reads all records. Returns an error if an entry is missing in the middle of the log or a record is damaged.
    fn load(&mut self) -> Result<Loaded, LoadError>;

    /// Writes the records of consecutive entries. `first` is the index of the first of these entries, which directly
    /// follows the last entry in the log.
    fn append(&mut self, first: u64, records: &[Vec<u8>]) -> io::Result<()>;

    /// Removes the entry at `index` and all later entries, beginning with the last entry.
    fn truncate_from(&mut self, index: u64) -> io::Result<()>;

    /// Removes at most `max_keys` records of entries up to the index `upto`, beginning with the oldest. Returns `true`
    /// when no record is left that can be removed. A record that also contains entries after `upto` is kept, and the
    /// stored purge mark excludes its entries up to `upto`.
    fn purge_step(&mut self, upto: u64, max_keys: usize) -> io::Result<bool>;

    /// Writes one of the records that are not log entries.
    fn put_meta(&mut self, meta: Meta, record: &[u8]) -> io::Result<()>;

    /// Makes all earlier writes durable. No other function makes a write durable.
    fn sync(&mut self) -> io::Result<()>;
}
