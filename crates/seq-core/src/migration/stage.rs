//! The stage of each migration of a set, with the numbers of its sections, read from the section records.
//!
//! The records of thousands of old migrations stay in the state, and any operator may list them. So all migrations
//! together are counted in one pass over the section records.

use alloc::collections::BTreeMap;

use super::{covered, return_id};
use crate::id::MigrationId;
use crate::state::{Migration, Phase, Scope, SectionRecord, State};

/// Sections of one migration that began in this set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionCounts {
    /// Sections that are in this set and are to depart; 0 if the migration is not open.
    pub here: u32,
    /// Sections that have departed from this set, including those that have arrived.
    pub departed: u32,
    /// Sections that have arrived in the target set, as far as this set knows.
    pub arrived: u32,
    /// Sections that came back by the return of this migration, and can still depart by the migration again.
    pub returned: u32,
}

/// Stage of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Sections depart.
    Open,
    /// All sections have arrived, and an operator may complete the migration.
    Arrived,
    /// The sections that have departed are to return.
    RollingBack,
    /// All sections that had departed are back.
    RolledBack,
    /// The migration is completed.
    Completed,
}

impl Stage {
    /// Returns the stage of a migration with these sections.
    #[must_use]
    pub fn of(migration: &Migration, counts: SectionCounts) -> Stage {
        let SectionCounts { here, departed, arrived, returned } = counts;
        match migration.phase {
            // More sections may come here that are to return.
            Phase::Open if matches!(migration.scope, Scope::Return { settled: false, .. }) => Stage::Open,
            Phase::Open if here == 0 && departed == arrived => Stage::Arrived,
            Phase::Open => Stage::Open,
            // A section that has come back no longer has a tombstone. Until the other set has noted the return, more
            // sections may depart to it. Until the return is complete, no other migration can move the sections.
            Phase::RolledBack { noted: true } if departed == 0 && returned == 0 => Stage::RolledBack,
            Phase::RolledBack { .. } => Stage::RollingBack,
            Phase::Completed { .. } => Stage::Completed,
        }
    }

    /// Returns whether no section will depart or return by the migration any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Stage::RolledBack | Stage::Completed)
    }
}

