//! The commands `keyspace`, which create, list and show keyspaces of a cluster, and find the owner of a key.
//!
//! Only the store of the layout writer creates keyspaces. Every AllocSvr of the cluster has them in its routes.

use clap::Subcommand;
use seq_client::{Client, Keyspace};
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;

use crate::item_report::call_failure;

mod create;
mod list;
mod show;
mod slot;
mod view;

/// The commands for keyspaces.
#[derive(Debug, Subcommand)]
pub enum KeyspaceCommand {
    /// Creates a keyspace: a name for the counters of keys, which are any bytes.
    Create(create::CreateArgs),
    /// Lists the keyspaces of the cluster.
    List(list::ListArgs),
    /// Shows a keyspace, and where its buckets are.
    Show(show::ShowArgs),
    /// Shows the bucket of a key, which is its slot in Redis Cluster, with its set and owner.
    Slot(slot::SlotArgs),
}

pub fn run(command: KeyspaceCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            KeyspaceCommand::Create(args) => create::run(&args, output).await,
            KeyspaceCommand::List(args) => list::run(&args, output).await,
            KeyspaceCommand::Show(args) => show::run(&args, output).await,
            KeyspaceCommand::Slot(args) => slot::run(&args, output).await,
        }
    })
}

/// Returns the keyspace with the name `name`; the only keyspace of the cluster if it is `None`.
pub(crate) async fn open(client: &Client, name: Option<&str>) -> anyhow::Result<Keyspace> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => match client.known_keyspaces().as_slice() {
            [only] => only.clone(),
            [] => {
                let failure = Failure::new(Exit::Failed, "the cluster has no keyspace for keys of any bytes");
                return Err(failure.hint("`seqsvr keyspace create` makes one").into());
            }
            several => {
                let message = format!("the cluster has {} keyspaces: {}", several.len(), several.join(", "));
                return Err(Failure::new(Exit::Usage, message).hint("--keyspace NAME chooses one").into());
            }
        },
    };
    client.keyspace(&name).await.map_err(|error| call_failure(&error, client).into())
}
