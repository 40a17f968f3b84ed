//! The command `unsafe`, for operations that can lose data or weaken a protection. Each operation first shows its cost,
//! and the operator has to confirm it with the name of the set.

use clap::Subcommand;
use seq_command::exit::Exit;
use seq_command::output::Output;

use crate::recover::{self, RecoverArgs};

/// Commands that are confirmed by the name of the set.
#[derive(Debug, Subcommand)]
pub enum UnsafeCommand {
    /// Makes a backup from the remains of a set that lost the majority of its stores permanently.
    Recover(RecoverArgs),
}

pub fn run(command: &UnsafeCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        UnsafeCommand::Recover(args) => recover::run(args, output),
    }
}
