//! The page with the section map, a canvas of the activity of all sections over time. `assets/map.js` draws the canvas;
//! the page has its controls, and the events to be marked on it.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seq_command::output::printable;
use seq_command::store_client::NodeRole;
use seq_core::limits::MAX_SECTIONS;
use seq_observe::cluster::Cluster;
use seq_observe::{ClusterEvent, Observation, events};

use super::missing;
use crate::html::region;
use crate::route::escaped;
use crate::view::{Block, Cell, Page, Region, Row, Shape, cell, link};

/// Events that are marked on the map.
const MARKS: usize = 40;

/// Kinds of events that explain a change of the map, and are not part of each start.
const MARKED: [&str; 14] = [
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
];

/// The canvas of the map with its controls.
pub(crate) struct MapView {
    sections: u32,
    section_size: u32,
    uid_start: u64,
    /// Set and name of each allocator.
    owners: BTreeSet<(String, String)>,
    marks: Region,
}

/// Returns the number of sections of the cluster, by the uids of its sets.
pub(crate) fn sections(cluster: &Cluster) -> u32 {
    let of_set = cluster.sets.iter().filter(|set| set.section_size > 0).map(|set| {
        let sections = set.uid_end.saturating_sub(set.uid_start).div_ceil(u64::from(set.section_size));
        u32::try_from(sections).unwrap_or(u32::MAX)
    });
    of_set.max().unwrap_or(0).min(MAX_SECTIONS)
}

pub(super) fn page(observation: &Observation) -> Page {
    let cluster = &observation.cluster;
    // The record of an allocator that is gone may be the interesting one.
    let silent = cluster.unreachable.iter().filter(|node| node.role == Some(NodeRole::Alloc));
    let silent = silent.filter_map(|node| node.set.clone().zip(node.name.clone()));
    let owners: BTreeSet<(String, String)> =
        cluster.allocs.iter().map(|alloc| (alloc.set.clone(), alloc.name.clone())).chain(silent).collect();
    let is_marked = |one: &&ClusterEvent| MARKED.contains(&&*one.event.kind) && one.event.at_unix_ms > 0;
    let marks = observation.events.iter().filter(is_marked).take(MARKS).map(mark).collect();
    let marks =
        Region { id: "marks", label: "Events in the time of the map", shape: Shape::List, rows: marks, empty: "" };
    let view = MapView {
        sections: sections(cluster),
        section_size: cluster.sets.iter().map(|set| set.section_size).max().unwrap_or(0),
        uid_start: cluster.uids_of(0).start,
        owners,
        marks,
    };
    Page {
        title: "Section map".to_owned(),
        blocks: vec![
            Block::Map(view),
            missing(observation),
            Block::Command {
                text: "The same as a table:",
                command: "seqsvr section list --top numbers --count 50".to_owned(),
            },
        ],
    }
}

/// Returns the mark of an event: its kind, its time for the script, and its text.
fn mark(one: &ClusterEvent) -> Row {
    let event = &one.event;
    let to = format!("/events?kind={}&set={}", escaped(&event.kind), escaped(&one.set));
    let time: Cell = cell(event.at_unix_ms.to_string());
    let text = printable(&events::text(event)).into_owned();
    Row::new(
        format!("{} {}", one.set, event.index),
        vec![link(format!("▾ {}", printable(&event.kind)), to), time, cell(format!("{}: {text}", one.set))],
    )
}

impl MapView {
    /// Returns the events that are marked.
    pub(crate) fn marks(&self) -> &Region {
        &self.marks
    }

    /// Returns the canvas with its controls.
    pub(crate) fn html(&self) -> Markup {
        let group = |name: &str, label: &str, choices: &[(&str, &str, &str)]| {
            html! {
                div.group role="group" aria-label=(label) {
                    @for (place, (value, text, key)) in choices.iter().enumerate() {
                        button type="button" data-name=(name) data-value=(value) aria-pressed=(place == 0)
                            aria-keyshortcuts=[(!key.is_empty()).then_some(key)] { (text) }
                    }
                }
            }
        };
        html! {
            div.bar role="toolbar" aria-label="View of the map" {
                (group("span", "Time", &[("minutes", "5 minutes", ""), ("hour", "Hour", "t"), ("day", "Day", ""), ("now", "Now", "n")]))
                (group("layer", "Subject", &[("numbers", "Numbers", ""), ("writes", "Section writes", "")]))
                (group("value", "Value of a row", &[("hottest", "Hottest section", "h"), ("total", "Total", "s")]))
                label {
                    "Owner "
                    select #owner {
                        option value="" { "all" }
                        @for (set, name) in &self.owners {
                            option value={ (set) "/" (name) } { (set) " " (name) }
                        }
                    }
                }
                label { "Uid " input #find inputmode="numeric" autocomplete="off" size="14"; }
                button #out type="button" hidden { "Zoom out" }
                span.grow {}
                span #legend .legend {}
            }
            div #marks-of-map .marks { (region(&self.marks)) }
            div.map {
                div.frame {
                    canvas #map width="960" height="512" tabindex="0" role="application" aria-roledescription="heat map"
                        aria-label="Activity by uid and time. Arrow keys move, Enter zooms in or opens a section, Escape zooms out."
                        aria-describedby="cell" data-sections=(self.sections) data-size=(self.section_size) data-start=(self.uid_start) {}
                    div #cursor aria-hidden="true" {}
                }
                div #axis-y .axis-y aria-hidden="true" {}
                div #axis-x .axis-x aria-hidden="true" {}
            }
            p #cell .cell role="status" { "Point at a cell, or move with the arrow keys." }
        }
    }
}
