//! The plan of a migration, which the command prints before anything is changed.

use std::fmt::Write;

use seq_command::output::{Table, digits, grouped};
use seq_command::selection::{Sections, contents_text, run_text, sections_text};
use seq_core::plan::Fingerprint;
use seq_observe::migration::MigrationView;
use seq_proto::v1::{MigrationPace, PlanMigrationResponse, SetInfo};
use serde::Serialize;

/// Rate of a migration, in sections per second, if the user gives none. It must equal the default of the store.
const DEFAULT_RATE: u32 = 200;
const DEFAULT_MAX_PAUSE_MS: u32 = 100;

/// Maximum number of runs in plain output. The outputs `-o wide` and JSON list all runs.
const RUNS_SHOWN: usize = 8;

/// Plan of a migration, with the problems and warnings that checks of both sets found. As JSON, it is the result of the
/// command.
#[derive(Serialize)]
pub(super) struct PlanView {
    operation: &'static str,
    dry_run: bool,
    /// Id of the plan. The migration that is started from the plan has the same id.
    #[serde(serialize_with = "digits")]
    id: u64,
    /// Fingerprint of the plan in hexadecimal, for the flag `--plan`. It is absent if problems prevent the migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    from: SideView,
    to: SideView,
    runs: Vec<RunView>,
    sections: u32,
    #[serde(serialize_with = "digits")]
    uids: u64,
    /// Number of lanes of series in the sections.
    #[serde(serialize_with = "digits")]
    lanes: u64,
    /// Number of sections without an owner. They depart without their exact counters, so their numbers continue at
    /// their ceilings.
    unowned: u32,
    /// Number of AllocSvrs of the target that can own sections.
    target_allocs: u32,
    /// Number of the AllocSvrs counted in `target_allocs` that respond to this command and have a lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_allocs_leased: Option<u32>,
    /// Maximum number of entries that the migration adds to the log of the source set. It adds fewer to the log of the
    /// target set.
    writes: u64,
    /// Estimated duration in seconds.
    seconds: u64,
    /// Sections per second.
    rate: u32,
    max_pause_ms: u32,
    warnings: Vec<String>,
    problems: Vec<String>,
    /// The migration; absent before it is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) migration: Option<MigrationView>,
}

/// The source set or the target set, with the numbers of its sections before and after the migration.
#[derive(Serialize)]
struct SideView {
    name: String,
    #[serde(serialize_with = "digits")]
    id: u64,
    /// Count of restores in the set's lineage.
    restores: u64,
    sections: u32,
    sections_after: u32,
}

#[derive(Serialize)]
struct RunView {
    first_section: u32,
    sections: u32,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    #[serde(skip)]
    text: String,
}

/// Returns the count of restores from backups in a lineage.
pub(crate) fn restores(lineage: u64) -> u64 {
    lineage >> 32
}

impl PlanView {
    pub(super) fn new(
        operation: &'static str,
        dry_run: bool,
        source: &SetInfo,
        response: &PlanMigrationResponse,
        pace: &MigrationPace,
    ) -> anyhow::Result<PlanView> {
        let layout = Sections::of(source)?;
        let plan = response.plan.clone().unwrap_or_default();
        let sections = response.sections;
        let run = |run: &seq_proto::v1::SectionRange| {
            let uids = layout.uids(run);
            let contents = match (uids.is_empty(), layout.with_lanes(run)) {
                (true, _) => contents_text(&uids),
                (false, 0) => format!("uids {}", contents_text(&uids)),
                (false, lanes) => format!("uids {}, and {} of series", contents_text(&uids), sections_text(lanes)),
            };
            let text = format!("{}  ({contents})", run_text(run));
            RunView {
                first_section: run.first_section,
                sections: run.sections,
                uid_start: uids.start,
                uid_end: uids.end,
                text,
            }
        };
        Ok(PlanView {
            operation,
            dry_run,
            id: plan.id,
            fingerprint: response.problems.is_empty().then(|| Fingerprint(plan.fingerprint).to_string()),
            from: SideView {
                restores: restores(plan.from_lineage),
                sections: source.sections,
                sections_after: source.sections.saturating_sub(sections),
                name: plan.from,
                id: plan.from_set_id,
            },
            to: SideView {
                restores: restores(plan.to_lineage),
                sections: response.target_sections,
                sections_after: response.target_sections.saturating_add(sections),
                name: plan.to,
                id: plan.to_set_id,
            },
            runs: plan.runs.iter().map(run).collect(),
            sections,
            uids: response.uids,
            lanes: response.lanes,
            unowned: response.unowned,
            target_allocs: response.target_allocs,
            target_allocs_leased: None,
            writes: response.writes,
            seconds: response.seconds,
            rate: if pace.rate == 0 { DEFAULT_RATE } else { pace.rate },
            max_pause_ms: if pace.max_pause_ms == 0 { DEFAULT_MAX_PAUSE_MS } else { pace.max_pause_ms },
            warnings: response.warnings.clone(),
            problems: response.problems.clone(),
            migration: None,
        })
    }

