//! Format 4: the records of the log.
//!
//! Archived types and their conversions. **Never edit a type of this module once it is released**: field order is the
//! format. `encoding/tests` holds its bytes.

mod files;
mod log;

pub(crate) use files::{Identity, Manifest, Snapshot, Watermark};
pub(crate) use log::{Entry, LogId, StoredMembership, Vote};

/// Number of this format.
pub(crate) const VERSION: u16 = 4;

/// A contradiction to the format in a decoded record whose bytes are intact.
type Malformed = &'static str;
