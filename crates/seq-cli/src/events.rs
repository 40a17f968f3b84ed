//! The command `events`, which lists the events of a set and of its nodes, or watches for new ones.
//!
//! The events of the set come from the event log that its store replicates. Each node has the events of its own process
//! in memory, and is requested for them.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, note};
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_command::time_limit::time;
use seq_command::{client_runtime, utc};
use seq_observe::{ClusterEvent, events};

use filter::Filter;
use nodes::Nodes;

mod filter;
mod nodes;
mod watch;

/// The commands for events.
#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Lists the events of a set and of its nodes that are still kept, the newest last.
    List(ListArgs),
    /// Prints events as they happen, until it is interrupted.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
struct FilterArgs {
    /// Only events of this kind. Repeat the flag for more kinds.
    #[arg(long = "kind", value_name = "KIND", value_parser = PossibleValuesParser::new(filter::kinds()),
          hide_possible_values = true)]
    kinds: Vec<String>,
    /// Only events of this severity or above.
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = SeverityArg::Info)]
    severity: SeverityArg,
    /// Only events in whose range of sections this section lies.
    #[arg(long, value_name = "SECTION")]
    section: Option<u32>,
    /// Only events of this node's process, and events of the set about this node.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr events list --set three-node.toml\n  \
                        seqsvr events list --since 1h --severity attention\n  \
                        seqsvr events list --kind takeover --kind silent -o json | jq '.items[].most_skipped'\n\n\
                        The source `log` is the event log of the set: an event of many sections is one line, and a takeover has the owner \
                        before, the next owners, and the most numbers that it skipped for any uid. The store keeps the newest 4,096 \
                        events, and removes events of the most frequent kind first. Its times are of the clocks of the store's \
                        members, to the second.\n\n\
                        Other sources are nodes: each process keeps up to 512 events about itself until it ends, such as a lost lease, \
                        or requests that it denied, which are one event a minute. Nodes that do not respond are named on stderr, and \
                        delay the command by some seconds.\n\n\
                        Exit codes: 0 listed, 2 a wrong kind, file or address, 3 the store has no majority, 4 no node responded, 7 not \
                        done within --timeout.")]
pub struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only events of the last TIME.
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,
    /// Only the newest N events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr events watch --set three-node.toml\n  \
                        seqsvr events watch --severity attention -o json\n\n\
                        An event is printed again when a change continues it, with the same number. The command connects again when the \
                        leader of the store changes, and misses nothing that the store still keeps. Nodes are requested every second. While the \
                        store does not respond, and below format 11, the events of nodes are printed, with a note on stderr.\n\n\
                        Exit codes: 1 the store keeps no events and no node is watched, 2 a wrong kind, file or address, 3 the store has no \
                        majority and no node is watched, 4 no node responded at the start, 130 interrupted.")]
pub struct WatchArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

/// A severity to filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SeverityArg {
    /// All events.
    Info,
    /// Events that users may have noticed, or that need an operator.
    Attention,
    /// Losses.
    Fault,
}

pub fn run(command: &EventsCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        EventsCommand::List(args) => client_runtime()?.block_on(list(args, output)),
        EventsCommand::Watch(args) => client_runtime()?.block_on(watch::run(args, output)),
    }
}

async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let filter = Filter::new(&args.filter);
    let mut store = args.filter.target.client(args.filter.timeout.duration())?;
    let mut nodes = Nodes::new(&args.filter)?;
    let of_nodes = async { if filter.wants_nodes() { nodes.all().await } else { Vec::new() } };
    // The store and the nodes are requested at the same time, so that a node that hangs does not use up the time limit
    // of the store. The events of the nodes are listed even if the store does not respond, because they may have the
    // cause.
    let (log, mut events) = tokio::join!(fetch(&mut store, &filter), of_nodes);
    nodes.name_failures();
    let recorded = log.as_ref().is_ok_and(|log| log.recorded);
    let failure = log.map(|log| events.extend(log.events)).err();
    events.retain(|event| filter.wants(event));
    if let Some(since) = args.since {
        let since = utc::now_ms().saturating_sub(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        events.retain(|event| event.until_unix_ms() >= since);
    }
    events::sort(&mut events);
    if let Some(limit) = args.limit {
        events.drain(..events.len().saturating_sub(limit as usize));
    }
    match failure {
        Some(failure) if events.is_empty() => return Err(failure),
        _ => print(&events, output)?,
    }
    if failure.is_none() && !recorded && !output.is_json() {
        note("events of the set are not kept in this format of the store: `seqsvr store upgrade` raises it");
    }
    failure.map_or(Ok(Exit::Ok), Err)
}

fn print(events: &[ClusterEvent], output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json_items(events)?);
    }
    let mut table = Table::new(&["number", "time", "source", "kind", "event"]).right(&[0]);
    events.iter().for_each(|event| table.row(event.row()));
    Ok(output.table(&table)?)
}

/// The events in the event log of a set.
struct SetLog {
    /// Name of the set; empty if nothing was requested.
    set: String,
    /// The events, in the order of their indexes.
    events: Vec<ClusterEvent>,
    /// Whether the store records events.
    recorded: bool,
    /// Number of the newest change that the events include.
    after: u64,
}

/// Requests all events that the store still keeps and that match the filter. If no event of a set can match it, nothing
/// is requested.
async fn fetch(store: &mut StoreClient, filter: &Filter) -> anyhow::Result<SetLog> {
    let mut log = SetLog { set: String::new(), events: Vec::new(), recorded: true, after: 0 };
    // The map removes duplicates. If an event is changed while the pages are requested, it is in two pages.
    let mut events = BTreeMap::new();
    while let Some(request) = filter.page_after(log.after) {
        let page = store.set_events(&request).await?;
        events.extend(page.events.into_iter().map(|event| (event.index, event)));
        (log.set, log.after, log.recorded) = (page.set, page.next, page.recorded);
        if !page.more {
            break;
        }
    }
    log.events = events.into_values().map(|event| ClusterEvent::of_set(&log.set, event)).collect();
    Ok(log)
}
