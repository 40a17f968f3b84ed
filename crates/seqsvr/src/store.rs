//! The command `store`: runs a member of a set's store, or changes its membership.

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::output::Output;

mod change;
mod member;
mod terms;
mod upgrade;
mod wait;

use change::{AddArgs, LeadArgs, MembersArgs, RemoveArgs, ReplaceArgs};
use member::MemberArgs;
pub(crate) use member::start_failure;
use terms::TermsArgs;
use upgrade::UpgradeArgs;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  seqsvr store --set sets/three-node.toml --id 1 --data /var/lib/seqsvr/s1\n  \
                  seqsvr store members --set sets/three-node.toml\n  \
                  seqsvr store replace 3 4 --set sets/three-node.toml\n\n\
                  Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 a wrong set file, settings or data, 65 it was \
                  removed and must not be started again, 130 a second signal."
)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: Option<StoreCommand>,
    #[command(flatten)]
    member: MemberArgs,
}

/// The commands for the members of a store.
#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Lists the members as their leader sees them.
    Members(MembersArgs),
    /// Makes stores members: each gets the log first, then a vote.
    Add(AddArgs),
    /// Takes members out for good.
    Remove(RemoveArgs),
    /// Puts a new member in the place of one, in one change.
    Replace(ReplaceArgs),
    /// Transfers the leadership to a member.
    Lead(LeadArgs),
    /// Shows the set's lease terms, or changes them.
    Terms(TermsArgs),
    /// Raises the format of the log and the state, after all members run a new release.
    Upgrade(UpgradeArgs),
}

impl StoreArgs {
    /// Whether it runs a member, rather than a command about them.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none()
    }
}

pub(crate) fn run(args: StoreArgs, output: &Output) -> anyhow::Result<Exit> {
    let Some(command) = args.command else { return member::run(args.member) };
    crate::client_runtime()?.block_on(async {
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