/// Counts the sections of all migrations that began in this set. The result has an entry for each of them.
#[must_use]
pub fn section_counts(state: &State) -> BTreeMap<MigrationId, SectionCounts> {
    let mut counts = BTreeMap::new();
    // Migrations to which sections with a mark of another migration belong: open returns, and migrations that are
    // rolled back.
    let (mut returns, mut returned) = (BTreeMap::new(), BTreeMap::new());
    for (id, migration) in &state.migrations {
        let counts: &mut SectionCounts = counts.entry(*id).or_default();
        match (migration.phase, &migration.scope) {
            (Phase::Open, Scope::Return { of, .. }) => {
                returns.insert(*of, *id);
            }
            // Open migrations have no section in common, so this reads each record at most once.
            (Phase::Open, Scope::Runs(_)) => counts.here = covered(state, migration).count() as u32,
            (Phase::RolledBack { .. }, _) => {
                returned.insert(return_id(*id), *id);
            }
            (Phase::Completed { .. }, _) => {}
        }
    }
    if counts.is_empty() {
        return counts;
    }
    for (_, record) in state.sections.known() {
        match record {
            SectionRecord::Departed(tombstone) => {
                if let Some(counts) = counts.get_mut(&tombstone.by) {
                    counts.departed += 1;
                    counts.arrived += u32::from(tombstone.arrived);
                }
            }
            SectionRecord::Resident(residence) => {
                let mut count = |migrations: &BTreeMap<MigrationId, MigrationId>, add: fn(&mut SectionCounts)| {
                    let counts = migrations.get(&residence.came_by).and_then(|id| counts.get_mut(id));
                    counts.into_iter().for_each(add);
                };
                count(&returns, |counts| counts.here += 1);
                count(&returned, |counts| counts.returned += 1);
            }
            SectionRecord::Never | SectionRecord::Quarantined(_) => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::id::{Epoch, HandoverId, Incarnation, Lineage, Revision, RouteVersion, SectionId, Seq, SetId};
    use crate::layout::{Layout, SectionRun};
    use crate::state::{Command, Destination, Pace, Residence, SetDefinition, Tombstone};

    const OPEN: MigrationId = MigrationId(1);
    const ROLLED_BACK: MigrationId = MigrationId(2);
    const RETURN: MigrationId = MigrationId(3);
    const COMPLETED: MigrationId = MigrationId(4);
    /// A migration that began in another set, which has rolled it back.
    const FOREIGN: MigrationId = MigrationId(9);

    /// Returns a set of 40 sections with a migration in each phase.
    fn state() -> State {
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::only("s", Layout::new(0..400, 10).unwrap())));
        let runs = |first, sections| Scope::Runs(vec![SectionRun { first: SectionId(first), sections }]);
        for (id, scope, phase) in [
            (OPEN, runs(0, 10), Phase::Open),
            (ROLLED_BACK, runs(10, 10), Phase::RolledBack { noted: true }),
            (RETURN, Scope::Return { of: FOREIGN, settled: true }, Phase::Open),
            (COMPLETED, runs(30, 10), Phase::Completed { noted: true }),
        ] {
            let pace = Pace { rate: 1, max_pause: core::time::Duration::from_millis(1), paused: false };
            let migration = Migration { to: SetId(2), scope, pace, phase, began: Revision(id.0) };
            state.migrations.insert(id, migration);
        }
        state
    }

    fn depart(state: &mut State, section: u32, by: MigrationId, arrived: bool) {
        let to = Destination { set: SetId(2), lineage: Lineage(0), node: None, incarnation: Incarnation(0) };
        let (epoch, handover_id, max_seq, routed) = (Epoch(2), HandoverId(0), Seq::ZERO, RouteVersion(1));
        let tombstone = Tombstone { epoch, to, handover_id, max_seq, by, arrived, routed };
        state.sections.put(SectionId(section), SectionRecord::Departed(tombstone));
    }

    fn come(state: &mut State, section: u32, came_by: MigrationId) {
        let residence = Residence { came_by, ..Residence::default() };
        state.sections.put(SectionId(section), SectionRecord::Resident(residence));
    }

    #[test]
    fn all_migrations_are_counted_in_one_pass() {
        let mut state = state();
        for (section, by, arrived) in
            [(0, OPEN, true), (1, OPEN, false), (10, ROLLED_BACK, true), (20, RETURN, true), (30, COMPLETED, true)]
        {
            depart(&mut state, section, by, arrived);
        }
        come(&mut state, 11, return_id(ROLLED_BACK));
        come(&mut state, 21, FOREIGN);
        come(&mut state, 22, FOREIGN);
        let counts = |here, departed, arrived, returned| SectionCounts { here, departed, arrived, returned };
        let expected = [
            (OPEN, counts(8, 2, 1, 0), Stage::Open),
            (ROLLED_BACK, counts(0, 1, 1, 1), Stage::RollingBack),
            (RETURN, counts(2, 1, 1, 0), Stage::Open),
            (COMPLETED, counts(0, 1, 1, 0), Stage::Completed),
        ];
        let found = section_counts(&state);
        for (id, counts, stage) in expected {
            assert_eq!((found[&id], Stage::of(&state.migrations[&id], found[&id])), (counts, stage), "migration {id}");
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn a_migration_has_arrived_when_the_state_accepts_its_completion() {
        let mut state = state();
        let stage = |state: &State, id| Stage::of(&state.migrations[&id], section_counts(state)[&id]);
        let has_arrived = |state: &State, id| state.has_arrived(id, &state.migrations[&id]);
        assert_eq!(stage(&state, RETURN), Stage::Arrived, "no section came by the migration");
        for section in 0..10 {
            assert_eq!((stage(&state, OPEN), has_arrived(&state, OPEN)), (Stage::Open, false));
            depart(&mut state, section, OPEN, section < 9);
        }
        assert_eq!((stage(&state, OPEN), has_arrived(&state, OPEN)), (Stage::Open, false), "one is on its way");
        depart(&mut state, 9, OPEN, true);
        assert_eq!((stage(&state, OPEN), has_arrived(&state, OPEN)), (Stage::Arrived, true));
        state.migrations.get_mut(&RETURN).unwrap().scope = Scope::Return { of: FOREIGN, settled: false };
        assert_eq!((stage(&state, RETURN), has_arrived(&state, RETURN)), (Stage::Open, false));
        assert_eq!(stage(&state, ROLLED_BACK), Stage::RolledBack);
    }
}
