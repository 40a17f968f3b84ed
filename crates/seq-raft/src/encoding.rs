//! Encoding of stored records. Each version of the format has its own module. The version in a record decides which
//! module reads the record.
//!
//! The types that the program uses in memory are never encoded directly, because renaming one of their fields must not
//! change the bytes on disk. A released version of the format is never edited. A change of the format needs a new
//! module, a new version number and a conversion from the previous version.
//!
//! The log's own records, such as entries and votes, are written in the newest version and read in every version.
//! Commands and states inside these records have formats of the state machine. They are written in the group's format,
//! which every member reads. A [`Record::RaiseFormat`] raises the group's format once all members can read a newer
//! format.

pub(crate) mod envelope;
pub(crate) mod v4;

use bytes::Bytes;

use crate::state_machine::StateMachine;
use crate::types::{EncodedCommand, Entry, LogId, MAX_COMMAND_BYTES, Vote};
use envelope::{Kind, Opened, ReadError};

/// Version of the format in which new records are written.
pub(crate) use v4 as newest;

pub(crate) use v4::{Identity, Manifest, Snapshot, Watermark};

/// Error of a command that is too large for one log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command of {bytes} bytes is larger than the {MAX_COMMAND_BYTES} an entry may hold; send it in parts")]
pub struct CommandTooLarge {
    /// Length of the encoded command in bytes, with its frame.
    pub bytes: usize,
}

/// One decoded record of a log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<C> {
    /// Command that changes the state.
    Command {
        /// Format in which the command was encoded.
        format: u16,
        /// The command.
        command: C,
    },
    /// Record that raises the format of the group's commands and states from this entry on. It also marks its entry,
    /// and the members compare their states after each marked entry. If the group already has the format, the record
    /// only marks the entry. The encoded record is a frame of a command in the new format with an empty body. So a
    /// member that does not read the new format refuses the record because of its version.
    RaiseFormat(u16),
}

/// Encodes a command in the group's format `format`.
///
/// # Errors
/// [`CommandTooLarge`] if the encoded command does not fit into a log entry.
pub(crate) fn write_command<M: StateMachine>(
    format: u16,
    command: &M::Command,
) -> Result<EncodedCommand, CommandTooLarge> {
    let record = envelope::seal_body(Kind::Command, format, &M::encode_command(format, command));
    if record.len() > MAX_COMMAND_BYTES {
        return Err(CommandTooLarge { bytes: record.len() });
    }
    Ok(EncodedCommand::from_bytes(Bytes::from(record)))
}

/// Encodes a [`Record::RaiseFormat`] with the new format `to`.
pub(crate) fn write_raise(to: u16) -> EncodedCommand {
    EncodedCommand::from_bytes(Bytes::from(envelope::seal_body(Kind::Command, to, &[])))
}

pub(crate) fn read_record<M: StateMachine>(record: &[u8]) -> Result<Record<M::Command>, ReadError> {
    let opened = envelope::open(Kind::Command, record)?;
    opened.check_version(M::OLDEST_FORMAT..=M::FORMAT)?;
    if opened.body().is_empty() {
        return Ok(Record::RaiseFormat(opened.version));
    }
    let command = M::decode_command(opened.version, opened.body());
    let format = opened.version;
    command.map(|command| Record::Command { format, command }).map_err(|malformed| opened.malformed(malformed.0))
}

/// Decodes the records of one log entry, in their order.
///
/// # Errors
/// The error of the first unreadable record. An entry without bytes counts as one unreadable record.
pub(crate) fn read_batch<M: StateMachine>(records: &[u8]) -> Result<Vec<Record<M::Command>>, ReadError> {
    split(records).map(read_record::<M>).collect()
}

/// Splits the payload of a log entry into its records. If the last record is incomplete, its bytes are the last item,
/// and decoding that item fails.
fn split(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(records);
    std::iter::from_fn(move || {
        let records = rest.take()?;
        let whole = envelope::record_len(records).and_then(|len| records.split_at_checked(len));
        let (record, next) = whole.unwrap_or((records, &[]));
        rest = (!next.is_empty()).then_some(next);
        Some(record)
    })
}

/// Checks that this program's state machine can read the format of each command in a log entry.
///
/// # Errors
/// The error of the first command whose format the state machine cannot read.
pub(crate) fn check_formats<M: StateMachine>(records: &[u8]) -> Result<(), ReadError> {
    split(records)
        .try_for_each(|record| envelope::open(Kind::Command, record)?.check_version(M::OLDEST_FORMAT..=M::FORMAT))
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

/// Encodes a log id as a record of its own. `kind` states the meaning of the log id, such as the last purged entry.
pub(crate) fn write_log_id(kind: Kind, id: &LogId) -> Vec<u8> {
    envelope::seal(kind, newest::VERSION, &newest::LogId::from(id))
}

pub(crate) fn read_log_id(kind: Kind, record: &[u8]) -> Result<LogId, ReadError> {
    Ok(open(kind, record)?.decode::<v4::LogId>()?.into_library())
}

/// Defines the encoder and the decoder of a record whose type is the same in memory and on disk.
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

/// Checks the frame of a record, and that this program knows the version in it.
fn open(kind: Kind, record: &[u8]) -> Result<Opened<'_>, ReadError> {
    let opened = envelope::open(kind, record)?;
    opened.check_version(v4::VERSION..=newest::VERSION)?;
    Ok(opened)
}

#[cfg(test)]
mod tests;
