//! The pages, each a function of the last observation. Pages about one section, one uid or the settings of nodes query
//! nodes as well.

use std::collections::BTreeSet;

use seq_command::output::{grouped, printable};
use seq_observe::Observation;
use seq_observe::activity::rate_text;
use seq_observe::verdict::State;

use crate::console::Console;
use crate::model::Seen;
use crate::route::Route;
use crate::view::{Block, Cell, Page, Region, Row, Shape, Tone, cell, link};

mod collect;
mod config;
mod events;
mod map;
mod nodes;
mod overview;
mod runbook;
mod section;
mod sections;
mod sets;
mod uid;

/// Returns whether the parameters of a route lead to a page.
pub(crate) fn exists(route: &Route) -> bool {
    match route {
        Route::Runbook(name) => runbook::exists(name),
        _ => true,
    }
}

/// Returns a page.
///
/// # Cancel safety
/// A cancelled request has no effect.
pub(crate) async fn page(console: &Console, route: &Route, seen: &Seen) -> Page {
    if let Route::Runbook(name) = route {
        return runbook::page(name);
    }
    let Some((_, observation)) = &seen.last else {
        return Page { title: title(route).to_owned(), blocks: unobserved(seen) };
    };
    match route {
        Route::Overview => overview::page(observation, seen),
        Route::Map => map::page(observation),
        Route::Sections { by_writes } => sections::page(console, observation, *by_writes).await,
        Route::Section(section) => section::page(console, observation, *section).await,
        Route::Nodes { set } => nodes::page(observation, set),
        Route::Sets => sets::page(observation, seen),
        Route::Events(filter) => events::page(observation, filter),
        Route::Uid(uid) => uid::page(console, observation, uid.as_deref()).await,
        Route::Config { node } => config::page(console, observation, node.as_deref()).await,
        Route::Runbook(_) => unreachable!("handled above"),
    }
}

fn title(route: &Route) -> &'static str {
    match route {
        Route::Overview => "Overview",
        Route::Map => "Section map",
        Route::Sections { .. } => "Sections",
        Route::Section(_) => "Section",
        Route::Nodes { .. } => "Nodes",
        Route::Sets => "Sets and migrations",
        Route::Events(_) => "Events",
        Route::Uid(_) => "Uid",
        Route::Config { .. } => "Configuration",
        Route::Runbook(_) => "Runbook",
    }
}

/// Returns the content of a page before the first observation.
fn unobserved(seen: &Seen) -> Vec<Block> {
    let error = seen.error.as_deref().unwrap_or("the cluster was not observed yet");
    vec![
        Block::Text(printable(error).into_owned()),
        Block::Text("The page shows the cluster as soon as a node responds.".to_owned()),
    ]
}

/// Returns the state of the cluster, for the header of each page.
pub(crate) fn state(seen: &Seen) -> Region {
    let mut cells = match &seen.last {
        None => vec![cell("✕ no node responds").tone(Tone::Fault)],
        Some((_, observation)) => state_cells(observation),
    };
    if let Some(error) = seen.error.as_ref().filter(|_| seen.last.is_some()) {
        cells.insert(0, cell(format!("✕ {}", printable(error))).tone(Tone::Fault));
    }
    let rows = vec![Row::new("state", cells)];
    Region { id: "state", label: "State of the cluster", shape: Shape::Line, rows, empty: "" }
}

fn state_cells(observation: &Observation) -> Vec<Cell> {
    let cluster = &observation.cluster;
    let worst = cluster.worst();
    let (all, served) = cluster
        .sets
        .iter()
        .fold((0, 0), |(all, served), set| (all + u64::from(set.sections), served + u64::from(set.sections_served)));
    vec![
        state_cell(worst).strong(),
        // The number of all sections is not known while no store of a set responds.
        cell(match all >= served {
            true => format!("{} of {} sections served", grouped(served), grouped(all)),
            false => format!("{} sections served", grouped(served)),
        }),
        match cluster.attention.len() {
            0 => cell(""),
            1 => link("1 point needs attention", "/"),
            points => link(format!("{points} points need attention"), "/"),
        },
    ]
}

/// Returns the word for a state, with its mark and colour.
fn state_cell(state: State) -> Cell {
    let severity = state.severity();
    let mark = match severity {
        None => "●",
        Some(severity) => severity.mark(),
    };
    cell(format!("{mark} {}", state.name())).tone(severity)
}

/// Returns a rate, or a dash if it is unknown.
fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), rate_text)
}

/// Returns a region with a text for each part of the cluster that did not respond to a request.
fn missing<'a>(parts: impl IntoIterator<Item = &'a String>) -> Block {
    let parts: BTreeSet<&String> = parts.into_iter().collect();
    let row =
        |text: &String| Row::new(&**text, vec![cell(format!("○ not known: {}", printable(text)))]).tone(Tone::Muted);
    Block::Region(Region {
        id: "missing",
        label: "Parts that did not respond",
        shape: Shape::Line,
        rows: parts.into_iter().map(row).collect(),
        empty: "",
    })
}

/// Returns a region that states how many rows of a table are shown, and where the other rows are. The region has no
/// row if the table shows all rows.
fn cut(id: &'static str, (shown, all): (usize, usize), rest: &str) -> Block {
    let text = || format!("{} of {} are shown: {rest}", grouped(shown as u64), grouped(all as u64));
    let rows = if shown < all { vec![Row::new("cut", vec![cell(text()).tone(Tone::Attention)])] } else { Vec::new() };
    Block::Region(Region { id, label: "Rows that are not shown", shape: Shape::Line, rows, empty: "" })
}

#[cfg(test)]
mod tests;