    /// Records that `leased` AllocSvrs of the target set respond and have a lease, and adds a warning if others do not.
    /// The count in the store's plan does not suffice, because the store counts a lost AllocSvr until its lease ends.
    pub(super) fn count_leased(&mut self, leased: u32) {
        self.target_allocs_leased = Some(leased.min(self.target_allocs));
        if leased < self.target_allocs {
            self.warnings.push(format!(
                "{leased} of the {} allocators of set {:?} that can own sections respond here with a lease: sections for the others \
                 wait, or are not served; start them, or plan again in a few seconds",
                self.target_allocs, self.to.name
            ));
        }
    }

    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns a text with the effect of the command. The prompt for confirmation contains it.
    pub(super) fn effect(&self) -> String {
        format!("migrate {} from set {} to set {}", sections_text(self.sections), self.from.name, self.to.name)
    }

    /// Returns the plan as text. If `wide` is true, the text lists all runs. `then` describes what the command does
    /// after the migration.
    pub(super) fn render(&self, wide: bool, then: Option<&str>) -> String {
        let mut text = String::new();
        let mut sets = Table::new(&["set", "sections", "after", "restores"]).right(&[1, 2, 3]);
        for side in [&self.from, &self.to] {
            let numbers = [side.sections.into(), side.sections_after.into(), side.restores].map(grouped);
            sets.row([side.name.clone()].into_iter().chain(numbers));
        }
        text.push_str(&sets.render());
        let mut line = |name: &str, value: std::fmt::Arguments<'_>| {
            writeln!(text, "{name:<12} {value}").expect("a String takes every write");
        };
        let shown = if wide { self.runs.len() } else { RUNS_SHOWN };
        for (index, run) in self.runs.iter().take(shown).enumerate() {
            line(if index == 0 { "sections" } else { "" }, format_args!("{}", run.text));
        }
        if self.runs.len() > shown {
            line("", format_args!("and {} more runs; -o wide lists them", self.runs.len() - shown));
        }
        let lanes = if self.lanes > 0 { format!(", {} lanes of series", grouped(self.lanes)) } else { String::new() };
        line("in all", format_args!("{}, {} uids{lanes}", sections_text(self.sections), grouped(self.uids)));
        if self.unowned > 0 {
            line("no owner", format_args!("{}: without exact values, at the ceiling", sections_text(self.unowned)));
        }
        line("target", format_args!("allocators that can own sections: {}", self.target_allocs));
        line(
            "time",
            format_args!(
                "about {} s at {} sections/s, pauses of a section up to {} ms",
                grouped(self.seconds),
                grouped(self.rate.into()),
                grouped(self.max_pause_ms.into())
            ),
        );
        line("log entries", format_args!("up to {} in set {}", grouped(self.writes), self.from.name));
        if let Some(then) = then {
            line("then", format_args!("{then}"));
        }
        for warning in &self.warnings {
            line("warning", format_args!("{warning}"));
        }
        for problem in &self.problems {
            line("problem", format_args!("{problem}"));
        }
        if let Some(fingerprint) = &self.fingerprint {
            line("plan", format_args!("{fingerprint}"));
        }
        text
    }
}
