//! Backups of a set, and members restored from a backup. A backup is a file with the committed state of the set as of
//! one entry of the log.
//!
//! | module | subject |
//! |---|---|
//! | `file` | format of the file |
//! | `header` | subject, time and source of a backup |
//! | `service` | makes a backup, on the leader |
//! | `recovery` | makes a backup without a leader, from a surviving data directory after a loss of the majority |
//! | `restore` | forms the data directory of a member from a backup, offline |
//!
//! A restored set has another lineage, and is in quarantine until all other sets have fenced the earlier lineages (see
//! [`seq_core::state::State::restore`]).
//!
//! **Invariant:** all members of a restored group begin with the same state, because the identities of their data
//! directories are derived from the whole state.

mod file;
mod header;
mod recovery;
mod restore;
pub(crate) mod service;

pub use file::{Backup, BackupError};
pub use recovery::{CeilingsRaised, RecoverError, RecoveredCopy, survivor};
pub use restore::{RestoreConfig, RestoreError, RestorePlan, Restored, check_clock, least_count, restore};
pub use seq_raft::Survivor;

#[cfg(test)]
mod tests;
