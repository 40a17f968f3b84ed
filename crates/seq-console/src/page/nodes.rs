//! The page of nodes: the nodes that do not respond, then the allocators, the stores and the proxies. In each table,
//! nodes with a fault come first.

use seq_command::output::{bar, grouped};
use seq_command::store_client::NodeRole;
use seq_observe::alloc_state::AllocState;
use seq_observe::cluster::{AllocView, ProxyView, StoreView, Unreachable};
use seq_observe::verdict::{age, uptime};
use seq_observe::{CertificateView, Observation};

use super::{cut, rate};
use crate::route::escaped;
use crate::view::{Block, Cell, Column, Field, Form, Page, Region, Row, Shape, Tone, cell, link, number, text};

/// Rows of a table. A cluster has more than a thousand nodes; the filter by set leaves the others.
const ROWS: usize = 250;

/// Characters of the bar of a lease.
const BAR: usize = 8;

const SILENT: &[Column] =
    &[text("node"), text("set"), text("kind"), text("state"), text("address"), text("last seen"), text("error")];

const ALLOCS: &[Column] = &[
    text("allocator"),
    text("set"),
    text("state"),
    number("sections"),
    number("numbers/s"),
    number("writes/s"),
    text("lease left"),
    number("forwarded"),
    number("refused raises"),
    number("memory of counters"),
    number("up"),
    text("version"),
    text("certificate"),
    text("address"),
];

const STORES: &[Column] = &[
    text("store"),
    text("set"),
    text("role"),
    number("term"),
    number("behind"),
    number("log"),
    number("writes"),
    number("round trip"),
    number("sync p99"),
    number("up"),
    text("version"),
    text("certificate"),
    text("address"),
];

const PROXIES: &[Column] = &[text("proxy"), number("up"), text("version"), text("certificate"), text("address")];

pub(super) fn page(observation: &Observation, set: &str) -> Page {
    let cluster = &observation.cluster;
    let is_of = |of: &str| set.is_empty() || of == set;
    let silent = cluster.unreachable.iter().filter(|node| node.is_missing());
    let silent = silent.filter(|node| node.set.as_deref().is_none_or(is_of)).map(|node| silent_row(node, observation));
    let mut allocs: Vec<&AllocView> = cluster.allocs.iter().filter(|alloc| is_of(&alloc.set)).collect();
    allocs.sort_by_key(|alloc| (alloc.state != AllocState::NoLease, alloc.state == AllocState::Serves));
    let mut stores: Vec<&StoreView> = cluster.stores.iter().filter(|store| is_of(&store.set)).collect();
    stores.sort_by_key(|store| (store.quorum, store.set.clone(), !store.leader));
    let newest = |of: &str| {
        let logs = cluster.stores.iter().filter(|store| store.set == of).map(|store| store.last_log_index);
        logs.max().unwrap_or_default()
    };
    let silent: Vec<Row> = silent.collect();
    let allocs: Vec<Row> = allocs.into_iter().map(alloc_row).collect();
    let stores: Vec<Row> = stores.into_iter().map(|store| store_row(store, newest(&store.set))).collect();
    let mut blocks = vec![Block::Form(form(observation, set))];
    blocks.extend(table("No response", SILENT_REGION, silent, set));
    blocks.extend(table("Allocators", ALLOCS_REGION, allocs, set));
    blocks.extend(table("Stores", STORES_REGION, stores, set));
    if !cluster.proxies.is_empty() {
        blocks.extend(table("Proxies", PROXIES_REGION, cluster.proxies.iter().map(proxy_row).collect(), set));
    }
    Page { title: "Nodes".to_owned(), blocks }
}

/// A table of nodes without its rows.
struct Table {
    id: &'static str,
    /// Id of the region that states how many rows are shown.
    cut: &'static str,
    label: &'static str,
    columns: &'static [Column],
    empty: &'static str,
}

const SILENT_REGION: Table = Table {
    id: "silent",
    cut: "silent-cut",
    label: "Nodes that do not respond",
    columns: SILENT,
    empty: "● every node responds",
};

const ALLOCS_REGION: Table =
    Table { id: "allocs", cut: "allocs-cut", label: "Allocators", columns: ALLOCS, empty: "no allocator" };

const STORES_REGION: Table =
    Table { id: "stores", cut: "stores-cut", label: "Stores", columns: STORES, empty: "no store" };

const PROXIES_REGION: Table =
    Table { id: "proxies", cut: "proxies-cut", label: "Proxies", columns: PROXIES, empty: "no proxy" };

/// Returns a table with its heading, and a text if it does not show all rows. `set` is the set of the page; empty if
/// the page has the nodes of all sets.
fn table(heading: &'static str, of: Table, mut rows: Vec<Row>, set: &str) -> [Block; 3] {
    let all = rows.len();
    rows.truncate(ROWS);
    let rest = if set.is_empty() { "choose a set, or seqsvr status" } else { "seqsvr status has all" };
    let shown = cut(of.cut, (rows.len(), all), rest);
    let Table { id, label, columns, empty, .. } = of;
    [Block::Heading(heading), Block::Region(Region { id, label, shape: Shape::Table(columns), rows, empty }), shown]
}

