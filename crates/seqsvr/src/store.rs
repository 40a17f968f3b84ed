//! The command `store`, which runs a member of a set's store, or lists or changes the store's members.

use clap::Args;
use seq_cli::store::{self, StoreCommand};
use seq_command::exit::Exit;
use seq_command::output::Output;
use seq_node::member::{self, MemberArgs};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  seqsvr store --set sets/three-node.toml --id 1 --data /var/lib/seqsvr/s1\n  \
                  seqsvr store members --set sets/three-node.toml\n  \
                  seqsvr store replace 3 4 --set sets/three-node.toml\n\n\
                  Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 a wrong set file, settings or data, 65 the \
                  member was removed and must not be started again, 130 a second signal."
)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: Option<StoreCommand>,
    #[command(flatten)]
    member: MemberArgs,
}

impl StoreArgs {
    /// Returns whether the command runs a member of the store in this process, instead of listing or changing the
    /// members.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none()
    }
}

pub(crate) fn run(args: StoreArgs, output: &Output) -> anyhow::Result<Exit> {
    let Some(command) = args.command else { return member::run(args.member) };
    store::run(command, output)
}
