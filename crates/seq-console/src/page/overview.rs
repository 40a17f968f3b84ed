//! The overview page. It has the faults and remarks, the most urgent first, each with the next step of an operator;
//! then a table of the sets; then the newest events.

use seq_command::output::{grouped, printable};
use seq_command::store_client::NodeRole;
use seq_observe::activity::rate_text;
use seq_observe::advice::Severity;
use seq_observe::alloc_state::AllocState;
use seq_observe::attention::Attention;
use seq_observe::cluster::{AllocView, Cluster, SetView, Unreachable};
use seq_observe::verdict::age;
use seq_observe::{ClusterEvent, Observation};
use seq_proto::v1::EventSeverity;

use super::{events, missing, rate, state_cell};
use crate::model::Seen;
use crate::route::escaped;
use crate::view::{Block, Cell, Column, Page, Region, Row, Shape, Tone, cell, command, link, number, spark, text};

/// Events of the overview.
const EVENTS: usize = 8;

/// Nodes of a set that are drawn as marks; further nodes are counted.
const MARKS: usize = 128;

const SETS: &[Column] = &[
    text("set"),
    text("state"),
    number("uids"),
    number("served"),
    number("numbers/s"),
    text("15 min"),
    number("writes/s"),
    number("least lease"),
    text("stores"),
    text("allocators"),
];

pub(super) fn page(observation: &Observation, seen: &Seen) -> Page {
    let cluster = &observation.cluster;
    let sets = cluster.sets.iter().map(|set| set_row(set, cluster, seen)).collect();
    // Counts of refused requests are on the page of events only: strangers cause them at any time.
    let is_shown = |one: &&ClusterEvent| one.set_event().is_some() || one.severity() > EventSeverity::Info;
    let events = observation.events.iter().filter(is_shown).take(EVENTS).map(events::row).collect();
    Page {
        title: "Overview".to_owned(),
        blocks: vec![
            Block::Heading("Needs attention"),
            Block::Region(attention(&cluster.attention)),
            Block::Heading("Sets"),
            Block::Region(figures(cluster)),
            Block::Region(Region { id: "sets", label: "Sets", shape: Shape::Table(SETS), rows: sets, empty: "no set" }),
            Block::Heading("Last events"),
            events::region(events),
            missing(&observation.missing),
        ],
    }
}

/// Returns the faults and remarks, the most urgent first.
pub(super) fn attention(list: &[Attention]) -> Region {
    let row = |point: &Attention| {
        let Attention { severity, set, sentence, next, rule, runbook } = point;
        let of = set.as_ref().map(|set| format!("{set}: ")).unwrap_or_default();
        let tone = match severity {
            Severity::Info => Tone::Plain,
            severity => Tone::from(Some(*severity)),
        };
        let sentence = cell(printable(&format!("{} {of}{sentence}", severity.mark())).into_owned()).tone(tone);
        let (before, typed, after) = split(next.as_deref().unwrap_or_default());
        // A rule may have several remarks about a set.
        Row::new(
            format!("{rule} {of}{}", point.sentence),
            vec![sentence, cell(before), command(typed), cell(after), link("runbook", href(runbook))],
        )
    };
    let rows = list.iter().map(row).collect();
    Region { id: "attention", label: "Points that need attention", shape: Shape::List, rows, empty: "● nothing" }
}

/// Splits a next step into the text before its first command, the command, and the text after it.
fn split(next: &str) -> (String, Option<String>, String) {
    let mut parts = next.splitn(3, '`');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(before), Some(typed), Some(after)) => {
            (before.trim().to_owned(), Some(typed.to_owned()), after.trim().replace('`', ""))
        }
        _ => (next.to_owned(), None, String::new()),
    }
}

/// Returns the address of a page and heading of the runbook.
fn href(runbook: &str) -> String {
    match runbook.strip_prefix("../") {
        Some(other) => format!("/runbook/{other}"),
        None => format!("/runbook/{runbook}"),
    }
}

/// Returns the figures of all sets together.
fn figures(cluster: &Cluster) -> Region {
    let sum =
        |of: &dyn Fn(&SetView) -> Option<f64>| cluster.sets.iter().filter_map(of).reduce(|one, other| one + other);
    let (numbers, writes) = (sum(&|set| set.numbers_per_second), sum(&|set| set.raises_per_second));
    let a_write = numbers.zip(writes).filter(|(_, writes)| *writes > 0.0).map(|(numbers, writes)| numbers / writes);
    let lease = least_lease(cluster.allocs.iter());
    let figure =
        |key: &str, value: String, unit: &str| Row::new(key, vec![cell(value).strong(), cell(format!(" {unit}"))]);
    let rows = vec![
        figure("numbers", rate(numbers), "numbers/s"),
        figure("writes", rate(writes), "section writes/s"),
        figure("ratio", a_write.map_or_else(|| "-".to_owned(), rate_text), "numbers per write"),
        figure("lease", lease.map_or_else(|| "-".to_owned(), age), "least lease left"),
    ];
    Region { id: "figures", label: "Figures of all sets", shape: Shape::Line, rows, empty: "" }
}

