//! The repository's own checks, run as `cargo xtask NAME`.
//!
//! A rule that can be checked by a program is checked here or by a lint, so that reviews are about the rest. None of the
//! checks writes anything.

mod check;
mod fuzz;
mod layers;
mod report;
mod source;
mod tidy;
mod turmoil;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own checks")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that must hold before a change lands: format, lints, docs, tests, and the checks below.
    Check(check::CheckArgs),
    /// Sizes, module heads, comments in the protos, links, numbering of the ADRs.
    Tidy,
    /// Feeds the fuzz targets for some seconds each.
    Fuzz(fuzz::FuzzArgs),
    /// The allowed dependencies between the crates of this workspace.
    Layers,
    /// Runs the real services on a simulated network, under faults, for a few seeds.
    Turmoil,
    /// How the prose speaks, and where the words that docs/glossary.md replaces still stand: a report, not a check.
    Words(words::WordsArgs),
}

fn main() -> ExitCode {
    let root = root();
    let outcome = match Args::parse().task {
        Task::Check(args) => check::run(&root, &args),
        Task::Tidy => tidy::run(&root),
        Task::Fuzz(args) => fuzz::run(&root, &args),
        Task::Layers => layers::run(&root),
        Task::Turmoil => turmoil::run(&root),
        Task::Words(args) => words::run(&root, &args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's directory, wherever in it the command was called.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("xtask lies in `crates/`").to_owned()
}

/// The cargo that runs this program, in the workspace and without input.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Where cargo puts what it builds.
fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}
