//! The audit log of a set, outside of its replicated state.
//!
//! | module | subject |
//! |---|---|
//! | `recorder` | records an operation around its execution |
//! | `services` | the services of operators, with every change recorded |
//! | `service` | reads the log, and takes the ends of operations from other members |
//! | `lines` | events as JSON lines, and the check of a file of such lines |
//! | `file` | the file of events in the data directory |
//!
//! The rules are in [`seq_core::state::Audit`].

mod file;
mod lines;
mod recorder;
pub(crate) mod service;
pub(crate) mod services;

pub(crate) use file::AuditFile;
pub use lines::{Damage, Verified, event, line, verify};
pub(crate) use recorder::{Recorder, ends, recorded};
