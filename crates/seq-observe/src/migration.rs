//! Converts a migration and its progress to the forms that commands and pages show.

use seq_command::output::{digits, grouped};
use seq_command::utc;
use seq_proto::v1::{MigrationPhase, MigrationStatus, SectionRange};
use serde::Serialize;

/// Text that is shown in the place of the speed of a migration if [`SetView::outdated`] is true.
///
/// [`SetView::outdated`]: crate::cluster::SetView::outdated
pub const OUTDATED: &str = "the leader of its store does not respond: its progress is that of an earlier time";

/// Phase of a migration. All commands print the same word for the same phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Sections depart.
    Open,
    /// An operator paused the migration.
    Paused,
    /// All sections have arrived. An operator can complete the migration or roll it back.
    Arrived,
    /// Sections return.
    RollingBack,
    /// All sections have returned.
    RolledBack,
    /// All sections stay permanently where they arrived.
    Completed,
}

impl Phase {
    /// Returns the phase of a migration.
    pub fn of(migration: &MigrationStatus) -> Phase {
        let is_paused = migration.pace.as_ref().is_some_and(|pace| pace.paused);
        match migration.phase() {
            MigrationPhase::Open | MigrationPhase::Unspecified if is_paused => Phase::Paused,
            MigrationPhase::Open | MigrationPhase::Unspecified => Phase::Open,
            MigrationPhase::Arrived => Phase::Arrived,
            MigrationPhase::RollingBack => Phase::RollingBack,
            MigrationPhase::RolledBack => Phase::RolledBack,
            MigrationPhase::Completed => Phase::Completed,
        }
    }

    /// Returns the word for the phase in a table.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Paused => "paused",
            Phase::Arrived => "arrived",
            Phase::RollingBack => "rolling back",
            Phase::RolledBack => "rolled back",
            Phase::Completed => "completed",
        }
    }

    /// Returns whether sections have yet to depart or to return.
    pub fn moves(self) -> bool {
        matches!(self, Phase::Open | Phase::Paused | Phase::RollingBack)
    }
}

/// Returns the number of sections that have arrived in the target set. While and after a migration is rolled back,
/// returns the number of sections that have returned or never departed.
pub fn done(migration: &MigrationStatus) -> u32 {
    match Phase::of(migration) {
        Phase::RollingBack | Phase::RolledBack => migration.sections.saturating_sub(migration.departed),
        _ => migration.arrived,
    }
}

/// Returns the estimated time, in seconds, until all sections have moved. Returns `None` while no section moves.
pub fn eta_seconds(migration: &MigrationStatus) -> Option<u64> {
    let left = migration.sections.saturating_sub(done(migration));
    let rate = migration.sections_per_second;
    // Below about one section in a quarter of an hour, an estimate has no meaning.
    (rate > 0.001).then(|| (f64::from(left) / rate).ceil() as u64)
}

/// Returns a text with the speed of a migration and the estimated remaining time, such as `50.0/s  ETA 13 s`.
pub fn speed(migration: &MigrationStatus) -> String {
    let eta = eta_seconds(migration).map_or_else(|| "-".to_owned(), duration);
    format!("{:.1}/s  ETA {eta}", migration.sections_per_second)
}

/// Returns a text with percentiles of the pauses of sections and, if no section moves, with the reason.
pub fn details(migration: &MigrationStatus) -> String {
    let millis = |us: u64| format!("{:.1} ms", us as f64 / 1_000.0);
    let mut text = if migration.pause_max_us == 0 {
        String::new()
    } else {
        let [p50, p99, max] = [migration.pause_p50_us, migration.pause_p99_us, migration.pause_max_us].map(millis);
        format!("  pause p50 {p50}  p99 {p99}  max {max}")
    };
    if !migration.stuck.is_empty() {
        text.push_str("  stuck: ");
        text.push_str(&migration.stuck);
    }
    text
}

/// Returns the state of a migration in one line.
pub fn line(migration: &MigrationStatus) -> String {
    let (sections, phase) = (grouped(migration.sections.into()), Phase::of(migration));
    let counts = format!("{}/{sections} {}", grouped(done(migration).into()), phase.name());
    if phase.moves() {
        format!("{counts}  {}{}", speed(migration), details(migration))
    } else {
        counts + &details(migration)
    }
}

