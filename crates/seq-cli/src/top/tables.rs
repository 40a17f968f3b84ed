//! The tables of the page. Each function returns the rows that match the filter, or the lines of the table.

use seq_command::output::{bar, grouped};
use seq_command::utc::time_of_day;
use seq_observe::activity::rate_text;
use seq_observe::cluster::{AllocView, SetView, StoreView};
use seq_observe::migration::{OUTDATED, Phase, details, done, speed};
use seq_observe::verdict::{age, uptime};
use seq_observe::{BusySection, ClusterEvent, Observation};
use seq_proto::v1::{EventSeverity, MigrationStatus};

use super::columns::{Column, cut, sparkline, table};
use super::row::Look;
use super::screen::{Screen, Tab};

/// Width of a sparkline, in characters.
const SPARK: usize = 10;

/// Width, in characters, of the table of nodes when it is shown to the right of the table of sections.
const NODES: usize = 60;

/// Minimum width, in characters, that the table of sections must have left if the table of nodes is shown to its right.
const BESIDE: usize = 90;

/// Width of the bar of a migration, in characters.
const BAR: usize = 20;

/// A node in the table of nodes.
enum NodeRow<'a> {
    Alloc(&'a AllocView),
    Store(&'a StoreView),
    /// A node that does not respond.
    Silent(&'a seq_observe::cluster::Unreachable),
}

/// A migration of a set.
struct Moving<'a> {
    set: &'a SetView,
    migration: &'a MigrationStatus,
}

/// Returns the number of rows in the selected table that match the filter.
pub(super) fn rows(seen: &Observation, screen: &Screen) -> usize {
    match screen.tab {
        Tab::Nodes => nodes(seen, screen).len(),
        Tab::Sections => sections(seen, screen).len(),
        Tab::Migrations => migrations(seen, screen).len(),
        Tab::Events => changes(seen, screen).len(),
    }
}

/// Returns the heading of the selected table, and its lines with their looks. If `width` suffices, the table of nodes
/// is shown to the right of the table of sections.
pub(super) fn lines(seen: &Observation, screen: &Screen, width: usize) -> (String, Vec<(String, Look)>) {
    match screen.tab {
        Tab::Nodes => of_nodes(seen, screen, width),
        Tab::Sections if width >= BESIDE + NODES => {
            let left = width - NODES - 3;
            let (heading, lines) = of_sections(seen, screen, left);
            let (nodes, node_lines) = of_nodes(seen, &Screen::default(), NODES);
            let beside = |one: &str, other: &str| format!("{:left$} │ {other}", cut(one, left)).trim_end().to_owned();
            let line = |place: usize| {
                let (line, look) = lines.get(place).map_or(("", Look::Plain), |(line, look)| (line, *look));
                let node = node_lines.get(place).map_or("", |(line, _)| line);
                (beside(line, node), look)
            };
            (beside(&heading, &nodes), (0..lines.len().max(node_lines.len())).map(line).collect())
        }
        Tab::Sections => of_sections(seen, screen, width),
        Tab::Migrations => of_migrations(seen, screen, width),
        Tab::Events => of_events(seen, screen, width),
    }
}

/// Returns the sections that match the filter, in the order in which the observation lists them.
pub(super) fn sections<'a>(seen: &'a Observation, screen: &Screen) -> Vec<&'a BusySection> {
    let leaves = |busy: &&BusySection| screen.leaves(&[&busy.section.to_string(), &busy.set, &busy.owner]);
    seen.sections.iter().filter(leaves).collect()
}

fn of_sections(seen: &Observation, screen: &Screen, width: usize) -> (String, Vec<(String, Look)>) {
    let rows = sections(seen, screen);
    let columns: [Column<'_, &BusySection>; 9] = [
        Column::number("section", 9, 0, |busy: &&BusySection| grouped(busy.section.into())),
        Column::text("set", 8, 0, |busy: &&BusySection| busy.set.clone()),
        Column::text("owner", 8, 0, |busy: &&BusySection| busy.owner.clone()),
        Column::number("numbers/s", 10, 0, |busy: &&BusySection| rate_text(busy.figures.numbers_per_second)),
        Column::number("writes/m", 9, 0, |busy: &&BusySection| rate_text(busy.figures.writes_per_second * 60.0)),
        Column::text("history", SPARK, 72, |busy: &&BusySection| sparkline(&busy.history, SPARK)),
        Column::number("raised", 12, 80, |busy: &&BusySection| grouped(busy.figures.raised)),
        Column::number("measured", 8, 100, |busy: &&BusySection| {
            format!("{:.1} s", f64::from(busy.figures.measured_ms) / 1_000.0)
        }),
        Column::text("uids", 30, 115, |busy: &&BusySection| {
            format!("{}..{}", grouped(busy.uid_start), grouped(busy.uid_end))
        }),
    ];
    let (heading, lines) = table(&columns, &rows, width);
    (heading, lines.into_iter().map(|line| (line, Look::Plain)).collect())
}

