//! The settings that nodes run with, and the settings in which nodes of a kind differ.

use std::collections::BTreeMap;

use futures::FutureExt;
use seq_command::output::printable;
use seq_command::store_client::Node;
use seq_observe::Observation;
use seq_observe::settings::{Difference, Report, config_of, differences};

use super::collect::collect;
use super::cut;
use crate::console::Console;
use crate::view::{Block, Column, Field, Form, Page, Region, Row, Shape, Tone, cell, text};

/// Differences on the page; `seqsvr config diff` has all.
const DIFFERENCES: usize = 200;

const DIFFERENT: &[Column] =
    &[text("set"), text("kind"), text("key"), text("node"), text("value"), text("origin"), text("most nodes have")];

const SETTINGS: &[Column] = &[text("key"), text("value"), text("default"), text("origin")];

const SILENT: &[Column] = &[text("address"), text("error")];

pub(super) async fn page(console: &Console, observation: &Observation, node: Option<&str>) -> Page {
    let nodes = observation.cluster.nodes();
    let mut blocks = vec![Block::Form(form(&nodes, node))];
    match node {
        Some(addr) => blocks.extend(of_node(console, &nodes, addr).await),
        None => blocks.extend(of_all(console, &nodes).await),
    }
    Page { title: "Configuration".to_owned(), blocks }
}

fn form(nodes: &[Node], node: Option<&str>) -> Form {
    let name = |node: &Node| {
        let name = node.name.as_deref().unwrap_or(&node.addr);
        let of = node.of.as_ref().map(|(set, _)| format!("{set} "));
        format!("{}{name}", of.unwrap_or_default())
    };
    let choices: BTreeMap<String, String> = nodes.iter().map(|node| (name(node), node.addr.clone())).collect();
    let all = std::iter::once((String::new(), "differences between nodes".to_owned()));
    let choices = all.chain(choices.into_iter().map(|(name, addr)| (addr, name))).collect();
    let field = Field { label: "Node", name: "node", value: node.unwrap_or_default().to_owned(), choices };
    Form { label: "Node whose settings are shown", fields: vec![field] }
}

/// Returns the settings of a node. Only nodes of the cluster are queried.
async fn of_node(console: &Console, nodes: &[Node], addr: &str) -> Vec<Block> {
    if !nodes.iter().any(|node| node.addr == addr) {
        return vec![Block::Text(format!("the cluster has no node at {}", printable(addr)))];
    }
    let settings = match config_of(&console.pool, addr, console.timeout).await {
        Ok(response) => response.settings,
        Err(failure) => return vec![Block::Text(printable(&failure.to_string()).into_owned())],
    };
    let row = |setting: &seq_proto::v1::Setting| {
        let is_default = setting.value == setting.default;
        let cells = [&setting.key, &setting.value, &setting.default, &setting.origin];
        let row = Row::new(&*setting.key, cells.map(|text| cell(printable(text).into_owned())).to_vec());
        if is_default { row.tone(Tone::Muted) } else { row }
    };
    vec![Block::Region(Region {
        id: "settings",
        label: "Settings of the node",
        shape: Shape::Table(SETTINGS),
        rows: settings.iter().map(row).collect(),
        empty: "the node reports no settings",
    })]
}

/// Returns the differences between all nodes, and the nodes that do not report their settings.
async fn of_all(console: &Console, nodes: &[Node]) -> Vec<Block> {
    let request = |node: &Node| {
        let (pool, addr, timeout) = (console.pool.clone(), node.addr.clone(), console.timeout);
        (node.addr.clone(), async move { config_of(&pool, &addr, timeout).await }.boxed())
    };
    let (responses, missing) = collect(nodes.iter().map(request).collect(), console.timeout).await;
    let late = |addr: String| (addr, "not requested in time, because many nodes do not respond".to_owned());
    let (mut reports, mut silent) = (Vec::new(), missing.into_iter().map(late).collect::<Vec<_>>());
    for (addr, response) in responses {
        match response {
            Ok(settings) => reports.push(Report { addr, settings }),
            Err(failure) => silent.push((addr, failure.to_string())),
        }
    }
    silent.sort();
    reports.sort_by(|one: &Report, other| one.addr.cmp(&other.addr));
    let found = differences(&reports, false);
    let mut rows: Vec<Row> = found.iter().flat_map(rows_of).collect();
    let all = rows.len();
    rows.truncate(DIFFERENCES);
    let shown = cut("differences-cut", (rows.len(), all), "seqsvr config diff");
    let silent_row = |(addr, why): &(String, String)| {
        Row::new(addr.clone(), vec![cell(addr.clone()), cell(printable(why).into_owned())]).tone(Tone::Attention)
    };
    let mut blocks = vec![
        Block::Heading("Differences"),
        Block::Region(Region {
            id: "differences",
            label: "Settings in which nodes of a kind differ",
            shape: Shape::Table(DIFFERENT),
            rows,
            empty: "● no differences between nodes of a kind",
        }),
        shown,
    ];
    if !silent.is_empty() {
        blocks.push(Block::Heading("Not compared"));
        blocks.push(Block::Region(Region {
            id: "silent",
            label: "Nodes that do not report their settings",
            shape: Shape::Table(SILENT),
            rows: silent.iter().map(silent_row).collect(),
            empty: "",
        }));
    }
    blocks.push(Block::Command { text: "The same in a terminal:", command: "seqsvr config diff".to_owned() });
    blocks
}

fn rows_of(difference: &Difference) -> Vec<Row> {
    let text = |value: Option<&String>| printable(value.map_or("-", String::as_str)).into_owned();
    let Difference { set, kind, key, majority, nodes } = difference;
    let row = |node: &seq_observe::settings::ValueOfNode| {
        Row::new(
            format!("{kind} {key} {}", node.addr),
            vec![
                cell(if set.is_empty() { "-" } else { set }),
                cell(&**kind),
                cell(&**key),
                cell(&*node.node),
                cell(text(node.value.as_ref())),
                cell(text(node.origin.as_ref())),
                cell(text(majority.as_ref())),
            ],
        )
    };
    nodes.iter().map(row).collect()
}
