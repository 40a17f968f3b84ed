//! What the Raft library is told about us: the types of a log entry, of its answer, of a member.
//!
//! A command is encoded once, by its proposer, and stays bytes in the log, on the wire and on disk; it is decoded where
//! it is applied. So every member applies what the proposer wrote, and an old entry is read by the format it names.

use std::fmt;

use bytes::Bytes;
use openraft::type_config::alias;
use seq_core::state::{Answer, Command};

use crate::disk;
use crate::envelope::{self, Kind, ReadError};
use crate::nonce::Fingerprint;
use crate::runtime::Runtime;
use crate::storage::StateMachine;

openraft::declare_raft_types!(
    /// The Raft library's parameters.
    pub TypeConfig:
        D = EncodedCommand,
        R = Applied,
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

/// The Raft instance of a store.
pub type Raft = openraft::Raft<TypeConfig, StateMachine>;
/// Position of an entry: the leader that made it, and its index.
pub type LogId = alias::LogIdOf<TypeConfig>;
/// Who may lead, as far as a member knows.
pub type Vote = alias::VoteOf<TypeConfig>;
/// The id of a leader: its term and its node.
pub type LeaderId = alias::LeaderIdOf<TypeConfig>;
/// An entry of the log.
pub type Entry = alias::EntryOf<TypeConfig>;
/// What an entry carries.
pub type Payload = alias::PayloadOf<TypeConfig>;
/// The members of the group.
pub type Membership = openraft::Membership<u64, Member>;
/// The members of the group, with the entry that made them so.
pub type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot covers.
pub type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// A snapshot with its bytes.
pub type Snapshot = alias::SnapshotOf<TypeConfig, Bytes>;

/// Largest encoded command: [`MAX_RAISES`](seq_core::limits::MAX_RAISES) raises or as many reassignments of 24 bytes, with
/// room for the envelope. The log's own limits (parts of a record, batches of replication) are derived from it.
pub const MAX_COMMAND_BYTES: usize = 128 * 1024;

/// A member of the store's group.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Member {
    /// Name in the set file.
    pub name: String,
    /// Address of its gRPC port.
    pub addr: String,
    /// The data directory that is this member. Every member judges senders by it.
    pub fingerprint: Fingerprint,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.addr)
    }
}

/// A command as its proposer encoded it.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedCommand(Bytes);

/// A command that is too large for one entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command of {bytes} bytes is larger than the {MAX_COMMAND_BYTES} an entry may hold; send it in parts")]
pub struct CommandTooLarge {
    /// Its encoded length.
    pub bytes: usize,
}

impl EncodedCommand {
    /// Encodes a command in the newest format.
    ///
    /// # Errors
    /// [`CommandTooLarge`]; the proposer bounds its batches.
    pub fn encode(command: &Command) -> Result<EncodedCommand, CommandTooLarge> {
        let bytes = envelope::seal(Kind::Command, disk::v2::VERSION, &disk::v2::Command::from(command));
        if bytes.len() > MAX_COMMAND_BYTES {
            return Err(CommandTooLarge { bytes: bytes.len() });
        }
        Ok(EncodedCommand(bytes.into()))
    }

    /// Reads the command.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are damaged or of a newer format.
    pub fn decode(&self) -> Result<Command, ReadError> {
        disk::read_command(&self.0)
    }

    /// The bytes, envelope included.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Takes bytes from the log or the wire as they are; [`EncodedCommand::decode`] judges them.
    #[must_use]
    pub fn from_bytes(bytes: Bytes) -> EncodedCommand {
        EncodedCommand(bytes)
    }
}

impl fmt::Debug for EncodedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedCommand({} bytes)", self.0.len())
    }
}

impl fmt::Display for EncodedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} bytes", self.0.len())
    }
}

impl serde::Serialize for EncodedCommand {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for EncodedCommand {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<EncodedCommand, D::Error> {
        struct BytesVisitor;

        impl serde::de::Visitor<'_> for BytesVisitor {
            type Value = EncodedCommand;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of an encoded command")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<EncodedCommand, E> {
                Ok(EncodedCommand(Bytes::copy_from_slice(bytes)))
            }

            fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<EncodedCommand, E> {
                Ok(EncodedCommand(bytes.into()))
            }
        }

        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

/// What applying an entry answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// To a command.
    Command(Answer),
    /// To an entry that is Raft's own: a new leader's first entry, or a change of members.
    Raft,
}

impl Applied {
    /// The answer to a command.
    ///
    /// # Panics
    /// When the entry was not a command; the proposer knows what it proposed.
    #[must_use]
    pub fn into_answer(self) -> Answer {
        match self {
            Applied::Command(answer) => answer,
            Applied::Raft => panic!("an entry of Raft's own has no answer"),
        }
    }
}

/// Said by the two conversions that the Raft library's bounds ask for and nothing calls.
const ANSWERS_STAY: &str = "an applied answer never leaves its process";

impl serde::Serialize for Applied {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom(ANSWERS_STAY))
    }
}

impl<'de> serde::Deserialize<'de> for Applied {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Applied, D::Error> {
        Err(serde::de::Error::custom(ANSWERS_STAY))
    }
}
