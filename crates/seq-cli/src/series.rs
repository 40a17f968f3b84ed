//! The commands `series`: the series of a cluster, from whose numbers ids are made.
//!
//! The store of one set creates and retires series, at its admin port: of the set with which the cluster began, until
//! `seqsvr set layout-writer` names another set. Every AllocSvr lists them.

use clap::Subcommand;
use seq_command::exit::Exit;
use seq_command::output::Output;

mod create;
mod list;
mod retire;
mod settle;
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
