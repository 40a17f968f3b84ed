//! AllocSvr: hands sequence numbers out from memory.
//!
//! There are two ways through this crate. A *number* goes from [`Allocator`] (`allocator`) over the table of owned sections
//! (`owned`) to `seq_core::Section::take` and back, without a lock, a task switch or an allocation. A *ceiling* goes from
//! the line of sections that need one (`line`) through the keeper (`ceiling`) to the store (`store_link`) and back into the
//! section. Beside them `session` keeps this process known to the store, `handing` and `target` move sections from node to
//! node, `settle` holds callers until they can be answered, `hearsay` listens to others while the store is silent, and `forward` asks other owners.
//! `halt` says why a process serves no more.
//!
//! **Architecture Invariant:** what is owned, and for how long, is decided by `seq_core::owner` alone; `step` carries it out.
//! Numbers are given out only under a lease that held after the call had arrived.

mod allocator;
mod batch;
mod config;
mod counters;
mod forward;
mod halt;
mod handover;
mod ownership;
mod peer_routes;
mod peers;
mod pending;
mod raise_loop;
mod raise_queue;
mod session;
mod shared;
mod store_link;
mod target;
mod work;

pub use allocator::{Allocator, StartError};
pub use config::{AllocConfig, AllocOptions, OptionsError};
pub use halt::Halt;
