//! Requests of operators to start, pace, end and list migrations.
//!
//! The progress of a migration is stored in the records of its sections. Only the speed of the migration and the pauses
//! of its sections are held in the memory of the leader.

use std::collections::BTreeMap;
use std::time::Duration;

use seq_core::layout::SectionRun;
use seq_core::migration::{SectionCounts, Stage, section_counts};
use seq_core::plan::Fingerprint;
use seq_core::state::{
    AuditEvent, AuditRecord, CommandRefusal, Complete, Migration, Pace, Phase, Rollback, Scope, SetPace, SetRefusal,
    StartMigration, State,
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
use crate::between::progress::{MigrationProgress, Progress};

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
        self.check_leads()?;
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
        tracing::info!(migration = id.0, from = plan.from, to = plan.to, runs = plan.runs.len(), "a migration started");
        Ok(StartMigrationResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn set_pace(&self, request: SetPaceRequest) -> Result<SetPaceResponse, Status> {
        self.check_leads()?;
        let id = MigrationId(request.id);
        let before = self.known(id)?.pace;
        let pace = pace_of(request.pace.as_ref(), Some(before));
        let outcome = self.between.replicated.propose(SetPace { id, pace }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(migration = id.0, rate = pace.rate, max_pause = ?pace.max_pause, paused = pace.paused, "pace set");
        Ok(SetPaceResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn rollback_migration(
        &self,
        request: RollbackMigrationRequest,
    ) -> Result<RollbackMigrationResponse, Status> {
        self.check_leads()?;
        let id = MigrationId(request.id);
        self.known(id)?;
        let outcome = self.between.replicated.propose(Rollback { id }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(migration = id.0, "a migration is rolled back");
        Ok(RollbackMigrationResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn complete_migration(
        &self,
        request: CompleteMigrationRequest,
    ) -> Result<CompleteMigrationResponse, Status> {
        self.check_leads()?;
        let id = MigrationId(request.id);
        // For a migration that began in another set, the command would have another meaning.
        self.known(id)?;
        let outcome = self.between.replicated.propose(Complete { id, by: None }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(migration = id.0, "a migration is complete");
        Ok(CompleteMigrationResponse { migration: Some(self.status(id)?) })
    }

    pub(super) async fn list_migrations(
        &self,
        request: ListMigrationsRequest,
    ) -> Result<ListMigrationsResponse, Status> {
        self.check_leads()?;
        if request.id != 0 {
            return Ok(ListMigrationsResponse { migrations: vec![self.status(MigrationId(request.id))?] });
        }
        let progress = self.progress.borrow().clone();
        self.read(|state, _| {
            let all = Shown::new(state, &progress);
            ListMigrationsResponse { migrations: oldest_first(state, |_| true).map(|one| all.status(one)).collect() }
        })
    }

    /// Returns the status of the migrations that began in this set and have not ended, beginning with the oldest.
    pub(crate) fn open_migrations(&self, state: &State) -> Vec<MigrationStatus> {
        let mut candidates = oldest_first(state, |one| !matches!(one.phase, Phase::Completed { .. })).peekable();
        if candidates.peek().is_none() {
            return Vec::new();
        }
        let progress = self.progress.borrow().clone();
        let all = Shown::new(state, &progress);
        let is_over = |(id, migration): &(MigrationId, &Migration)| all.stage(*id, migration).is_over();
        candidates.filter(|one| !is_over(one)).take(MOST_OPEN).map(|one| all.status(one)).collect()
    }

    /// Returns the migration `id`, or an error if it did not begin in this set.
    fn known(&self, id: MigrationId) -> Result<Migration, Status> {
        let known = self.read(|state, _| state.migrations.get(&id).cloned())?;
        known.ok_or_else(|| Reason::UnknownMigration.status(format!("no migration {id} began in this set")))
    }

    fn status(&self, id: MigrationId) -> Result<MigrationStatus, Status> {
        let migration = self.known(id)?;
        let progress = self.progress.borrow().clone();
        self.read(|state, _| Shown::new(state, &progress).status((id, &migration)))
    }
}

/// Returns the migrations that began in this set and for which `is_wanted` returns true, beginning with the oldest.
fn oldest_first(
    state: &State,
    is_wanted: impl Fn(&Migration) -> bool,
) -> impl Iterator<Item = (MigrationId, &Migration)> {
    let wanted = state.migrations.iter().filter(|(_, migration)| is_wanted(migration));
    let mut wanted: Vec<_> = wanted.map(|(id, migration)| (*id, migration)).collect();
    wanted.sort_by_key(|(id, migration)| (migration.began, *id));
    wanted.into_iter()
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

/// Facts about all migrations of a set, from which the status of each is made. They are read from the state in one pass,
/// because a set may have tens of thousands of migrations, and no entry is applied while the state is read.
struct Shown<'a> {
    state: &'a State,
    counts: BTreeMap<MigrationId, SectionCounts>,
    times: BTreeMap<MigrationId, Times>,
    /// Progress that this member has observed.
    progress: &'a Progress,
}

impl<'a> Shown<'a> {
    fn new(state: &'a State, progress: &'a Progress) -> Shown<'a> {
        Shown { state, counts: section_counts(state), times: Times::of_all(state), progress }
    }

    fn stage(&self, id: MigrationId, migration: &Migration) -> Stage {
        Stage::of(migration, self.counts.get(&id).copied().unwrap_or_default())
    }

    fn status(&self, (id, migration): (MigrationId, &Migration)) -> MigrationStatus {
        let state = self.state;
        let SectionCounts { here, mut departed, mut arrived, .. } = self.counts.get(&id).copied().unwrap_or_default();
        let (runs, is_return) = match &migration.scope {
            Scope::Runs(runs) => (runs.as_slice(), false),
            Scope::Return { .. } => ([].as_slice(), true),
        };
        let sections = if is_return { here + departed } else { runs.iter().map(|run| run.sections).sum() };
        let stage = self.stage(id, migration);
        if stage == Stage::Completed {
            // The tombstones do not show how many sections departed and arrived: sections may have come back by another
            // migration, and a closing set completes a migration before all sections have arrived.
            (departed, arrived) = (sections, sections.saturating_sub(departed - arrived));
        }
        let times = self.times.get(&id).copied().unwrap_or_default();
        let default = MigrationProgress::default();
        let progress = self.progress.get(&id).unwrap_or(&default);
        let us = |pause: Duration| u64::try_from(pause.as_micros()).unwrap_or(u64::MAX).max(1);
        let [p50, p99, max] = progress.pauses.map_or([0; 3], |pauses| pauses.map(us));
        let is_moving = matches!(stage, Stage::Open | Stage::RollingBack);
        let range = |run: &SectionRun| SectionRange { first_section: run.first.0, sections: run.sections };
        MigrationStatus {
            id: id.0,
            from: state.set.as_ref().map_or(String::new(), |set| set.name.clone()),
            to: name_of(state, migration.to),
            to_set_id: migration.to.0,
            phase: phase(stage).into(),
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
            stuck: progress.stuck.clone().filter(|_| is_moving).unwrap_or_default(),
            is_return,
            runs: runs.iter().map(range).collect(),
            started_unix_ms: times.started,
            ended_unix_ms: if stage.is_over() { times.ended } else { 0 },
        }
    }
}

/// Times at which operators started and ended a migration, in milliseconds since 1970; 0 if the audit log no longer has
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    started: u64,
    ended: u64,
}

impl Times {
    /// Finds the operations that started and ended migrations in the audit log, by their texts, and returns their times
    /// by migration. Otherwise, only people read these texts.
    fn of_all(state: &State) -> BTreeMap<MigrationId, Times> {
        let mut all: BTreeMap<MigrationId, Times> = BTreeMap::new();
        for AuditEvent { record, .. } in state.audit.events() {
            let AuditRecord::Begun(begun) = record else { continue };
            // The id is the last word of each of these texts.
            let Some(id) = begun.operation.rsplit(' ').next().and_then(|word| word.parse().ok()) else { continue };
            let ends = ["complete", "rollback"].map(|word| format!("migration {word} {id}"));
            if begun.operation.ends_with(&format!(", {}", migration_text(id))) {
                all.entry(MigrationId(id)).or_default().started = begun.at_unix_ms;
            } else if ends.contains(&begun.operation) {
                all.entry(MigrationId(id)).or_default().ended = begun.at_unix_ms;
            }
        }
        all
    }
}

fn phase(stage: Stage) -> MigrationPhase {
    match stage {
        Stage::Open => MigrationPhase::Open,
        Stage::Arrived => MigrationPhase::Arrived,
        Stage::RollingBack => MigrationPhase::RollingBack,
        Stage::RolledBack => MigrationPhase::RolledBack,
        Stage::Completed => MigrationPhase::Completed,
    }
}

#[cfg(test)]
mod tests {
    use seq_core::layout::Layout;
    use seq_core::state::{BeginOperation, Closing, Command, DepartSilent, LearnDirectory, SetDefinition, SetFacts};
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
        let stuck = Some("no response".to_owned());
        let progress = Progress::from([(MIGRATION, MigrationProgress { stuck, ..MigrationProgress::default() })]);
        Shown::new(state, &progress).status((MIGRATION, &state.migrations[&MIGRATION]))
    }

    #[test]
    fn times_are_those_of_the_operations_that_started_and_ended_a_migration() {
        let mut state = closing_set();
        for (at_unix_ms, operation) in [
            (5, "migrate 4 sections to im-b, migration 6"),
            (6, "migrate 4 sections to im-c, migration 16"),
            (7, "migration pace 6"),
            (8, "migration complete 16"),
            (9, "migration rollback 6"),
        ] {
            let (principal, node, operation) = ("operator/alice".into(), "s1".into(), operation.into());
            state.apply(&Command::BeginOperation(BeginOperation { at_unix_ms, principal, node, operation, plan: 0 }));
        }
        let times = Times::of_all(&state);
        let expected = [(MIGRATION, Times { started: 5, ended: 9 }), (MigrationId(16), Times { started: 6, ended: 8 })];
        assert_eq!(times, expected.into());
        state.apply(&Command::Rollback(Rollback { id: MIGRATION }));
        assert_eq!((status(&state).started_unix_ms, status(&state).ended_unix_ms), (5, 9));
    }

    #[test]
    fn a_migration_to_a_set_that_closes_ends_with_the_sections_that_departed() {
        let mut state = closing_set();
        let open = status(&state);
        assert_eq!((open.phase(), open.sections, open.departed, open.arrived), (MigrationPhase::Open, 4, 1, 0));
        assert_eq!(open.stuck, "no response");
        state.apply(&Command::Rollback(Rollback { id: MIGRATION }));
        let ended = status(&state);
        assert_eq!(
            (ended.phase(), ended.sections, ended.departed, ended.arrived),
            (MigrationPhase::Completed, 1, 1, 0)
        );
        assert_eq!((ended.stuck.as_str(), state.sections.residents().count()), ("", 3));
    }
}
