//! The command `section`, which lists and shows sections with their sets and owners. It also moves sections to other
//! AllocSvrs, and pauses balancing.

use clap::{Args, Subcommand, ValueEnum};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits, grouped, is_zero, optional_digits};
use seq_command::selection::{Sections, Selection, contents_text, run_text, uid};
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_observe::section;
use seq_proto::v1::{ListSectionsRequest, SectionInfo, SectionState};
use serde::Serialize;

use crate::cluster_client::{Cluster, SetClient};
use activity::TopArg;

pub(crate) mod activity;
pub(crate) mod balance;
mod moves;

/// The commands for sections.
#[derive(Debug, Subcommand)]
pub enum SectionCommand {
    /// Lists the sections that a set has or has had.
    List(ListArgs),
    /// Shows a section, by its index or by a uid.
    Show(ShowArgs),
    /// Hands sections over to an allocator, which keeps them for as long as it can own them.
    Move(moves::MoveArgs),
    /// Pauses or resumes handovers that only even the load, or shows whether they are paused.
    Balance(balance::BalanceArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr section list --summarize\n  seqsvr section list --uids \
                        3_000_000..4_000_000\n  \
                        seqsvr section list im-b --owner a1 -o json | jq '.items[].first_section'\n  \
                        seqsvr section list --top numbers\n  \
                        seqsvr section list --top writes --count 3\n\n\
                        Sections that were never in the set are left out, unless --state never requests them.\n\n\
                        Exit codes: 0 listed, 1 there is no such set, 2 a wrong range, file or address, 3 the store \
                        has no set or no majority, 4 no node responded, 7 not done within --timeout.")]
pub struct ListArgs {
    /// Name or id of the set; by default the set of the node that responds.
    #[arg(value_name = "SET")]
    of: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// Lists only sections in this state.
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<StateArg>,
    /// Lists only sections that this allocator owns.
    #[arg(long, value_name = "NODE", conflicts_with = "summarize")]
    owner: Option<String>,
    /// Shows neighbouring sections in the same state as one line.
    #[arg(long)]
    summarize: bool,
    /// Lists only the busiest sections of the last seconds, as their owners measure them.
    #[arg(long, value_enum, value_name = "BY", conflicts_with = "summarize")]
    top: Option<TopArg>,
    /// Number of the busiest sections.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "top",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// The former name of `--top writes --count N`.
    #[arg(long, value_name = "N", hide = true, conflicts_with_all = ["summarize", "top"],
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top_writes: Option<u32>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["section", "uid"]),
          after_help = "Examples:\n  seqsvr section show 30\n  seqsvr section show --uid 3_000_042\n\n\
                        A section that is in another set is shown from the record of that set's store. The line `ownership` \
                        has the time, the kind of event and the ceiling with which the present ownership began: `seqsvr \
                        events list --kind KIND --section SECTION` shows the event, for as long as the store keeps it.\n\n\
                        Exit codes: 0 shown, 2 a wrong section, file or address, 3 the store has no set or no \
                        majority, 4 no node responded, 7 not done within --timeout.")]
pub struct ShowArgs {
    /// Index of the section.
    #[arg(value_name = "SECTION")]
    section: Option<u32>,
    /// A uid of the section.
    #[arg(long, value_name = "UID", value_parser = uid)]
    uid: Option<u64>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// A state to filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateArg {
    /// The section was never in the set.
    Never,
    /// The section is in the set.
    Resident,
    /// The section departed to another set, which has not confirmed the arrival.
    Departed,
    /// The section departed to another set, and has arrived there.
    Arrived,
    /// The set was restored from a backup, and does not know yet which set has the section.
    Quarantined,
}

impl From<StateArg> for SectionState {
    fn from(arg: StateArg) -> SectionState {
        match arg {
            StateArg::Never => SectionState::Never,
            StateArg::Resident => SectionState::Resident,
            StateArg::Departed => SectionState::Departed,
            StateArg::Arrived => SectionState::Arrived,
            StateArg::Quarantined => SectionState::Quarantined,
        }
    }
}

/// A section, or neighbouring sections in the same state, as JSON.
#[derive(Serialize)]
pub(crate) struct SectionView {
    first_section: u32,
    sections: u32,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    state: &'static str,
    set: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    /// The allocator to which an operator moved the section.
    #[serde(skip_serializing_if = "String::is_empty")]
    moved_to: String,
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    epoch: u64,
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    ceiling: u64,
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    migration: u64,
    /// Time at which the present ownership began; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    began_at: Option<String>,
    /// Kind of the event with which it began; absent if there is no owner, or if the store does not know the beginning.
    #[serde(skip_serializing_if = "String::is_empty")]
    began_by: String,
    /// Committed ceiling when it began; absent like `began_by`.
    #[serde(serialize_with = "optional_digits", skip_serializing_if = "Option::is_none")]
    began_ceiling: Option<u64>,
    /// Sum of the distances by which raises moved the ceiling, as the store's leader has applied them since its start;
    /// absent for several sections, or if the release of the store does not count it.
    #[serde(serialize_with = "optional_digits", skip_serializing_if = "Option::is_none")]
    raised: Option<u64>,
}

