//! The command `unsafe`: what can lose data or lower a guard. Each command says before what it costs, and is confirmed
//! by the name of the set.

use clap::Subcommand;

use crate::exit::Exit;
use crate::output::Output;
use crate::recover::{self, RecoverArgs};

/// Commands that are confirmed by the name of the set.
#[derive(Debug, Subcommand)]
pub(crate) enum UnsafeCommand {
    /// Makes a backup from what is left of a set that lost the majority of its stores for good.
    Recover(RecoverArgs),
}

pub(crate) fn run(command: &UnsafeCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        UnsafeCommand::Recover(args) => recover::run(args, output),
    }
}
