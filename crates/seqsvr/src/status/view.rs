//! Merges the responses of many nodes into one view.

use std::collections::{BTreeMap, BTreeSet};

use seq_proto::v1::status_response::Role;
use seq_proto::v1::{AllocStatus, StatusResponse, StoreMember, StoreStatus};
use serde::Serialize;

use super::StatusResult;
use super::verdict::{Facts, State, age};
use crate::output::{Table, digits, grouped};

/// The merged responses; sets and nodes sorted by name.
#[derive(Debug, Serialize)]
pub(super) struct View {
    /// Whether every set is served and every listed node responded.
    pub(super) healthy: bool,
    /// The verdict of the worst set.
    verdict: String,
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
    /// 0 if no store responded.
    sections: u32,
    /// Sections whose owner has a lease.
    sections_served: u32,
    /// `ok`, `degraded`, `unserved` or `no_quorum`.
    state: Option<State>,
    verdict: String,
    stores: usize,
    allocs: usize,
    route_version: u64,
    allocations: u64,
    raises: u64,
    #[serde(skip)]
    facts: Facts,
    /// The members as listed by the most up-to-date store, with its rank.
    #[serde(skip)]
    members: Option<((bool, u64, u64), Vec<Voter>)>,
    #[serde(skip)]
    allocs_named: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Voter {
    name: String,
    addr: String,
    voter: bool,
}

#[derive(Debug, Serialize)]
struct StoreView {
    set: String,
    name: String,
    addr: String,
    id: u64,
    leader: bool,
    /// Whether it sees a majority, and since when not.
    quorum: bool,
    quorum_lost_ms: u64,
    max_round_trip_ms: u64,
    /// Round trips of heartbeats by member, on the leader.
    round_trip_us: BTreeMap<String, u64>,
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
    lease_remaining_ms: u64,
    lease_ended_ms: u64,
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
    /// Name of the node, if a response has it.
    name: Option<String>,
    /// Whether no responding store lists it as a member any more.
    removed: bool,
    why: String,
}

impl View {
    /// Builds the view from the responses of all queried nodes; `seeds` are those that the user named.
    pub(super) fn new(responses: &BTreeMap<String, StatusResult>, seeds: &BTreeSet<String>) -> View {
        let (sets, stores, allocs, unreachable) = Default::default();
        let mut view = View { healthy: true, verdict: String::new(), sets, stores, allocs, unreachable };
        let mut sets: BTreeMap<&str, SetView> = BTreeMap::new();
        for (addr, response) in responses {
            let Ok(response) = response else { continue };
            let set = sets.entry(&response.set).or_default();
            match &response.role {
                Some(Role::Store(store)) => view.stores.push(set.store(addr, response, store)),
                Some(Role::Alloc(alloc)) => view.allocs.push(set.alloc(addr, response, alloc)),
                None => {}
            }
        }
        for (addr, response) in responses {
            let Err(why) = response else { continue };
            let name = sets.values().find_map(|set| set.name_of(addr));
            // An address of an outdated set file; a store with a quorum does not list it.
            let removed = name.is_none() && !seeds.contains(addr) && sets.values().all(|set| set.facts.quorum);
            if !removed {
                let silent = name.as_ref().map_or_else(|| addr.clone(), |name| format!("{name} ({addr})"));
                // The set of an unknown node is not known: it is missing in all of them.
                let missing = sets.values_mut().filter(|set| name.is_none() || set.name_of(addr).is_some());
                missing.for_each(|set| set.facts.silent.push(silent.clone()));
            }
            view.unreachable.push(Unreachable { addr: addr.clone(), name, removed, why: why.clone() });
        }
        view.sets = sets.into_iter().map(|(name, set)| set.with_verdict(name, responses)).collect();
        view.stores.sort_by(|one, other| (&one.set, one.id).cmp(&(&other.set, other.id)));
        view.allocs.sort_by(|one, other| (&one.set, &one.name).cmp(&(&other.set, &other.name)));
        view.healthy = view.sets.iter().all(|set| set.state == Some(State::Ok));
        view.verdict = view.sets.iter().min_by_key(|set| set.state).map(|set| set.verdict.clone()).unwrap_or_default();
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
            let mut table = Table::new(&["no response", "addr", "why"]);
            for Unreachable { addr, name, removed, why } in &self.unreachable {
                let name = if *removed { "removed" } else { name.as_deref().unwrap_or("?") };
                table.row([name.to_owned(), addr.clone(), why.clone()]);
            }
            text.push('\n');
            text.push_str(&table.render());
        }
        text.push('\n');
        for set in &self.sets {
            text.push_str(&format!("{}: {}\n", set.name, set.verdict));
        }
        text
    }

