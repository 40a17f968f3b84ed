//! Events of the sets and of the processes of nodes, the newest first.

use std::collections::BTreeSet;

use seq_command::output::printable;
use seq_command::utc;
use seq_observe::{ClusterEvent, Observation};
use seq_proto::v1::EventSeverity;

use super::{cut, missing};
use crate::route::{Filter, escaped};
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, Tone, cell, link, text};

/// Events of the page. `seqsvr events list` has all that the stores keep.
const EVENTS: usize = 200;

const COLUMNS: &[Column] = &[text("time"), text("set"), text("source"), text("kind"), text("event")];

pub(super) fn page(observation: &Observation, filter: &Filter) -> Page {
    let found: Vec<&ClusterEvent> = observation.events.iter().filter(|event| matches(event, filter)).collect();
    let rows: Vec<Row> = found.iter().take(EVENTS).map(|event| row(event)).collect();
    let shown = cut("events-cut", (rows.len(), found.len()), "choose a set or a kind, or seqsvr events list");
    let is_known = observation.cluster.sets.iter().any(|set| set.name == filter.set);
    let flags = if is_known { format!(" --set {}.toml", filter.set) } else { String::new() };
    Page {
        title: "Events".to_owned(),
        blocks: vec![
            Block::Form(form(observation, filter)),
            region(rows),
            shown,
            missing(&observation.missing),
            Block::Command { text: "The same in a terminal:", command: format!("seqsvr events watch{flags}") },
        ],
    }
}

/// Returns the region of events, which are the rows of [`row`].
pub(super) fn region(rows: Vec<Row>) -> Block {
    let shape = Shape::Table(COLUMNS);
    Block::Region(Region { id: "events", label: "Events", shape, rows, empty: "no events" })
}

fn form(observation: &Observation, filter: &Filter) -> Form {
    let choices = |names: BTreeSet<&str>| {
        let all = std::iter::once((String::new(), "all".to_owned()));
        all.chain(names.into_iter().map(|name| (name.to_owned(), name.to_owned()))).collect()
    };
    let sets = observation.cluster.sets.iter().map(|set| set.name.as_str()).collect();
    let mut kinds: BTreeSet<&str> = observation.events.iter().map(ClusterEvent::kind).collect();
    // The choice stays when its last event is no longer kept.
    kinds.extend(Some(filter.kind.as_str()).filter(|kind| !kind.is_empty()));
    let field = |label, name, value: &str, choices| Field { label, name, value: value.to_owned(), choices };
    Form {
        label: "Filter of events",
        fields: vec![
            field("Set", "set", &filter.set, choices(sets)),
            field("Kind", "kind", &filter.kind, choices(kinds)),
            field("Node", "node", &filter.node, Vec::new()),
            field("Section", "section", &filter.section, Vec::new()),
        ],
    }
}

fn matches(one: &ClusterEvent, filter: &Filter) -> bool {
    let is = |wanted: &str, given: &str| wanted.is_empty() || wanted == given;
    let section = filter.section.replace([',', '_'], "");
    is(&filter.set, &one.set)
        && is(&filter.kind, one.kind())
        && (filter.node.is_empty() || one.nodes().any(|name| name == filter.node))
        && (section.is_empty() || section.parse().is_ok_and(|section| one.is_around(section)))
}

/// Returns the row of an event.
pub(super) fn row(one: &ClusterEvent) -> Row {
    let (mark, tone) = match one.severity() {
        EventSeverity::Fault => ("✕ ", Tone::Fault),
        EventSeverity::Attention => ("▲ ", Tone::Attention),
        EventSeverity::Info | EventSeverity::Unspecified => ("", Tone::Plain),
    };
    let time = utc::text_if_known(one.at_unix_ms()).unwrap_or_else(|| "-".to_owned());
    let text = format!("{mark}{}", printable(&one.text()));
    let source = match one.set_event() {
        Some(_) => cell(one.source()),
        None => link(printable(one.source()).into_owned(), format!("/events?node={}", escaped(one.source()))),
    };
    Row::new(
        one.key(),
        vec![
            cell(time),
            link(&*one.set, format!("/events?set={}", escaped(&one.set))),
            source,
            link(printable(one.kind()).into_owned(), format!("/events?kind={}", escaped(one.kind()))),
            cell(text).tone(tone),
        ],
    )
}
