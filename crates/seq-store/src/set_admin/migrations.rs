//! Requests of operators to start, pace, end and list migrations.
//!
//! The progress of a migration is stored in the records of its sections. Only the speed of the migration and the pauses
//! of its sections are held in the memory of the leader.

use std::time::Duration;

use seq_core::layout::SectionRun;
use seq_core::migration::return_id;
use seq_core::plan::Fingerprint;
use seq_core::state::{
    AuditEvent, AuditRecord, CommandRefusal, Complete, EventKind, EventRecord, Migration, Pace, Phase, Rollback, Scope,
    SectionRecord, SetPace, SetRefusal, StartMigration, State,
};
use seq_core::{LayoutId, Lineage, MigrationId, SectionId, SetId};
use seq_proto::Reason;
use seq_proto::v1::{
    CompleteMigrationRequest, CompleteMigrationResponse, ListMigrationsRequest, ListMigrationsResponse, MigrationPace,
    MigrationPhase, MigrationPlan, MigrationStatus, RollbackMigrationRequest, RollbackMigrationResponse, SectionRange,
    SetPaceRequest, SetPaceResponse, StartMigrationRequest, StartMigrationResponse,
};
use tonic::Status;

use super::{SetAdmin, name_of, refused};
use crate::audit::services::migration_text;
use crate::between::progress::MigrationProgress;

mod figures;

/// Default pace of a migration. With this pace, a migration moves 1,000 sections in five seconds, and each section
/// pauses for so short a time that callers do not notice it.
const DEFAULT_PACE: Pace = Pace { rate: 200, max_pause: Duration::from_millis(100), paused: false };

/// Returns the pace that a request sets for a migration. `given` is the pace in the request, and `before` is the
/// migration's present pace, or `None` for a new migration. A field that the request leaves out keeps its present
/// value, or gets its default in a new migration.
pub(super) fn pace_of(given: Option<&MigrationPace>, before: Option<Pace>) -> Pace {
    let before = before.unwrap_or(DEFAULT_PACE);
    let Some(MigrationPace { rate, max_pause_ms, paused }) = given.copied() else { return before };
    Pace {
        rate: if rate == 0 { before.rate } else { rate },
        max_pause: if max_pause_ms == 0 { before.max_pause } else { Duration::from_millis(max_pause_ms.into()) },
        paused,
    }
}

/// Maximum number of migrations that a status shows.
const MOST_OPEN: usize = 16;

