//! StoreSvr: the ceilings and owners of a set, replicated by [`seq_raft`].
//!
//! Every request of an AllocSvr takes the same path. `control::service` checks the request, `replicated_set` proposes
//! it as one entry of the log, every member applies the entry with [`seq_core::state::State::apply`], and the proposing
//! member responds with the output.
//!
//! | module | subject |
//! |---|---|
//! | `store` | a member from its configuration to its end |
//! | `control` | requests of AllocSvrs |
//! | `leader_link` | requests that reach a follower, forwarded to the leader |
//! | `arbiter` | proposes owners, on the leader |
//! | `forward` | requests of operators at the admin port of a follower, forwarded to the leader |
//! | `admin` | requests of operators |
//! | `preconditions` | preconditions of operators' plans |
//! | `set_admin` | requests of operators about sets and migrations |
//! | `backup` | backups of a set, and members restored from a backup |
//! | `between` | requests between the stores of different sets, and migrations |
//! | `definition` | the set and its lease terms, compared with the set file |
//! | `encoding` | formats of commands and states |
//!
//! **Architecture Invariant:** every response is from a committed and applied entry. No service responds from a state
//! that a member merely expects, and no clock decides which entries are applied.

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