/// A section with its activity, as JSON.
#[derive(Serialize)]
struct ShownView {
    #[serde(flatten)]
    section: SectionView,
    /// State of the section at its owner. It is absent if the section has no owner, or if the owner does not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    activity: Option<activity::Described>,
}

impl SectionView {
    pub(crate) fn new(record: &SectionInfo) -> SectionView {
        let range = record.range.unwrap_or_default();
        SectionView {
            first_section: range.first_section,
            sections: range.sections,
            uid_start: record.uid_start,
            uid_end: record.uid_end,
            state: state_name(record.state()),
            set: record.set.clone(),
            owner: record.owner.clone(),
            moved_to: record.moved_to.clone(),
            epoch: record.epoch,
            ceiling: record.ceiling,
            migration: record.migration_id,
            began_at: section::began_at(record),
            began_by: record.began_by.clone(),
            began_ceiling: record.began_ceiling,
            raised: record.raised,
        }
    }
}

fn state_name(state: SectionState) -> &'static str {
    match state {
        SectionState::Unspecified => "unknown",
        SectionState::Never => "never",
        SectionState::Resident => "resident",
        SectionState::Departed => "departed",
        SectionState::Arrived => "arrived",
        SectionState::Quarantined => "quarantined",
    }
}

pub fn run(command: SectionCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            SectionCommand::List(args) => list(&args, output).await,
            SectionCommand::Show(args) => show(&args, output).await,
            SectionCommand::Move(args) => moves::run(&args, output).await,
            SectionCommand::Balance(args) => balance::run(&args, output).await,
        }
    })
}

/// Requests the records of sections, page by page, beginning with the first section of `request`. Stops after the page
/// that reaches the section `end`, or after the last page if `end` is `None`.
pub(crate) async fn fetch(
    store: &mut StoreClient,
    mut request: ListSectionsRequest,
    end: Option<u64>,
) -> anyhow::Result<Vec<SectionInfo>> {
    let mut records = Vec::new();
    loop {
        let page = store.sections(request).await?;
        records.extend(page.sections);
        let is_last = page.next_section <= request.first_section;
        if is_last || end.is_some_and(|end| u64::from(page.next_section) >= end) {
            return Ok(records);
        }
        request.first_section = page.next_section;
    }
}

async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let mut client = match &args.of {
        Some(name) => cluster.into_set(name).await?,
        None => cluster.into_own(),
    };
    let layout = Sections::of(client.info())?;
    let records = select(args, &mut client, &layout).await?;
    if let Some((by, count)) = args.top() {
        let busy = activity::top(&mut client.store, &records, by, (count, args.is_filtered())).await?;
        activity::print(&busy, output)?;
    } else if output.is_json() {
        output.json_items(&records.iter().map(SectionView::new).collect::<Vec<_>>())?;
    } else if records.is_empty() {
        output.line("no sections")?;
    } else if args.summarize {
        output.table(&summary(&records))?;
    } else {
        output.table(&table(&records))?;
    }
    Ok(Exit::Ok)
}

impl ListArgs {
    /// Returns the order and the number of the sections to list, if the user requested only the busiest sections.
    /// Otherwise returns `None`.
    fn top(&self) -> Option<(TopArg, u32)> {
        let by_writes = self.top_writes.map(|count| (TopArg::Writes, count));
        self.top.map(|by| (by, self.count)).or(by_writes)
    }

    /// Returns whether the arguments exclude sections of the set.
    fn is_filtered(&self) -> bool {
        let ranges = self.selection.uids.len() + self.selection.sections.len();
        ranges > 0 || self.state.is_some() || self.owner.is_some()
    }
}

/// Requests the records of the sections that the arguments select.
async fn select(args: &ListArgs, client: &mut SetClient, layout: &Sections) -> anyhow::Result<Vec<SectionInfo>> {
    let runs = layout.runs(&args.selection)?;
    let mut records = Vec::new();
    if runs.is_empty() {
        let request = ListSectionsRequest { summarize: args.summarize, ..ListSectionsRequest::default() };
        records = fetch(&mut client.store, request, None).await?;
    }
    for run in &runs {
        let (first, end) = (run.first_section, u64::from(run.first_section) + u64::from(run.sections));
        let request = ListSectionsRequest { first_section: first, summarize: args.summarize, limit: 0 };
        let fetched = fetch(&mut client.store, request, Some(end)).await?;
        records.extend(fetched.into_iter().filter_map(|record| cut(record, layout, u64::from(first), end)));
    }
    let state = args.state.map(SectionState::from);
    records.retain(|record| match state {
        Some(state) => record.state() == state,
        None => record.state() != SectionState::Never,
    });
    records.retain(|record| args.owner.as_ref().is_none_or(|owner| record.owner == *owner));
    Ok(records)
}

