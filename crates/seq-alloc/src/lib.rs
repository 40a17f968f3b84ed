//! AllocSvr: hands sequence numbers out from memory.
//!
//! There are two ways through this crate. A *number* goes from [`Allocator`] (`allocator`) over the table of owned sections
//! (`owned`) to `seq_core::Section::take` and back, without a lock, a task switch or an allocation. A *ceiling* goes from
//! the line of sections that need one (`line`) through the keeper (`ceiling`) to the store (`store_link`) and back into the
//! section. Beside them `session` keeps this process known to the store and learns what it owns, `settle` holds callers
//! until their ceiling is raised, and `forward` asks other owners.
//!
//! **Architecture Invariant:** a section is given out from only between its grant and its loss, and an epoch that was
//! held once is never held again: a raise that was still under way for the old holder could otherwise serve two.

mod allocator;
mod batch;
mod ceiling;
mod config;
mod counters;
mod forward;
mod line;
mod owned;
mod session;
mod settle;
mod shared;
mod store_link;

pub use allocator::{Allocator, StartError};
pub use config::{AllocConfig, AllocTuning, TuningError};
