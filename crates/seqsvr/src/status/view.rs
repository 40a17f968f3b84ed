//! Merges the responses of many nodes into one view.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use seq_proto::v1::status_response::Role;
use seq_proto::v1::{AllocMember, AllocStatus, StatusResponse, StoreMember, StoreStatus};
use serde::Serialize;

use super::verdict::{Facts, State};
use super::{NamedSets, StatusResult};
use crate::alloc_state::AllocState;
use crate::output::digits;
use crate::store_client::Node;

mod certificate;
mod render;

use certificate::CertificateView;
pub(super) use certificate::Expiry;

/// The merged responses; sets and nodes sorted by name.
#[derive(Debug, Default, Serialize)]
pub(super) struct View {
    /// Whether every set is served and every listed node responded.
    pub(super) healthy: bool,
    /// The verdict of the worst set.
    verdict: String,
    /// Sections of the layout that are in no set, and on their way to none, where all sets responded.
    pub(super) sections_unplaced: u32,
    sections_of_layout: u32,
    sets: Vec<SetView>,
    stores: Vec<StoreView>,
    allocs: Vec<AllocView>,
    /// Proxies among the queried nodes; they are of no set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proxies: Vec<ProxyView>,
    unreachable: Vec<Unreachable>,
    /// Of the proxies.
    #[serde(skip)]
    expiry: Expiry,
}

#[derive(Debug, Default, Serialize)]
struct SetView {
    name: String,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    /// 0 for a set without sections, or if no store responded.
    sections: u32,
    /// Sections whose owner has a lease.
    sections_served: u32,
    /// Highest count of a restore that the set's log knows, of any set.
    restores: u32,
    /// `ok`, `degraded`, `unserved`, `quarantined`, `no_quorum`, `split` or `rolled_back`.
    state: Option<State>,
    verdict: String,
    stores: usize,
    allocs: usize,
    route_version: u64,
    /// Since the allocators started.
    allocations: u64,
    /// Since the allocators started.
    raises: u64,
    /// Between this sample and the one before, with `--watch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raises_per_second: Option<f64>,
    /// Sections that departed and have not arrived.
    #[serde(skip)]
    on_their_way: u32,
    #[serde(skip)]
    layout_sections: u32,
    /// Sets of the cluster that its store knows, itself included.
    #[serde(skip)]
    open_sets: u32,
    #[serde(skip)]
    facts: Facts,
    /// The members as listed by the most up-to-date store, with its rank.
    #[serde(skip)]
    members: Option<((bool, u64, u64), Vec<Voter>)>,
    /// The allocators by address, as listed by the same store.
    #[serde(skip)]
    registered: BTreeMap<String, Registered>,
}

#[derive(Debug)]
struct Voter {
    name: String,
    addr: String,
    voter: bool,
    silent_ms: u64,
}

/// An allocator's record in the store.
#[derive(Debug)]
struct Registered {
    name: String,
    drained: bool,
    leaving: bool,
    sections: u32,
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
    /// Of the set file, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
    /// Absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateView>,
    uptime_ms: u64,
    version: String,
    revision: String,
}

#[derive(Debug, Serialize)]
struct AllocView {
    set: String,
    name: String,
    addr: String,
    state: AllocState,
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
    /// Of the set file, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<String>,
    /// Absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateView>,
    uptime_ms: u64,
    version: String,
    revision: String,
}

#[derive(Debug, Serialize)]
struct ProxyView {
    name: String,
    addr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateView>,
    uptime_ms: u64,
    version: String,
    revision: String,
}

#[derive(Debug, Serialize)]
struct Unreachable {
    addr: String,
    /// Name of the node, if a response or the set file has it.
    name: Option<String>,
    /// Name of its set, if a response has it.
    set: Option<String>,
    /// `silent`, `stopped` in order, or `removed`: no responding store lists it any more.
    state: Absence,
    removed: bool,
    /// Milliseconds since it last acknowledged the leader of the store, if that is known.
    silent_ms: Option<u64>,
    why: String,
}

/// Why a node may not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Absence {
    Silent,
    Stopped,
    Removed,
}