/// Returns the part of a record that concerns the sections `first..end`. Returns `None` if the record concerns none of
/// them.
fn cut(mut record: SectionInfo, layout: &Sections, first: u64, end: u64) -> Option<SectionInfo> {
    let range = record.range.as_mut()?;
    let (start, past) = (u64::from(range.first_section), u64::from(range.first_section) + u64::from(range.sections));
    let (start, past) = (start.max(first), past.min(end));
    if start >= past {
        return None;
    }
    range.first_section = u32::try_from(start).ok()?;
    range.sections = u32::try_from(past - start).ok()?;
    let uids = layout.uids(range);
    (record.uid_start, record.uid_end) = (uids.start, uids.end);
    Some(record)
}

fn table(records: &[SectionInfo]) -> Table {
    let heading = ["section", "uids", "state", "set", "owner", "epoch", "ceiling", "migration"];
    let mut table = Table::new(&heading).right(&[5, 6]);
    for record in records {
        let range = record.range.unwrap_or_default();
        let or_none = |number: u64, text: String| if number == 0 { "-".to_owned() } else { text };
        table.row([
            if range.sections == 1 { grouped(range.first_section.into()) } else { run_text(&range) },
            contents_text(&(record.uid_start..record.uid_end)),
            state_name(record.state()).to_owned(),
            if record.set.is_empty() { "unknown".to_owned() } else { record.set.clone() },
            owner(record),
            or_none(record.epoch, grouped(record.epoch)),
            or_none(record.epoch, grouped(record.ceiling)),
            or_none(record.migration_id, record.migration_id.to_string()),
        ]);
    }
    table
}

/// Returns a text with the owner of a section and, if an operator moved the section, the AllocSvr to which it was
/// moved.
fn owner(record: &SectionInfo) -> String {
    let owner = if record.owner.is_empty() { "-" } else { &record.owner };
    match record.moved_to.as_str() {
        "" => owner.to_owned(),
        to if to == owner => format!("{owner} (moved)"),
        to => format!("{owner} (moved to {to})"),
    }
}

/// Returns a table of records that each concern several sections. It has no columns for owners and ceilings, which
/// differ from section to section.
pub(crate) fn summary(records: &[SectionInfo]) -> Table {
    let mut table = Table::new(&["sections", "count", "uids", "state", "set", "migration"]).right(&[1]);
    for record in records {
        let range = record.range.unwrap_or_default();
        table.row([
            run_text(&range),
            grouped(range.sections.into()),
            contents_text(&(record.uid_start..record.uid_end)),
            state_name(record.state()).to_owned(),
            if record.set.is_empty() { "unknown".to_owned() } else { record.set.clone() },
            if record.migration_id == 0 { "-".to_owned() } else { record.migration_id.to_string() },
        ]);
    }
    table
}

async fn show(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let own = cluster.sets()[0].clone();
    let layout = Sections::of(&own)?;
    let section = match (args.section, args.uid) {
        (Some(section), _) if u64::from(section) < layout.all() => section,
        (Some(section), _) => {
            let message = format!("section {section} is outside 0..{}", layout.all());
            return Err(Failure::new(Exit::Usage, message).into());
        }
        (None, Some(uid)) => layout.of_uid(uid)?,
        (None, None) => return Err(Failure::new(Exit::Usage, "name a SECTION or a --uid".to_owned()).into()),
    };
    // If the section is in another set, the record in this set names that set, whose store has the current record.
    let mut store = cluster.into_own().store;
    let mut record = one(&mut store, section).await?;
    if record.state() != SectionState::Resident && !record.set.is_empty() && record.set != own.name {
        let set = record.set.clone();
        let there = Cluster::connect(&args.target, args.timeout.duration()).await?.into_set(&set).await;
        match there {
            Ok(there) => {
                store = there.store;
                record = one(&mut store, section).await?;
            }
            Err(error) => {
                seq_command::exit::report_error(&format_args!("set {set}: {error:#}; as set {} has it:", own.name))
            }
        }
    }
    let described = activity::describe(&mut store, &record).await;
    if output.is_json() {
        output.json(&ShownView { section: SectionView::new(&record), activity: described })?;
    } else {
        let beginning = section::beginning(&record);
        output.table(&table(&[record]))?;
        if let Some(line) = beginning {
            output.line(format_args!("ownership: {line}"))?;
        }
        if let Some(described) = described {
            described.print(output)?;
        }
    }
    Ok(Exit::Ok)
}

/// Requests the record of one section.
async fn one(store: &mut StoreClient, section: u32) -> anyhow::Result<SectionInfo> {
    let request = ListSectionsRequest { first_section: section, limit: 1, summarize: false };
    let response = store.sections(request).await?;
    let record = response.sections.into_iter().next();
    Ok(record.ok_or_else(|| Failure::new(Exit::Failed, format!("the store has no record of section {section}")))?)
}
