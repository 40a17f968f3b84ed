//! The frame around every stored record. It contains the record's kind, format version and length, and a checksum of
//! the whole record.
//!
//! ```text
//! 0..4 magic   4..6 kind   6..8 format version   8..12 body length   12..16 CRC32C of the rest   16.. body
//! ```
//!
//! Numbers are little-endian. The body of a command has the state machine's encoding, and every other body is an rkyv
//! archive. The checksum and the kind are needed although rkyv validates archives, because its validation accepts most
//! flipped bits and also accepts the archive of another type with the same layout.
//!
//! The frame itself has no version, because a changed frame would get another magic number. The checksum is checked
//! before the kind and the version, so that a flipped bit is always reported as damage and never as a newer format.

use std::fmt;
use std::ops::RangeInclusive;

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

const MAGIC: [u8; 4] = *b"SQSR";
/// Length in bytes of the frame in front of the body.
pub(crate) const HEADER_BYTES: usize = 16;
/// Position of the checksum in the record. The checksum covers all other bytes of the record.
const CRC_AT: usize = 12;

/// Kind of a record. The number of each kind is stored on disk, so it is never reused for another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A command as its proposer encoded it. A log entry contains one or more of these records.
    Command = 1,
    /// A log entry.
    Entry = 2,
    /// The newest leader or candidate that the member accepts.
    Vote = 3,
    /// The last entry known to be committed.
    Committed = 4,
    /// The last entry purged from the log.
    Purged = 5,
    /// The manifest, which names the file of the current snapshot.
    Manifest = 6,
    /// A snapshot of the state.
    Snapshot = 7,
    /// Identity of a data directory.
    Identity = 8,
    /// The watermark, which states how far log, vote and snapshot are acknowledged.
    Watermark = 9,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Command => "command",
            Kind::Entry => "log entry",
            Kind::Vote => "vote",
            Kind::Committed => "committed log id",
            Kind::Purged => "purged log id",
            Kind::Manifest => "snapshot manifest",
            Kind::Snapshot => "snapshot",
            Kind::Identity => "identity",
            Kind::Watermark => "acknowledged watermark",
        })
    }
}

/// Error of a record that cannot be read, with the expected kind and the fault. The code that read the record's bytes
/// adds the file or database where the record is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} record of {len} bytes: {fault}")]
pub struct ReadError {
    /// Kind that the record should have.
    pub kind: Kind,
    /// Number of bytes found.
    pub len: usize,
    /// Fault of the record.
    pub fault: Fault,
}

/// Fault because of which a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The record is shorter than a frame, or shorter than the length in its frame.
    #[error("truncated, it should have {expected} bytes")]
    Truncated {
        /// Minimum length that the record should have. It is the length stated in the frame, or the length of a frame
        /// if the record is shorter than a frame.
        expected: usize,
    },
    /// The record is longer than the length in its frame.
    #[error("has bytes after its end at {expected}")]
    Overlong {
        /// Length that the record should have, from its frame.
        expected: usize,
    },
    /// The first bytes are not the magic number.
    #[error("damaged at byte 0, this is no record of seqsvr")]
    NoMagic,
    /// The checksum does not match.
    #[error("damaged, its checksum is {found:#010x} and should be {stored:#010x}")]
    Checksum {
        /// Checksum computed from the bytes.
        found: u32,
        /// Checksum in the frame.
        stored: u32,
    },
    /// The record is of another kind than expected.
    #[error("is of kind {found}")]
    OtherKind {
        /// Number of the kind in the frame.
        found: u16,
    },
    /// A newer program wrote the record.
    #[error("has format version {found}, newer than {newest}, the newest this program reads")]
    NewerFormat {
        /// Version of the record.
        found: u16,
        /// Newest version that this program reads.
        newest: u16,
    },
    /// An older program wrote the record, in a format that this program no longer reads.
    #[error("has format version {found}, older than {oldest}, the oldest this program reads")]
    OlderFormat {
        /// Version of the record.
        found: u16,
        /// Oldest version that this program reads.
        oldest: u16,
    },
    /// The checksum is correct, but the body does not match its format. This is a fault of the program that wrote the
    /// record.
    #[error("body is malformed, {what}")]
    Malformed {
        /// Description of the mismatch.
        what: String,
    },
}

/// Record whose frame is intact.
pub(crate) struct Opened<'a> {
    pub(crate) version: u16,
    body: &'a [u8],
    kind: Kind,
}

/// Encodes `value` as an rkyv archive and puts the frame around it.
///
/// # Panics
/// When the body has 4 GiB or more. Every record is limited to a far smaller length.
pub(crate) fn seal<T>(kind: Kind, version: u16, value: &T) -> Vec<u8>
where
    T: for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::Error>>,
{
    let body = rkyv::to_bytes::<rancor::Error>(value).expect("encoding into memory does not fail");
    seal_body(kind, version, &body)
}

/// Returns a record with the given kind and version, in which the frame precedes `body`.
pub(crate) fn seal_body(kind: Kind, version: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("records are far below 4 GiB");
    let mut record = Vec::with_capacity(HEADER_BYTES + body.len());
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&(kind as u16).to_le_bytes());
    record.extend_from_slice(&version.to_le_bytes());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&[0; HEADER_BYTES - CRC_AT]);
    record.extend_from_slice(body);
    let crc = checksum(&record);
    record[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    record
}

