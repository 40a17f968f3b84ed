//! Applies the commands that begin and end migrations.

use alloc::vec::Vec;
use core::time::Duration;

use super::events::EventRecord;
use super::migration::{Migration, Pace, Phase, Scope};
use super::record::{Residence, SectionRecord};
use super::set_command::{Complete, Rollback, SetPace, SetRefusal, StartMigration, StartReturn};
use super::{Closing, CommandRefusal, Rules, State};
use crate::id::{MigrationId, SectionId, SetId};
use crate::layout::{self, SectionRun};
use crate::limits;
use crate::plan::Fingerprint;

impl State {
    pub(super) fn start_migration(&mut self, start: &StartMigration) -> Result<MigrationId, CommandRefusal> {
        let StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint } = start;
        if let Some(known) = self.migrations.get(id) {
            let repeat = known.to == *to && known.scope == Scope::Runs(runs.clone());
            return if repeat { Ok(*id) } else { Err(SetRefusal::OtherMigration { migration: *id }.into()) };
        }
        let set = self.set.as_ref().ok_or(CommandRefusal::NoSet)?;
        if *to == set.id {
            return Err(SetRefusal::OwnSet.into());
        }
        if *lineage != self.lineage {
            return Err(SetRefusal::OtherLineage { current: self.lineage, given: *lineage }.into());
        }
        let target = self.sets.get(to).filter(|set| set.facts.is_some());
        if target.ok_or(SetRefusal::UnknownSet { set: *to })?.closing {
            return Err(SetRefusal::SetClosing { set: *to }.into());
        }
        let last = last_of(runs, set.layout.sections()).ok_or(SetRefusal::BadRuns)?;
        if set.layout.id_of(last) != Some(*layout_id) {
            return Err(SetRefusal::OtherLayout { ours: set.layout.id(), given: *layout_id }.into());
        }
        for section in runs.iter().flat_map(|run| run.iter()) {
            let residence = self.sections.resident(section).ok_or(SetRefusal::NotResident { section })?;
            if residence.came_by != MigrationId(0) {
                return Err(SetRefusal::SectionMigrates { section, migration: residence.came_by }.into());
            }
        }
        let open = self.migrations.iter().filter(|(_, one)| one.phase == Phase::Open);
        if let Some((section, migration)) = open.filter_map(|(id, one)| Some((one.overlap(runs)?, *id))).next() {
            return Err(SetRefusal::SectionMigrates { section, migration }.into());
        }
        if self.fingerprint(*to, runs) != Some(*fingerprint) {
            return Err(SetRefusal::StalePlan { migration: *id }.into());
        }
        self.open(
            *id,
            Migration {
                to: *to,
                scope: Scope::Runs(runs.clone()),
                pace: *pace,
                phase: Phase::Open,
                began: self.revision,
            },
        )
    }

    /// Returns a hash of the facts on which the plan of a migration depends: both sets, their lineages, the layout, and
    /// which sections are to migrate. The hash covers no section records, so a plan stays valid when owners or ceilings
    /// change. Returns `None` if no migration can have these runs, or if the set `to` is not known.
    #[must_use]
    pub fn fingerprint(&self, to: SetId, runs: &[SectionRun]) -> Option<Fingerprint> {
        let set = self.set.as_ref()?;
        let target = self.sets.get(&to)?;
        let to_lineage = target.facts.as_ref()?.lineage.max(target.fenced);
        let layout_id = set.layout.id_of(last_of(runs, set.layout.sections())?)?;
        let sets = [set.id.0, self.lineage.0, to.0, to_lineage.0, layout_id.0];
        let numbers = sets.into_iter().chain(runs.iter().flat_map(|run| [run.first.0.into(), run.sections.into()]));
        let hash = |hash, number: u64| layout::fnv1a(hash, &number.to_le_bytes());
        Some(Fingerprint(numbers.fold(layout::NO_SPACES.0, hash)))
    }

    pub(super) fn set_pace(&mut self, command: &SetPace) -> Result<(), CommandRefusal> {
        let SetPace { id, pace } = *command;
        check_pace(pace)?;
        let migration = self.migration_mut(id)?;
        if migration.phase != Phase::Open {
            return Err(SetRefusal::MigrationOver { migration: id }.into());
        }
        if core::mem::replace(&mut migration.pace, pace) != pace {
            self.note_event(EventRecord::MigrationPaced { migration: id, paused: pace.paused });
        }
        Ok(())
    }

    pub(super) fn roll_back(&mut self, command: &Rollback) -> Result<(), CommandRefusal> {
        let Rollback { id } = *command;
        if let Some(set) = self.set.as_ref().filter(|_| self.closing > Closing::Open) {
            // Sections that departed could not return to a closing set.
            let closing = SetRefusal::SetClosing { set: set.id };
            return if self.rules >= Rules::Ten { self.give_up(id) } else { Err(closing.into()) };
        }
        let migration = self.migration_mut(id)?;
        match (&migration.scope, migration.phase) {
            (_, Phase::RolledBack { .. }) => Ok(()),
            (Scope::Runs(_), Phase::Open) => {
                migration.phase = Phase::RolledBack { noted: false };
                self.note_event(EventRecord::MigrationRolledBack { migration: id });
                Ok(())
            }
            // A return ends when all sections are back, so there is no earlier state to go back to.
            _ => Err(SetRefusal::MigrationOver { migration: id }.into()),
        }
    }

    /// Completes a migration of this closing set with the sections that have departed so far. The other sections stay
    /// in this set until another migration moves them. This is needed because the target set may be closing as well,
    /// and would then never take them.
    fn give_up(&mut self, id: MigrationId) -> Result<(), CommandRefusal> {
        let departed: Vec<SectionId> =
            self.tombstones().filter(|(_, tombstone)| tombstone.by == id).map(|(section, _)| section).collect();
        let migration = self.migration_mut(id)?;
        match (&mut migration.scope, migration.phase) {
            (Scope::Runs(_), Phase::Completed { .. }) => Ok(()),
            (Scope::Runs(runs), Phase::Open) => {
                *runs = runs.iter().filter_map(|run| run.around(&departed)).collect();
                migration.phase = Phase::Completed { noted: false };
                self.note_event(EventRecord::MigrationCompleted { migration: id });
                Ok(())
            }
            _ => Err(SetRefusal::MigrationOver { migration: id }.into()),
        }
    }

    pub(super) fn complete(&mut self, command: &Complete) -> Result<(), CommandRefusal> {
        let Complete { id, by } = *command;
        let other = Err(SetRefusal::OtherMigration { migration: id }.into());
        if id == MigrationId(0) {
            return other;
        }
        let is_foreign = match self.rules {
            Rules::Seven => !self.migrations.contains_key(&id),
            Rules::Eight | Rules::Nine | Rules::Ten | Rules::Eleven => by.is_some(),
        };
        if is_foreign {
            if self.rules >= Rules::Eight && self.foreign_migrations.get(&id).is_some_and(|known| Some(*known) != by) {
                return other;
            }
            // The sections that came to this set by the migration stay.
            for residence in self.sections.residents_mut().filter(|residence| residence.came_by == id) {
                residence.advance(Residence { came_by: MigrationId(0), ..*residence });
            }
            self.foreign_migrations.remove(&id);
            return Ok(());
        }
        let Some(migration) = self.migrations.get(&id) else { return other };
        match migration.phase {
            Phase::Completed { .. } => return Ok(()),
            Phase::RolledBack { .. } => return Err(SetRefusal::MigrationOver { migration: id }.into()),
            Phase::Open => {}
        }
        if !self.has_arrived(id, migration) {
            return Err(SetRefusal::NotArrived { migration: id }.into());
        }
        // The tombstones are kept, because a backup of the other set may be older than the arrivals.
        self.migration_mut(id)?.phase = Phase::Completed { noted: false };
        self.note_event(EventRecord::MigrationCompleted { migration: id });
        Ok(())
    }

    /// Returns whether every section of a migration has arrived in the target set. Returns false for a return that is
    /// not settled, because more sections that are to return may still arrive in this set.
    #[must_use]
    pub fn has_arrived(&self, id: MigrationId, migration: &Migration) -> bool {
        let waits = |(section, record): (SectionId, &SectionRecord)| match record {
            SectionRecord::Departed(tombstone) => tombstone.by == id && !tombstone.arrived,
            SectionRecord::Resident(residence) => migration.covers(section, residence),
            _ => false,
        };
        !matches!(migration.scope, Scope::Return { settled: false, .. }) && !self.sections.known().any(waits)
    }

    /// Returns whether every section that has departed by this migration has also arrived in the target set. After the
    /// migration was completed or rolled back, no further section departs by it, so a true result stays true. Returns
    /// false in quarantine, because other sets may still state departures that the backup lacks.
    #[must_use]
    pub fn has_settled(&self, id: MigrationId) -> bool {
        !self.is_quarantined() && self.tombstones().all(|(_, tombstone)| tombstone.by != id || tombstone.arrived)
    }

    pub(super) fn start_return(&mut self, start: &StartReturn) -> Result<MigrationId, CommandRefusal> {
        let StartReturn { of, to, id, pace, settled } = *start;
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        let is_none = to == own || of == MigrationId(0) || self.migrations.contains_key(&of);
        if is_none || (self.rules >= Rules::Eight && !self.may_bind(of, to)) {
            return Err(SetRefusal::OtherMigration { migration: of }.into());
        }
        for (id, migration) in &mut self.migrations {
            if let Scope::Return { of: begun, settled: known } = &mut migration.scope
                && *begun == of
            {
                *known |= settled;
                return Ok(*id);
            }
        }
        if self.migrations.contains_key(&id) {
            return Err(SetRefusal::OtherMigration { migration: id }.into());
        }
        let scope = Scope::Return { of, settled };
        self.open(id, Migration { to, scope, pace, phase: Phase::Open, began: self.revision })?;
        self.bind(of, to);
        Ok(id)
    }

    fn open(&mut self, id: MigrationId, migration: Migration) -> Result<MigrationId, CommandRefusal> {
        if id == MigrationId(0) {
            return Err(SetRefusal::OtherMigration { migration: id }.into());
        }
        check_pace(migration.pace)?;
        if self.migrations.len() == limits::MAX_MIGRATIONS {
            return Err(SetRefusal::TooManyMigrations.into());
        }
        self.note_event(EventRecord::MigrationStarted { migration: id, to: migration.to });
        self.migrations.insert(id, migration);
        Ok(id)
    }

    fn migration_mut(&mut self, id: MigrationId) -> Result<&mut Migration, SetRefusal> {
        self.migrations.get_mut(&id).ok_or(SetRefusal::OtherMigration { migration: id })
    }
}

fn check_pace(pace: Pace) -> Result<(), CommandRefusal> {
    if pace.rate > 0 && pace.max_pause > Duration::ZERO { Ok(()) } else { Err(SetRefusal::BadPace { pace }.into()) }
}

/// Returns the last section of `runs`. Returns `None` if there are no runs or too many runs, or if they are out of
/// order, overlap, or end after the last of the layout's `sections`.
fn last_of(runs: &[SectionRun], sections: u32) -> Option<SectionId> {
    let ends: Option<Vec<u32>> = runs.iter().map(|run| run.end().filter(|end| *end <= sections)).collect();
    let ends = ends.filter(|ends| !ends.is_empty() && ends.len() <= limits::MAX_RUNS)?;
    let in_order = runs.iter().skip(1).zip(&ends).all(|(next, end)| next.first.0 >= *end);
    in_order.then(|| SectionId(ends[ends.len() - 1] - 1))
}
