//! Format 4: the records of the log.
//!
//! Archived types and their conversions. **Never edit a type of this module once it is released**, because the order of
//! its fields is the format. `encoding/tests` holds the bytes of this format.

mod files;
mod log;

pub(crate) use files::{Identity, Manifest, Snapshot, Watermark};
pub(crate) use log::{Entry, LogId, StoredMembership, Vote};

/// Number of this format.
pub(crate) const VERSION: u16 = 4;

/// Description of a decoded record that contradicts the format although its bytes are intact.
type Malformed = &'static str;
