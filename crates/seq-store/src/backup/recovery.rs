//! Backup that is made without a leader. It is made from the data directory of a survivor, which is a member of a store
//! that lost its majority permanently, or from an older backup. In both cases, the ceilings can be raised to the
//! ceilings that running nodes still know.
//!
//! As with any backup, changes after the copied state are lost. A restore begins a new lineage, puts the set into
//! quarantine, and raises all ceilings by a margin. The ceilings that nodes report can only raise the ceilings in the
//! copy. So if a report is wrong, numbers are skipped, but none is repeated.

use std::path::Path;

use seq_core::state::{SectionRecord, SetDefinition, State};
use seq_core::{Epoch, SectionId, Seq, limits};
use seq_proto::v1::{BackupHeader, SectionCeiling};
use seq_raft::{OpenError, Survivor};

use super::file::Backup;
use super::header;
use super::restore::{RestoreError, check_count, least_above};
use crate::replicated_set::SetState;

/// Copy of a set's state that is to be written as a backup.
#[derive(Debug)]
pub struct RecoveredCopy {
    cluster: String,
    set: SetDefinition,
    state: SetState,
    format: u16,
    log_index: u64,
    origin: String,
    /// Minimum count of a restore, as stated in the backup from which the copy was made; 0 if it was not made from a
    /// backup.
    least_restores: u32,
}

/// Changes that one node's report made to the ceilings of the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CeilingsRaised {
    /// Number of sections whose ceiling was raised.
    pub sections: u32,
    /// Sum of the amounts by which the ceilings were raised.
    pub numbers: u64,
    /// Number of reported sections that, according to the copy, are in another set or in no set. Their ceilings are not
    /// changed.
    pub elsewhere: u32,
}

/// Reads the data directory of a stopped member. The directory is locked until the result is dropped, and the member
/// can be started again afterwards. Blocks the thread while it reads.
///
/// # Errors
/// The directory is missing, in use by another process, or damaged. The error names the file or the record.
pub fn survivor(dir: &Path) -> Result<Survivor<SetState>, OpenError> {
    seq_raft::read_survivor(dir)
}

impl RecoveredCopy {
    /// Creates a copy of the committed state in a survivor's data directory.
    ///
    /// # Errors
    /// [`RecoverError::NoSet`] if the state has no definition of a set.
    pub fn of_survivor(survivor: &Survivor<SetState>) -> Result<RecoveredCopy, RecoverError> {
        let Survivor { cluster, id, state, format, committed, .. } = survivor;
        RecoveredCopy::new(cluster, state.clone(), *format, *committed, format!("the data directory of store {id}"))
    }

    /// Creates a copy of the state in an older backup.
    ///
    /// # Errors
    /// [`RecoverError::NoSet`] if the state has no definition of a set.
    pub fn of_backup(backup: &Backup) -> Result<RecoveredCopy, RecoverError> {
        let BackupHeader { cluster, log_index, .. } = &backup.header;
        let origin = format!("the backup with SHA-256 {}", backup.checksum_text());
        let copy = RecoveredCopy::new(cluster, backup.state().clone(), backup.state_format(), *log_index, origin)?;
        Ok(RecoveredCopy { least_restores: backup.header.least_restores, ..copy })
    }

    fn new(
        cluster: &str,
        state: SetState,
        format: u16,
        log_index: u64,
        origin: String,
    ) -> Result<RecoveredCopy, RecoverError> {
        let Some(set) = state.0.set.clone() else { return Err(RecoverError::NoSet { origin }) };
        Ok(RecoveredCopy { cluster: cluster.to_owned(), set, state, format, log_index, origin, least_restores: 0 })
    }

