//! The page with the section map, a canvas of the activity of all sections over time. `assets/map.js` draws the canvas;
//! the page has its controls, and the events to be marked on it.

use std::collections::BTreeSet;

use seq_command::output::printable;
use seq_command::store_client::NodeRole;
use seq_observe::{ClusterEvent, Observation};

use super::missing;
use crate::map_view::{self, MapView};
use crate::route::escaped;
use crate::view::{Block, Cell, Page, Region, Row, Shape, cell, link};

/// Events that are marked on the map.
const MARKS: usize = 40;

/// Kinds of events that explain a change of the map, and are not part of each start.
const MARKED: [&str; 19] = [
    "takeover",
    "silent",
    "leader",
    "drained",
    "undrained",
    "release",
    "migration_started",
    "migration_paused",
    "migration_rolled_back",
    "migration_completed",
    "restored",
    "quarantine_ended",
    "entries_lost",
    "format",
    "clock_step",
    "disk_slow",
    "halted",
    "lease_lost",
    "order_violated",
    "quorum_lost",
];

pub(super) fn page(observation: &Observation) -> Page {
    let cluster = &observation.cluster;
    // The record of an allocator that is gone may be the interesting one.
    let silent = cluster.unreachable.iter().filter(|node| node.role == Some(NodeRole::Alloc));
    let silent = silent.filter_map(|node| node.set.clone().zip(node.name.clone()));
    let owners: BTreeSet<(String, String)> =
        cluster.allocs.iter().map(|alloc| (alloc.set.clone(), alloc.name.clone())).chain(silent).collect();
    let is_marked = |one: &&ClusterEvent| MARKED.contains(&one.kind()) && one.at_unix_ms() > 0;
    let marks = observation.events.iter().filter(is_marked).take(MARKS).map(mark).collect();
    let marks =
        Region { id: "marks", label: "Events in the time of the map", shape: Shape::List, rows: marks, empty: "" };
    let view = MapView {
        sections: map_view::sections(cluster),
        section_size: cluster.sets.iter().map(|set| set.section_size).max().unwrap_or(0),
        uid_start: cluster.uids_of(0).start,
        owners,
    };
    Page {
        title: "Section map".to_owned(),
        blocks: vec![
            Block::Map(view, marks),
            missing(&observation.missing),
            Block::Command {
                text: "The same as a table:",
                command: "seqsvr section list --top numbers --count 50".to_owned(),
            },
        ],
    }
}

/// Returns the mark of an event: its kind, its time for the script, and its text.
fn mark(one: &ClusterEvent) -> Row {
    let to = format!("/events?kind={}&set={}", escaped(one.kind()), escaped(&one.set));
    let time: Cell = cell(one.at_unix_ms().to_string());
    let text = printable(&one.text()).into_owned();
    let of = if one.set_event().is_some() { one.set.clone() } else { format!("{} {}", one.set, one.source()) };
    Row::new(
        one.key(),
        vec![link(format!("▾ {}", printable(one.kind())), to), time, cell(format!("{}: {text}", printable(&of)))],
    )
}