/// Returns the nodes that match the filter. First come the nodes that do not respond, then AllocSvrs without a lease,
/// and then all other nodes.
fn nodes<'a>(seen: &'a Observation, screen: &Screen) -> Vec<NodeRow<'a>> {
    let cluster = &seen.cluster;
    let silent = cluster.unreachable.iter().filter(|node| node.is_missing()).map(NodeRow::Silent);
    let mut allocs: Vec<&AllocView> = cluster.allocs.iter().collect();
    allocs.sort_by_key(|alloc| alloc.lease_remaining_ms > 0);
    let others = allocs.into_iter().map(NodeRow::Alloc).chain(cluster.stores.iter().map(NodeRow::Store));
    let leaves = |row: &NodeRow<'_>| {
        let cells = [row.name(), row.set(), row.state()];
        screen.leaves(&cells.each_ref().map(String::as_str))
    };
    silent.chain(others).filter(leaves).collect()
}

impl NodeRow<'_> {
    fn name(&self) -> String {
        match self {
            NodeRow::Alloc(alloc) => alloc.name.clone(),
            NodeRow::Store(store) => store.name.clone(),
            NodeRow::Silent(node) => node.name.clone().unwrap_or_else(|| node.addr.clone()),
        }
    }

    fn set(&self) -> String {
        match self {
            NodeRow::Alloc(alloc) => alloc.set.clone(),
            NodeRow::Store(store) => store.set.clone(),
            NodeRow::Silent(node) => node.set.clone().unwrap_or_else(|| "?".to_owned()),
        }
    }

    fn state(&self) -> String {
        match self {
            NodeRow::Alloc(alloc) => alloc.state.name().to_owned(),
            NodeRow::Store(store) if store.leader => "leads".to_owned(),
            NodeRow::Store(store) if store.quorum => "follows".to_owned(),
            NodeRow::Store(_) => "no quorum".to_owned(),
            NodeRow::Silent(node) => node.state.name().to_owned(),
        }
    }

    fn look(&self) -> Look {
        match self {
            NodeRow::Silent(_) => Look::Fault,
            NodeRow::Alloc(alloc) if alloc.lease_remaining_ms == 0 => Look::Attention,
            NodeRow::Store(store) if !store.quorum => Look::Attention,
            NodeRow::Alloc(_) | NodeRow::Store(_) => Look::Plain,
        }
    }

    /// Returns the text of a cell in the row of this node. For an AllocSvr it is the result of `alloc`, for a StoreSvr
    /// the result of `store`, and for a node that does not respond a dash.
    fn of(&self, alloc: impl Fn(&AllocView) -> String, store: impl Fn(&StoreView) -> String) -> String {
        match self {
            NodeRow::Alloc(view) => alloc(view),
            NodeRow::Store(view) => store(view),
            NodeRow::Silent(_) => "-".to_owned(),
        }
    }
}

