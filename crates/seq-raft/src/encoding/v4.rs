//! Format 4: the records of the log.
//!
//! This module contains the types that are archived and their conversions. **Never edit a type of this module once it
//! is released**, because the order of its fields defines the format. The tests in `encoding/tests` contain encoded
//! records of this format.

mod files;
mod log;

pub(crate) use files::{Identity, Manifest, Snapshot, Watermark};
pub(crate) use log::{Entry, LogId, StoredMembership, Vote};

/// Number of this format.
pub(crate) const VERSION: u16 = 4;

/// Description of the fault of a decoded record that does not match the format although its bytes are intact.
type Malformed = &'static str;
