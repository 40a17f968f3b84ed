//! The command `events`, which lists the events of a set or watches for new ones.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, note};
use seq_command::signals::Interrupts;
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_command::time_limit::time;
use seq_command::{client_runtime, utc};
use seq_core::state::EventRecord;
use seq_observe::events::{EventView, row};
use seq_proto::v1::{EventSeverity, ListSetEventsRequest, SetEvent, WatchSetEventsRequest};

/// Pause before `events watch` connects again.
const RECONNECT: Duration = Duration::from_millis(500);

/// The commands for the event log.
#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Lists the events of a set that its store still keeps, the newest last.
    List(ListArgs),
    /// Prints events as they happen, until it is interrupted.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
struct FilterArgs {
    /// Only events of this kind. Repeat the flag for more kinds.
    #[arg(long = "kind", value_name = "KIND", value_parser = PossibleValuesParser::new(EventRecord::KINDS),
          hide_possible_values = true)]
    kinds: Vec<String>,
    /// Only events of this severity or above.
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = SeverityArg::Info)]
    severity: SeverityArg,
    /// Only events in whose range of sections this section lies.
    #[arg(long, value_name = "SECTION")]
    section: Option<u32>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr events list --set three-node.toml\n  \
                        seqsvr events list --since 1h --severity attention\n  \
                        seqsvr events list --kind takeover --kind silent -o json | jq '.items[].most_skipped'\n\n\
                        An event of many sections is one line: a takeover has the owner before, the next owners, and the most numbers \
                        that it skipped for any uid. The store keeps the newest 4,096 events, and removes events of the most \
                        frequent kind first. Times are of the clocks of the store's members, to the second.\n\n\
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
                        leader of the store changes, and misses nothing that the store still keeps.\n\n\
                        Exit codes: 1 the store keeps no events, 2 a wrong kind, file or address, 4 no node responded at the start, \
                        130 interrupted.")]
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

impl From<SeverityArg> for EventSeverity {
    fn from(arg: SeverityArg) -> EventSeverity {
        match arg {
            SeverityArg::Info => EventSeverity::Info,
            SeverityArg::Attention => EventSeverity::Attention,
            SeverityArg::Fault => EventSeverity::Fault,
        }
    }
}

impl FilterArgs {
    fn page_after(&self, after: u64) -> ListSetEventsRequest {
        let min_severity = EventSeverity::from(self.severity).into();
        ListSetEventsRequest { after, limit: 0, kinds: self.kinds.clone(), min_severity, section: self.section }
    }
}

pub fn run(command: &EventsCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        EventsCommand::List(args) => client_runtime()?.block_on(list(args, output)),
        EventsCommand::Watch(args) => client_runtime()?.block_on(watch(args, output)),
    }
}

async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut store = args.filter.target.client(args.filter.timeout.duration())?;
    let (events, recorded, _) = fetch(&mut store, &args.filter).await?;
    let since = args.since.map(|since| utc::now_ms().saturating_sub(u64::try_from(since.as_millis()).unwrap_or(0)));
    let mut events: Vec<SetEvent> =
        events.into_iter().filter(|event| since.is_none_or(|since| event.until_unix_ms >= since)).collect();
    if let Some(limit) = args.limit {
        events.drain(..events.len().saturating_sub(limit as usize));
    }
    if output.is_json() {
        let views: Vec<EventView> = events.iter().map(EventView::new).collect();
        output.json_items(&views)?;
        return Ok(Exit::Ok);
    }
    if !recorded {
        note("events are not kept in this format of the store: `seqsvr store upgrade` raises it");
    }
    let mut table = Table::new(&["number", "time", "kind", "event"]).right(&[0]);
    events.iter().for_each(|event| table.row(row(event)));
    Ok(output.table(&table)?).map(|()| Exit::Ok)
}

/// Requests all events that the store still keeps and that match the filter. Returns them in the order of their
/// indexes, whether the store records events, and the number of the newest change that they include.
async fn fetch(store: &mut StoreClient, filter: &FilterArgs) -> anyhow::Result<(Vec<SetEvent>, bool, u64)> {
    // The map removes duplicates. If an event is changed while the pages are requested, it is in two pages.
    let (mut events, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = store.set_events(&filter.page_after(after)).await?;
        events.extend(page.events.into_iter().map(|event| (event.index, event)));
        after = page.next;
        if !page.more {
            return Ok((events.into_values().collect(), page.recorded, after));
        }
    }
}

async fn watch(args: &WatchArgs, output: &Output) -> anyhow::Result<Exit> {
    let filter = &args.filter;
    let mut interrupts = Interrupts::new()?;
    let mut store = filter.target.client(filter.timeout.duration())?;
    let (_, recorded, mut after) = fetch(&mut store, filter).await?;
    if !recorded {
        let hint = "`seqsvr store upgrade` raises the format";
        return Err(Failure::new(Exit::Failed, "the store keeps no events in its format").hint(hint).into());
    }
    if !output.is_json() {
        note("events are printed as they happen; Ctrl-C ends the watch");
    }
    loop {
        tokio::select! {
            followed = follow(&mut store, filter, &mut after, output) => followed?,
            _ = interrupts.next() => return Ok(Exit::Interrupted),
        }
        store.restart_time();
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Prints new and changed events until the connection to the store's member ends. If the store does not respond, e.g.
/// because it has no leader, prints a note instead of returning an error, because the caller tries again.
async fn follow(store: &mut StoreClient, filter: &FilterArgs, after: &mut u64, output: &Output) -> anyhow::Result<()> {
    let ListSetEventsRequest { kinds, min_severity, section, .. } = filter.page_after(0);
    let request = WatchSetEventsRequest { after: *after, kinds, min_severity, section };
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
        for event in &response.events {
            match output.is_json() {
                true => output.json(&EventView::new(event))?,
                false => output.line(row(event).join("  "))?,
            }
        }
    }
    Ok(())
}
