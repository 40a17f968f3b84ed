//! The view of a cluster, merged from the status responses of its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, SystemTime};

use seq_command::store_client::{Node, NodeRole};
use seq_proto::v1::status_response::Role;
use serde::Serialize;

use crate::advice::Advice;
use crate::certificate::{CertificateView, Expiry};
use crate::sample::{EXPIRED, Sample};
use crate::verdict::State;

mod absent;
pub mod attention;
mod nodes;
mod render;
mod set_view;

use absent::Absent;
pub use absent::{Absence, Unreachable};
use attention::Attention;
pub use nodes::{AllocView, ProxyView, StoreView};
pub use set_view::{Pause, SetView};

/// The merged responses, with sets and nodes sorted by name.
#[derive(Debug, Default, Serialize)]
pub struct Cluster {
    /// Whether every set is served and every listed node responded.
    pub healthy: bool,
    /// The verdict of the worst set.
    pub verdict: String,
    /// Number of sections of the layout that no set has. It is 0 if a set did not respond, and while sections migrate.
    pub sections_unplaced: u32,
    /// Number of sections of the layout, which all sets have in common. It is 0 if a set did not respond, and while
    /// sections migrate.
    pub sections_of_layout: u32,
    /// Faults and remarks, the most urgent first.
    pub attention: Vec<Attention>,
    /// The sets, by name.
    pub sets: Vec<SetView>,
    /// The StoreSvrs that respond, by set and id.
    pub stores: Vec<StoreView>,
    /// The AllocSvrs that respond, by set and name.
    pub allocs: Vec<AllocView>,
    /// Proxies among the queried nodes, which belong to no set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<ProxyView>,
    /// Nodes that do not respond, by address.
    pub unreachable: Vec<Unreachable>,
    /// Addresses that the user gave and that no set lists, if no node responds there.
    #[serde(skip)]
    unknown: Vec<String>,
    /// Expiry of the certificates of the proxies.
    #[serde(skip)]
    expiry: Expiry,
}

impl Cluster {
    /// Merges the responses and errors of all queried nodes into a view. `seeds` are the nodes that the user named.
    /// Certificates are judged at the time `now`.
    ///
    /// Nodes are identified by their names, not by their addresses. A node that responds at another address than its
    /// set lists is not missing, and a process that responds at two addresses is one node.
    pub(crate) fn new(sample: &Sample, seeds: &[Node], now: SystemTime) -> Cluster {
        let mut view = Cluster::default();
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
            if response.settings_digest != 0 {
                let named = if kind == NodeRole::Store { "stores" } else { "allocators" };
                let nodes = set.facts.settings.entry(named).or_default().entry(response.settings_digest).or_default();
                nodes.push(response.node.clone());
            }
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

    /// Returns the nodes that respond, and the missing nodes, which should respond and do not.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        let node = |name: &str, addr: &str, of| Node { name: Some(name.to_owned()), of, ..Node::at(addr) };
        let of = |set: &str, role| Some((set.to_owned(), role));
        let stores = self.stores.iter().map(|store| node(&store.name, &store.addr, of(&store.set, NodeRole::Store)));
        let allocs = self.allocs.iter().map(|alloc| node(&alloc.name, &alloc.addr, of(&alloc.set, NodeRole::Alloc)));
        let proxies = self.proxies.iter().map(|proxy| node(&proxy.name, &proxy.addr, None));
        let missing = self.unreachable.iter().filter(|node| node.is_missing());
        let missing = missing.map(|node| Node {
            name: node.name.clone(),
            of: node.set.clone().zip(node.role),
            ..Node::at(&node.addr)
        });
        stores.chain(allocs).chain(proxies).chain(missing).collect()
    }

    /// Returns the uids of a section. The range is empty for a section with lanes of series, because such sections come
    /// after the sections of uids.
    #[must_use]
    pub fn uids_of(&self, section: u32) -> Range<u64> {
        let Some(set) = self.sets.iter().find(|set| set.section_size > 0) else { return 0..0 };
        let size = u64::from(set.section_size);
        let start = set.uid_start.saturating_add(u64::from(section) * size).min(set.uid_end);
        start..start.saturating_add(size).min(set.uid_end)
    }

    /// Adds each silent node, which does not respond, to this view. If the node is missing, also adds it to the facts
    /// about its set in `sets`.
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

    /// Sets the verdict on the cluster, which is the verdict on the worst set unless unplaced sections are worse. Adds
    /// the list of faults and remarks.
    fn conclude(&mut self) {
        let is_well = |set: &SetView| matches!(set.state, Some(State::Ok | State::Closed));
        self.healthy = self.sections_unplaced == 0
            && self.unknown.is_empty()
            && self.sets.iter().all(is_well)
            && !self.expiry.has_expired();
        self.verdict = self.sets.iter().min_by_key(|set| set.state).map(|set| set.verdict.clone()).unwrap_or_default();
        if let Some(unplaced) = self.unplaced().filter(|_| self.worst() == State::Unplaced) {
            self.verdict = unplaced.to_string();
        }
        self.verdict.extend(self.unknown_nodes().map(|text| format!("; {text}")));
        self.verdict.extend(self.expiry_of_proxies().map(|warning| format!("; {warning}")));
        self.attention = attention::list(self);
    }