fn of_nodes(seen: &Observation, screen: &Screen, width: usize) -> (String, Vec<(String, Look)>) {
    let rows = nodes(seen, screen);
    let dash = |_: &StoreView| "-".to_owned();
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), rate_text);
    let lease = |alloc: &AllocView| match alloc.lease_remaining_ms {
        0 => "none".to_owned(),
        left => age(left),
    };
    let applied =
        |store: &StoreView| format!("{} behind", grouped(store.last_log_index.saturating_sub(store.applied_index)));
    let columns: [Column<'_, NodeRow<'_>>; 12] = [
        Column::text("node", 10, 0, NodeRow::name),
        Column::text("set", 8, 0, NodeRow::set),
        Column::text("state", 9, 0, NodeRow::state),
        Column::number("sections", 8, 0, |row: &NodeRow<'_>| row.of(|alloc| grouped(alloc.sections.into()), dash)),
        Column::number("numbers/s", 10, 0, |row: &NodeRow<'_>| row.of(|alloc| rate(alloc.numbers_per_second), dash)),
        Column::number("lease", 7, 0, |row: &NodeRow<'_>| row.of(lease, dash)),
        Column::number("writes/s", 8, 72, |row: &NodeRow<'_>| row.of(|alloc| rate(alloc.raises_per_second), dash)),
        Column::number("log", 10, 90, |row: &NodeRow<'_>| row.of(|_| "-".to_owned(), applied)),
        Column::number("routes", 8, 100, |row: &NodeRow<'_>| row.of(|alloc| format!("v{}", alloc.route_version), dash)),
        Column::number("memory", 9, 110, |row: &NodeRow<'_>| {
            row.of(|alloc| format!("{} MiB", alloc.slot_bytes >> 20), dash)
        }),
        Column::number("up", 7, 120, |row: &NodeRow<'_>| {
            row.of(|alloc| uptime(alloc.uptime_ms), |store| uptime(store.uptime_ms))
        }),
        Column::text("addr", 28, 150, |row: &NodeRow<'_>| match row {
            NodeRow::Alloc(alloc) => alloc.addr.clone(),
            NodeRow::Store(store) => store.addr.clone(),
            NodeRow::Silent(node) => format!("{} {}", node.addr, node.why),
        }),
    ];
    let (heading, lines) = table(&columns, &rows, width);
    (heading, lines.into_iter().zip(rows.iter().map(NodeRow::look)).collect())
}

fn migrations<'a>(seen: &'a Observation, screen: &Screen) -> Vec<Moving<'a>> {
    let moves =
        seen.cluster.sets.iter().flat_map(|set| set.moves.iter().map(move |migration| Moving { set, migration }));
    moves.filter(|row| screen.leaves(&[&row.migration.id.to_string(), &row.set.name, &row.migration.to])).collect()
}

fn of_migrations(seen: &Observation, screen: &Screen, width: usize) -> (String, Vec<(String, Look)>) {
    let rows = migrations(seen, screen);
    let columns: [Column<'_, Moving<'_>>; 7] = [
        Column::text("migration", 10, 0, |row: &Moving<'_>| row.migration.id.to_string()),
        Column::text("from", 8, 0, |row: &Moving<'_>| row.set.name.clone()),
        Column::text("to", 8, 0, |row: &Moving<'_>| row.migration.to.clone()),
        Column::text("phase", 12, 0, |row: &Moving<'_>| Phase::of(row.migration).name().to_owned()),
        Column::number("sections", 15, 0, |row: &Moving<'_>| {
            format!("{}/{}", grouped(done(row.migration).into()), grouped(row.migration.sections.into()))
        }),
        Column::text("", BAR, 80, |row: &Moving<'_>| {
            bar(done(row.migration).into(), row.migration.sections.into(), BAR)
        }),
        Column::text("speed", 90, 100, |row: &Moving<'_>| {
            let speed = if row.set.outdated { OUTDATED.to_owned() } else { speed(row.migration) };
            format!("{speed}{}", details(row.migration))
        }),
    ];
    let (heading, lines) = table(&columns, &rows, width);
    let is_well = |row: &Moving<'_>| row.migration.stuck.is_empty() && !row.set.outdated;
    let look = |row: &Moving<'_>| if is_well(row) { Look::Plain } else { Look::Attention };
    (heading, lines.into_iter().zip(rows.iter().map(look)).collect())
}

fn changes<'a>(seen: &'a Observation, screen: &Screen) -> Vec<&'a ClusterEvent> {
    let leaves = |one: &&ClusterEvent| screen.leaves(&[&one.set, one.source(), one.kind(), &one.text()]);
    seen.events.iter().filter(leaves).collect()
}

fn of_events(seen: &Observation, screen: &Screen, width: usize) -> (String, Vec<(String, Look)>) {
    let rows = changes(seen, screen);
    // The text of the event takes the rest of the line.
    let columns: [Column<'_, &ClusterEvent>; 5] = [
        Column::text("time", 8, 0, |one: &&ClusterEvent| time_of_day(one.at_unix_ms())),
        Column::text("set", 8, 0, |one: &&ClusterEvent| one.set.clone()),
        Column::text("source", 8, 0, |one: &&ClusterEvent| one.source().to_owned()),
        Column::text("kind", 14, 80, |one: &&ClusterEvent| one.kind().to_owned()),
        Column::text("event", width, 0, |one: &&ClusterEvent| one.text()),
    ];
    let (heading, lines) = table(&columns, &rows, width);
    let look = |one: &&ClusterEvent| match one.severity() {
        EventSeverity::Fault => Look::Fault,
        EventSeverity::Attention => Look::Attention,
        EventSeverity::Info | EventSeverity::Unspecified => Look::Plain,
    };
    (heading, lines.into_iter().zip(rows.iter().map(look)).collect())
}
