//! Figures about all open migrations of a set, for metrics.

use seq_core::MigrationId;
use seq_core::migration::{SectionCounts, Stage, section_counts};
use seq_core::state::{Phase, State};

use crate::set_admin::SetAdmin;

/// Sections of the migrations that began in this set and have not ended, and the migrations that are stuck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MigrationFigures {
    /// Sections that have not departed. The sections of a migration that is rolled back stay, so they do not count.
    pub(crate) waiting: u32,
    /// Sections that have departed and are not known to have arrived.
    pub(crate) departed: u32,
    /// Sections that have arrived.
    pub(crate) arrived: u32,
    /// Migrations that are stuck.
    pub(crate) stuck: u32,
}

impl SetAdmin {
    /// Returns the figures of the migrations that have not ended. Reads no record if there is no such migration.
    pub(crate) fn migration_figures(&self, state: &State) -> MigrationFigures {
        let progress = self.progress.borrow().clone();
        figures(state, |id| progress.get(id).is_some_and(|progress| progress.stuck.is_some()))
    }
}

/// Returns the figures of the migrations that have not ended. `is_stuck` returns whether a migration is stuck.
fn figures(state: &State, is_stuck: impl Fn(&MigrationId) -> bool) -> MigrationFigures {
    let mut figures = MigrationFigures::default();
    if state.migrations.values().all(|migration| matches!(migration.phase, Phase::Completed { .. })) {
        return figures;
    }
    for (id, counts) in section_counts(state) {
        if Stage::of(&state.migrations[&id], counts).is_over() {
            continue;
        }
        let SectionCounts { here, departed, arrived, .. } = counts;
        figures.waiting += here;
        figures.departed += departed - arrived;
        figures.arrived += arrived;
        figures.stuck += u32::from(is_stuck(&id));
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
        assert_eq!(open, MigrationFigures { waiting: 3, departed: 1, arrived: 0, stuck: 0 });
        assert_eq!(figures(&state, |id| *id == MIGRATION), MigrationFigures { stuck: 1, ..open });
        state.apply(&Command::Rollback(Rollback { id: MIGRATION }));
        assert_eq!(figures(&state, |_| true), MigrationFigures::default(), "it is over");
        assert_eq!(figures(&State::default(), |_| true), MigrationFigures::default());
    }
}