    fn render_stores(&self, wide: bool) -> String {
        let narrow = ["store", "set", "addr", "term", "applied", "log", "snapshot", "raises"];
        let mut table =
            heading(&narrow, &["id", "quorum", "round trips", "uptime", "version"], wide).right(&[3, 4, 5, 6, 7]);
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
            let more = [
                store.id.to_string(),
                if store.quorum { "yes".to_owned() } else { format!("no, {}", age(store.quorum_lost_ms)) },
                trips(&store.round_trip_us),
                uptime(store.uptime_ms),
                build(&store.version, &store.revision),
            ];
            table.row(cells.into_iter().chain(more.into_iter().filter(|_| wide)));
        }
        table.render()
    }

    fn render_allocs(&self, wide: bool) -> String {
        let narrow = ["alloc", "set", "addr", "sections", "lease", "numbers", "forwarded", "raises", "routes"];
        let more = ["incarnation", "refused", "memory", "uptime", "version"];
        let mut table = heading(&narrow, &more, wide).right(&[3, 5, 6, 7, 8]);
        for alloc in &self.allocs {
            let cells = [
                alloc.name.clone(),
                alloc.set.clone(),
                alloc.addr.clone(),
                alloc.sections.to_string(),
                match (alloc.lease_remaining_ms, alloc.lease_ended_ms) {
                    (0, 0) => "none".to_owned(),
                    (0, ended) => format!("ended {} ago", age(ended)),
                    _ => "held".to_owned(),
                },
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
    /// The name of the node at an address, as the set's store knows it.
    fn name_of(&self, addr: &str) -> Option<String> {
        let members = self.members.iter().flat_map(|(_, members)| members);
        let store = members.into_iter().find(|member| member.addr == addr).map(|member| member.name.clone());
        store.or_else(|| self.allocs_named.get(addr).cloned())
    }

    /// Adds the verdict, from all responses.
    fn with_verdict(mut self, name: &str, responses: &BTreeMap<String, StatusResult>) -> SetView {
        let answering = |member: &&Voter| responses.get(&member.addr).is_some_and(Result::is_ok);
        let voters = self.members.iter().flat_map(|(_, members)| members).filter(|member| member.voter);
        self.facts.voters = voters.map(|member| (member.name.clone(), answering(&member))).collect();
        (self.facts.sections, self.facts.served) = (self.sections, self.sections_served);
        SetView { name: name.to_owned(), state: Some(self.facts.state()), verdict: self.facts.text(), ..self }
    }

    fn store(&mut self, addr: &str, response: &StatusResponse, store: &StoreStatus) -> StoreView {
        self.uid_start = store.uid_start;
        self.uid_end = store.uid_end;
        self.section_size = store.section_size;
        self.sections = store.sections;
        self.stores += 1;
        self.route_version = self.route_version.max(store.route_version);
        let leads = store.leader == store.id && store.id != 0;
        // The leader of a majority is authoritative; otherwise the store with the newest log.
        let rank = (leads && store.quorum, store.term, store.last_log_index);
        if self.members.as_ref().is_none_or(|(known, _)| rank > *known) && !store.members.is_empty() {
            let member = |member: &StoreMember| Voter {
                name: member.name.clone(),
                addr: member.addr.clone(),
                voter: member.voter,
            };
            self.members = Some((rank, store.members.iter().map(member).collect()));
            self.allocs_named = store.allocs.iter().map(|alloc| (alloc.addr.clone(), alloc.name.clone())).collect();
        }
        // A follower with a leader counts: the leader may be unreachable only from here.
        self.facts.quorum |= store.quorum;
        let lost = store.quorum_lost_ms;
        if lost > 0 && (self.facts.quorum_lost_ms == 0 || lost < self.facts.quorum_lost_ms) {
            self.facts.quorum_lost_ms = lost;
        }
        let trips = store.members.iter().filter(|member| member.round_trip_us > 0);
        StoreView {
            set: response.set.clone(),
            name: response.node.clone(),
            addr: addr.to_owned(),
            id: store.id,
            leader: leads,
            quorum: store.quorum,
            quorum_lost_ms: store.quorum_lost_ms,
            max_round_trip_ms: store.max_round_trip_ms,
            round_trip_us: trips.map(|member| (member.name.clone(), member.round_trip_us)).collect(),
            term: store.term,
            last_log_index: store.last_log_index,
            applied_index: store.applied_index,
            snapshot_index: store.snapshot_index,
            raises_applied: store.raises_applied,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }

    fn alloc(&mut self, addr: &str, response: &StatusResponse, alloc: &AllocStatus) -> AllocView {
        self.allocs += 1;
        match alloc.lease_remaining_ms {
            0 => {
                self.facts.unleased.push(response.node.clone());
                let ended = alloc.lease_ended_ms;
                if ended > 0 && (self.facts.lease_ended_ms == 0 || ended < self.facts.lease_ended_ms) {
                    self.facts.lease_ended_ms = ended;
                }
            }
            left => {
                self.sections_served += alloc.sections;
                self.facts.lease_left_ms = self.facts.lease_left_ms.max(left);
            }
        }
        self.allocations += alloc.allocations;
        self.raises += alloc.raises;
        self.route_version = self.route_version.max(alloc.route_version);
        AllocView {
            set: response.set.clone(),
            name: response.node.clone(),
            addr: addr.to_owned(),
            incarnation: alloc.incarnation,
            sections: alloc.sections,
            lease_remaining_ms: alloc.lease_remaining_ms,
            lease_ended_ms: alloc.lease_ended_ms,
            allocations: alloc.allocations,
            forwarded: alloc.forwarded,
            raises: alloc.raises,
            raises_refused: alloc.raises_refused,
            route_version: alloc.route_version,
            slot_bytes: alloc.slot_bytes,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }
}

fn heading(narrow: &[&str], more: &[&str], wide: bool) -> Table {
    let columns: Vec<&str> = narrow.iter().chain(more.iter().filter(|_| wide)).copied().collect();
    Table::new(&columns)
}

/// Formats the round trips measured by a leader, in milliseconds.
fn trips(trips: &BTreeMap<String, u64>) -> String {
    let one = |(name, us): (&String, &u64)| format!("{name} {:.1} ms", *us as f64 / 1_000.0);
    trips.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Formats an uptime in its two largest units.
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