/// Formats a duration of `seconds` in one unit, such as `42 s`, `3 min` or `2 h`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", grouped(seconds.div_ceil(3_600))),
    }
}

/// A migration as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct MigrationView {
    /// Id of the migration.
    #[serde(serialize_with = "digits")]
    pub id: u64,
    from: String,
    to: String,
    phase: Phase,
    sections: u32,
    departed: u32,
    arrived: u32,
    in_flight: u32,
    rate: u32,
    max_pause_ms: u32,
    paused: bool,
    sections_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_seconds: Option<u64>,
    pause_p50_us: u64,
    pause_p99_us: u64,
    pause_max_us: u64,
    /// Reason why no section moves; absent if sections move.
    #[serde(skip_serializing_if = "String::is_empty")]
    stuck: String,
    /// Time in UTC when an operator started the migration, absent if unknown. `ended` is the time when the migration
    /// was completed or rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// Whether this migration is a return, which brings back the sections of a migration that was rolled back.
    is_return: bool,
    runs: Vec<RunView>,
}

#[derive(Clone, Debug, Serialize)]
struct RunView {
    first_section: u32,
    sections: u32,
}

impl MigrationView {
    /// Converts a migration to its JSON form.
    pub fn new(migration: &MigrationStatus) -> MigrationView {
        let pace = migration.pace.unwrap_or_default();
        let run = |run: &SectionRange| RunView { first_section: run.first_section, sections: run.sections };
        MigrationView {
            id: migration.id,
            from: migration.from.clone(),
            to: migration.to.clone(),
            phase: Phase::of(migration),
            sections: migration.sections,
            departed: migration.departed,
            arrived: migration.arrived,
            in_flight: migration.in_flight,
            rate: pace.rate,
            max_pause_ms: pace.max_pause_ms,
            paused: pace.paused,
            sections_per_second: migration.sections_per_second,
            eta_seconds: Phase::of(migration).moves().then(|| eta_seconds(migration)).flatten(),
            pause_p50_us: migration.pause_p50_us,
            pause_p99_us: migration.pause_p99_us,
            pause_max_us: migration.pause_max_us,
            stuck: migration.stuck.clone(),
            started: utc::text_if_known(migration.started_unix_ms),
            ended: utc::text_if_known(migration.ended_unix_ms),
            is_return: migration.is_return,
            runs: migration.runs.iter().map(run).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(phase: MigrationPhase) -> MigrationStatus {
        MigrationStatus {
            phase: phase.into(),
            sections: 1_000,
            departed: 364,
            arrived: 362,
            ..MigrationStatus::default()
        }
    }

    #[test]
    fn speed_and_pauses_are_one_line_each() {
        let mut open = migration(MigrationPhase::Open);
        assert_eq!((speed(&open).as_str(), details(&open).as_str()), ("0.0/s  ETA -", ""));
        open.sections_per_second = 50.0;
        (open.pause_p50_us, open.pause_p99_us, open.pause_max_us) = (9_120, 24_000, 88_300);
        assert_eq!(speed(&open), "50.0/s  ETA 13 s");
        assert_eq!(details(&open), "  pause p50 9.1 ms  p99 24.0 ms  max 88.3 ms");
        open.stuck = "set im-b has no majority".to_owned();
        open.pause_max_us = 0;
        assert_eq!(details(&open), "  stuck: set im-b has no majority");
    }

    #[test]
    fn a_rollback_counts_what_has_returned() {
        assert_eq!((done(&migration(MigrationPhase::Open)), done(&migration(MigrationPhase::RollingBack))), (362, 636));
    }

    #[test]
    fn an_open_migration_may_be_paused() {
        let mut open = migration(MigrationPhase::Open);
        assert_eq!(Phase::of(&open).name(), "open");
        open.pace = Some(seq_proto::v1::MigrationPace { paused: true, ..Default::default() });
        assert_eq!(Phase::of(&open).name(), "paused");
        open.phase = MigrationPhase::Arrived.into();
        assert_eq!(Phase::of(&open).name(), "arrived");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([0, 119, 120, 7_199, 7_200].map(duration), ["0 s", "119 s", "2 min", "120 min", "2 h"]);
    }
}
