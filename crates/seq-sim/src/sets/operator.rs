//! The operator in worlds of two sets. The operator begins, pauses and ends migrations, and merges one set into the
//! other.

use std::time::Duration;

use seq_core::layout::SectionRun;
use seq_core::state::{Close, Closing, Command, Complete, Migration, Pace, SetPace, StartMigration};
use seq_core::{MigrationId, SectionId};

use crate::events::Event;
use crate::faults::MS;
use crate::hosts::set_id;
use crate::store::Entry;
use crate::world::World;

/// Time between two steps of a merge.
const MERGE_STEP: u64 = 50 * MS;

/// A merge of the set `set` into the other set. The merge ends when the set `set` is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) set: usize,
    /// Whether a migration to the merged set begins just before the merged set closes.
    pub(crate) crossed: bool,
}

impl World {
    /// Begins a migration of some sections of a set to the other set. `pick` is a random number that selects the
    /// sections.
    pub(crate) fn migrate(&mut self, set: usize, pick: u64) {
        let state = &self.stores[set].state;
        let here: Vec<SectionId> = state.sections.residents().map(|(section, _)| section).collect();
        if here.is_empty() {
            return;
        }
        let first = here[pick as usize % here.len()];
        let mut sections = 1;
        while pick.is_multiple_of(2) && here.contains(&SectionId(first.0 + sections)) {
            sections += 1;
        }
        self.start_migration(set, SectionRun { first, sections });
    }

    fn start_migration(&mut self, set: usize, run: SectionRun) {
        let id = MigrationId(1_000 + self.fresh());
        let state = &self.stores[set].state;
        let (to, runs) = (set_id(1 - set), vec![run]);
        let Some(fingerprint) = state.fingerprint(to, &runs) else { return };
        let last = SectionId(run.first.0 + run.sections - 1);
        let layout = state.set.as_ref().map(|set| &set.layout);
        let Some(layout_id) = layout.and_then(|layout| layout.id_of(last)) else { return };
        let lineage = state.lineage;
        let pace = Pace { rate: 50, max_pause: Duration::from_secs(1), paused: false };
        let start = StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint };
        self.command(set, Command::StartMigration(start));
    }

    /// Schedules the application of a command of the operator to the log of a set.
    pub(crate) fn command(&mut self, set: usize, command: Command) {
        self.steer(set, Entry::Between(Box::new(command), None));
    }

    /// Sends a set the command that `command` returns for the id of the set's newest open migration, if there is an
    /// open migration.
    pub(crate) fn with_newest(&mut self, set: usize, command: impl FnOnce(MigrationId) -> Command) {
        let open = |(_, one): &(&MigrationId, &Migration)| one.is_open();
        let id = self.stores[set].state.migrations.iter().filter(open).map(|(id, _)| *id).next_back();
        if let Some(id) = id {
            self.command(set, command(id));
        }
    }

    /// Pauses all migrations of a set, or resumes them.
    pub(crate) fn pace(&mut self, set: usize, paused: bool) {
        let migrations = &self.stores[set].state.migrations;
        let paces: Vec<(MigrationId, Pace)> = migrations.iter().map(|(id, one)| (*id, one.pace)).collect();
        for (id, pace) in paces {
            self.command(set, Command::Pace(SetPace { id, pace: Pace { paused, ..pace } }));
        }
    }

    /// Begins a merge, unless a merge is in progress or a set is closing or closed already.
    pub(crate) fn merge(&mut self, merge: Merge) {
        if self.merge.is_none() && self.stores.iter().all(|store| store.state.closing == Closing::Open) {
            self.merge = Some(merge);
            self.after(0, Event::Merge);
        }
    }

    /// Does the next step of the merge. The steps are the migrations out of the merged set, their completion, and the
    /// closing of the merged set.
    pub(crate) fn merge_step(&mut self) {
        let Some(Merge { set, crossed }) = self.merge else { return };
        let state = &self.stores[set].state;
        if state.closing == Closing::Closed || (self.healed && state.closing == Closing::Open) {
            self.merge = None;
            return;
        }
        let (closing, is_empty) = (state.closing, state.check_close().is_ok());
        self.after(MERGE_STEP, Event::Merge);
        match closing {
            Closing::Open if is_empty => {
                if crossed && self.cross(1 - set) {
                    let wait = self.rng.between(10 * MS, 250 * MS);
                    self.after(wait, Event::Close(set));
                }
                self.merge = Some(Merge { set, crossed: false });
                if !crossed {
                    self.command(set, Command::Close(Close));
                }
            }
            Closing::Open => self.empty(set),
            Closing::Closing | Closing::Closed => self.command(set, Command::Close(Close)),
        }
    }

    /// Begins a migration of one section from the set `from` to the other set, which closes soon. Returns whether there
    /// was a section to migrate.
    fn cross(&mut self, from: usize) -> bool {
        let section = self.stores[from].state.sections.residents().map(|(section, _)| section).next();
        section.into_iter().for_each(|first| self.start_migration(from, SectionRun { first, sections: 1 }));
        section.is_some()
    }

    /// Empties a set that is to be closed. Completes the migrations of both sets, migrates the sections that are still
    /// in the set, and hands the creation of series to the other set.
    fn empty(&mut self, set: usize) {
        if self.stores[set].state.writes_series() {
            self.hand_over_series();
        }
        for one in 0..self.hosts.sets {
            let state = &self.stores[one].state;
            let ended =
                |(id, one): (&MigrationId, &Migration)| (one.is_open() && state.has_arrived(*id, one)).then_some(*id);
            let ids: Vec<MigrationId> = state.migrations.iter().filter_map(ended).collect();
            ids.into_iter().for_each(|id| self.command(one, Command::Complete(Complete { id, by: None })));
        }
        let state = &self.stores[set].state;
        if state.migrations.values().all(|one| !one.is_open()) {
            let here: Vec<SectionId> = state.sections.residents().map(|(section, _)| section).collect();
            here.into_iter().for_each(|first| self.start_migration(set, SectionRun { first, sections: 1 }));
        }
    }
}
