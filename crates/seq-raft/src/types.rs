//! Parameters of the Raft library: the types of a log entry, of its output, of a member.
//!
//! A command is encoded once, by its proposer, and stays bytes in the log, on the wire and on disk; it is decoded where
//! it is applied. So every member applies what the proposer wrote, and an old entry is read by the format it names.

use std::any::Any;
use std::fmt;

use bytes::Bytes;
use openraft::type_config::alias;

use crate::nonce::Fingerprint;
use crate::runtime::Runtime;

openraft::declare_raft_types!(
    /// The Raft library's parameters.
    pub(crate) TypeConfig:
        D = EncodedCommand,
        R = Output,
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

/// Position of an entry: the leader that made it, and its index.
pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
/// The newest leader or candidate that a member accepts.
pub(crate) type Vote = alias::VoteOf<TypeConfig>;
/// The id of a leader: its term and its node.
pub(crate) type LeaderId = alias::LeaderIdOf<TypeConfig>;
/// An entry of the log.
pub(crate) type Entry = alias::EntryOf<TypeConfig>;
/// What an entry carries.
pub(crate) type Payload = alias::PayloadOf<TypeConfig>;
/// The members of the group.
pub(crate) type Membership = openraft::Membership<u64, Member>;
/// The members of the group, with the position of the entry that lists them.
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot covers.
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// A snapshot with its bytes.
pub(crate) type Snapshot = alias::SnapshotOf<TypeConfig, Bytes>;

/// Largest encoded command, envelope included. The log's own limits (parts of a record, batches of replication) are derived
/// from it.
pub(crate) const MAX_COMMAND_BYTES: usize = 128 * 1024;

/// A member of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Member {
    /// Name in the set file.
    pub(crate) name: String,
    /// Address of its gRPC port.
    pub(crate) addr: String,
    /// The data directory that is this member. Every member checks senders against it.
    pub(crate) fingerprint: Fingerprint,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.addr)
    }
}

/// A command as its proposer encoded it, envelope included.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EncodedCommand(Bytes);

impl EncodedCommand {
    /// The bytes, envelope included.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Takes bytes from the log or the wire as they are; [`crate::encoding::read_command`] checks them.
    pub(crate) fn from_bytes(bytes: Bytes) -> EncodedCommand {
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

/// What applying an entry returns: the output of a command, without its type, or nothing for an entry of Raft's own. The
/// library's parameters do not depend on the state machine, so only the code that proposes and applies is generic.
pub(crate) struct Output(Option<Box<dyn Any + Send + Sync>>);

impl Output {
    /// The output of a command.
    pub(crate) fn of<T: Send + Sync + 'static>(output: T) -> Output {
        Output(Some(Box::new(output)))
    }

    /// Of a new leader's first entry, or of a change of members.
    pub(crate) fn none() -> Output {
        Output(None)
    }

    /// The output with its type.
    ///
    /// # Panics
    /// When a command of another state machine was applied: there is one for each log.
    pub(crate) fn downcast<T: 'static>(self) -> T {
        let output = self.0.and_then(|output| output.downcast().ok());
        *output.expect("the state machine that proposes is the one that applies")
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Output(command)" } else { "Output(none)" })
    }
}

/// Error of the two conversions that the Raft library's bounds require and nothing calls.
const OUTPUT_IS_LOCAL: &str = "the output of a command never leaves its process";

impl serde::Serialize for Output {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom(OUTPUT_IS_LOCAL))
    }
}

impl<'de> serde::Deserialize<'de> for Output {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Output, D::Error> {
        Err(serde::de::Error::custom(OUTPUT_IS_LOCAL))
    }
}
