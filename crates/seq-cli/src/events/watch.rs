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
    let mut interrupts = Interrupts::new()?;
    tokio::select! {
        ended = watch(args, output) => ended?,
        _ = interrupts.next() => {}
    }
    Ok(Exit::Interrupted)
}

/// Prints events as they happen. Returns only an error.
async fn watch(args: &WatchArgs, output: &Output) -> anyhow::Result<()> {
    let filter = Filter::new(&args.filter);
    let mut store = args.filter.target.client(args.filter.timeout.duration())?;
    let mut nodes = Nodes::new(&args.filter)?;
    let skip = async {
        if filter.wants_nodes() {
            nodes.skip().await;
        }
    };
    // The watch begins at positions in the logs instead of at a time, because the clocks of machines differ.
    let (log, ()) = tokio::join!(fetch(&mut store, &filter), skip);
    let begin = begin(log, nodes.respond())?;
    if !output.is_json() {
        note("events are printed as they happen; Ctrl-C ends the watch");
    }
    tokio::select! {
        ended = watch_log(&mut store, begin, &filter, output) => ended,
        ended = watch_nodes(nodes, &filter, output) => ended,
    }
}

/// The place in the event log of a set at which a watch begins or continues.
struct Position {
    /// Name of the set.
    set: String,
    /// Number of the last change of an event that the watch has received or skipped.
    after: u64,
}

/// Returns the position at the end of the event log of the set, or `None` if the store does not respond. If events of
/// the set cannot be printed, prints a note instead of returning an error if nodes are watched (`has_nodes`), because
/// their events may have the cause.
fn begin(log: anyhow::Result<SetLog>, has_nodes: bool) -> anyhow::Result<Option<Position>> {
    match log {
        Ok(SetLog { set, recorded, after, .. }) => {
            let (cause, hint) = ("the store keeps no events in its format", "`seqsvr store upgrade` raises the format");
            match (recorded, has_nodes) {
                (true, _) => {}
                (false, true) => note(format_args!("only events of nodes are printed: {cause}; {hint}")),
                (false, false) => return Err(Failure::new(Exit::Failed, cause).hint(hint).into()),
            }
            Ok(Some(Position { set, after }))
        }
        Err(error) if has_nodes && !is_usage(&error) => {
            note(format_args!("only events of nodes are printed until the store responds: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether an error is in the arguments of the command, so that another attempt has no use.
fn is_usage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit() == Exit::Usage)
}

/// Prints new and changed events of the set after `position`; without a position, after the end of the log when the
/// store responds. Returns only an error, or never if no event of a set matches the filter.
async fn watch_log(
    store: &mut StoreClient,
    mut position: Option<Position>,
    filter: &Filter,
    output: &Output,
) -> anyhow::Result<()> {
    if filter.page_after(0).is_none() {
        return std::future::pending().await;
    }
    loop {
        match &mut position {
            Some(position) => follow(store, position, filter, output).await?,
            None => match fetch(store, filter).await {
                Ok(SetLog { set, after, .. }) => position = Some(Position { set, after }),
                Err(error) if is_usage(&error) => return Err(error),
                // The command has named the error already.
                Err(_) => {}
            },
        }
        store.restart_time();
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Prints new and changed events of the set until the connection to the store's member ends. If the store does not
/// respond, e.g. because it has no leader, prints a note instead of returning an error, because the caller tries again.
async fn follow(
    store: &mut StoreClient,
    Position { set, after }: &mut Position,
    filter: &Filter,
    output: &Output,
) -> anyhow::Result<()> {
    let Some(request) = filter.page_after(*after) else { return Ok(()) };
    let ListSetEventsRequest { after: from, kinds, min_severity, section, .. } = request;
    let request = WatchSetEventsRequest { after: from, kinds, min_severity, section };
    let mut stream = match store.watch_set_events(&request).await {
        Ok(stream) => stream,
        Err(error) if is_usage(&error) => return Err(error),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_needs_the_store_only_if_no_node_is_watched() {
        let log = |recorded| Ok(SetLog { set: "im-a".to_owned(), events: Vec::new(), recorded, after: 7 });
        let failed = |exit| Err(Failure::new(exit, "no response").into());
        let position = |log, has_nodes| {
            let exit = |error: anyhow::Error| error.downcast_ref::<Failure>().map(Failure::exit);
            begin(log, has_nodes).map(|position| position.map(|position| position.after)).map_err(exit)
        };
        assert_eq!([position(log(true), false), position(log(true), true)], [Ok(Some(7)), Ok(Some(7))]);
        assert_eq!([position(log(false), false), position(log(false), true)], [Err(Some(Exit::Failed)), Ok(Some(7))]);
        for exit in [Exit::Unhealthy, Exit::CannotConnect, Exit::Deadline] {
            assert_eq!([position(failed(exit), false), position(failed(exit), true)], [Err(Some(exit)), Ok(None)]);
        }
        assert_eq!(position(failed(Exit::Usage), true), Err(Some(Exit::Usage)), "another attempt has no use");
    }
}
