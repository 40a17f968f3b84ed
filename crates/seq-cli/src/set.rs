//! The command `set`, which defines, lists and closes sets of a cluster, and migrates sections between them.
//!
//! The stores plan the changes. A command first requests and shows a plan, and prompts the user for confirmation. It
//! then requests the change together with the fingerprint of the plan. The store applies the change only if its state
//! still has this fingerprint.

use clap::Subcommand;
use seq_command::exit::Exit;
use seq_command::output::Output;

mod close;
mod define;
mod forget;
mod layout_writer;
mod list;
mod migrate;
mod plan;
mod settle;

/// The commands for sets.
#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// Defines the first set of a cluster, with all sections of its uids.
    Init(define::InitArgs),
    /// Defines a further set of a cluster, without sections.
    Create(define::CreateArgs),
    /// Defines the sets of set files that are not defined yet, and compares defined sets with their files.
    Apply(define::ApplyArgs),
    /// Lists the sets of the cluster.
    List(list::ListArgs),
    /// Shows a set with its sections, nodes and migrations.
    Show(list::ShowArgs),
    /// Migrates a part of a set's sections into another set.
    Split(migrate::SplitArgs),
    /// Migrates all sections of a set into another set, and closes the empty set.
    Merge(migrate::MergeArgs),
    /// Migrates sections of a set into another set.
    Migrate(migrate::MigrateArgs),
    /// Closes a set that has no sections, permanently.
    Close(close::CloseArgs),
    /// Hands the creation of series to another set.
    LayoutWriter(layout_writer::LayoutWriterArgs),
    /// Removes a set that does not exist from the sets that another set knows.
    Forget(forget::ForgetArgs),
}

pub fn run(command: SetCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            SetCommand::Init(args) => define::init(&args, output).await,
            SetCommand::Create(args) => define::create(&args, output).await,
            SetCommand::Apply(args) => define::apply(&args, output).await,
            SetCommand::List(args) => list::list(&args, output).await,
            SetCommand::Show(args) => list::show(&args, output).await,
            SetCommand::Split(args) => migrate::split(args, output).await,
            SetCommand::Merge(args) => migrate::merge(args, output).await,
            SetCommand::Migrate(args) => migrate::migrate(args, output).await,
            SetCommand::Close(args) => close::close(&args, output).await,
            SetCommand::LayoutWriter(args) => layout_writer::layout_writer(&args, output).await,
            SetCommand::Forget(args) => forget::forget(&args, output).await,
        }
    })
}
