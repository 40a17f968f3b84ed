//! Format of a backup file.
//!
//! ```text
//! 0..8 magic   8..12 format version   12..16 length of the header   16.. header, state   last 32: SHA-256 of the rest
//! ```
//!
//! Numbers are little-endian. The header is a `BackupHeader` of `backup.proto`. The state is encoded as [`SetState`] in
//! the format that the header names.
//!
//! **Invariant:** in every format version, the checksum is at the end of the file and is checked before the version. So
//! a flipped bit is always reported as damage, and never as a newer format.

use prost::Message;
use seq_proto::v1::BackupHeader;
use seq_raft::{Malformed, StateMachine};
use sha2::{Digest, Sha256};

use crate::replicated_set::SetState;

const MAGIC: [u8; 8] = *b"SEQSVRBK";

/// Format version of the files that this program writes. It is also the only version that it reads.
const FORMAT: u32 = 1;

/// Number of bytes before the header.
const FRAME_BYTES: usize = 16;

/// Length of the checksum in bytes.
const CHECKSUM_BYTES: usize = 32;

/// Length in bytes of the secret in the header.
pub(crate) const SECRET_BYTES: usize = 32;

/// Content of a backup file whose bytes are intact.
#[derive(Clone, PartialEq)]
pub struct Backup {
    /// Header of the file. It states which set was backed up, when, and by which program.
    pub header: BackupHeader,
    /// Format version of the file.
    pub format: u32,
    /// SHA-256 of the file except for its last 32 bytes.
    pub checksum: [u8; CHECKSUM_BYTES],
    state: SetState,
}

impl Backup {
    /// Encodes a backup file. The state is encoded in the format that `header` names. All fields of `header` must be
    /// set, except for the length of the state, which this function sets.
    pub(crate) fn encode(header: BackupHeader, state: &SetState) -> Vec<u8> {
        let state = state.encode(header.state_format as u16);
        let header = BackupHeader { state_bytes: state.len() as u64, ..header };
        let header = header.encode_to_vec();
        let header_bytes = u32::try_from(header.len()).expect("names and numbers are short");
        let mut file = Vec::with_capacity(FRAME_BYTES + header.len() + state.len() + CHECKSUM_BYTES);
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(&FORMAT.to_le_bytes());
        file.extend_from_slice(&header_bytes.to_le_bytes());
        file.extend_from_slice(&header);
        file.extend_from_slice(&state);
        let checksum = Sha256::digest(&file);
        file.extend_from_slice(&checksum);
        file
    }

    /// Decodes a backup file and checks all of it.
    ///
    /// # Errors
    /// [`BackupError`] if the file is not a backup, is damaged, or has a newer format than this program reads.
    pub fn decode(file: &[u8]) -> Result<Backup, BackupError> {
        if !file.starts_with(&MAGIC[..file.len().min(MAGIC.len())]) || file.is_empty() {
            return Err(BackupError::NoBackup);
        }
        let content = file.len().checked_sub(CHECKSUM_BYTES).filter(|content| *content >= FRAME_BYTES);
        let (content, stored) = file.split_at(content.ok_or(BackupError::Truncated { bytes: file.len() })?);
        let checksum: [u8; CHECKSUM_BYTES] = Sha256::digest(content).into();
        if checksum != stored {
            return Err(BackupError::Damaged { found: hex(&checksum), stored: hex(stored) });
        }
        let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
        let format = number(8);
        if format > FORMAT {
            return Err(BackupError::NewerFormat { found: format, newest: FORMAT });
        }
        let malformed = |what: &str| BackupError::Malformed { what: what.to_owned() };
        let body = &content[FRAME_BYTES..];
        let (header, state) =
            body.split_at_checked(number(12) as usize).ok_or_else(|| malformed("its header ends early"))?;
        let header = BackupHeader::decode(header).map_err(|error| malformed(&error.to_string()))?;
        if header.state_bytes != state.len() as u64 || header.secret.len() != SECRET_BYTES {
            return Err(malformed("its header has other lengths"));
        }
        let (oldest, newest) = (u32::from(SetState::OLDEST_FORMAT), u32::from(SetState::FORMAT));
        if !(oldest..=newest).contains(&header.state_format) {
            return Err(BackupError::StateFormat { found: header.state_format, oldest, newest });
        }
        let state = SetState::decode(header.state_format as u16, state).map_err(|Malformed(what)| malformed(&what))?;
        Ok(Backup { header, format, checksum, state })
    }

    /// Returns the checksum of the file in hexadecimal digits.
    #[must_use]
    pub fn checksum_text(&self) -> String {
        hex(&self.checksum)
    }

    /// Returns the format in which the state in the file is encoded.
    pub(crate) fn state_format(&self) -> u16 {
        self.header.state_format as u16 // Checked when it was decoded.
    }

    /// Returns the state in the backup.
    #[must_use]
    pub fn state(&self) -> &SetState {
        &self.state
    }
}

impl std::fmt::Debug for Backup {
    /// Writes the backup without its secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup").field("set", &self.header.set).field("checksum", &self.checksum_text()).finish()
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reason why a file cannot be read as a backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// The file does not begin as a backup file.
    #[error("is no backup of seqsvr")]
    NoBackup,
    /// The file is shorter than the shortest backup.
    #[error("is truncated: it has {bytes} bytes")]
    Truncated {
        /// Length of the file.
        bytes: usize,
    },
    /// Bytes of the file were changed or are missing.
    #[error("is damaged: its SHA-256 is {found}, and should be {stored}")]
    Damaged {
        /// Checksum computed from the file.
        found: String,
        /// Checksum stored in the file.
        stored: String,
    },
    /// A newer program wrote the file.
    #[error("has format {found}, newer than {newest}, the newest that this program reads")]
    NewerFormat {
        /// Format of the file.
        found: u32,
        /// Newest format that this program reads.
        newest: u32,
    },
    /// The state in the file has a format that this program does not read.
    #[error("has a state of format {found}, and this program reads {oldest} to {newest}")]
    StateFormat {
        /// Format of the state.
        found: u32,
        /// Oldest format that this program reads.
        oldest: u32,
        /// Newest format of a state that this program reads.
        newest: u32,
    },
    /// The checksum is correct, but the content does not match the format.
    #[error("is malformed: {what}")]
    Malformed {
        /// Description of how the content differs from the format.
        what: String,
    },
}
