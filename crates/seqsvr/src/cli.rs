//! The command line.

use clap::{Parser, Subcommand};

use crate::output::Format;
use crate::{bench, replay};

/// Per-user sequence numbers that only grow.
#[derive(Debug, Parser)]
#[command(name = "seqsvr", version, propagate_version = true, max_term_width = 120)]
pub(crate) struct Cli {
    /// How to print: aligned columns, one JSON object, or columns with more of them.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Plain, env = "SEQSVR_OUTPUT")]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Feeds a recorded message trace through the service and checks every answer.
    Replay(replay::ReplayArgs),
    /// Measures throughput and latency, and watches the order of every number.
    Bench(bench::BenchArgs),
}
