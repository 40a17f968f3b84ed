//! Backups of a set: its committed state as of one entry of the log, in a file; and members that are restored from one.
//!
//! | module | subject |
//! |---|---|
//! | `file` | format of the file |
//! | `header` | what a file is of |
//! | `service` | makes one, beside the leader |
//! | `recovery` | makes one without a leader, from what a lost majority left |
//! | `restore` | forms the data directory of a member from one, offline |
//!
//! A restored set is of another lineage, in quarantine until all other sets have fenced the lineages before: see
//! [`seq_core::state::State::restore`].
//!
//! **Invariant:** members of one restored group begin with the same state: their identities depend on all of it.

mod file;
mod header;
mod recovery;
mod restore;
pub(crate) mod service;

pub use file::{Backup, BackupError};
pub use recovery::{CeilingsRaised, RecoverError, RecoveredCopy, survivor};
pub use restore::{RestoreConfig, RestoreError, RestorePlan, Restored, least_count, restore};
pub use seq_raft::Survivor;

#[cfg(test)]
mod tests;
