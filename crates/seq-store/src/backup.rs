//! Backups of a set: its committed state as of one entry of the log, in a file; and members that are restored from one.
//!
//! | module | subject |
//! |---|---|
//! | `file` | format of the file |
//! | `service` | makes one, beside the leader |
//! | `restore` | forms the data directory of a member from one, offline |
//!
//! A restored set is of another lineage, in quarantine until all other sets have fenced the lineages before: see
//! [`seq_core::state::State::restore`].
//!
//! **Invariant:** every member that is restored from the same backup, with the same number, begins with the same state.

mod file;
mod restore;
pub(crate) mod service;

pub use file::{Backup, BackupError};
pub use restore::{RestoreConfig, RestoreError, Restored, restore};

#[cfg(test)]
mod tests;
