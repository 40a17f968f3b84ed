//! A backup that is made without a leader. It is made from the data directory of a survivor, which is a member of a
//! store that lost its majority, or from an older backup. In both cases the ceilings that running nodes still know can
//! be added.
//!
//! As with any backup, changes after the copy are lost, and a restore begins a new lineage, with a quarantine and a
//! margin above the ceilings. The ceilings that nodes report can only raise the ceilings of the copy. So a wrong report
//! skips numbers, but repeats none.

use std::path::Path;

use seq_core::state::{SectionRecord, SetDefinition, State};
use seq_core::{Epoch, SectionId, Seq, limits};
use seq_proto::v1::{BackupHeader, SectionCeiling};
use seq_raft::{OpenError, Survivor};

use super::file::Backup;
use super::header;
use super::restore::{RestoreError, check_count, least_above};
use crate::replicated_set::SetState;

/// A copy of a set's state, to be written as a backup.
#[derive(Debug)]
pub struct RecoveredCopy {
    cluster: String,
    set: SetDefinition,
    state: SetState,
    format: u16,
    log_index: u64,
    origin: String,
    /// Minimum count of a restore, as noted in the backup from which the copy is made; 0 if there is none.
    least_restores: u32,
}

/// Changes that a node's ceilings made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CeilingsRaised {
    /// Sections whose ceiling was raised.
    pub sections: u32,
    /// Sum of the numbers by which the ceilings were raised.
    pub numbers: u64,
    /// Sections that, according to the copy, are in another set or in no set. Their ceilings are not changed.
    pub elsewhere: u32,
}

/// Reads the data directory of a stopped member. The directory is locked until the result is dropped; the member can
/// start again afterwards. Blocks while it reads.
///
/// # Errors
/// The directory is missing, in use, or damaged; the error names the place.
pub fn survivor(dir: &Path) -> Result<Survivor<SetState>, OpenError> {
    seq_raft::read_survivor(dir)
}

impl RecoveredCopy {
    /// Creates a copy from the committed state of a member.
    ///
    /// # Errors
    /// [`RecoverError::NoSet`].
    pub fn of_survivor(survivor: &Survivor<SetState>) -> Result<RecoveredCopy, RecoverError> {
        let Survivor { cluster, id, state, format, committed, .. } = survivor;
        RecoveredCopy::new(cluster, state.clone(), *format, *committed, format!("the data directory of store {id}"))
    }

    /// Creates a copy from the state of a backup.
    ///
    /// # Errors
    /// [`RecoverError::NoSet`].
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

    /// Returns the number of sections of the set that are not known to be in another set.
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.state().sections.residents().count() as u32
    }

    /// Returns the copied state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state.0
    }

    /// Raises ceilings to the ceilings that a node reports. A refused report changes nothing.
    ///
    /// # Errors
    /// [`RecoverError`] if the report names a section that the set lacks or a ceiling that no owner can have reached,
    /// or if it shows a newer lineage.
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
        // A section that came from another set may count the restores of that set.
        if Epoch(epoch).restores() > self.state.0.most_restores() {
            return Err(RecoverError::NewerLineage { node: node(), section });
        }
        let known = record.max_seq();
        if ceiling > Seq::MAX.0 || ceiling.saturating_sub(known.0) > limits::RESTORE_MARGIN {
            return Err(RecoverError::FarCeiling { node: node(), section, ceiling, known: known.0 });
        }
        Ok(())
    }

    /// Returns the minimum count of a restore that the copy itself requires.
    #[must_use]
    pub fn least_count(&self) -> u32 {
        least_above(&self.state, self.least_restores)
    }

    /// Checks that a restore of the copy can have this count.
    ///
    /// # Errors
    /// [`RestoreError`], the same error as of the restore itself.
    pub fn check_count(&self, given: u32) -> Result<(), RestoreError> {
        check_count(&self.state, self.least_count(), given)
    }

    /// Encodes the file of a backup. A restore of this backup must have a count of `least_restores` or more.
    #[must_use]
    pub fn encode(self, least_restores: u32) -> Vec<u8> {
        let header = header::of(&self.cluster, &self.set, self.format, &self.state.0, self.log_index);
        let least_restores = least_restores.max(self.least_count());
        Backup::encode(BackupHeader { origin: self.origin, least_restores, ..header }, &self.state)
    }
}

/// Error: a copy cannot be made, or a report cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The source has no committed definition of a set.
    #[error("{origin} has no set: there is nothing to recover in it")]
    NoSet {
        /// Source of the copy.
        origin: String,
    },
    /// The report is of a section that the layout does not have.
    #[error("{node} reports section {section}, and the set has sections 0 to {}", sections - 1)]
    NoSection {
        /// Name of the node.
        node: String,
        /// The section.
        section: u32,
        /// Number of sections in the layout.
        sections: u32,
    },
    /// The node became the owner of a section after a restore that the copy does not know.
    #[error("{node} owns section {section} since a restore that is newer than the copy: use a copy of that lineage")]
    NewerLineage {
        /// Name of the node.
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
        /// Name of the node.
        node: String,
        /// The section.
        section: u32,
        /// The reported ceiling.
        ceiling: u64,
        /// Ceiling in the copy.
        known: u64,
    },
}
