//! Merges the responses of many nodes into one view.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use seq_command::store_client::{Node, NodeRole};
use seq_proto::v1::StatusResponse;
use seq_proto::v1::status_response::Role;
use serde::Serialize;

use super::EXPIRED;
use super::certificate::{CertificateView, Expiry};
use super::sample::Sample;
use super::verdict::State;
use crate::alloc_state::AllocState;

mod absent;
mod render;
mod set_view;

use absent::{Absence, Absent, Unreachable};
use set_view::{Registered, SetView};

/// The merged responses, with sets and nodes sorted by name.
#[derive(Debug, Default, Serialize)]
pub(super) struct View {
    /// Whether every set is served and every listed node responded.
    pub(super) healthy: bool,
    /// The verdict of the worst set.
    verdict: String,
    /// Number of sections of the layout that are neither in a set nor on their way to a set; counted if all sets
    /// responded.
    pub(super) sections_unplaced: u32,
    sections_of_layout: u32,
    sets: Vec<SetView>,
    stores: Vec<StoreView>,
    allocs: Vec<AllocView>,
    /// Proxies among the queried nodes, which belong to no set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proxies: Vec<ProxyView>,
    unreachable: Vec<Unreachable>,
    /// Addresses that the user named where no node responds, and that no set knows.
    #[serde(skip)]
    unknown: Vec<String>,
    /// Expiry of the certificates of the proxies.
    #[serde(skip)]
    expiry: Expiry,
}

#[derive(Debug, Serialize)]
struct StoreView {
    set: String,
    name: String,
    addr: String,
    id: u64,
    leader: bool,
    /// Whether the store sees a majority.
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

impl View {
    /// Builds the view from the responses of all queried nodes. `seeds` are the nodes that the user named; `now`
    /// decides which certificates have expired.
    ///
    /// The identity of a node precedes its address: a node that responds at another address than the listed address is
    /// present, and a process that responds at two addresses is one node.
    pub(super) fn new(sample: &Sample, seeds: &[Node], now: SystemTime) -> View {
        let mut view = View::default();
        let mut sets: BTreeMap<&str, SetView> = BTreeMap::new();
        let (clocks, mut seen) = (sample.clocks_off(), BTreeSet::new());
        for (addr, response) in &sample.responses {
            let Ok(response) = response else { continue };
            if response.instance != 0 && !seen.insert((response.instance, &response.node)) {
                // The same process has already responded under another address.
                continue;
            }
            let certificate = CertificateView::of(response, now);
            // A proxy belongs to no set.
            let Some(role) = &response.role else {
                view.expiry.add(&response.node, certificate.as_ref());
                view.proxies.push(ProxyView::new(addr, response, certificate));
                continue;
            };
            let set = sets.entry(&response.set).or_default();
            set.facts.responding += 1;
            let release = format!("{} ({})", response.version, response.revision);
            set.facts.releases.entry(release).or_default().push(response.node.clone());
            set.facts.expiry.add(&response.node, certificate.as_ref());
            set.facts.clocks.extend(clocks.get(&**addr).map(|ahead| (response.node.clone(), *ahead)));
            let kind = if matches!(role, Role::Store(_)) { NodeRole::Store } else { NodeRole::Alloc };
            set.responding.entry((kind, response.node.clone())).or_default().insert(addr.clone());
            match role {
                Role::Store(store) => view.stores.push(StoreView { certificate, ..set.store(addr, response, store) }),
                Role::Alloc(alloc) => view.allocs.push(AllocView { certificate, ..set.alloc(addr, response, alloc) }),
            }
        }
        for (name, named) in &sample.sets {
            let set = sets.entry(name).or_default();
            set.facts.closed |= named.closed;
            if !set.is_known() {
                (set.uid_start, set.uid_end) = named.uids;
            }
        }
        for alloc in &mut view.allocs {
            let mut record = sets.get_mut(&*alloc.set).and_then(|set| set.registered.get_mut(&alloc.name));
            if let Some(record) = &mut record {
                record.is_leased |= alloc.lease_remaining_ms > 0;
            }
            alloc.state = alloc.state_of(record.as_deref());
            let seed = seeds.iter().find(|seed| seed.addr == alloc.addr);
            (alloc.http, alloc.redis) = seed.map(|seed| (seed.http.clone(), seed.redis.clone())).unwrap_or_default();
        }
        for store in &mut view.stores {
            store.http = seeds.iter().find(|seed| seed.addr == store.addr).and_then(|seed| seed.http.clone());
        }
        view.add_absent(seeds, sample, &mut sets);
        view.sets = sets.into_iter().map(|(name, set)| set.counted(name)).collect();
        view.add_up();
        view.sets.iter_mut().for_each(SetView::judge);
        view.stores.sort_by(|one, other| (&one.set, one.id).cmp(&(&other.set, other.id)));
        view.allocs.sort_by(|one, other| (&one.set, &one.name).cmp(&(&other.set, &other.name)));
        view.conclude();
        view
    }