impl View {
    /// Builds the view from the responses of all queried nodes; `named` are the sets that nodes of others know, `seeds`
    /// the nodes that the user named. `now` decides which certificates have expired.
    pub(super) fn new(
        responses: &BTreeMap<String, StatusResult>,
        named: &NamedSets,
        seeds: &[Node],
        now: SystemTime,
    ) -> View {
        let mut view = View::default();
        let mut sets: BTreeMap<&str, SetView> = BTreeMap::new();
        for (addr, response) in responses {
            let Ok(response) = response else { continue };
            let certificate = CertificateView::of(response, now);
            // A proxy is of no set.
            let Some(role) = &response.role else {
                view.expiry.add(&response.node, certificate.as_ref());
                view.proxies.push(ProxyView::new(addr, response, certificate));
                continue;
            };
            let set = sets.entry(&response.set).or_default();
            set.facts.expiry.add(&response.node, certificate.as_ref());
            match role {
                Role::Store(store) => view.stores.push(StoreView { certificate, ..set.store(addr, response, store) }),
                Role::Alloc(alloc) => view.allocs.push(AllocView { certificate, ..set.alloc(addr, response, alloc) }),
            }
        }
        for name in named.keys() {
            sets.entry(name).or_default();
        }
        for alloc in &mut view.allocs {
            let record = sets.get(&*alloc.set).and_then(|set| set.registered.get(&alloc.addr));
            alloc.state = alloc.state_of(record);
            let seed = seeds.iter().find(|seed| seed.addr == alloc.addr);
            (alloc.http, alloc.redis) = seed.map(|seed| (seed.http.clone(), seed.redis.clone())).unwrap_or_default();
        }
        for store in &mut view.stores {
            store.http = seeds.iter().find(|seed| seed.addr == store.addr).and_then(|seed| seed.http.clone());
        }
        for (addr, response) in responses {
            let Err(why) = response else { continue };
            let seed = seeds.iter().find(|seed| seed.addr == *addr);
            let mut absent = absent(addr, why, seed, &sets);
            if absent.set.is_none() {
                absent.set = named.iter().find(|(_, allocs)| allocs.contains(addr)).map(|(set, _)| set.clone());
            }
            if absent.state == Absence::Silent {
                let silent = absent.name.as_ref().map_or_else(|| addr.clone(), |name| format!("{name} ({addr})"));
                // The set of an unknown node is not known: it is missing in all of them.
                let missing = sets.iter_mut().filter(|(set, _)| absent.set.as_deref().is_none_or(|own| own == **set));
                missing.for_each(|(_, set)| set.facts.silent.push(silent.clone()));
            }
            view.unreachable.push(absent);
        }
        view.sets = sets.into_iter().map(|(name, set)| set.with_verdict(name, responses)).collect();
        view.stores.sort_by(|one, other| (&one.set, one.id).cmp(&(&other.set, other.id)));
        view.allocs.sort_by(|one, other| (&one.set, &one.name).cmp(&(&other.set, &other.name)));
        view.add_up();
        view.healthy = view.sections_unplaced == 0
            && view.sets.iter().all(|set| set.state == Some(State::Ok))
            && !view.expiry.has_expired();
        view.verdict = view.sets.iter().min_by_key(|set| set.state).map(|set| set.verdict.clone()).unwrap_or_default();
        if view.worst() == State::Unplaced {
            view.verdict = format!(
                "UNPLACED: {} of {} sections are in no set: their users get no numbers; next: keep all data directories, and \
                 compare `seqsvr section list` of each set: the set that had them was restored without the records of another",
                view.sections_unplaced, view.sections_of_layout
            );
        }
        view.verdict.extend(view.expiry.warning().map(|warning| format!("; {warning}")));
        view
    }

    /// The state of the worst set, of the layout, or of the proxies: one with an expired certificate is degraded.
    pub(super) fn worst(&self) -> State {
        let worst = self.sets.iter().filter_map(|set| set.state).min().unwrap_or(State::NoQuorum);
        let worst = if self.sections_unplaced > 0 { worst.min(State::Unplaced) } else { worst };
        if self.expiry.has_expired() { worst.min(State::Degraded) } else { worst }
    }

    /// Adds up the sections of all sets against the layout, where the responses are of all of them and none is under
    /// way.
    fn add_up(&mut self) {
        let complete = |set: &SetView| set.is_known() && set.facts.quorum && set.facts.quarantine.is_empty();
        let moves = self.sets.iter().any(|set| set.on_their_way > 0);
        let layout = self.sets.iter().map(|set| set.layout_sections).max().unwrap_or_default();
        let known = self.sets.iter().map(|set| set.open_sets).max().unwrap_or_default() as usize;
        if layout == 0 || moves || self.sets.len() < known || !self.sets.iter().all(complete) {
            return;
        }
        let placed: u32 = self.sets.iter().map(|set| set.sections).sum();
        (self.sections_of_layout, self.sections_unplaced) = (layout, layout.saturating_sub(placed));
    }

    /// Adds the rates since an earlier sample. A node that restarted meanwhile counts from its restart.
    pub(super) fn add_rates(&mut self, before: &View, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        for set in &mut self.sets {
            let (mut numbers, mut raises) = (0, 0);
            for alloc in self.allocs.iter().filter(|alloc| alloc.set == set.name) {
                let same = |old: &&AllocView| old.set == alloc.set && old.name == alloc.name && old.addr == alloc.addr;
                let old = before.allocs.iter().find(same).filter(|old| old.uptime_ms <= alloc.uptime_ms);
                numbers += alloc.allocations.saturating_sub(old.map_or(0, |old| old.allocations));
                raises += alloc.raises.saturating_sub(old.map_or(0, |old| old.raises));
            }
            set.numbers_per_second = Some((numbers as f64 / seconds * 10.0).round() / 10.0);
            set.raises_per_second = Some((raises as f64 / seconds * 10.0).round() / 10.0);
        }
    }
}

impl SetView {
    /// Whether a store of the set responded: the uids of a set are never empty.
    fn is_known(&self) -> bool {
        self.uid_end > 0
    }

