//! The answers of many nodes as one picture.

use std::collections::BTreeMap;

use seq_proto::v1::status_response::Role;
use seq_proto::v1::{AllocStatus, StatusResponse, StoreStatus};
use serde::Serialize;

use super::Answer;
use crate::output::{Table, digits, grouped};

/// Everything that was learnt. Sets in order of name, nodes too.
#[derive(Debug, Serialize)]
pub(super) struct View {
    /// Every set is served and every node that was named answered.
    pub(super) healthy: bool,
    sets: Vec<SetView>,
    stores: Vec<StoreView>,
    allocs: Vec<AllocView>,
    unreachable: Vec<Unreachable>,
}

#[derive(Debug, Default, Serialize)]
struct SetView {
    name: String,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    /// 0 when no store answered.
    sections: u32,
    sections_served: u32,
    stores: usize,
    allocs: usize,
    route_version: u64,
    allocations: u64,
    raises: u64,
}

#[derive(Debug, Serialize)]
struct StoreView {
    set: String,
    name: String,
    addr: String,
    id: u64,
    leader: bool,
    term: u64,
    last_log_index: u64,
    applied_index: u64,
    snapshot_index: u64,
    raises_applied: u64,
    uptime_ms: u64,
    version: String,
    revision: String,
}

#[derive(Debug, Serialize)]
struct AllocView {
    set: String,
    name: String,
    addr: String,
    incarnation: u64,
    sections: u32,
    allocations: u64,
    forwarded: u64,
    raises: u64,
    raises_refused: u64,
    route_version: u64,
    slot_bytes: u64,
    uptime_ms: u64,
    version: String,
    revision: String,
}

#[derive(Debug, Serialize)]
struct Unreachable {
    addr: String,
    why: String,
}

impl View {
    pub(super) fn new(answers: &BTreeMap<String, Answer>) -> View {
        let mut view =
            View { healthy: true, sets: Vec::new(), stores: Vec::new(), allocs: Vec::new(), unreachable: Vec::new() };
        let mut sets: BTreeMap<&str, SetView> = BTreeMap::new();
        for (addr, answer) in answers {
            match answer {
                Ok(answer) => {
                    let set = sets.entry(&answer.set).or_default();
                    match &answer.role {
                        Some(Role::Store(store)) => view.stores.push(set.store(addr, answer, store)),
                        Some(Role::Alloc(alloc)) => view.allocs.push(set.alloc(addr, answer, alloc)),
                        None => {}
                    }
                }
                Err(why) => view.unreachable.push(Unreachable { addr: addr.clone(), why: why.clone() }),
            }
        }
        view.sets = sets.into_iter().map(|(name, set)| SetView { name: name.to_owned(), ..set }).collect();
        view.stores.sort_by(|one, other| (&one.set, one.id).cmp(&(&other.set, other.id)));
        view.allocs.sort_by(|one, other| (&one.set, &one.name).cmp(&(&other.set, &other.name)));
        let served = |set: &SetView| set.sections > 0 && set.sections_served >= set.sections;
        let led = |set: &SetView| view.stores.iter().any(|store| store.set == set.name && store.leader);
        view.healthy = view.unreachable.is_empty() && view.sets.iter().all(|set| served(set) && led(set));
        view
    }

    pub(super) fn render(&self, wide: bool) -> String {
        let mut sets = Table::new(&["set", "uids", "served", "stores", "allocs", "numbers", "raises", "routes"]);
        for set in &self.sets {
            sets.row([
                set.name.clone(),
                if set.sections == 0 {
                    "?".to_owned()
                } else {
                    format!("{}..{}", grouped(set.uid_start), grouped(set.uid_end))
                },
                format!(
                    "{}/{}",
                    set.sections_served,
                    if set.sections == 0 { "?".to_owned() } else { set.sections.to_string() }
                ),
                set.stores.to_string(),
                set.allocs.to_string(),
                grouped(set.allocations),
                grouped(set.raises),
                format!("v{}", set.route_version),
            ]);
        }
        let mut text = sets.render();
        if !self.stores.is_empty() {
            text.push('\n');
            text.push_str(&self.render_stores(wide));
        }
        if !self.allocs.is_empty() {
            text.push('\n');
            text.push_str(&self.render_allocs(wide));
        }
        if !self.unreachable.is_empty() {
            let mut table = Table::new(&["no answer", "why"]);
            for Unreachable { addr, why } in &self.unreachable {
                table.row([addr.clone(), why.clone()]);
            }
            text.push('\n');
            text.push_str(&table.render());
        }
        text
    }

