//! A replicated log of the commands of one [`StateMachine`]. A proposer adds a command to the log, every member of the
//! Raft group applies the command, and the proposer receives the output of its command.
//!
//! A member is started in three steps. [`RaftNode::prepare`] locks the member's data directory. [`RaftNode::load`]
//! probes the other members and loads the stored data. [`LoadedNode::run`] starts the Raft library. A [`RaftHandle`]
//! then proposes commands and reads the applied state.
//!
//! | folder | subject |
//! |---|---|
//! | `storage` | log, vote, snapshots and identity of the data directory, stored with sled or in memory |
//! | `encoding` | formats of the stored records |
//! | `transport` | messages between members, with the checks of their senders and contents |
//! | `membership` | list of members, with its plans and changes, the operators' service, and the probes of members |
//! | `leadership` | whether the leader has a majority, transfers of leadership, and leaders with slow disks |
//! | `comparison` | digests of the applied state, which members compare with each other |
//!
//! **Architecture Invariant:** no public item of this crate has a type of openraft, sled or rkyv in its signature;
//! `cargo xtask layers` checks it.
//!
//! **Architecture Invariant:** a proposal returns an output only after its command is committed and applied. No member
//! predicts an output before then, and no clock decides which commands are applied.

mod comparing;
mod comparison;
mod config;
mod encoding;
mod error;
mod eviction;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod gate;
mod handle;
mod leadership;
mod membership;
mod membership_status;
mod node;
mod nonce;
mod options;
mod own_clock;
mod peer;
mod propose;
mod runtime;
mod state_machine;
mod status;
mod storage;
#[cfg(test)]
mod test_machine;
mod transport;
mod types;

pub use config::RaftConfig;
pub use encoding::CommandTooLarge;
pub use encoding::envelope::{Fault, Kind, ReadError};
pub use error::StartError;
pub use gate::Gate;
pub use handle::{Changes, NotRaised, NotTransferred, RaftHandle, Stopped};
pub use leadership::quorum::QuorumStatus;
pub use membership::format::FormatRaise;
pub use membership::preconditions::ChangeGuard;
pub use membership::service::MemberAdmin;
pub use node::{LoadedNode, RaftNode, RunningNode};
pub use options::{InvalidOptions, RaftOptions};
pub use peer::Peer;
pub use propose::ProposeError;
pub use state_machine::{Malformed, StateMachine};
pub use status::{DiskSpace, MemberStatus, RaftStatus};
pub use storage::{
    AppliedState, DataDir, LoadError, MemoryDisk, Observer, OpenError, RestoredGroup, Survivor, form_restored,
    read_survivor,
};
pub use transport::server::RaftServer;

/// Maximum length in bytes of an encoded command without its frame.
pub const MAX_COMMAND_BODY_BYTES: usize = types::MAX_COMMAND_BYTES - encoding::envelope::HEADER_BYTES;

/// Maximum size of a message between members, in bytes. The limit is far above the size of the largest message that a
/// member sends, which carries one batch of log entries or one part of a snapshot.
pub const MAX_MESSAGE_BYTES: usize = transport::client::MAX_MESSAGE_BYTES;
