//! Backups of a set, and restores of members from a backup. A backup is a file that contains the committed state of the
//! set after one log entry.
//!
//! | module | subject |
//! |---|---|
//! | `file` | format of the file |
//! | `header` | header of the file: which set was backed up, when, and by which program |
//! | `service` | service of the leader that makes a backup |
//! | `recovery` | backup without a leader, from the data directory of a survivor or from an older backup |
//! | `restore` | creation of a stopped member's data directory from a backup |
//!
//! A restored set has a new lineage, and is in quarantine until all other sets have fenced its older lineages (see
//! [`seq_core::state::State::restore`]).
//!
//! **Invariant:** all members of a restored group begin with the same state, because the identity of each member's data
//! directory is derived from the whole state, and members with another identity do not belong to the group.

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
