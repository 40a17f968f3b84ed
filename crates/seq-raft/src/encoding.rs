//! Encoding of stored records: one module per format version, and the readers that choose among them.
//!
//! Types of the rules are never archived themselves: renaming a field there must not change what is on disk. A format that
//! was ever released is never edited; a change of it is a new module, a new version number and a conversion.
//!
//! Writers write the newest format, readers read all of them. Commands and states are bodies of the state machine's own
//! formats.

pub(crate) mod envelope;
pub(crate) mod v4;

use bytes::Bytes;

use crate::state_machine::StateMachine;
use crate::types::{EncodedCommand, Entry, LogId, MAX_COMMAND_BYTES, Vote};
use envelope::{Kind, Opened, ReadError};

/// The format that is written.
pub(crate) use v4 as newest;

pub(crate) use v4::{Identity, Manifest, Snapshot, Watermark};

/// A command that is too large for one entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command of {bytes} bytes is larger than the {MAX_COMMAND_BYTES} an entry may hold; send it in parts")]
pub struct CommandTooLarge {
    /// Its encoded length.
    pub bytes: usize,
}

/// Encodes a command in the newest format.
///
/// # Errors
/// [`CommandTooLarge`]; the proposer bounds its batches.
pub(crate) fn write_command<M: StateMachine>(command: &M::Command) -> Result<EncodedCommand, CommandTooLarge> {
    let record = envelope::seal_body(Kind::Command, M::FORMAT, &M::encode_command(command));
    if record.len() > MAX_COMMAND_BYTES {
        return Err(CommandTooLarge { bytes: record.len() });
    }
    Ok(EncodedCommand::from_bytes(Bytes::from(record)))
}

pub(crate) fn read_command<M: StateMachine>(record: &[u8]) -> Result<M::Command, ReadError> {
    let opened = envelope::open(Kind::Command, record)?;
    opened.check_version(M::OLDEST_FORMAT..=M::FORMAT)?;
    M::decode_command(opened.version, opened.body()).map_err(|malformed| opened.malformed(malformed.0))
}

/// Reads the commands of one entry, in order.
///
/// # Errors
/// That of the first command which cannot be read; no command at all is one.
pub(crate) fn read_batch<M: StateMachine>(records: &[u8]) -> Result<Vec<M::Command>, ReadError> {
    let mut commands = Vec::new();
    let mut rest = records;
    while commands.is_empty() || !rest.is_empty() {
        // What is no whole record is refused by its reader.
        let whole = envelope::record_len(rest).and_then(|len| rest.split_at_checked(len));
        let (record, next) = whole.unwrap_or((rest, &[]));
        commands.push(read_command::<M>(record)?);
        rest = next;
    }
    Ok(commands)
}

pub(crate) fn write_entry(entry: &Entry) -> Vec<u8> {
    envelope::seal(Kind::Entry, newest::VERSION, &newest::Entry::from(entry))
}

pub(crate) fn read_entry(record: &[u8]) -> Result<Entry, ReadError> {
    let opened = open(Kind::Entry, record)?;
    opened.decode::<v4::Entry>()?.into_library().map_err(|what| opened.malformed(what))
}

pub(crate) fn write_vote(vote: &Vote) -> Vec<u8> {
    envelope::seal(Kind::Vote, newest::VERSION, &newest::Vote::from(vote))
}

pub(crate) fn read_vote(record: &[u8]) -> Result<Vote, ReadError> {
    Ok(open(Kind::Vote, record)?.decode::<v4::Vote>()?.into_library())
}

/// Writes a log id as a record of its own; the kind is its meaning.
pub(crate) fn write_log_id(kind: Kind, id: &LogId) -> Vec<u8> {
    envelope::seal(kind, newest::VERSION, &newest::LogId::from(id))
}

pub(crate) fn read_log_id(kind: Kind, record: &[u8]) -> Result<LogId, ReadError> {
    Ok(open(kind, record)?.decode::<v4::LogId>()?.into_library())
}

/// Writes one of the records that are the same in memory and on disk.
macro_rules! plain {
    ($write:ident, $read:ident, $record:ident) => {
        pub(crate) fn $write(record: &$record) -> Vec<u8> {
            envelope::seal(Kind::$record, newest::VERSION, record)
        }

        pub(crate) fn $read(record: &[u8]) -> Result<$record, ReadError> {
            open(Kind::$record, record)?.decode::<v4::$record>()
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
    opened.check_version(v4::VERSION..=newest::VERSION)?;
    Ok(opened)
}

#[cfg(test)]
mod tests;
