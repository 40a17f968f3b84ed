//! What is written: one module per format version, and the readers that choose among them.
//!
//! Core types are never archived themselves: renaming a field there must not change what is on disk. A format that was ever
//! released is never edited; a change of it is a new module, a new version number and a conversion.
//!
//! Writers write the newest format, readers read all of them.

pub(crate) mod v2;

use seq_core::state;

use crate::envelope::{self, Kind, Opened, ReadError};
use crate::types::{Entry, LogId, Vote};

/// The format that is written.
pub(crate) use v2 as newest;

pub(crate) use v2::{Identity, Manifest, Snapshot, Watermark};

pub(crate) fn read_command(record: &[u8]) -> Result<state::Command, ReadError> {
    let opened = open(Kind::Command, record)?;
    opened.decode::<v2::Command>()?.into_core().map_err(|what| opened.malformed(what))
}

pub(crate) fn write_entry(entry: &Entry) -> Vec<u8> {
    envelope::seal(Kind::Entry, newest::VERSION, &newest::Entry::from(entry))
}

pub(crate) fn read_entry(record: &[u8]) -> Result<Entry, ReadError> {
    let opened = open(Kind::Entry, record)?;
    opened.decode::<v2::Entry>()?.into_core().map_err(|what| opened.malformed(what))
}

pub(crate) fn write_vote(vote: &Vote) -> Vec<u8> {
    envelope::seal(Kind::Vote, newest::VERSION, &newest::Vote::from(vote))
}

pub(crate) fn read_vote(record: &[u8]) -> Result<Vote, ReadError> {
    Ok(open(Kind::Vote, record)?.decode::<v2::Vote>()?.into_core())
}

/// Writes a log id as a record of its own; the kind says whose.
pub(crate) fn write_log_id(kind: Kind, id: &LogId) -> Vec<u8> {
    envelope::seal(kind, newest::VERSION, &newest::LogId::from(id))
}

pub(crate) fn read_log_id(kind: Kind, record: &[u8]) -> Result<LogId, ReadError> {
    Ok(open(kind, record)?.decode::<v2::LogId>()?.into_core())
}

/// Writes one of the records that are the same in memory and on disk.
macro_rules! plain {
    ($write:ident, $read:ident, $record:ident) => {
        pub(crate) fn $write(record: &$record) -> Vec<u8> {
            envelope::seal(Kind::$record, newest::VERSION, record)
        }

        pub(crate) fn $read(record: &[u8]) -> Result<$record, ReadError> {
            open(Kind::$record, record)?.decode::<v2::$record>()
        }
    };
}

plain!(write_identity, read_identity, Identity);
plain!(write_manifest, read_manifest, Manifest);
plain!(write_snapshot, read_snapshot, Snapshot);
plain!(write_watermark, read_watermark, Watermark);

/// Checks the frame and that the format is known.
fn open(kind: Kind, record: &[u8]) -> Result<Opened<'_>, ReadError> {
    let opened = envelope::open(kind, record)?;
    match opened.version {
        v2::VERSION => Ok(opened),
        older if older < v2::VERSION => Err(opened.older_than(v2::VERSION)),
        _ => Err(opened.newer_than(newest::VERSION)),
    }
}

#[cfg(test)]
mod tests;
