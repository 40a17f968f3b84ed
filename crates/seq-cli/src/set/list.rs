//! The commands `set list` and `set show`.

use std::fmt::Write;

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table, digits, grouped};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_observe::migration::{self, MigrationView};
use seq_proto::v1::{ListSectionsRequest, MigrationStatus, SectionInfo, SetInfo, SetState};
use serde::Serialize;

use super::plan::restores;
use crate::cluster_client::Cluster;
use crate::section::{self, SectionView};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr set list\n  seqsvr set list --set sets/two/a.toml -o wide\n\n\
                        Exit codes: 0 listed, 2 a wrong file or address, 3 the store has no set or no majority, 4 no \
                        node responded, 7 not done within --timeout.")]
pub struct ListArgs {
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr set show\n  seqsvr set show im-b --addr http://127.0.0.1:7301\n\n\
                        Exit codes: 0 shown, 1 there is no such set, 2 a wrong file or address, 3 the store has no \
                        set or no majority, 4 no node responded, 7 not done within --timeout.")]
pub struct ShowArgs {
    /// Name or id of the set; by default the set of the node that responds.
    #[arg(value_name = "SET")]
    name: Option<String>,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// A set as JSON.
#[derive(Serialize)]
pub(super) struct SetView {
    name: String,
    #[serde(serialize_with = "digits")]
    id: u64,
    state: &'static str,
    sections: u32,
    /// Count of restores in the set's lineage.
    restores: u64,
    #[serde(serialize_with = "digits")]
    lineage: u64,
    #[serde(serialize_with = "digits")]
    layout_id: u64,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    /// Whether this set is the layout writer, according to the set whose store was queried.
    writes_series: bool,
    stores: Vec<String>,
    allocs: Vec<String>,
    /// Milliseconds since the store of this set last responded to the leader of the queried set's store.
    #[serde(skip_serializing_if = "Option::is_none")]
    responded_ms: Option<u64>,
}

impl SetView {
    /// Returns whether sections can be migrated into the set.
    pub(super) fn is_open(&self) -> bool {
        self.state == "open"
    }

    pub(super) fn new(set: &SetInfo) -> SetView {
        SetView {
            name: set.name.clone(),
            id: set.id,
            state: state(set),
            sections: set.sections,
            restores: restores(set.lineage),
            lineage: set.lineage,
            layout_id: set.layout_id,
            uid_start: set.uid_start,
            uid_end: set.uid_end,
            section_size: set.section_size,
            writes_series: set.writes_series,
            stores: set.stores.clone(),
            allocs: set.allocs.clone(),
            responded_ms: (set.responded_ms > 0).then_some(set.responded_ms),
        }
    }
}

/// Returns the word for the state of a set.
pub(super) fn state(set: &SetInfo) -> &'static str {
    match set.state() {
        SetState::Unspecified => "unknown",
        SetState::Open => "open",
        SetState::Closing => "closing",
        SetState::Closed => "closed",
        SetState::Quarantined => "quarantined",
    }
}

pub(crate) async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let sets = cluster.sets();
    if output.is_json() {
        output.json_items(&sets.iter().map(SetView::new).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let heading = [
        "set",
        "state",
        "sections",
        "stores",
        "allocs",
        "responded",
        "id",
        "restores",
        "uids",
        "section size",
        "series",
    ];
    let columns = if output.is_wide() { heading.len() } else { 6 };
    let right: &[usize] = if output.is_wide() { &[2, 5, 6, 7, 9] } else { &[2, 3, 4, 5] };
    let mut table = Table::new(&heading[..columns]).right(right);
    for (index, set) in sets.iter().enumerate() {
        let nodes = |nodes: &[String]| if output.is_wide() { nodes.join(" ") } else { nodes.len().to_string() };
        let cells = [
            set.name.clone(),
            state(set).to_owned(),
            grouped(set.sections.into()),
            nodes(&set.stores),
            nodes(&set.allocs),
            responded(set, index == 0),
        ];
        let more = [
            set.id.to_string(),
            grouped(restores(set.lineage)),
            format!("{}..{}", grouped(set.uid_start), grouped(set.uid_end)),
            grouped(set.section_size.into()),
            if set.writes_series { "creates" } else { "-" }.to_owned(),
        ];
        table.row(cells.into_iter().chain(output.is_wide().then_some(more).into_iter().flatten()));
    }
    output.table(&table)?;
    Ok(Exit::Ok)
}

/// Returns a text with the time since a set last responded to the set whose store was queried.
fn responded(set: &SetInfo, is_own: bool) -> String {
    match set.responded_ms {
        _ if is_own => "-".to_owned(),
        0 => "never".to_owned(),
        ms => format!("{:.1} s ago", ms as f64 / 1_000.0),
    }
}

/// A set in detail as JSON.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    set: SetView,
    runs: Vec<SectionView>,
    migrations: Vec<MigrationView>,
}

pub(crate) async fn show(args: &ShowArgs, output: &Output) -> anyhow::Result<Exit> {
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    if let Some(name) = &args.name
        && let set = cluster.find(name)?
        && set.state() == SetState::Closed
    {
        // The processes of a closed set need not run, so the set is shown from the record of the queried set.
        return print(set, &[], &[], output);
    }
    let mut client = match &args.name {
        Some(name) => cluster.into_set(name).await?,
        None => cluster.into_own(),
    };
    let request = ListSectionsRequest { summarize: true, ..ListSectionsRequest::default() };
    let runs = section::fetch(&mut client.store, request, None).await?;
    let migrations = client.store.migrations(None).await?;
    print(client.info(), &runs, &migrations, output)
}

/// Prints a set with its sections and migrations.
fn print(set: &SetInfo, runs: &[SectionInfo], migrations: &[MigrationStatus], output: &Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        let runs = runs.iter().map(SectionView::new).collect();
        let migrations = migrations.iter().map(MigrationView::new).collect();
        output.json(&Detail { set: SetView::new(set), runs, migrations })?;
        return Ok(Exit::Ok);
    }
    let mut text = String::new();
    let mut line = |name: &str, value: std::fmt::Arguments<'_>| {
        writeln!(text, "{name:<12} {value}").expect("a String takes every write");
    };
    line("set", format_args!("{}  (id {})", set.name, set.id));
    line("state", format_args!("{}", state(set)));
    line("restores", format_args!("{}", grouped(restores(set.lineage))));
    line(
        "uids",
        format_args!(
            "{}..{} in sections of {}",
            grouped(set.uid_start),
            grouped(set.uid_end),
            grouped(set.section_size.into())
        ),
    );
    if set.writes_series {
        line("series", format_args!("this set creates the series of the cluster"));
    }
    line("sections", format_args!("{} in this set", grouped(set.sections.into())));
    line("stores", format_args!("{}", set.stores.join("  ")));
    line("allocs", format_args!("{}", set.allocs.join("  ")));
    for migration in migrations {
        let (id, to) = (migration.id, &migration.to);
        line("migration", format_args!("{id} to {to}: {}", migration::line(migration)));
    }
    output.text(&text)?;
    if set.state() != SetState::Closed {
        output.line("")?;
        output.table(&section::summary(runs))?;
    }
    Ok(Exit::Ok)
}
