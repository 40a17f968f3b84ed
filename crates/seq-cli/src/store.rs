//! The command `store`, which lists and changes the members of a set's store. It also changes the set's lease terms and
//! the format of the store's log and state.

use clap::Subcommand;
use seq_command::client_runtime;
use seq_command::exit::Exit;
use seq_command::output::Output;

mod change;
mod terms;
mod upgrade;
mod wait;

use change::{AddArgs, LeadArgs, MembersArgs, RemoveArgs, ReplaceArgs};
use terms::TermsArgs;
use upgrade::UpgradeArgs;

/// The commands for the members of a store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Lists the members as their leader sees them.
    Members(MembersArgs),
    /// Makes stores members; each gets the log first, then a vote.
    Add(AddArgs),
    /// Removes members permanently.
    Remove(RemoveArgs),
    /// Replaces a member by a new member, in one change.
    Replace(ReplaceArgs),
    /// Transfers the leadership to a member.
    Lead(LeadArgs),
    /// Shows the set's lease terms, or changes them.
    Terms(TermsArgs),
    /// Raises the format of the log and the state, after all members run a new release.
    Upgrade(UpgradeArgs),
}

/// Runs one of the commands for the members, the terms or the format of a store.
///
/// # Errors
/// The command failed. The error contains the exit code.
pub fn run(command: StoreCommand, output: &Output) -> anyhow::Result<Exit> {
    client_runtime()?.block_on(async {
        match command {
            StoreCommand::Members(args) => change::members(&args, output).await,
            StoreCommand::Add(args) => change::add(args, output).await,
            StoreCommand::Remove(args) => change::remove(args, output).await,
            StoreCommand::Replace(args) => change::replace(args, output).await,
            StoreCommand::Lead(args) => change::lead(&args, output).await,
            StoreCommand::Terms(args) => terms::run(&args, output).await,
            StoreCommand::Upgrade(args) => upgrade::run(&args, output).await,
        }
    })
}