    /// Returns the verdict that some sections are in no set of the cluster, or `None` if every section is in a set.
    pub(crate) fn unplaced(&self) -> Option<Advice> {
        (self.sections_unplaced > 0).then(|| {
            let next = "keep all data directories, and compare `seqsvr section list` of each set: the set that had them was \
                        restored without the records of another";
            Advice::new(format!(
                "UNPLACED: {} of {} sections are in no set: their users get no numbers",
                self.sections_unplaced, self.sections_of_layout
            ))
            .next(next)
        })
    }

    /// Returns a remark about the addresses that the user gave and that no set lists, if no node responds there.
    pub(crate) fn unknown_nodes(&self) -> Option<Advice> {
        let addrs = self.unknown.join(", ");
        (!addrs.is_empty())
            .then(|| Advice::new(format!("no response from {addrs}, which no set lists")).next("check the address"))
    }

    /// Returns the warning about certificates of proxies.
    pub(crate) fn expiry_of_proxies(&self) -> Option<Advice> {
        self.expiry.warning()
    }

    /// Returns whether the verdict may be wrong because the nodes responded at different moments. If a section changed
    /// owner between two responses, it may be missing from both.
    pub(crate) fn may_be_of_two_moments(&self) -> bool {
        let unexplained = |set: &SetView| {
            let facts = &set.facts;
            set.state == Some(State::Unserved)
                && facts.allocs > 0
                && (facts.delayed == 0 && facts.unleased.is_empty() && facts.silent_allocs.is_empty())
        };
        self.sections_unplaced > 0 || self.sets.iter().any(unexplained)
    }

    /// Returns the worst state among the states of the sets and the state `Unplaced` of sections that no set has.
    /// Expired certificates of proxies, and addresses that no set lists, count as the state `Degraded`.
    #[must_use]
    pub fn worst(&self) -> State {
        let worst = self.sets.iter().filter_map(|set| set.state).min().unwrap_or(State::NoQuorum);
        let worst = if self.sections_unplaced > 0 { worst.min(State::Unplaced) } else { worst };
        if self.expiry.has_expired() || !self.unknown.is_empty() { worst.min(State::Degraded) } else { worst }
    }

    /// Compares the number of sections that all open sets have together with the number of sections of the layout, if
    /// every open set reported its sections. Missing sections are counted as unplaced, unless sections are migrating.
    /// The number of delayed sections of each set is limited to the number of missing sections. A section that is not
    /// missing has arrived, even if the set from which it departed does not know that yet.
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

    /// Adopts values of sets from an earlier view: the uids and sections of a set if none of its StoreSvrs responded
    /// for this view, and its open migrations, its pause of balancing and its number of moved sections if the leader of
    /// its store did not respond. Then sets the verdicts and the list of faults and remarks anew.
    pub fn adopt(&mut self, before: &Cluster) {
        for set in &mut self.sets {
            if let Some(known) = before.sets.iter().find(|known| known.name == set.name) {
                set.adopt(known);
                set.judge();
            }
        }
        self.conclude();
    }

    /// Adds the rates of numbers and raises since the view `before`, which was made `elapsed` earlier. If an AllocSvr
    /// has restarted since then, its numbers and raises are counted from the restart.
    pub fn add_rates(&mut self, before: &Cluster, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |count: u64| (count as f64 / seconds * 10.0).round() / 10.0;
        for set in &mut self.sets {
            let (mut numbers, mut raises) = (0, 0);
            for alloc in self.allocs.iter_mut().filter(|alloc| alloc.set == set.name) {
                let same = |old: &&AllocView| old.set == alloc.set && old.name == alloc.name && old.addr == alloc.addr;
                let old = before.allocs.iter().find(same).filter(|old| old.uptime_ms <= alloc.uptime_ms);
                let (old_numbers, old_raises) = match old {
                    Some(old) => (old.allocations, old.raises),
                    None if u128::from(alloc.uptime_ms) <= elapsed.as_millis() + 1_000 => (0, 0),
                    // The node did not respond at the time of the earlier sample, so its rate since then is not known.
                    None => continue,
                };
                let more_numbers = alloc.allocations.saturating_sub(old_numbers);
                let more_raises = alloc.raises.saturating_sub(old_raises);
                alloc.numbers_per_second = Some(rate(more_numbers));
                alloc.raises_per_second = Some(rate(more_raises));
                numbers += more_numbers;
                raises += more_raises;
            }
            set.numbers_per_second = Some(rate(numbers));
            set.raises_per_second = Some(rate(raises));
        }
    }
}

#[cfg(test)]
mod tests;
