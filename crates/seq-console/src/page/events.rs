//! Events of the sets, the newest first.

use std::collections::BTreeSet;

use seq_command::output::printable;
use seq_command::utc;
use seq_observe::{ClusterEvent, Observation, events};
use seq_proto::v1::EventSeverity;

use super::{cut, missing};
use crate::route::{Filter, escaped};
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, Tone, cell, link, text};

/// Events of the page. `seqsvr events list` has all that the stores keep.
const EVENTS: usize = 200;

const COLUMNS: &[Column] = &[text("time"), text("set"), text("kind"), text("event")];

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
    let mut kinds: BTreeSet<&str> = observation.events.iter().map(|one| one.event.kind.as_str()).collect();
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
    let event = &one.event;
    let is = |wanted: &str, given: &str| wanted.is_empty() || wanted == given;
    let names = || std::iter::once(&event.node).chain(event.moved_to.iter().map(|owner| &owner.node));
    let section = filter.section.replace([',', '_'], "");
    let is_around = |section: u32| event.sections > 0 && (event.first_section..=event.last_section).contains(&section);
    is(&filter.set, &one.set)
        && is(&filter.kind, &event.kind)
        && (filter.node.is_empty() || names().any(|name| *name == filter.node))
        && (section.is_empty() || section.parse().is_ok_and(is_around))
}

/// Returns the row of an event.
pub(super) fn row(one: &ClusterEvent) -> Row {
    let event = &one.event;
    let (mark, tone) = match event.severity() {
        EventSeverity::Fault => ("✕ ", Tone::Fault),
        EventSeverity::Attention => ("▲ ", Tone::Attention),
        EventSeverity::Info | EventSeverity::Unspecified => ("", Tone::Plain),
    };
    let time = if event.at_unix_ms > 0 { utc::text_of_ms(event.at_unix_ms) } else { "-".to_owned() };
    let kind = printable(&event.kind).into_owned();
    let text = format!("{mark}{}", printable(&events::text(event)));
    Row::new(
        format!("{} {}", one.set, event.index),
        vec![
            cell(time),
            link(&*one.set, format!("/events?set={}", escaped(&one.set))),
            link(kind, format!("/events?kind={}", escaped(&event.kind))),
            cell(text).tone(tone),
        ],
    )
}
