//! Recording, reading and storing of a set's audit log, around the events in the replicated state.
//!
//! | module | subject |
//! |---|---|
//! | `recorder` | records the begin and the end of each operation |
//! | `services` | wrappers of the operators' services that record every change |
//! | `service` | service with which operators read the log and members record ends of operations |
//! | `lines` | encoding of events as lines of JSON, and the check of a file of such lines |
//! | `file` | file with events in a member's data directory |
//!
//! The rules for the events are in [`seq_core::state::Audit`].

mod file;
mod lines;
mod recorder;
pub(crate) mod service;
pub(crate) mod services;

pub(crate) use file::AuditFile;
pub use lines::{Damage, Verified, event, line, verify};
pub(crate) use recorder::{Recorder, ends, recorded};
