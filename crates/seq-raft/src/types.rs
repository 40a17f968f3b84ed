//! Types with which this crate parameterizes the Raft library: the types of a log entry, of the outputs of an entry's
//! commands, and of a member.
//!
//! The proposer encodes a command once. The command stays encoded in the log, on the wire and on disk, and each member
//! decodes it only to apply it. So every member applies the same bytes. An old entry is decoded in the format that is
//! named in the frame of each of its records.

use std::any::Any;
use std::fmt;

use bytes::Bytes;
use openraft::type_config::alias;

use crate::nonce::Fingerprint;
use crate::runtime::Runtime;

openraft::declare_raft_types!(
    /// The types with which this crate parameterizes the Raft library.
    pub(crate) TypeConfig:
        D = EncodedBatch,
        R = Outputs,
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

/// Position of a log entry, which is the id of the leader that created the entry, and the entry's index.
pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
/// Newest leader or candidate that a member accepts. A member stores this value on disk.
pub(crate) type Vote = alias::VoteOf<TypeConfig>;
/// Id of a leader, which consists of its term and its Raft id.
pub(crate) type LeaderId = alias::LeaderIdOf<TypeConfig>;
/// Entry of the log.
pub(crate) type Entry = alias::EntryOf<TypeConfig>;
/// Payload of a log entry: commands, a list of members, or nothing.
pub(crate) type Payload = alias::PayloadOf<TypeConfig>;
/// Members of the group, of which some may be voters and some learners.
pub(crate) type Membership = openraft::Membership<u64, Member>;
/// Members of the group, with the position of the log entry that lists them.
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
/// Description of a snapshot. It states which log entries and which list of members the snapshot covers.
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// Snapshot, with its description and its encoded bytes.
pub(crate) type Snapshot = alias::SnapshotOf<TypeConfig, Bytes>;

/// Maximum length in bytes of an encoded command with its frame. No entry has a longer payload, because an entry with
/// several commands is limited to [`MAX_BATCH_BYTES`].
pub(crate) const MAX_COMMAND_BYTES: usize = 128 * 1024;

/// Maximum number of commands in one log entry. The state stays locked while an entry is applied, so a reader of the
/// state may have to wait for all commands of the entry. A member takes a snapshot after a number of entries, so the
/// time that a restart needs to apply the entries after the last snapshot grows with this number.
pub(crate) const MAX_BATCH_COMMANDS: usize = 32;

/// Maximum length in bytes of a log entry with several commands. A command that is longer gets an entry of its own. The
/// log is also held in memory, where 25,000 entries of this length take 200 MiB.
pub(crate) const MAX_BATCH_BYTES: usize = 8 * 1024;
const _: () = assert!(MAX_BATCH_BYTES <= MAX_COMMAND_BYTES);

/// A member of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Member {
    /// Name in the set file.
    pub(crate) name: String,
    /// Address of its port for peers.
    pub(crate) addr: String,
    /// Address of its port for Raft.
    pub(crate) raft_addr: String,
    /// Fingerprint of this member's data directory. The receiver of a message from this member compares this value with
    /// the fingerprint of the nonce in the message.
    pub(crate) fingerprint: Fingerprint,
}

impl Member {
    /// Returns whether `other` has the same name and addresses.
    pub(crate) fn is_at(&self, other: &Member) -> bool {
        let of = |member: &Member| [member.name.clone(), member.addr.clone(), member.raft_addr.clone()];
        of(self) == of(other)
    }

    /// Returns whether `other` has at least one of this member's two addresses.
    pub(crate) fn shares_address(&self, other: &Member) -> bool {
        let of = |member: &Member| [member.addr.clone(), member.raft_addr.clone()];
        of(self).iter().any(|addr| of(other).contains(addr))
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.addr)
    }
}

/// Command as its proposer encoded it, with its frame; at most [`MAX_COMMAND_BYTES`] long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedCommand(Bytes);

impl EncodedCommand {
    /// Returns the encoded command with its frame.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Wraps `bytes`, which must be one encoded record of kind `Command`.
    pub(crate) fn from_bytes(bytes: Bytes) -> EncodedCommand {
        EncodedCommand(bytes)
    }
}

