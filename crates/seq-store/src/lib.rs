//! StoreSvr, which holds the durable state of a set: the ceilings, the owners and epochs of its sections, its nodes,
//! and its migrations. The members of a StoreSvr replicate this state with [`seq_raft`].
//!
//! Every request of an AllocSvr that changes the state takes the same path. `control::service` checks the request,
//! `replicated_set` proposes it as a command, every member applies the command with [`seq_core::state::State::apply`],
//! and the member that proposed the command responds with its output.
//!
//! | module | subject |
//! |---|---|
//! | `store` | start, run and stop of a member |
//! | `control` | service for the requests of AllocSvrs |
//! | `leader_link` | how a follower forwards requests to the leader |
//! | `arbiter` | task of the leader that proposes the owners of sections |
//! | `forward` | how a follower forwards the requests of operators at its admin port to the leader |
//! | `admin` | services for operators: status, events, AllocSvrs, balancing |
//! | `preconditions` | fingerprints of the preconditions on which operators' plans depend |
//! | `set_admin` | services for operators: sets, migrations, series |
//! | `backup` | backups of a set, and restores of members from a backup |
//! | `between` | requests between the stores of different sets, and migrations |
//! | `definition` | definition and lease terms of the set, and their comparison with the set file |
//! | `encoding` | formats in which commands and states are encoded |
//!
//! **Architecture Invariant:** a service reports a change as made only after its command is committed and applied. No
//! member responds with a result that it merely predicts, and no clock decides which commands are applied.

mod admin;
mod arbiter;
pub mod audit;
pub mod backup;
mod between;
pub mod config;
mod control;
mod definition;
mod encoding;
mod forward;
#[cfg(fuzzing)]
pub mod fuzzing;
mod leader_link;
mod preconditions;
mod replicated_set;
mod section_writes;
mod sender;
mod server;
mod set_admin;
mod store;

pub use config::{ConfigError, Sockets, StoreConfig, StoreOptions};
pub use definition::{DeclaredSet, SetMismatch};
pub use replicated_set::SetState;
pub use seq_proto::dial::Dial;
pub use seq_raft::{DataDir, MemoryDisk, StartError as RaftStartError};
pub use store::{StartError, Store, StoreHandle};
