//! AllocSvr: allocates sequence numbers from memory.
//!
//! Two paths lead through this crate. The path of a *number* begins at [`Allocator`] (`allocator`), goes through the
//! table of served sections (`ownership`) to `seq_core::Section::take`, and back. This path has no lock, no task switch
//! and no memory allocation. The path of a *ceiling* begins at the section that needs a raise (`raise_queue`), goes
//! through `raises` to the store (`store_link`), and back to the section. The other modules have these tasks:
//!
//! * `session` registers the node and renews its lease; `handover` and `handover_service` hand sections over.
//! * `pending` lets calls wait until this node can serve them, or forwards them to the owners of their sections, which
//!   may be in other sets (`other_sets`). `forward` sends these requests.
//! * `peer_routes` fetches routes from peers while the lease is expired.
//! * `control_loop` waits for the events of all these tasks except pending calls. Its log shows why an AllocSvr wakes
//!   up.
//! * `activity` keeps figures and a history of each section. `activity_loop` slowly reads the slots from which they are
//!   computed.
//! * `keys` serves calls for keys, and `eviction` bounds the memory of their counters.
//! * `death_report` reports the death of an AllocSvr process for the parent of the process.
//! * `halt` holds the cause for which a process permanently stopped serving.
//! * `shared` has the state that all tasks share, grouped by subject.
//!
//! **Architecture Invariant:** `seq_core::owner` alone decides which sections this node owns and for how long, and only
//! `ownership` carries these decisions out. `seq_core::raises`, `renewals` and `store_calls` decide when the store is
//! called, and which member of the store. Numbers are allocated only under a lease that was checked after the call had
//! arrived. Only numbers of lanes that may be served without a lease are an exception.

mod activity;
mod activity_loop;
mod activity_reports;
mod allocator;
mod batch;
mod clock_ahead;
mod config;
mod control_loop;
mod counters;
mod death_report;
mod eviction;
mod fault_metrics;
mod forward;
mod halt;
mod handover;
mod handover_calls;
mod handover_service;
mod handover_spans;
mod key_metrics;
mod keys;
mod lane_metrics;
mod lanes;
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
mod sparse;
mod store_link;
mod work;

pub use allocator::{Allocator, StartError};
pub use config::{AllocConfig, AllocOptions, OptionsError};
pub use death_report::{DeathReportError, report_death};
pub use halt::Halt;
