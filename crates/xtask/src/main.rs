//! The repository's own checks, run as `cargo xtask NAME`.
//!
//! This program or a lint checks each rule of the repository that a program can check, so that reviewers need not check
//! it. A check changes no file of the repository. Some other subcommands write files, for example `generate`, which
//! writes the code of the protos, and `dist`, which builds the packages.

mod alerts;
mod book;
mod check;
mod dist;
mod fuzz;
mod generate;
mod layers;
mod report;
mod sentences;
mod source;
mod tidy;
mod tools;
mod turmoil;
mod wire;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own checks, and its packages")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs all checks that must pass before a change lands: format, lints, docs, tests, and the checks below.
    Check(check::CheckArgs),
    /// Builds the documents as a book below the target directory, and checks its links. Needs mdbook and lychee.
    Book,
    /// Builds the packages: tar.gz, .deb, container image, a list of the binary's components, and checksums.
    Dist(dist::DistArgs),
    /// Writes the list of the binary's components, in the CycloneDX format.
    Sbom(dist::sbom::SbomArgs),
    /// Checks sizes, module heads, sentences of comments, comments in the protos, and the numbering of the ADRs.
    Tidy,
    /// Runs each fuzz target for some seconds.
    Fuzz(fuzz::FuzzArgs),
    /// Generates the code of the protos into the tree, after a change of a proto. `cargo xtask wire` checks that the
    /// code in the tree is the code of the protos.
    Generate,
    /// Checks the dependencies between the crates of this workspace.
    Layers,
    /// Checks spelling, the form of TOML files, links, unused dependencies and white space, with the tools that are
    /// installed.
    Tools,
    /// Runs the real services on a simulated network, under faults, for a few seeds.
    Turmoil,
    /// Compares the protos with the last release, and the generated code with the protos.
    Wire(wire::WireArgs),
    /// Prints rates of words in comments and documents, rates of stiff sentences for each crate, and the places of
    /// words that docs/glossary.md does not use. `tidy` checks the rates of sentences.
    Words(words::WordsArgs),
}

fn main() -> ExitCode {
    let root = root();
    let outcome = match Args::parse().task {
        Task::Check(args) => check::run(&root, &args),
        Task::Tidy => tidy::run(&root),
        Task::Book => book::run(&root),
        Task::Dist(args) => dist::run(&root, &args),
        Task::Sbom(args) => dist::sbom::run(&root, &args),
        Task::Fuzz(args) => fuzz::run(&root, &args),
        Task::Generate => generate::run(&root),
        Task::Layers => layers::run(&root),
        Task::Tools => tools::run(&root),
        Task::Turmoil => turmoil::run(&root),
        Task::Wire(args) => wire::run(&root, &args),
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

/// Returns the root of the workspace, independent of the current directory.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("xtask lies in `crates/`").to_owned()
}

/// Returns a command that runs cargo in the directory `root`, with an empty standard input. It runs the same cargo that
/// started this program.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Returns the target directory of cargo.
fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}