impl SetAdmin {
    pub(super) async fn start_migration(
        &self,
        request: StartMigrationRequest,
    ) -> Result<StartMigrationResponse, Status> {
        self.linearize().await?;
        let own = self.read(|_, set| set.id)?;
        let Some(plan) = request.plan.filter(|plan| plan.id != 0) else {
            let text = "the request has no plan that can be started: make one without problems";
            return Err(Reason::StalePlan.status(text));
        };
        if plan.from_set_id != own.0 {
            let text =
                format!("the plan is of set {:?} with id {}, and this is set {own}", plan.from, plan.from_set_id);
            return Err(Reason::OtherSet.status(text));
        }
        let outcome = self.between.replicated.propose(command(&plan, pace_of(request.pace.as_ref(), None))).await?;
        let id = outcome.map_err(|refusal| stale(&refusal))?;
        let event = EventKind::MigrationStarted.name();
        tracing::info!(
            event,
            migration = id.0,
            from = plan.from,
            to = plan.to,
            runs = plan.runs.len(),
            "a migration started"
        );
        Ok(StartMigrationResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn set_pace(&self, request: SetPaceRequest) -> Result<SetPaceResponse, Status> {
        self.linearize().await?;
        let id = MigrationId(request.id);
        let before = self.known(id)?.pace;
        let pace = pace_of(request.pace.as_ref(), Some(before));
        let outcome = self.between.replicated.propose(SetPace { id, pace }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        let event = EventRecord::MigrationPaced { migration: id, paused: pace.paused }.kind().name();
        tracing::info!(event, migration = id.0, rate = pace.rate, max_pause = ?pace.max_pause, "pace set");
        Ok(SetPaceResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn rollback_migration(
        &self,
        request: RollbackMigrationRequest,
    ) -> Result<RollbackMigrationResponse, Status> {
        self.linearize().await?;
        let id = MigrationId(request.id);
        self.known(id)?;
        let outcome = self.between.replicated.propose(Rollback { id }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(event = EventKind::MigrationRolledBack.name(), migration = id.0, "a migration is rolled back");
        Ok(RollbackMigrationResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn complete_migration(
        &self,
        request: CompleteMigrationRequest,
    ) -> Result<CompleteMigrationResponse, Status> {
        self.linearize().await?;
        let id = MigrationId(request.id);
        // For a migration that began in another set, the command would have another meaning.
        self.known(id)?;
        let outcome = self.between.replicated.propose(Complete { id, by: None }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(event = EventKind::MigrationCompleted.name(), migration = id.0, "a migration is complete");
        Ok(CompleteMigrationResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn list_migrations(
        &self,
        request: ListMigrationsRequest,
    ) -> Result<ListMigrationsResponse, Status> {
        self.linearize().await?;
        if request.id != 0 {
            return Ok(ListMigrationsResponse { migrations: vec![self.status(MigrationId(request.id))?] });
        }
        let progress = self.progress.borrow().clone();
        self.read(|state, _| {
            let mut migrations: Vec<_> = state.migrations.iter().collect();
            migrations.sort_by_key(|(id, migration)| (migration.began, **id));
            let status = |(id, migration): (&MigrationId, &Migration)| shown(state, *id, migration, progress.get(id));
            ListMigrationsResponse { migrations: migrations.into_iter().map(status).collect() }
        })
    }

    /// Returns the status of the migrations that began in this set and have not ended, beginning with the oldest.
    pub(crate) fn open_migrations(&self, state: &State) -> Vec<MigrationStatus> {
        let progress = self.progress.borrow().clone();
        let ends = |migration: &Migration| matches!(migration.phase, Phase::Completed { .. });
        let mut open: Vec<_> = state.migrations.iter().filter(|(_, migration)| !ends(migration)).collect();
        open.sort_by_key(|(id, migration)| (migration.began, **id));
        let shown = open.into_iter().map(|(id, migration)| shown(state, *id, migration, progress.get(id)));
        shown.filter(|one| one.phase() != MigrationPhase::RolledBack).take(MOST_OPEN).collect()
    }

    /// Returns the migration `id`, or an error if it did not begin in this set.
    fn known(&self, id: MigrationId) -> Result<Migration, Status> {
        let known = self.read(|state, _| state.migrations.get(&id).cloned())?;
        known.ok_or_else(|| Reason::UnknownMigration.status(format!("no migration {id} began in this set")))
    }

    fn status(&self, id: MigrationId) -> Result<MigrationStatus, Status> {
        let migration = self.known(id)?;
        let progress = self.progress.borrow().clone();
        self.read(|state, _| shown(state, id, &migration, progress.get(&id)))
    }
}

fn command(plan: &MigrationPlan, pace: Pace) -> StartMigration {
    let run = |run: &SectionRange| SectionRun { first: SectionId(run.first_section), sections: run.sections };
    StartMigration {
        id: MigrationId(plan.id),
        to: SetId(plan.to_set_id),
        lineage: Lineage(plan.from_lineage),
        layout_id: LayoutId(plan.layout_id),
        runs: plan.runs.iter().map(run).collect(),
        pace,
        fingerprint: Fingerprint(plan.fingerprint),
    }
}

/// Returns the error of a migration that the state refused to start. The error is `STALE_PLAN` if something that the
/// plan depends on has changed.
fn stale(refusal: &CommandRefusal) -> Status {
    use SetRefusal as Set;
    match refusal {
        CommandRefusal::BetweenSets(
            Set::UnknownSet { .. }
            | Set::SetClosing { .. }
            | Set::OtherLayout { .. }
            | Set::OtherLineage { .. }
            | Set::NotResident { .. }
            | Set::SectionMigrates { .. }
            | Set::StalePlan { .. },
        ) => Reason::StalePlan.status(format!("the plan is out of date, make a new plan: {refusal}")),
        _ => refused(refusal),
    }
}

/// Returns the status of a migration. `progress` is the progress that this member has observed.
fn shown(
    state: &State,
    id: MigrationId,
    migration: &Migration,
    progress: Option<&MigrationProgress>,
) -> MigrationStatus {
    let (mut here, mut departed, mut arrived) = (0, 0, 0);
    for (section, record) in state.sections.known() {
        match record {
            SectionRecord::Departed(tombstone) if tombstone.by == id => {
                departed += 1;
                arrived += u32::from(tombstone.arrived);
            }
            SectionRecord::Resident(residence) if migration.covers(section, residence) => here += 1,
            _ => {}
        }
    }
    let (runs, is_return) = match &migration.scope {
        Scope::Runs(runs) => (runs.as_slice(), false),
        Scope::Return { .. } => ([].as_slice(), true),
    };
    let sections = if is_return { here + departed } else { runs.iter().map(|run| run.sections).sum() };
    let phase = phase(state, id, migration, departed);
    if phase == MigrationPhase::Completed {
        // The tombstones do not show how many sections departed and arrived: sections may have come back by another
        // migration, and a closing set completes a migration before all sections have arrived.
        (departed, arrived) = (sections, sections.saturating_sub(departed - arrived));
    }
    let times = Times::of(state, id);
    let default = MigrationProgress::default();
    let progress = progress.unwrap_or(&default);
    let us = |pause: Duration| u64::try_from(pause.as_micros()).unwrap_or(u64::MAX).max(1);
    let [p50, p99, max] = progress.pauses.map_or([0; 3], |pauses| pauses.map(us));
    let is_moving = matches!(phase, MigrationPhase::Open | MigrationPhase::RollingBack);
    let moves = is_moving && !migration.pace.paused;
    let stuck = match takes_none(state, migration, here) {
        true if is_return => {
            Some(format!("set {} is closing and takes no more sections", name_of(state, migration.to)))
        }
        true => Some(format!(
            "set {} is closing and takes no more sections: roll the migration back",
            name_of(state, migration.to)
        )),
        false => progress.stuck.clone(),
    };
    let range = |run: &SectionRun| SectionRange { first_section: run.first.0, sections: run.sections };
    MigrationStatus {
        id: id.0,
        from: state.set.as_ref().map_or(String::new(), |set| set.name.clone()),
        to: name_of(state, migration.to),
        to_set_id: migration.to.0,
        phase: phase.into(),
        pace: Some(MigrationPace {
            rate: migration.pace.rate,
            max_pause_ms: u32::try_from(migration.pace.max_pause.as_millis()).unwrap_or(u32::MAX),
            paused: migration.pace.paused,
        }),
        sections,
        departed,
        arrived,
        in_flight: progress.in_flight as u32,
        sections_per_second: if is_moving { progress.per_second } else { 0.0 },
        pause_p50_us: p50,
        pause_p99_us: p99,
        pause_max_us: max,
        stuck: stuck.filter(|_| moves).unwrap_or_default(),
        is_return,
        runs: runs.iter().map(range).collect(),
        started_unix_ms: times.started,
        ended_unix_ms: if is_over(phase) { times.ended } else { 0 },
    }
}

/// Returns whether the target set is closing, so that it does not take the `here` sections that are still in this set.
fn takes_none(state: &State, migration: &Migration, here: u32) -> bool {
    state.sets.get(&migration.to).is_some_and(|peer| peer.closing) && here > 0
}

fn is_over(phase: MigrationPhase) -> bool {
    matches!(phase, MigrationPhase::RolledBack | MigrationPhase::Completed)
}

/// Times at which operators started and ended a migration, in milliseconds since 1970; 0 if the audit log no longer has
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    started: u64,
    ended: u64,
}

impl Times {
    /// Finds the operations that started and ended the migration `id` in the audit log, by their texts, and returns
    /// their times. Otherwise, only people read these texts.
    fn of(state: &State, id: MigrationId) -> Times {
        let started = format!(", {}", migration_text(id.0));
        let ends = ["complete", "rollback"].map(|word| format!("migration {word} {id}"));
        let mut times = Times::default();
        for AuditEvent { record, .. } in state.audit.events() {
            let AuditRecord::Begun(begun) = record else { continue };
            if begun.operation.ends_with(&started) {
                times.started = begun.at_unix_ms;
            }
            if ends.contains(&begun.operation) {
                times.ended = begun.at_unix_ms;
            }
        }
        times
    }
}

/// Returns whether this set has a section that came back by the return of the migration `id`. Such a section can depart
/// by the migration again.
fn returns(state: &State, id: MigrationId) -> bool {
    let by = return_id(id);
    state.sections.residents().any(|(_, residence)| residence.came_by == by)
}

/// Returns the phase of a migration, of which `departed` sections have a tombstone in this set.
fn phase(state: &State, id: MigrationId, migration: &Migration, departed: u32) -> MigrationPhase {
    match migration.phase {
        Phase::Open if state.has_arrived(id, migration) => MigrationPhase::Arrived,
        Phase::Open => MigrationPhase::Open,
        // A section that has come back no longer has a tombstone. Until the other set has noted the return, more
        // sections may depart to it. Until the return is complete, no other migration can move the sections.
        Phase::RolledBack { noted: true } if departed == 0 && !returns(state, id) => MigrationPhase::RolledBack,
        Phase::RolledBack { .. } => MigrationPhase::RollingBack,
        Phase::Completed { .. } => MigrationPhase::Completed,
    }
}

#[cfg(test)]
mod tests {
    use seq_core::layout::Layout;
    use seq_core::state::{Closing, Command, DepartSilent, LearnDirectory, SetDefinition, SetFacts};
    use seq_core::{Epoch, Revision};

    use super::*;

    const TO: SetId = SetId(2);
    pub(super) const MIGRATION: MigrationId = MigrationId(6);

    /// Returns a closing set with sections 0 to 3 in a migration, of which section 1 has departed.
    pub(super) fn closing_set() -> State {
        let layout = Layout::new(0..400, 100).unwrap();
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::first("im-a", SetId(1), layout.clone())));
        let facts =
            |closing, revision| SetFacts { id: TO, name: "im-b".into(), closing, revision, ..SetFacts::default() };
        state.apply(&Command::LearnDirectory(LearnDirectory::of(facts(Closing::Open, Revision(1)))));
        let runs = vec![SectionRun { first: SectionId(0), sections: 4 }];
        let (layout_id, fingerprint) = (layout.id(), state.fingerprint(TO, &runs).unwrap());
        let (lineage, pace) = (Lineage(0), DEFAULT_PACE);
        let start = StartMigration { id: MIGRATION, to: TO, lineage, layout_id, runs, pace, fingerprint };
        state.apply(&Command::StartMigration(start));
        let (section, expected, liveness) = (SectionId(1), Epoch(0), None);
        let depart = DepartSilent { section, expected, liveness, to: TO, lineage, migration: MIGRATION };
        state.apply(&Command::DepartSilent(vec![depart]));
        state.closing = Closing::Closing;
        state.apply(&Command::LearnDirectory(LearnDirectory::of(facts(Closing::Closing, Revision(2)))));
        state
    }

    fn status(state: &State) -> MigrationStatus {
        shown(state, MIGRATION, &state.migrations[&MIGRATION], None)
    }

    #[test]
    fn a_migration_to_a_set_that_closes_is_stuck_and_ends_with_the_sections_that_departed() {
        let mut state = closing_set();
        let open = status(&state);
        assert_eq!((open.phase(), open.sections, open.departed, open.arrived), (MigrationPhase::Open, 4, 1, 0));
        assert_eq!(open.stuck, "set im-b is closing and takes no more sections: roll the migration back");
        state.apply(&Command::Rollback(Rollback { id: MIGRATION }));
        let ended = status(&state);
        assert_eq!(
            (ended.phase(), ended.sections, ended.departed, ended.arrived),
            (MigrationPhase::Completed, 1, 1, 0)
        );
        assert_eq!((ended.stuck.as_str(), state.sections.residents().count()), ("", 3));
    }
}