    /// Returns the name of the set.
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set.name
    }

    /// Returns the name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the number of sections that are in the set according to the copy.
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.state().sections.residents().count() as u32
    }

    /// Returns the copied state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state.0
    }

    /// Raises the ceilings of the copy to the ceilings that the node `node` reports, where these are greater. If the
    /// report is refused, nothing is changed.
    ///
    /// # Errors
    /// [`RecoverError`] if the report names a section that is not in the layout, contains a ceiling that no owner can
    /// have reached, or shows that the set has a newer lineage than the copy.
    pub fn raise(&mut self, node: &str, reported: &[SectionCeiling]) -> Result<CeilingsRaised, RecoverError> {
        for ceiling in reported {
            self.check(node, ceiling)?;
        }
        let mut raised = CeilingsRaised::default();
        for &SectionCeiling { section, ceiling, .. } in reported {
            let (section, ceiling) = (SectionId(section), Seq(ceiling));
            let mut record = self.state.0.sections.get(section).copied().unwrap_or_default();
            let max_seq = match &mut record {
                SectionRecord::Resident(residence) => &mut residence.max_seq,
                SectionRecord::Quarantined(quarantine) => &mut quarantine.max_seq,
                SectionRecord::Never | SectionRecord::Departed(_) => {
                    raised.elsewhere += 1;
                    continue;
                }
            };
            if ceiling > *max_seq {
                raised.sections += 1;
                raised.numbers = raised.numbers.saturating_add(ceiling.0 - max_seq.0);
                *max_seq = ceiling;
                self.state.0.sections.put(section, record);
            }
        }
        Ok(raised)
    }

    fn check(&self, node: &str, reported: &SectionCeiling) -> Result<(), RecoverError> {
        let SectionCeiling { section, epoch, ceiling } = *reported;
        let node = || node.to_owned();
        let Some(record) = self.state.0.sections.get(SectionId(section)) else {
            return Err(RecoverError::NoSection { node: node(), section, sections: self.set.layout.sections() });
        };
        // The epoch of a section that arrived from another set may count the restores of that set.
        if Epoch(epoch).restores() > self.state.0.most_restores() {
            return Err(RecoverError::NewerLineage { node: node(), section });
        }
        let known = record.max_seq();
        if ceiling > Seq::MAX.0 || ceiling.saturating_sub(known.0) > limits::RESTORE_MARGIN {
            return Err(RecoverError::FarCeiling { node: node(), section, ceiling, known: known.0 });
        }
        Ok(())
    }

    /// Returns the minimum count with which a set can be restored from this copy, as far as the copy shows.
    #[must_use]
    pub fn least_count(&self) -> u32 {
        least_above(&self.state, self.least_restores)
    }

    /// Checks that a set can be restored from this copy with the count `given`.
    ///
    /// # Errors
    /// [`RestoreError`], with which a restore with this count would fail.
    pub fn check_count(&self, given: u32) -> Result<(), RestoreError> {
        check_count(&self.state, self.least_count(), given)
    }

    /// Encodes the copy as a backup file. A restore of this backup must have a count of at least `least_restores`.
    #[must_use]
    pub fn encode(self, least_restores: u32) -> Vec<u8> {
        let header = header::of(&self.cluster, &self.set, self.format, &self.state.0, self.log_index);
        let least_restores = least_restores.max(self.least_count());
        Backup::encode(BackupHeader { origin: self.origin, least_restores, ..header }, &self.state)
    }
}

/// Reason why a copy cannot be made, or why a node's report cannot be applied to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The source of the copy has no committed definition of a set.
    #[error("{origin} has no set: there is nothing to recover in it")]
    NoSet {
        /// Description of the source of the copy.
        origin: String,
    },
    /// The report names a section that the layout does not have.
    #[error("{node} reports section {section}, and the set has sections 0 to {}", sections - 1)]
    NoSection {
        /// Name of the reporting node.
        node: String,
        /// The section.
        section: u32,
        /// Number of sections in the layout.
        sections: u32,
    },
    /// The node became the owner of a section after a restore that is newer than the copy.
    #[error("{node} owns section {section} since a restore that is newer than the copy: use a copy of that lineage")]
    NewerLineage {
        /// Name of the reporting node.
        node: String,
        /// The section.
        section: u32,
    },
    /// The reported ceiling exceeds the ceiling in the copy by more than the margin of a restore.
    #[error(
        "{node} reports ceiling {ceiling} of section {section}, of which the copy has {known}: more than 2^40 numbers \
         cannot have been allocated since"
    )]
    FarCeiling {
        /// Name of the reporting node.
        node: String,
        /// The section.
        section: u32,
        /// The reported ceiling.
        ceiling: u64,
        /// Ceiling in the copy.
        known: u64,
    },
}
