//! The commands `series`, which create, list, show and retire series of a cluster.
//!
//! Only the store of the layout writer creates and retires series. The layout writer is the first set of the cluster,
//! until the command `seqsvr set layout-writer` names another set. Every AllocSvr of the cluster can list the series.

use clap::Subcommand;
use seq_command::exit::Exit;
use seq_command::output::Output;

mod create;
mod list;
mod retire;
mod show;
mod view;

/// The commands for series.
#[derive(Debug, Subcommand)]
pub enum SeriesCommand {
    /// Creates a series: a name for ids of one shape. Neither ever changes.
    Create(create::CreateArgs),
    /// Lists the series of the cluster.
    List(list::ListArgs),
    /// Shows a series, and where its sections are.
    Show(show::ShowArgs),
    /// Ends a series permanently: it gives out no more ids, and its name is not used again.
    Retire(retire::RetireArgs),
}

pub fn run(command: SeriesCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            SeriesCommand::Create(args) => create::run(&args, output).await,
            SeriesCommand::List(args) => list::run(&args, output).await,
            SeriesCommand::Show(args) => show::run(&args, output).await,
            SeriesCommand::Retire(args) => retire::run(&args, output).await,
        }
    })
}