/// Checks the frame of a record and that the record has the kind `kind`.
pub(crate) fn open(kind: Kind, record: &[u8]) -> Result<Opened<'_>, ReadError> {
    let fail = |fault| Err(ReadError { kind, len: record.len(), fault });
    if record.len() < HEADER_BYTES {
        return fail(Fault::Truncated { expected: HEADER_BYTES });
    }
    if record[..4] != MAGIC {
        return fail(Fault::NoMagic);
    }
    let expected = HEADER_BYTES + u32_at(record, 8) as usize;
    if record.len() < expected {
        return fail(Fault::Truncated { expected });
    }
    if record.len() > expected {
        return fail(Fault::Overlong { expected });
    }
    let (found, stored) = (checksum(record), u32_at(record, CRC_AT));
    if found != stored {
        return fail(Fault::Checksum { found, stored });
    }
    let found = u16_at(record, 4);
    if found != kind as u16 {
        return fail(Fault::OtherKind { found });
    }
    Ok(Opened { version: u16_at(record, 6), body: &record[HEADER_BYTES..], kind })
}

/// Returns the length of the record that starts with `prefix`, including its frame. Returns `None` if `prefix` does not
/// start with a frame.
pub(crate) fn record_len(prefix: &[u8]) -> Option<usize> {
    let framed = prefix.len() >= HEADER_BYTES && prefix[..4] == MAGIC;
    framed.then(|| HEADER_BYTES + u32_at(prefix, 8) as usize)
}

impl Opened<'_> {
    /// Validates the body as an rkyv archive of `T` and decodes it.
    pub(crate) fn decode<T>(&self) -> Result<T, ReadError>
    where
        T: Archive,
        T::Archived:
            for<'a> CheckBytes<HighValidator<'a, rancor::Error>> + Deserialize<T, HighDeserializer<rancor::Error>>,
    {
        // The body may be at any address, but rkyv needs an aligned address.
        let mut aligned = AlignedVec::<16>::with_capacity(self.body.len());
        aligned.extend_from_slice(self.body);
        rkyv::from_bytes::<T, rancor::Error>(&aligned).map_err(|error| self.malformed(error.to_string()))
    }

    /// Returns the error of a body that does not match its format.
    pub(crate) fn malformed(&self, what: impl Into<String>) -> ReadError {
        self.fail(Fault::Malformed { what: what.into() })
    }

    /// Returns the body as bytes, for a body in the state machine's encoding.
    pub(crate) fn body(&self) -> &[u8] {
        self.body
    }

    /// Returns an error if the version of the record is not in `read`.
    pub(crate) fn check_version(&self, read: RangeInclusive<u16>) -> Result<(), ReadError> {
        let (found, oldest, newest) = (self.version, *read.start(), *read.end());
        match found {
            _ if found < oldest => Err(self.fail(Fault::OlderFormat { found, oldest })),
            _ if found > newest => Err(self.fail(Fault::NewerFormat { found, newest })),
            _ => Ok(()),
        }
    }

    fn fail(&self, fault: Fault) -> ReadError {
        ReadError { kind: self.kind, len: HEADER_BYTES + self.body.len(), fault }
    }
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..CRC_AT]), &record[HEADER_BYTES..])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_anywhere_is_refused() {
        let record = seal_body(Kind::Vote, 1, &[7; 40]);
        assert!(open(Kind::Vote, &record).is_ok());
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = open(Kind::Vote, &damaged).err().unwrap_or_else(|| panic!("bit {bit} went unnoticed"));
            assert!(!matches!(error.fault, Fault::NewerFormat { .. } | Fault::OtherKind { .. }), "bit {bit}: {error}");
        }
    }

    #[test]
    fn a_cut_anywhere_is_refused() {
        let record = seal_body(Kind::Entry, 1, &[7; 40]);
        for len in 0..record.len() {
            assert!(matches!(open(Kind::Entry, &record[..len]), Err(ReadError { fault: Fault::Truncated { .. }, .. })));
        }
        let longer = [&record[..], &[0]].concat();
        assert!(matches!(open(Kind::Entry, &longer), Err(ReadError { fault: Fault::Overlong { expected: 56 }, .. })));
    }

    #[test]
    fn errors_name_kind_and_fault() {
        let record = seal_body(Kind::Snapshot, 9, &[]);
        let opened = open(Kind::Snapshot, &record).unwrap();
        assert_eq!(
            opened.check_version(1..=1).unwrap_err().to_string(),
            "snapshot record of 16 bytes: has format version 9, newer than 1, the newest this program reads"
        );
        let error = open(Kind::Vote, &record).err().unwrap();
        assert_eq!(error.to_string(), "vote record of 16 bytes: is of kind 7");
        let error = open(Kind::Vote, &record[..10]).err().unwrap();
        assert_eq!(error.to_string(), "vote record of 10 bytes: truncated, it should have 16 bytes");
    }
}