    /// The name of the node at an address, as the set's store knows it.
    fn name_of(&self, addr: &str) -> Option<String> {
        let members = self.members.iter().flat_map(|(_, members)| members);
        let store = members.into_iter().find(|member| member.addr == addr).map(|member| member.name.clone());
        store.or_else(|| self.registered.get(addr).map(|alloc| alloc.name.clone()))
    }

    /// Milliseconds since the member at an address last acknowledged the leader, if that is known.
    fn silent_ms(&self, addr: &str) -> Option<u64> {
        let mut members = self.members.iter().flat_map(|(_, members)| members);
        members.find(|member| member.addr == addr).map(|member| member.silent_ms).filter(|silent| *silent > 0)
    }

    /// Whether an operator drained the allocator at an address before it stopped: its absence is no fault.
    fn is_stopped(&self, addr: &str) -> bool {
        let record = self.registered.get(addr).filter(|alloc| alloc.drained);
        record.is_some_and(|alloc| {
            AllocState::of_silent(alloc.drained, alloc.leaving, alloc.sections) == AllocState::Stopped
        })
    }

    /// Adds the verdict, from all responses.
    fn with_verdict(mut self, name: &str, responses: &BTreeMap<String, StatusResult>) -> SetView {
        let answering = |member: &&Voter| responses.get(&member.addr).is_some_and(Result::is_ok);
        let voters = self.members.iter().flat_map(|(_, members)| members).filter(|member| member.voter);
        self.facts.voters = voters.map(|member| (member.name.clone(), answering(&member))).collect();
        self.facts.sections = self.is_known().then_some(self.sections);
        (self.facts.served, self.facts.restores) = (self.sections_served, self.restores);
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
                silent_ms: member.silent_ms,
            };
            self.members = Some((rank, store.members.iter().map(member).collect()));
            let registered = |alloc: &AllocMember| Registered {
                name: alloc.name.clone(),
                drained: alloc.drained,
                leaving: alloc.leaving,
                sections: alloc.sections,
            };
            self.registered = store.allocs.iter().map(|alloc| (alloc.addr.clone(), registered(alloc))).collect();
        }
        // A follower with a leader counts: the leader may be unreachable only from here.
        self.facts.quorum |= store.quorum;
        if store.quorum {
            // The leader knows what is awaited.
            if leads || self.facts.quarantine.is_empty() {
                self.facts.quarantine.clone_from(&store.quarantine);
            }
            self.facts.lineages.entry(store.lineage).or_default().push(response.node.clone());
        }
        if leads && store.quorum {
            (self.on_their_way, self.layout_sections) = (store.sections_on_their_way, store.layout_sections);
            self.open_sets = store.open_sets;
        }
        self.restores = self.restores.max(store.restores);
        if !store.entries_lost.is_empty() {
            self.facts.entries_lost.clone_from(&store.entries_lost);
        }
        if !store.difference.is_empty() {
            self.facts.difference.clone_from(&store.difference);
        }
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
            http: None,
            certificate: None,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }

    fn alloc(&mut self, addr: &str, response: &StatusResponse, alloc: &AllocStatus) -> AllocView {
        self.allocs += 1;
        if !alloc.halted.is_empty() {
            self.facts.halted.push((response.node.clone(), alloc.halted.clone()));
        }
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
            // Of the record in the store, once all responses are merged.
            state: AllocState::Serves,
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
            http: None,
            redis: None,
            certificate: None,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }
}

impl ProxyView {
    fn new(addr: &str, response: &StatusResponse, certificate: Option<CertificateView>) -> ProxyView {
        ProxyView {
            name: response.node.clone(),
            addr: addr.to_owned(),
            certificate,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }
}

impl AllocView {
    /// The state of an allocator that responds. The section count is its own: the record is behind during a drain.
    fn state_of(&self, record: Option<&Registered>) -> AllocState {
        let (drained, leaving) = record.map_or((false, false), |record| (record.drained, record.leaving));
        match AllocState::of_live(drained, leaving, self.sections) {
            AllocState::Serves if self.lease_remaining_ms == 0 => AllocState::NoLease,
            state => state,
        }
    }
}

/// A node that does not respond, as the sets know it; `seed` is set if the user named it.
fn absent(addr: &str, why: &str, seed: Option<&Node>, sets: &BTreeMap<&str, SetView>) -> Unreachable {
    let known = sets.iter().find_map(|(name, set)| Some((*name, set, set.name_of(addr)?)));
    let state = match &known {
        Some((_, set, _)) if set.is_stopped(addr) => Absence::Stopped,
        // An address of an outdated set file; a store with a quorum does not list it.
        None if seed.is_none() && sets.values().all(|set| set.facts.quorum) => Absence::Removed,
        _ => Absence::Silent,
    };
    Unreachable {
        addr: addr.to_owned(),
        silent_ms: known.as_ref().and_then(|(_, set, _)| set.silent_ms(addr)),
        set: known.as_ref().map(|(set, ..)| (*set).to_owned()),
        name: known.map(|(_, _, name)| name).or_else(|| seed.and_then(|seed| seed.name.clone())),
        removed: state == Absence::Removed,
        state,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests;
