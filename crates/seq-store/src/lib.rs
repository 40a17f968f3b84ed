//! StoreSvr: the Raft-replicated keeper of section ceilings.
//!
//! A question of an AllocSvr takes one way: `control_service` checks it, `proposer` puts it into the log as one entry, the
//! Raft library replicates it through `network` and `raft_service` and stores it through [`storage`], every member applies
//! it with [`seq_core::state::State::apply`], and the member that proposed it answers.
//!
//! Beside the leader runs the `arbiter`, which proposes owners. [`Store`] puts it all together.
//!
//! **Architecture Invariant:** what is answered is committed and applied. No service answers from what a member merely
//! believes, and no clock decides what is applied.

mod acknowledged;
mod append_stream;
mod arbiter;
mod bootstrap;
mod claims;
pub mod config;
mod control_forward;
mod control_service;
mod disk;
mod envelope;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod gate;
mod greeting;
mod handover;
mod link_times;
mod member_changes;
mod member_service;
mod members;
mod network;
mod node_service;
pub mod nonce;
mod peers;
mod proposer;
mod quorum;
mod raft_service;
mod raft_validation;
mod runtime;
mod server;
mod standing;
mod status;
pub mod storage;
mod store;
pub mod types;
mod unreached;

pub use bootstrap::SetMismatch;
pub use config::{ConfigError, DataDir, StoreConfig, StoreOptions};
pub use seq_proto::dial::Dial;
pub use store::{StartError, Store, StoreHandle};
