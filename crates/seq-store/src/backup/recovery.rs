//! A backup that no leader makes: from the data directory of a member that survived its majority, or from an older
//! backup, each with the ceilings that running nodes still know.
//!
//! What follows the copy is unknown, as it is for any backup: the restore from it begins a new lineage, with the
//! quarantine and the margin of one. Ceilings that nodes report only raise those of the copy, so a wrong report skips
//! numbers and repeats none.

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
    /// As in the backup that the copy is of.
    least_restores: u32,
}

/// What a node's ceilings changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CeilingsRaised {
    /// Sections whose ceiling was raised.
    pub sections: u32,
    /// Numbers by which all of them were raised together.
    pub numbers: u64,
    /// Sections that the copy has in another set, or nowhere: they are left alone.
    pub elsewhere: u32,
}

/// Reads the data directory of a member that is stopped. It is locked until the result is dropped; the member can start
/// again afterwards. Blocks while it reads.
///
/// # Errors
/// The directory is missing, in use, or damaged, and where.
pub fn survivor(dir: &Path) -> Result<Survivor<SetState>, OpenError> {
    seq_raft::read_survivor(dir)
}

impl RecoveredCopy {
    /// The committed state of a member.
    ///
    /// # Errors
    /// [`RecoverError::NoSet`].
    pub fn of_survivor(survivor: &Survivor<SetState>) -> Result<RecoveredCopy, RecoverError> {
        let Survivor { cluster, id, state, format, committed, .. } = survivor;
        RecoveredCopy::new(cluster, state.clone(), *format, *committed, format!("the data directory of store {id}"))
    }

    /// The state of a backup.
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

    /// Name of the set.
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set.name
    }

    /// Name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Sections that the set has, and which are not known to be in another one.
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.state().sections.residents().count() as u32
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state.0
    }

    /// Raises ceilings to those that a node reports. A report that is refused changes nothing.
    ///
    /// # Errors
    /// [`RecoverError`]: the report is of another set, of no section of it, or of numbers that no owner can have reached.
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
        // A section that came from another set may count the restores of that one.
        if Epoch(epoch).restores() > self.state.0.most_restores() {
            return Err(RecoverError::NewerLineage { node: node(), section });
        }
        let known = record.max_seq();
        if ceiling > Seq::MAX.0 || ceiling.saturating_sub(known.0) > limits::RESTORE_MARGIN {
            return Err(RecoverError::FarCeiling { node: node(), section, ceiling, known: known.0 });
        }
        Ok(())
    }

    /// The least count of a restore that the copy itself knows.
    #[must_use]
    pub fn least_count(&self) -> u32 {
        least_above(&self.state, self.least_restores)
    }

    /// Checks that a restore of the copy can have this count.
    ///
    /// # Errors
    /// [`RestoreError`], as the restore itself has it.
    pub fn check_count(&self, given: u32) -> Result<(), RestoreError> {
        check_count(&self.state, self.least_count(), given)
    }

    /// The file of a backup, whose restore counts so many restores or more.
    #[must_use]
    pub fn encode(self, least_restores: u32) -> Vec<u8> {
        let header = header::of(&self.cluster, &self.set, self.format, &self.state.0, self.log_index);
        let least_restores = least_restores.max(self.least_count());
        Backup::encode(BackupHeader { origin: self.origin, least_restores, ..header }, &self.state)
    }
}

/// Why a copy is not made, or a report is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// No set was committed yet.
    #[error("{origin} has no set: there is nothing to recover in it")]
    NoSet {
        /// What was read.
        origin: String,
    },
    /// The report is of a section that the layout does not have.
    #[error("{node} reports section {section}, and the set has sections 0 to {}", sections - 1)]
    NoSection {
        /// Name of the node.
        node: String,
        /// The section.
        section: u32,
        /// How many there are.
        sections: u32,
    },
    /// The node owns a section since a restore that the copy does not have.
    #[error("{node} owns section {section} since a restore that is newer than the copy: use a copy of that lineage")]
    NewerLineage {
        /// Name of the node.
        node: String,
        /// The section.
        section: u32,
    },
    /// The ceiling is above the margin of a restore.
    #[error(
        "{node} reports ceiling {ceiling} of section {section}, of which the copy has {known}: more than 2^40 numbers \
         cannot have been allocated since"
    )]
    FarCeiling {
        /// Name of the node.
        node: String,
        /// The section.
        section: u32,
        /// The ceiling reported.
        ceiling: u64,
        /// That of the copy.
        known: u64,
    },
}