    /// Adds the nodes that do not respond.
    fn add_absent(&mut self, seeds: &[Node], sample: &Sample, sets: &mut BTreeMap<&str, SetView>) {
        for (addr, response) in &sample.responses {
            let Err(why) = response else { continue };
            let seed = seeds.iter().find(|seed| seed.addr == *addr);
            let mut absent = Absent::of(addr, seed, sample, sets);
            if absent.state == Absence::Unknown {
                self.unknown.push(addr.clone());
            }
            if let (Absence::Silent, Some(set), Some(role)) =
                (absent.state, absent.set.as_deref().and_then(|set| sets.get_mut(set)), absent.role)
            {
                if why == EXPIRED {
                    let node = absent.name.as_deref().unwrap_or(addr);
                    set.facts.expiry.add_expired(node);
                    absent.state = Absence::Expired;
                } else {
                    set.miss(role, absent.name.as_deref(), addr);
                }
            }
            self.unreachable.push(absent.unreachable(addr, why, sets));
        }
    }

    /// Sets the verdict on all sets to the verdict on the worst set.
    fn conclude(&mut self) {
        let is_well = |set: &SetView| matches!(set.state, Some(State::Ok | State::Closed));
        self.healthy = self.sections_unplaced == 0
            && self.unknown.is_empty()
            && self.sets.iter().all(is_well)
            && !self.expiry.has_expired();
        self.verdict = self.sets.iter().min_by_key(|set| set.state).map(|set| set.verdict.clone()).unwrap_or_default();
        if let Some(unplaced) = self.unplaced().filter(|_| self.worst() == State::Unplaced) {
            self.verdict = unplaced;
        }
        self.verdict.extend(self.unknown_nodes().map(|text| format!("; {text}")));
        self.verdict.extend(self.expiry.warning().map(|warning| format!("; {warning}")));
    }

    /// Returns the verdict on the cluster if sections are in no set.
    fn unplaced(&self) -> Option<String> {
        (self.sections_unplaced > 0).then(|| {
            format!(
                "UNPLACED: {} of {} sections are in no set: their users get no numbers; next: keep all data directories, and \
                 compare `seqsvr section list` of each set: the set that had them was restored without the records of another",
                self.sections_unplaced, self.sections_of_layout
            )
        })
    }

    /// Returns a text about addresses that the user named where no node responds, and that no set knows.
    fn unknown_nodes(&self) -> Option<String> {
        let addrs = self.unknown.join(", ");
        (!addrs.is_empty()).then(|| format!("no response from {addrs}, which no set lists; next: check the address"))
    }

    /// Returns whether responses of different moments may explain the verdict, because a section may have changed its
    /// owner between them.
    pub(super) fn may_be_of_two_moments(&self) -> bool {
        let unexplained = |set: &SetView| {
            let facts = &set.facts;
            set.state == Some(State::Unserved)
                && facts.allocs > 0
                && (facts.delayed == 0 && facts.unleased.is_empty() && facts.silent_allocs.is_empty())
        };
        self.sections_unplaced > 0 || self.sets.iter().any(unexplained)
    }

    /// Returns the state of the worst set, of the layout, or of the proxies. A proxy with an expired certificate counts
    /// as degraded.
    pub(super) fn worst(&self) -> State {
        let worst = self.sets.iter().filter_map(|set| set.state).min().unwrap_or(State::NoQuorum);
        let worst = if self.sections_unplaced > 0 { worst.min(State::Unplaced) } else { worst };
        if self.expiry.has_expired() || !self.unknown.is_empty() { worst.min(State::Degraded) } else { worst }
    }

    /// Compares the sum of the sections of all sets with the layout, if all sets responded. If some sections are in no
    /// set, sections on their way count as missing. Otherwise they count as arrived, even if their set does not know it
    /// yet.
    fn add_up(&mut self) {
        let complete = |set: &&SetView| set.is_known() && set.facts.quorum && set.facts.quarantine.is_empty();
        let open: Vec<&SetView> = self.sets.iter().filter(|set| !set.facts.closed).collect();
        let layout = open.iter().map(|set| set.layout_sections).max().unwrap_or_default();
        let known = open.iter().map(|set| set.open_sets).max().unwrap_or_default() as usize;
        if layout == 0 || open.len() < known || !open.iter().all(complete) {
            return;
        }
        let moves = open.iter().any(|set| set.on_their_way > 0);
        let missing = layout.saturating_sub(open.iter().map(|set| set.sections).sum());
        if !moves {
            (self.sections_of_layout, self.sections_unplaced) = (layout, missing);
        }
        for set in &mut self.sets {
            set.facts.delayed = set.facts.delayed.min(missing);
        }
    }

    /// Adds the rates since an earlier sample. A node that restarted since then counts from its restart.
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
    /// Returns the state of an allocator that responds. Its own section count is used, because the record is behind
    /// during a drain.
    fn state_of(&self, record: Option<&Registered>) -> AllocState {
        let (drained, leaving) = record.map_or((false, false), |record| (record.drained, record.leaving));
        match AllocState::of_live(drained, leaving, self.sections) {
            AllocState::Serves if self.lease_remaining_ms == 0 => AllocState::NoLease,
            state => state,
        }
    }
}

#[cfg(test)]
mod tests;
