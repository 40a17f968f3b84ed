//! Format 2, the first one that is released.
//!
//! Archived types and their conversions. Everything that has one item for each section is a set of flat vectors of the same
//! length, by section id: that encodes, validates and reads ten times as fast as a map.
//!
//! **Never edit a type of this module**: field order is the format. `disk/tests` holds its bytes.

mod command;
mod files;
mod raft;
mod state;

pub(crate) use command::Command;
pub(crate) use files::{Identity, Manifest, Watermark};
pub(crate) use raft::{Entry, LogId, StoredMembership, Vote};
pub(crate) use state::Snapshot;
#[cfg(test)]
pub(crate) use state::State;

/// Number of this format.
pub(crate) const VERSION: u16 = 2;

/// What of a decoded record contradicts the format, although its bytes are whole.
type Malformed = &'static str;
