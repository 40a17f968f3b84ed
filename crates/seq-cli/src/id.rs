//! The commands `id`. `id next` requests ids of a series from a cluster. The other commands list the shapes of ids,
//! show the parts of an id or make an id, and need no cluster unless they name a series.

mod decode;
mod encode;
mod foreign;
mod next;
mod shapes;

use clap::Subcommand;
use seq_command::exit::Exit;
use seq_command::output::Output;

/// The commands for ids.
#[derive(Debug, Subcommand)]
pub enum IdCommand {
    /// Requests the next id, or several ids, of a series.
    Next(next::NextArgs),
    /// Shows the time, the lane and the sequence number in ids.
    Decode(decode::DecodeArgs),
    /// Makes the first id of a given time, for queries by time.
    Encode(encode::EncodeArgs),
    /// Lists the named shapes of ids.
    #[command(
        after_help = "Examples:\n  seqsvr id shapes\n  seqsvr id shapes -o json | jq -r '.items[].last'\n\nExit codes: 0 listed."
    )]
    Shapes,
}

pub fn run(command: IdCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        IdCommand::Next(args) => seq_command::client_runtime()?.block_on(next::run(&args, output)),
        IdCommand::Decode(args) => decode::run(&args, output),
        IdCommand::Encode(args) => encode::run(&args, output),
        IdCommand::Shapes => shapes::run(output),
    }
}
