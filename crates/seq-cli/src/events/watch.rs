//! The command `events watch`, which prints events as they happen.

use std::time::Duration;

use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, note};
use seq_command::signals::Interrupts;
use seq_command::store_client::StoreClient;
use seq_observe::{ClusterEvent, events};
use seq_proto::v1::{ListSetEventsRequest, WatchSetEventsRequest};

use super::filter::Filter;
use super::nodes::Nodes;
use super::{SetLog, WatchArgs, fetch};

/// Pause before the watch connects to the store again.
const RECONNECT: Duration = Duration::from_millis(500);

/// Interval at which the nodes are requested for their events.
const NODE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &WatchArgs, output: &Output) -> anyhow::Result<Exit> {
    let filter = Filter::new(&args.filter);
    let mut interrupts = Interrupts::new()?;
    let mut store = args.filter.target.client(args.filter.timeout.duration())?;
    let mut nodes = Nodes::new(&args.filter)?;
    let skip = async { if filter.wants_nodes() { nodes.skip().await } };
    // The watch begins at positions in the logs instead of at a time, because the clocks of machines differ.
    let (log, ()) = tokio::join!(fetch(&mut store, &filter), skip);
    let SetLog { set, recorded, after, .. } = log?;
    if !recorded {
        let hint = "`seqsvr store upgrade` raises the format";
        return Err(Failure::new(Exit::Failed, "the store keeps no events in its format").hint(hint).into());
    }
    if !output.is_json() {
        note("events are printed as they happen; Ctrl-C ends the watch");
    }
    tokio::select! {
        ended = watch_log(&mut store, (&set, &filter), after, output) => ended?,
        ended = watch_nodes(nodes, &filter, output) => ended?,
        _ = interrupts.next() => {}
    }
    Ok(Exit::Interrupted)
}

/// Prints new and changed events of the set after the change `after`. Returns only an error, or never if no event of a
/// set matches the filter.
async fn watch_log(
    store: &mut StoreClient,
    (set, filter): (&str, &Filter),
    mut after: u64,
    output: &Output,
) -> anyhow::Result<()> {
    while let Some(request) = filter.page_after(after) {
        follow(store, request, (set, filter), &mut after, output).await?;
        store.restart_time();
        tokio::time::sleep(RECONNECT).await;
    }
    std::future::pending().await
}

/// Prints new and changed events of the set until the connection to the store's member ends. If the store does not
/// respond, e.g. because it has no leader, prints a note instead of returning an error, because the caller tries again.
async fn follow(
    store: &mut StoreClient,
    request: ListSetEventsRequest,
    (set, filter): (&str, &Filter),
    after: &mut u64,
    output: &Output,
) -> anyhow::Result<()> {
    let ListSetEventsRequest { after: from, kinds, min_severity, section, .. } = request;
    let request = WatchSetEventsRequest { after: from, kinds, min_severity, section };
    let mut stream = match store.watch_set_events(&request).await {
        Ok(stream) => stream,
        Err(error) if error.downcast_ref::<Failure>().is_some_and(|one| one.exit() == Exit::Usage) => {
            return Err(error);
        }
        Err(error) => {
            note(format_args!("the store does not respond at the moment: {error}"));
            return Ok(());
        }
    };
    while let Ok(Some(response)) = stream.message().await {
        *after = response.next;
        let events = response.events.into_iter().map(|event| ClusterEvent::of_set(set, event));
        print(events.filter(|event| filter.wants(event)), output)?;
    }
    Ok(())
}

/// Prints new and changed events of the nodes. If a node responds for the first time during the watch, prints all
/// events that it keeps. Returns only an error, or never if no event of a node matches the filter.
async fn watch_nodes(mut nodes: Nodes, filter: &Filter, output: &Output) -> anyhow::Result<()> {
    if !filter.wants_nodes() {
        return std::future::pending().await;
    }
    loop {
        nodes.name_failures();
        tokio::time::sleep(NODE_INTERVAL).await;
        let mut events = nodes.poll().await;
        events::sort(&mut events);
        print(events.into_iter().filter(|event| filter.wants(event)), output)?;
    }
}

fn print(events: impl IntoIterator<Item = ClusterEvent>, output: &Output) -> anyhow::Result<()> {
    for event in events {
        match output.is_json() {
            true => output.json(&event)?,
            false => output.line(event.row().join("  "))?,
        }
    }
    Ok(())
}
