//! Figures about all open migrations of a set, for metrics.

use std::collections::BTreeMap;

use seq_core::MigrationId;
use seq_core::state::{Phase, SectionRecord, State};
use seq_proto::v1::MigrationPhase;

use super::{is_over, phase, takes_none};
use crate::set_admin::SetAdmin;

/// Sections of the migrations that began in this set and have not ended, and the migrations that cannot move a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MigrationFigures {
    /// Sections that have not departed. The sections of a migration that is rolled back stay, so they do not count.
    pub(crate) waiting: u32,
    /// Sections that have departed and are not known to have arrived.
    pub(crate) departed: u32,
    /// Sections that have arrived.
    pub(crate) arrived: u32,
    /// Migrations that cannot move a section now.
    pub(crate) stuck: u32,
}

/// Sections of one migration.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    here: u32,
    departed: u32,
    arrived: u32,
}

impl SetAdmin {
    /// Returns the figures of the open migrations. Reads each record once, and no record without an open migration.
    pub(crate) fn migration_figures(&self, state: &State) -> MigrationFigures {
        let progress = self.progress.borrow().clone();
        figures(state, |id| progress.get(id).is_some_and(|progress| progress.stuck.is_some()))
    }
}

/// Returns the figures of the open migrations. `is_failing` returns whether the last request of a migration failed.
fn figures(state: &State, is_failing: impl Fn(&MigrationId) -> bool) -> MigrationFigures {
    let ends = |phase: &Phase| matches!(phase, Phase::Completed { .. });
    let open = state.migrations.iter().filter(|(_, migration)| !ends(&migration.phase));
    let mut counts: BTreeMap<MigrationId, Counts> = open.map(|(id, _)| (*id, Counts::default())).collect();
    if counts.is_empty() {
        return MigrationFigures::default();
    }
    for (section, record) in state.sections.known() {
        match record {
            SectionRecord::Departed(tombstone) => {
                if let Some(counts) = counts.get_mut(&tombstone.by) {
                    counts.departed += u32::from(!tombstone.arrived);
                    counts.arrived += u32::from(tombstone.arrived);
                }
            }
            SectionRecord::Resident(residence) => {
                for (id, counts) in &mut counts {
                    counts.here += u32::from(state.migrations[id].covers(section, residence));
                }
            }
            _ => {}
        }
    }
    let mut figures = MigrationFigures::default();
    for (id, Counts { here, departed, arrived }) in counts {
        let migration = &state.migrations[&id];
        let phase = phase(state, id, migration, departed + arrived);
        if is_over(phase) {
            continue;
        }
        figures.waiting += if phase == MigrationPhase::Open { here } else { 0 };
        figures.departed += departed;
        figures.arrived += arrived;
        let moves = phase != MigrationPhase::Arrived && !migration.pace.paused;
        figures.stuck += u32::from(moves && (is_failing(&id) || takes_none(state, migration, here)));
    }
    figures
}

#[cfg(test)]
mod tests {
    use seq_core::state::{Command, Rollback};

    use super::super::tests::{MIGRATION, closing_set};
    use super::*;

    #[test]
    fn sections_count_by_state_until_the_migration_ends() {
        let mut state = closing_set();
        let open = figures(&state, |_| false);
        assert_eq!(open, MigrationFigures { waiting: 3, departed: 1, arrived: 0, stuck: 1 }, "the other set closes");
        state.sets.values_mut().for_each(|peer| peer.closing = false);
        assert_eq!(figures(&state, |_| false), MigrationFigures { stuck: 0, ..open });
        assert_eq!(figures(&state, |id| *id == MIGRATION), open);
        state.migrations.get_mut(&MIGRATION).unwrap().pace.paused = true;
        assert_eq!(figures(&state, |_| true), MigrationFigures { stuck: 0, ..open });
        state.apply(&Command::Rollback(Rollback { id: MIGRATION }));
        let ended = figures(&state, |_| true);
        assert_eq!((ended.waiting, ended.stuck), (0, 0), "{ended:?}");
        assert_eq!(figures(&State::default(), |_| true), MigrationFigures::default());
    }
}
