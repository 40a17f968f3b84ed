//! Measures and plots how the service scales: `just growth`.
//!
//! `seq-growth DIR` writes the plots into `DIR` and prints the tables and the goals; `seq-growth --smoke DIR` is a
//! short run with small sizes, as a test. A missed goal is a failure (exit code 1), except in a smoke run, which is too
//! short for goals.
//!
//! It uses the real components: `seq_core::Section`, the allocator behind its `SequenceService`, and a store of one
//! member with its log in memory, to exclude disk latency. The cost of an endpoint is not included, except in changes
//! of owner, which are messages. Every case of numbers is compared with the same work on a bare array of the same size,
//! in turn, in the same run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

mod directory;
mod keys;
mod measure;
mod memory;
mod owner_changes;
mod plot;
mod raise_cost;
mod report;
mod scenarios;
mod world;

use report::Report;

/// Measures how the service scales over uids, sections, allocators and steps.
#[derive(Debug, Parser)]
#[command(name = "seq-growth", version)]
struct Cli {
    /// A short run with small sizes and without goals.
    #[arg(long)]
    smoke: bool,
    /// Scenarios to measure; all by default.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SCENARIO")]
    only: Vec<Scenario>,
    /// Directory of the plots; created if it does not exist.
    dir: PathBuf,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// The figures of the documents: some minutes.
    Full,
    /// A second or two, for a test.
    Smoke,
}

/// What is measured, in this order: memory first, since memory that other scenarios free does not always return to the
/// system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Bytes of a touched uid.
    Memory,
    /// Bytes of a key, and the pause of a bucket that grows.
    Keys,
    /// The directory of 42,950 sections in 1, 4 and 64 sets.
    Directory,
    /// The rate over touched uids.
    Uids,
    /// The rate over owned sections.
    Sections,
    /// The rate over allocators.
    Allocators,
    /// Raises over steps.
    Steps,
    /// CPU time of raises at a step, and at a step that follows the rate.
    RaiseCost,
    /// Sections drained and taken over.
    OwnerChanges,
}

fn main() -> ExitCode {
    let Cli { smoke, only, dir } = Cli::parse();
    let scale = if smoke { Scale::Smoke } else { Scale::Full };
    let mut report = Report::new(dir.clone());
    let chosen = Scenario::value_variants().iter().filter(|one| only.is_empty() || only.contains(one));
    let mut run = |scenario: &Scenario| match scenario {
        Scenario::Memory => memory::scenario(scale, &mut report),
        Scenario::Keys => keys::scenario(scale, &mut report),
        Scenario::Directory => directory::scenario(scale, &mut report),
        Scenario::Uids => scenarios::uids(scale, &mut report),
        Scenario::Sections => scenarios::sections(scale, &mut report),
        Scenario::Allocators => scenarios::allocators(scale, &mut report),
        Scenario::Steps => scenarios::steps(scale, &mut report),
        Scenario::RaiseCost => raise_cost::scenario(scale, &mut report),
        Scenario::OwnerChanges => owner_changes::scenario(scale, &mut report),
    };
    for scenario in chosen {
        if let Err(error) = run(scenario) {
            eprintln!("{}: {error}", dir.display());
            return ExitCode::from(74);
        }
    }
    let missed = report.conclude();
    if missed && !smoke { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
