//! Type parameters of the Raft library: the types of a log entry, of the entry's output, and of a member.
//!
//! The proposer encodes a command once. In the log, on the wire and on disk the command stays encoded, and each member
//! decodes it when applying it. So every member applies the same bytes, and an old entry is decoded in the format that
//! its frame names.

use std::any::Any;
use std::fmt;

use bytes::Bytes;
use openraft::type_config::alias;

use crate::nonce::Fingerprint;
use crate::runtime::Runtime;

openraft::declare_raft_types!(
    /// The Raft library's parameters.
    pub(crate) TypeConfig:
        D = EncodedBatch,
        R = Outputs,
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

/// Position of an entry: the leader that made it, and its index.
pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
/// Newest leader or candidate that a member accepts.
pub(crate) type Vote = alias::VoteOf<TypeConfig>;
/// The id of a leader: its term and its node.
pub(crate) type LeaderId = alias::LeaderIdOf<TypeConfig>;
/// An entry of the log.
pub(crate) type Entry = alias::EntryOf<TypeConfig>;
/// Payload of an entry.
pub(crate) type Payload = alias::PayloadOf<TypeConfig>;
/// The members of the group.
pub(crate) type Membership = openraft::Membership<u64, Member>;
/// The members of the group, with the position of the entry that lists them.
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
/// Description of a snapshot: the entries that it covers.
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// A snapshot with its bytes.
pub(crate) type Snapshot = alias::SnapshotOf<TypeConfig, Bytes>;

/// Maximum length of an encoded command in bytes, including the frame. It is also the maximum payload of an entry,
/// because a batch of several commands is limited to [`MAX_BATCH_BYTES`].
pub(crate) const MAX_COMMAND_BYTES: usize = 128 * 1024;

/// Maximum number of commands in one entry. The state stays locked while an entry is applied, so a reader waits for all
/// commands of the entry. A snapshot is taken after a number of entries, so a restart may apply this many commands for
/// each entry after the snapshot.
pub(crate) const MAX_BATCH_COMMANDS: usize = 32;

/// Maximum length in bytes of an entry with several commands. A larger command is an entry of its own. The log is also
/// held in memory, where 25,000 batches of this size take 200 MiB.
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
    /// Fingerprint of this member's data directory. Receivers compare it with the nonce in each message of this member.
    pub(crate) fingerprint: Fingerprint,
}

impl Member {
    /// Returns whether `other` has the same name and addresses.
    pub(crate) fn is_at(&self, other: &Member) -> bool {
        let of = |member: &Member| [member.name.clone(), member.addr.clone(), member.raft_addr.clone()];
        of(self) == of(other)
    }

    /// Returns whether `other` has one of this member's addresses.
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

/// A command as its proposer encoded it, including the frame; at most [`MAX_COMMAND_BYTES`] long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedCommand(Bytes);

impl EncodedCommand {
    /// Returns the bytes, including the frame.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Takes a record of kind `Command`.
    pub(crate) fn from_bytes(bytes: Bytes) -> EncodedCommand {
        EncodedCommand(bytes)
    }
}

/// One or more commands of one log entry. Their records are concatenated in the order in which they are applied.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EncodedBatch(Bytes);

impl EncodedBatch {
    /// Creates an entry of these commands. A single command is not copied.
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

    /// Wraps bytes from the log or the wire without checking them. The decoder checks them later.
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

/// Result of applying a command, with its type erased, because the parameters of the Raft library do not depend on the
/// state machine. Only the code that proposes and the code that applies commands know the type. Empty if the command is
/// void, because the group's format was raised before the command was applied.
pub(crate) struct Output(Option<Box<dyn Any + Send + Sync>>);

impl Output {
    /// Output of a void command. A command is void if its format is older than the group's format.
    pub(crate) const OVERTAKEN: Output = Output(None);

    /// Wraps the output of a command.
    pub(crate) fn of<T: Send + Sync + 'static>(output: T) -> Output {
        Output(Some(Box::new(output)))
    }

    /// Returns whether the command is void.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the output with its type.
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

/// Outputs of the commands of one applied entry, in the order of the commands; empty for an entry of the Raft library
/// itself.
#[derive(Debug, Default)]
pub(crate) struct Outputs(pub(crate) Vec<Output>);

/// Error of the serde conversions of [`Outputs`]. The bounds of the Raft library require these conversions, but no code
/// calls them.
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

/// Content of a `TransferLeader` message: the leader's vote, the id of the next leader, and the last entry of the
/// leader's log. The Raft library's own type cannot be encoded.
pub(crate) type TransferLeader = (Vote, u64, Option<LogId>);

/// Content of the first chunk of a snapshot: the leader's vote, the description of the covered entries, and the length
/// of the whole snapshot in bytes.
pub(crate) type SnapshotHeader = (Vote, SnapshotMeta, u64);
