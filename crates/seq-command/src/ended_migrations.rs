//! Finds the migrations that a restore of a set ends. They are the migrations that were open in the restored backup.

use seq_core::state::{Phase, Scope, State};
use serde::Serialize;

use crate::output::digits;
use crate::selection::sections_text;

/// A migration that was open in the backup of a set.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct EndedMigration {
    #[serde(serialize_with = "digits")]
    id: u64,
    /// The other set.
    to: String,
    sections: u32,
    /// `rolled_back` if the sections that arrived in the other set return without a command of the operator.
    /// `completed` if the migration is itself a return; the sections that it brought back then stay.
    becomes: &'static str,
}

/// Returns the migrations that end when a set is restored from a backup that contains `state`.
pub fn ended_migrations(state: &State) -> Vec<EndedMigration> {
    let open = state.migrations.iter().filter(|(_, migration)| migration.phase == Phase::Open);
    let ended = open.map(|(id, migration)| {
        let named = state.sets.get(&migration.to).and_then(|peer| Some(peer.facts.as_ref()?.name.to_string()));
        let (sections, becomes) = match &migration.scope {
            Scope::Runs(runs) => (runs.iter().map(|run| run.sections).sum(), "rolled_back"),
            Scope::Return { .. } => (0, "completed"),
        };
        EndedMigration { id: id.0, to: named.unwrap_or_else(|| migration.to.0.to_string()), sections, becomes }
    });
    ended.collect()
}

impl EndedMigration {
    /// Returns a line about the end of the migration.
    pub fn text(&self) -> String {
        let EndedMigration { id, to, sections, becomes } = self;
        match *becomes {
            "completed" => format!("{id} from set {to} ends: sections that returned stay"),
            _ => format!(
                "{id} of {} to set {to} is rolled back: sections that arrived there return",
                sections_text(*sections)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seq_core::layout::SectionRun;
    use seq_core::state::{Migration, Pace};
    use seq_core::{MigrationId, Revision, SectionId, SetId};

    use super::*;

    #[test]
    fn open_migrations_are_named_with_what_becomes_of_them() {
        let mut state = State::default();
        let mut begin = |id: u64, scope: Scope, phase: Phase| {
            let (to, pace, began) = (SetId(2), Pace { rate: 1, max_pause: Duration::ZERO, paused: true }, Revision(1));
            state.migrations.insert(MigrationId(id), Migration { to, scope, pace, phase, began });
        };
        let runs = || Scope::Runs(vec![SectionRun { first: SectionId(3), sections: 7 }]);
        begin(10, runs(), Phase::Open);
        begin(11, runs(), Phase::Completed { noted: true });
        begin(12, Scope::Return { of: MigrationId(9), settled: false }, Phase::Open);
        let texts: Vec<String> = ended_migrations(&state).iter().map(EndedMigration::text).collect();
        assert_eq!(
            texts,
            [
                "10 of 7 sections to set 2 is rolled back: sections that arrived there return",
                "12 from set 2 ends: sections that returned stay"
            ]
        );
    }
}
