//! A replicated log for one [`StateMachine`]. A proposer adds a command to the log, every member applies the command,
//! and the proposer receives its output.
//!
//! A member is started in steps: [`RaftNode::prepare`] locks its data directory, [`RaftNode::load`] probes the peers
//! and loads the stored data, [`LoadedNode::run`] starts the Raft library. [`RaftHandle`] proposes commands and reads
//! the applied state.
//!
//! | folder | subject |
//! |---|---|
//! | `storage` | log, vote, snapshots and identity on sled, or in memory |
//! | `encoding` | formats of the stored records |
//! | `transport` | messages between members, with the checks of sender and content |
//! | `membership` | list of members: plans, changes, the operators' service, probes of peers |
//! | `leadership` | majority, transfer of leadership, slow disks |
//! | `comparison` | digests of the applied state, compared between members |
//!
//! **Architecture Invariant:** no type of openraft, sled or rkyv is public here; `cargo xtask layers` checks it.
//!
//! **Architecture Invariant:** a proposal returns an output only after its command is committed and applied. No member
//! returns an expected output before then, and no clock decides which commands are applied.

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

/// Largest body of an encoded command.
pub const MAX_COMMAND_BODY_BYTES: usize = types::MAX_COMMAND_BYTES - encoding::envelope::HEADER_BYTES;

/// Limit on the size of a message between members, in bytes. It is far above the largest message, which carries one
/// batch of replication or one part of a snapshot.
pub const MAX_MESSAGE_BYTES: usize = transport::client::MAX_MESSAGE_BYTES;