/// Returns the least time that is left of the lease of any allocator with sections.
fn least_lease<'a>(allocs: impl Iterator<Item = &'a AllocView>) -> Option<u64> {
    allocs.filter(|alloc| alloc.sections > 0).map(|alloc| alloc.lease_remaining_ms).min()
}

fn set_row(set: &SetView, cluster: &Cluster, seen: &Seen) -> Row {
    let allocs = || cluster.allocs.iter().filter(|alloc| alloc.set == set.name);
    let stores = cluster.stores.iter().filter(|store| store.set == set.name);
    let stores = stores.map(|store| format!("{}{}", store.name, if store.leader { "★" } else { "" }));
    let silent = silent(set, cluster, NodeRole::Store);
    let silent = silent.map(|node| format!("{}✕", node.name.as_deref().unwrap_or(&node.addr)));
    let stores: Vec<String> = stores.chain(silent).collect();
    let lease = least_lease(allocs());
    let rates = seen.rates.get(&set.name);
    Row::new(
        &*set.name,
        vec![
            link(&*set.name, format!("/nodes?set={}", escaped(&set.name))),
            set.state.map_or_else(|| cell("-"), state_cell),
            cell(format!("{}..{}", grouped(set.uid_start), grouped(set.uid_end))),
            cell(format!("{}/{}", grouped(set.sections_served.into()), grouped(set.sections.into()))),
            cell(rate(set.numbers_per_second)),
            rates.map_or_else(|| cell(""), |rates| spark(rates.iter().copied())),
            cell(rate(set.raises_per_second)),
            cell(lease.map_or_else(|| "-".to_owned(), age)),
            cell(stores.join(" ")),
            marks(set, cluster),
        ],
    )
}

/// Returns the nodes of a set with a role that do not respond.
fn silent<'a>(set: &'a SetView, cluster: &'a Cluster, role: NodeRole) -> impl Iterator<Item = &'a Unreachable> {
    let is_silent = move |node: &&Unreachable| {
        node.is_missing() && node.set.as_deref() == Some(&*set.name) && node.role == Some(role)
    };
    cluster.unreachable.iter().filter(is_silent)
}

/// Returns a mark for each allocator of a set: serves, drained, or silent.
fn marks(set: &SetView, cluster: &Cluster) -> Cell {
    let responding = cluster.allocs.iter().filter(|alloc| alloc.set == set.name).map(|alloc| match alloc.state {
        AllocState::Serves => '▮',
        AllocState::NoLease | AllocState::Silent => '✕',
        AllocState::Draining | AllocState::Drained | AllocState::Leaving | AllocState::Stopped => '▯',
    });
    let silent = silent(set, cluster, NodeRole::Alloc).map(|_| '✕');
    let all: Vec<char> = silent.chain(responding).collect();
    let further = all.len().saturating_sub(MARKS);
    let shown: String = all.iter().take(MARKS).collect();
    let serve = all.iter().filter(|mark| **mark == '▮').count();
    let shown = format!("{serve} of {} serve {shown}", all.len());
    let tone = if shown.contains('✕') { Tone::Attention } else { Tone::Plain };
    cell(if further == 0 { shown } else { format!("{shown} and {further} more") }).tone(tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_next_step_can_be_copied() {
        let of = |next: &str| {
            let (before, typed, after) = split(next);
            format!("{before}|{}|{after}", typed.unwrap_or_default())
        };
        assert_eq!(of("`seqsvr status`"), "|seqsvr status|");
        assert_eq!(of("start it again, or `seqsvr node drain a1`"), "start it again, or|seqsvr node drain a1|");
        assert_eq!(of("`seqsvr status`, then `seqsvr top`"), "|seqsvr status|, then seqsvr top");
        assert_eq!(of("check the address"), "check the address||");
        assert_eq!(of(""), "||");
    }

    #[test]
    fn headings_of_the_runbook_are_addresses() {
        assert_eq!(href("sets.md#closed"), "/runbook/sets.md#closed");
        assert_eq!(href("../security.md#alerts"), "/runbook/security.md#alerts");
    }
}