    fn render_stores(&self, wide: bool) -> String {
        let narrow = ["store", "set", "addr", "term", "applied", "log", "snapshot", "raises"];
        let mut table = heading(&narrow, &["id", "uptime", "version"], wide).right(&[3, 4, 5, 6, 7]);
        for store in &self.stores {
            let cells = [
                format!("{}{}", store.name, if store.leader { "*" } else { "" }),
                store.set.clone(),
                store.addr.clone(),
                store.term.to_string(),
                grouped(store.applied_index),
                grouped(store.last_log_index),
                grouped(store.snapshot_index),
                grouped(store.raises_applied),
            ];
            let more = [store.id.to_string(), uptime(store.uptime_ms), build(&store.version, &store.revision)];
            table.row(cells.into_iter().chain(more.into_iter().filter(|_| wide)));
        }
        table.render()
    }

    fn render_allocs(&self, wide: bool) -> String {
        let narrow = ["alloc", "set", "addr", "sections", "numbers", "forwarded", "raises", "routes"];
        let more = ["life", "refused", "memory", "uptime", "version"];
        let mut table = heading(&narrow, &more, wide).right(&[3, 4, 5, 6, 7]);
        for alloc in &self.allocs {
            let cells = [
                alloc.name.clone(),
                alloc.set.clone(),
                alloc.addr.clone(),
                alloc.sections.to_string(),
                grouped(alloc.allocations),
                grouped(alloc.forwarded),
                grouped(alloc.raises),
                format!("v{}", alloc.route_version),
            ];
            let more = [
                alloc.incarnation.to_string(),
                grouped(alloc.raises_refused),
                format!("{} KiB", grouped(alloc.slot_bytes / 1_024)),
                uptime(alloc.uptime_ms),
                build(&alloc.version, &alloc.revision),
            ];
            table.row(cells.into_iter().chain(more.into_iter().filter(|_| wide)));
        }
        table.render()
    }
}

impl SetView {
    fn store(&mut self, addr: &str, answer: &StatusResponse, store: &StoreStatus) -> StoreView {
        self.uid_start = store.uid_start;
        self.uid_end = store.uid_end;
        self.section_size = store.section_size;
        self.sections = store.sections;
        self.stores += 1;
        self.route_version = self.route_version.max(store.route_version);
        StoreView {
            set: answer.set.clone(),
            name: answer.node.clone(),
            addr: addr.to_owned(),
            id: store.id,
            leader: store.leader == store.id && store.id != 0,
            term: store.term,
            last_log_index: store.last_log_index,
            applied_index: store.applied_index,
            snapshot_index: store.snapshot_index,
            raises_applied: store.raises_applied,
            uptime_ms: answer.uptime_ms,
            version: answer.version.clone(),
            revision: answer.revision.clone(),
        }
    }

    fn alloc(&mut self, addr: &str, answer: &StatusResponse, alloc: &AllocStatus) -> AllocView {
        self.allocs += 1;
        self.sections_served += alloc.sections;
        self.allocations += alloc.allocations;
        self.raises += alloc.raises;
        self.route_version = self.route_version.max(alloc.route_version);
        AllocView {
            set: answer.set.clone(),
            name: answer.node.clone(),
            addr: addr.to_owned(),
            incarnation: alloc.incarnation,
            sections: alloc.sections,
            allocations: alloc.allocations,
            forwarded: alloc.forwarded,
            raises: alloc.raises,
            raises_refused: alloc.raises_refused,
            route_version: alloc.route_version,
            slot_bytes: alloc.slot_bytes,
            uptime_ms: answer.uptime_ms,
            version: answer.version.clone(),
            revision: answer.revision.clone(),
        }
    }
}

fn heading(narrow: &[&str], more: &[&str], wide: bool) -> Table {
    let columns: Vec<&str> = narrow.iter().chain(more.iter().filter(|_| wide)).copied().collect();
    Table::new(&columns)
}

/// Uptime in the two units that matter.
fn uptime(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

fn build(version: &str, revision: &str) -> String {
    format!("{version} ({revision})")
}

#[cfg(test)]
mod tests;
