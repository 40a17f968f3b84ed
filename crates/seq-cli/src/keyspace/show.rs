//! The command `keyspace show`, which shows a keyspace, with the sets and the owners of its buckets.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, grouped};
use seq_command::target::Target;
use seq_command::time_limit::time;
use serde::Serialize;

use super::view::{self, BucketRun, KeyspaceView};
use crate::id_client::IdClient;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr keyspace show main\n  seqsvr keyspace show main -o json | jq '.runs'\n\n\
                        The buckets are shown as the node that responds knows their owners.\n\n\
                        Exit codes: 0 shown, 1 there is no such keyspace (UNKNOWN_KEYSPACE), 2 a wrong file or address, 3 \
                        refused for now, 4 no node responded, 7 the deadline passed.")]
pub struct ShowArgs {
    /// Name of the keyspace.
    #[arg(value_name = "KEYSPACE")]
    name: String,
    #[command(flatten)]
    target: Target,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

/// A keyspace, with the sets and owners of its buckets.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    keyspace: KeyspaceView,
    runs: Vec<BucketRun>,
}

pub(super) async fn run(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let routes = IdClient::new(&args.target, args.timeout)?.routes().await?;
    let keyspace = view::find(&routes, Some(&args.name))?;
    let runs = view::runs(&keyspace, &routes);
    if output.is_json() {
        output.json(&Shown { keyspace, runs })?;
        return Ok(Exit::Ok);
    }
    let KeyspaceView { name, buckets, created, .. } = &keyspace;
    let (buckets, kind) = (grouped((*buckets).into()), keyspace.kind());
    output.line(format_args!("{name}: {buckets} buckets, keys are {kind}, created {created}"))?;
    // There are no runs if a proxy responded, because its routes contain no buckets.
    if !runs.is_empty() {
        output.table(&table(&runs))?;
    }
    Ok(Exit::Ok)
}

/// Returns the numbers of buckets by set and owner. Neighbouring owners alternate, so a row for each run would be a
/// thousand rows.
fn table(runs: &[BucketRun]) -> Table {
    let mut buckets: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for run in runs {
        *buckets.entry((&run.set, run.owner.as_deref().unwrap_or("-"))).or_default() += u64::from(run.buckets);
    }
    let mut table = Table::new(&["set", "owner", "buckets"]).right(&[2]);
    for ((set, owner), buckets) in buckets {
        table.row([set.to_owned(), owner.to_owned(), grouped(buckets)]);
    }
    table
}
