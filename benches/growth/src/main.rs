//! Measures and plots how the service scales: `just growth`.
//!
//! `seq-growth DIR` writes the plots into `DIR` and prints the tables and the goals; `seq-growth --smoke DIR` is a
//! short run with small sizes, as a test. A missed goal is a failure, except in a smoke run, which is too short for
//! goals.
//!
//! It uses the real components: `seq_core::Section`, the allocator behind its `SequenceService`, and a store of one
//! member with its log in memory, to exclude disk latency. The cost of an endpoint is not included, except in changes
//! of owner, which are messages. Every case of numbers is compared with the same work on a bare array of the same size,
//! in turn, in the same run.

use std::path::PathBuf;
use std::process::ExitCode;

mod directory;
mod measure;
mod memory;
mod owner_changes;
mod plot;
mod report;
mod scenarios;
mod world;

use report::Report;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// The figures of the documents: some minutes.
    Full,
    /// A second or two, for a test.
    Smoke,
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let smoke = args.first().is_some_and(|arg| arg == "--smoke");
    if smoke {
        args.remove(0);
    }
    let [dir] = args.as_slice() else {
        eprintln!("usage: seq-growth [--smoke] DIR");
        return ExitCode::from(64);
    };
    let scale = if smoke { Scale::Smoke } else { Scale::Full };
    let mut report = Report::new(PathBuf::from(dir));
    // Memory first: memory freed by other scenarios does not always return to the system.
    let written = memory::scenario(scale, &mut report)
        .and_then(|()| directory::scenario(scale, &mut report))
        .and_then(|()| scenarios::uids(scale, &mut report))
        .and_then(|()| scenarios::sections(scale, &mut report))
        .and_then(|()| scenarios::allocators(scale, &mut report))
        .and_then(|()| scenarios::steps(scale, &mut report))
        .and_then(|()| owner_changes::scenario(scale, &mut report));
    if let Err(error) = written {
        eprintln!("{dir}: {error}");
        return ExitCode::from(74);
    }
    let missed = report.conclude();
    if missed && !smoke { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