fn form(observation: &Observation, set: &str) -> Form {
    let all = std::iter::once((String::new(), "all".to_owned()));
    let names = observation.cluster.sets.iter().map(|set| (set.name.clone(), set.name.clone()));
    let field = Field { label: "Set", name: "set", value: set.to_owned(), choices: all.chain(names).collect() };
    Form { label: "Set of the nodes", fields: vec![field] }
}

fn silent_row(node: &Unreachable, observation: &Observation) -> Row {
    let name = node.name.as_deref().unwrap_or("-");
    let kind = match node.role {
        Some(NodeRole::Store) => "store",
        Some(NodeRole::Alloc) => "allocator",
        None => "-",
    };
    // The node is silent since the last event about it, unless the node registered with that event.
    let event = observation.events.iter().filter_map(|one| Some((&one.set, one.set_event()?))).find(|(set, event)| {
        node.set.as_ref() == Some(set)
            && event.node == name
            && event.at_unix_ms > 0
            && matches!(&*event.kind, "silent" | "takeover" | "registered")
    });
    let silent_since = event.filter(|(_, event)| event.kind != "registered");
    let seen = match (node.silent_ms, silent_since) {
        (Some(silent), _) => format!("{} ago", age(silent)),
        (None, Some((_, event))) => {
            let last = event.at_unix_ms.saturating_sub(event.lasted_ms);
            format!("{} ago", age(observation.unix_ms.saturating_sub(last)))
        }
        (None, None) => "-".to_owned(),
    };
    Row::new(
        &*node.addr,
        vec![
            cell(name),
            cell(node.set.as_deref().unwrap_or("-")),
            cell(kind),
            cell(format!("✕ {}", node.state.name())).tone(Tone::Fault),
            cell(&*node.addr),
            cell(seen),
            cell(&*node.why),
        ],
    )
}

fn certificate(of: Option<&CertificateView>) -> Cell {
    let Some(certificate) = of else { return cell("-") };
    if certificate.is_valid() {
        return cell(&*certificate.expires);
    }
    cell(format!("▲ {}", certificate.expires)).tone(Tone::Attention)
}

/// Returns the remaining time of a lease, with a bar if the length of a lease is known.
fn lease(alloc: &AllocView) -> String {
    let left = age(alloc.lease_remaining_ms);
    match alloc.lease_ms {
        0 => left,
        whole => format!("{} {left}", bar(alloc.lease_remaining_ms.min(whole), whole, BAR)),
    }
}

fn alloc_row(alloc: &AllocView) -> Row {
    let state = match alloc.state {
        AllocState::Serves => cell("● serves").tone(Tone::Ok),
        AllocState::NoLease | AllocState::Silent => cell(format!("✕ {}", alloc.state.name())).tone(Tone::Fault),
        state => cell(format!("▯ {}", state.name())).tone(Tone::Attention),
    };
    let lease = if alloc.lease_remaining_ms > 0 {
        cell(lease(alloc))
    } else if alloc.lease_ended_ms > 0 {
        cell(format!("✕ ended {} ago", age(alloc.lease_ended_ms))).tone(Tone::Fault)
    } else {
        cell("-")
    };
    Row::new(
        &*alloc.addr,
        vec![
            link(&*alloc.name, format!("/config?node={}", escaped(&alloc.addr))),
            cell(&*alloc.set),
            state,
            cell(grouped(alloc.sections.into())),
            cell(rate(alloc.numbers_per_second)),
            cell(rate(alloc.raises_per_second)),
            lease,
            cell(grouped(alloc.forwarded)),
            cell(grouped(alloc.raises_refused)),
            cell(format!("{} kB", grouped(alloc.slot_bytes / 1_000))),
            cell(uptime(alloc.uptime_ms)),
            cell(&*alloc.version),
            certificate(alloc.certificate.as_ref()),
            cell(&*alloc.addr),
        ],
    )
}

fn store_row(store: &StoreView, newest: u64) -> Row {
    let role = match (store.quorum, store.leader) {
        (false, _) => cell(format!("✕ no majority for {}", age(store.quorum_lost_ms))).tone(Tone::Fault),
        (true, true) => cell("★ leads").tone(Tone::Ok),
        (true, false) => cell("follows"),
    };
    let millis = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.1} ms", us as f64 / 1_000.0));
    Row::new(
        &*store.addr,
        vec![
            link(&*store.name, format!("/config?node={}", escaped(&store.addr))),
            cell(&*store.set),
            role,
            cell(grouped(store.term)),
            cell(grouped(newest.saturating_sub(store.applied_index))),
            cell(grouped(store.last_log_index)),
            cell(grouped(store.raises_applied)),
            cell(millis(store.round_trip_us.values().max().copied())),
            cell(millis(store.sync_p99_us)),
            cell(uptime(store.uptime_ms)),
            cell(&*store.version),
            certificate(store.certificate.as_ref()),
            cell(&*store.addr),
        ],
    )
}

fn proxy_row(proxy: &ProxyView) -> Row {
    Row::new(
        &*proxy.addr,
        vec![
            link(&*proxy.name, format!("/config?node={}", escaped(&proxy.addr))),
            cell(uptime(proxy.uptime_ms)),
            cell(&*proxy.version),
            certificate(proxy.certificate.as_ref()),
            cell(&*proxy.addr),
        ],
    )
}
