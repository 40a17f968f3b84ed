//! The command line.

use clap::{Parser, Subcommand};

use crate::alloc::AllocArgs;
use crate::bench::BenchArgs;
use crate::check::CheckCommand;
use crate::config::ConfigCommand;
use crate::dev::DevArgs;
use crate::node::NodeCommand;
use crate::numbers::{CurrentArgs, NextArgs};
use crate::output::Format;
use crate::replay::ReplayArgs;
use crate::services::ServicesArgs;
use crate::sim::SimCommand;
use crate::status::StatusArgs;
use crate::store::StoreArgs;

/// Per-user sequence numbers that only grow.
#[derive(Debug, Parser)]
#[command(
    name = "seqsvr",
    version,
    max_term_width = 120,
    after_help = "Examples:\n  seqsvr dev             a whole cluster in one process\n  seqsvr next 42         \
                  the next number of user 42\n  seqsvr status          who serves what\n\n\
                  Exit codes: 0 ok, 1 failed, 2 usage or bad config, 3 unhealthy, 4 cannot connect, 6 declined, 7 deadline, \
                  64 a server's bad config, 65 a removed store."
)]
pub(crate) struct Cli {
    /// How to print: aligned columns, one JSON object, or columns with more of them.
    #[arg(short, long, global = true, display_order = 900, value_enum, default_value_t = Format::Plain, env = "SEQSVR_OUTPUT")]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts a development cluster in one process: three stores and two allocators.
    Dev(DevArgs),
    /// Runs one store of a set, a member of the Raft group that keeps the ceilings; changes the members.
    Store(StoreArgs),
    /// Runs one allocator of a set: it gives the numbers out.
    Alloc(AllocArgs),
    /// Takes the next number of a user.
    Next(NextArgs),
    /// Reads the last number of users; moves nothing.
    Current(CurrentArgs),
    /// Shows sets, stores and allocators: who leads, who serves, what was given out.
    Status(StatusArgs),
    /// Lists a set's allocators; drains one, and lets it serve again.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Lists the gRPC services of a node.
    Services(ServicesArgs),
    /// Feeds a recorded message trace through the service and checks every answer.
    Replay(ReplayArgs),
    /// Measures throughput and latency, and watches the order of every number.
    Bench(BenchArgs),
    /// Checks whether a running cluster carries a load.
    #[command(subcommand)]
    Check(CheckCommand),
    /// Runs the rules of the service in simulated worlds: every fault, many thousand times faster than real time.
    #[command(subcommand)]
    Sim(SimCommand),
    /// Checks, shows or prints configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Prints a completion script for a shell.
    #[command(after_help = "Example:\n  seqsvr completions bash > /etc/bash_completion.d/seqsvr")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the version and source revision.
    Version,
}
