//! The command `keyspace list`, which lists the keyspaces of the cluster.

use std::time::Duration;

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, grouped};
use seq_command::target::Target;
use seq_command::time_limit::time;

use super::view;
use crate::id_client::IdClient;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr keyspace list\n  seqsvr keyspace list -o json | jq -r '.items[].name'\n\n\
                        Exit codes: 0 listed, 1 refused, 2 a wrong file or address, 3 refused for now, 4 no node \
                        responded, 7 the deadline passed.")]
pub struct ListArgs {
    #[command(flatten)]
    target: Target,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

pub(super) async fn run(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let keyspaces = view::keyspaces(&IdClient::new(&args.target, args.timeout)?.routes().await?);
    if output.is_json() {
        output.json_items(&keyspaces)?;
    } else if keyspaces.is_empty() {
        output.line("no keyspace; `seqsvr keyspace create` makes one")?;
    } else {
        let mut table = Table::new(&["keyspace", "keys", "created", "sections"]);
        for one in &keyspaces {
            let end = one.first_section.saturating_add(one.buckets);
            let sections = format!("{}..{}", grouped(one.first_section.into()), grouped(end.into()));
            table.row([one.name.clone(), one.kind().to_owned(), one.created.clone(), sections]);
        }
        output.table(&table)?;
    }
    Ok(Exit::Ok)
}
