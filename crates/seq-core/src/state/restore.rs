//! A set that continues from a backup: another lineage, in quarantine until all other sets have fenced the one before.
//!
//! The backup does not have what was committed after it: sections that left since, ceilings that were raised since,
//! incarnations that began since. So nothing of it is served, nothing departs from it, and no process of the earlier
//! lineage is known, until the other sets have responded under an entry of their logs. A response without the fence would
//! not do: an arrival of the earlier lineage could still be under way to the set that responded.

use alloc::vec::Vec;

use super::moves::{restored_ceiling, restored_epoch};
use super::record::{Gone, Quarantine, Residence, SectionRecord};
use super::set_command::{EndQuarantine, SetRefusal};
use super::{CommandRefusal, Phase, Scope, State};
use crate::directory::Directory;
use crate::id::{HandoverId, Incarnation, Lineage, MigrationId, RouteVersion, SectionId, SetId};

impl State {
    /// Begins a lineage from this state, which is that of a backup.
    ///
    /// # Errors
    /// [`SetRefusal::OtherLineage`]: the lineage does not count more restores than the backup's.
    pub fn restore(&mut self, lineage: Lineage) -> Result<(), CommandRefusal> {
        let restores = Some(lineage.restores_since(self.lineage)).filter(|restores| *restores > 0);
        // Sections that were in quarantine in the backup already lack the numbers of both lineages.
        let quarantined = |(_, record): (SectionId, &SectionRecord)| matches!(record, SectionRecord::Quarantined(_));
        let before = if self.sections.known().any(quarantined) { self.restores } else { 0 };
        let restores = restores.and_then(|restores| restores.checked_add(before));
        let restores = restores.ok_or(SetRefusal::OtherLineage { current: self.lineage, given: lineage })?;
        // Processes that have seen more of the older lineage than the backup has follow the new one.
        let more = u64::from(lineage.restores_since(self.lineage)) << 32;
        self.revision.0 = self.revision.0.saturating_add(more);
        self.route_version.0 = self.route_version.0.saturating_add(more);
        (self.lineage, self.restores, self.quarantined) = (lineage, restores, true);
        let routed = self.route_version;
        self.sections.change_known(|_, record| {
            if let SectionRecord::Resident(Residence { since, epoch, max_seq, .. }) = *record {
                record.advance(SectionRecord::Quarantined(Quarantine { since, epoch, max_seq, routed }));
            }
        });
        self.nodes.clear();
        self.recalled = Directory::default();
        for migration in self.migrations.values_mut().filter(|one| one.phase == Phase::Open) {
            migration.phase = match migration.scope {
                Scope::Runs(_) => Phase::RolledBack { noted: false },
                // What returned stays where it returned to.
                Scope::Return { .. } => Phase::Completed { noted: false },
            };
        }
        Ok(())
    }

    pub(super) fn end_quarantine(&mut self, command: &EndQuarantine) -> Result<(), CommandRefusal> {
        let EndQuarantine { lineage, responded } = command;
        if *lineage != self.lineage {
            return Err(SetRefusal::OtherLineage { current: self.lineage, given: *lineage }.into());
        }
        if !self.quarantined {
            return Ok(());
        }
        let mut lineages = Vec::new();
        for (set, peer) in &self.sets {
            let (set, newest) = (*set, peer.fenced);
            let stated = responded.iter().find(|(responded, _)| *responded == set).map(|(_, lineage)| *lineage);
            let given = stated.ok_or(SetRefusal::NotFenced { set })?;
            if given < newest {
                return Err(SetRefusal::OldLineage { set, newest, given }.into());
            }
            lineages.push((set, given));
        }
        for (set, lineage) in lineages {
            self.fence_set(set, lineage)?;
        }
        self.quarantined = false;
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        let version = self.route_version.next();
        self.route_version = version;
        let quarantined = |(_, record): &(SectionId, &SectionRecord)| matches!(record, SectionRecord::Quarantined(_));
        let sections: Vec<SectionId> = self.sections.known().filter(quarantined).map(|(section, _)| section).collect();
        for section in sections {
            self.end_quarantine_of(section, own, version);
        }
        Ok(())
    }

    fn end_quarantine_of(&mut self, section: SectionId, own: SetId, version: RouteVersion) {
        let Some(SectionRecord::Quarantined(quarantine)) = self.sections.get(section).copied() else { return };
        let later = self.recalled.get(section).filter(|claim| claim.since > quarantine.epoch);
        match later {
            // It was sent here after the backup, and the tombstone in that set brings it.
            Some(claim) if claim.set == own => {}
            Some(claim) => {
                let gone = Gone { fence: claim.since, home: claim.set, routed: version };
                self.advance(section, SectionRecord::Gone(gone));
            }
            None => {
                let Some(epoch) = restored_epoch(quarantine.epoch, self.restores) else { return };
                let residence = Residence {
                    since: epoch,
                    epoch,
                    owner: None,
                    incarnation: Incarnation(0),
                    max_seq: restored_ceiling(quarantine.max_seq, self.restores),
                    routed: version,
                    handover_id: HandoverId(0),
                    came_by: MigrationId(0),
                };
                self.advance(section, SectionRecord::Resident(residence));
                self.claim(section, epoch, own);
            }
        }
    }

    /// Whether the set was restored and other sets have not all responded yet.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.quarantined
    }
}
