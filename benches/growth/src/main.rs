//! Measures how the service grows, and draws it: `just growth`.
//!
//! `seq-growth DIR` writes the plots into `DIR` and prints the table and the goals; `seq-growth --smoke DIR` does the same
//! with little of everything, to see that it works. It fails when a goal is missed, but not in a smoke run, which is too
//! short to say.
//!
//! The pieces are the real ones: `seq_core::Section`, the allocator behind its `Frontend`, and a store of one member, which
//! keeps its log in memory so that a disk does not blur the picture. What a door costs is not in here. Everything is
//! compared with the same work on a bare array of the same size, in turn, in the same run.

use std::path::PathBuf;
use std::process::ExitCode;

mod chapters;
mod measure;
mod memory;
mod plot;
mod report;
mod world;

use report::Report;

/// Of which size everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// What is stated in the documents: some minutes.
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
    // Memory first: what later chapters free does not always go back to the system.
    let written = memory::chapter(scale, &mut report)
        .and_then(|()| chapters::uids(scale, &mut report))
        .and_then(|()| chapters::sections(scale, &mut report))
        .and_then(|()| chapters::allocators(scale, &mut report))
        .and_then(|()| chapters::steps(scale, &mut report));
    if let Err(error) = written {
        eprintln!("{dir}: {error}");
        return ExitCode::from(74);
    }
    let missed = report.conclude();
    if missed && !smoke { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