/// The encoded commands of one log entry, at least one. Their records are concatenated in the order in which members
/// apply the commands.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EncodedBatch(Bytes);

impl EncodedBatch {
    /// Creates the payload of a log entry with these commands. The bytes of a single command are shared instead of
    /// copied.
    pub(crate) fn of(commands: &[EncodedCommand]) -> EncodedBatch {
        match commands {
            [command] => EncodedBatch(command.0.clone()),
            commands => EncodedBatch(commands.iter().map(|command| &command.0[..]).collect::<Vec<_>>().concat().into()),
        }
    }

    /// Returns the concatenated records.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Wraps bytes that were read from the log or received from another member. The decoder of the commands checks the
    /// bytes later.
    pub(crate) fn from_bytes(bytes: Bytes) -> EncodedBatch {
        EncodedBatch(bytes)
    }
}

impl fmt::Debug for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedBatch({} bytes)", self.0.len())
    }
}

impl fmt::Display for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "commands of {} bytes", self.0.len())
    }
}

impl serde::Serialize for EncodedBatch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for EncodedBatch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<EncodedBatch, D::Error> {
        struct BytesVisitor;

        impl serde::de::Visitor<'_> for BytesVisitor {
            type Value = EncodedBatch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of encoded commands")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<EncodedBatch, E> {
                Ok(EncodedBatch(Bytes::copy_from_slice(bytes)))
            }

            fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<EncodedBatch, E> {
                Ok(EncodedBatch(bytes.into()))
            }
        }

        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

/// Result of applying a command, with its type erased. The type parameters of the Raft library do not depend on the
/// state machine, so only the code that proposes and the code that applies commands know the type. The value is `None`
/// if the command is void, because the group's format was raised between the proposal and the application of the
/// command.
pub(crate) struct Output(Option<Box<dyn Any + Send + Sync>>);

impl Output {
    /// Output of a void command. A command is void if its format is older than the group's format, and the group's
    /// format is [`STRICT_FORMAT`](crate::StateMachine::STRICT_FORMAT) or newer.
    pub(crate) const OVERTAKEN: Output = Output(None);

    /// Wraps the output of a command.
    pub(crate) fn of<T: Send + Sync + 'static>(output: T) -> Output {
        Output(Some(Box::new(output)))
    }

    /// Returns whether the command was void, so that its proposer must encode and propose it again.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the output as a value of its type `T`.
    ///
    /// # Panics
    /// If the command is void, or if `T` is not the output type of this log's state machine.
    pub(crate) fn downcast<T: 'static>(self) -> T {
        let output = self.0.expect("the proposer writes an overtaken command anew");
        *output.downcast().expect("the state machine that proposes is the one that applies")
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

/// Outputs of the commands of one applied log entry, in the order of the commands. The list is empty if the Raft
/// library itself created the entry.
#[derive(Debug, Default)]
pub(crate) struct Outputs(pub(crate) Vec<Output>);

/// Error text of the serde conversions of [`Outputs`]. The trait bounds of the Raft library require these conversions,
/// but no code calls them.
const OUTPUT_IS_LOCAL: &str = "the output of a command never leaves its process";

impl serde::Serialize for Outputs {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom(OUTPUT_IS_LOCAL))
    }
}

impl<'de> serde::Deserialize<'de> for Outputs {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Outputs, D::Error> {
        Err(serde::de::Error::custom(OUTPUT_IS_LOCAL))
    }
}

/// Content of a `TransferLeader` message: the leader's vote, the Raft id of the member that shall lead next, and the
/// position of the last entry in the leader's log. The Raft library's own type has no serde encoding.
pub(crate) type TransferLeader = (Vote, u64, Option<LogId>);

/// Content of the first part of a snapshot in transfer: the leader's vote, the description of the snapshot, and the
/// length in bytes of the whole snapshot.
pub(crate) type SnapshotHeader = (Vote, SnapshotMeta, u64);
