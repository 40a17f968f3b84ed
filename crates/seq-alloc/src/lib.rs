//! AllocSvr: hands sequence numbers out from memory.
//!
//! There are two ways through this crate. A *number* goes from [`Allocator`] (`allocator`) over the table of served
//! sections (`ownership`) to `seq_core::Section::take` and back, without a lock, a task switch or an allocation. A
//! *ceiling* goes from the section that needs one (`raise_queue`) through `raises` to the store (`store_link`) and back
//! into the section. Beside them `session` registers and renews, `handover` and `handover_service` hand sections over,
//! `pending` keeps calls pending until they can be served, and forwards those of other owners, also in other sets
//! (`other_sets`), by what `forward` sends. `peer_routes` fetches routes from peers while the lease is expired.
//! `control_loop` is the one place that waits for all of them but the calls: its events show why an AllocSvr wakes.
//! `halt` latches why a process no longer serves.
//!
//! **Architecture Invariant:** what is owned, and for how long, is decided by `seq_core::owner` alone, and changes in
//! `ownership` alone. When the store is called, and which member, is decided by `seq_core::raises`, `renewals` and
//! `store_calls`. Numbers are allocated only under a lease that was checked after the call had arrived.

mod allocator;
mod batch;
mod config;
mod control_loop;
mod counters;
mod forward;
mod halt;
mod handover;
mod handover_calls;
mod handover_service;
mod loss_report;
mod metrics_loop;
mod other_sets;
mod ownership;
mod peer_routes;
mod peers;
mod pending;
mod pending_item;
mod raise_queue;
mod raises;
mod self_check;
mod session;
mod shared;
mod store_link;
mod work;

pub use allocator::{Allocator, StartError};
pub use config::{AllocConfig, AllocOptions, OptionsError};
pub use halt::Halt;
