//! The view of one set, merged from the status responses of the set's nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use seq_command::output::digits;
use seq_command::store_client::NodeRole;
use seq_command::utc;
use seq_core::Lineage;
use seq_proto::v1::{
    AllocMember, AllocStatus, BalancingPause, MigrationStatus, SetState, StatusResponse, StoreMember, StoreStatus,
};
use serde::Serialize;

use super::{AllocView, StoreView};
use crate::alloc_state::AllocState;
use crate::migration::MigrationView;
use crate::verdict::{Facts, State};

/// Uptime of a node, in milliseconds, below which reports that other nodes cannot reach it do not count. Another node
/// reports it after three failed checks, which take ten seconds. If the node's process has been running for less time,
/// the report concerns the process that ran before.
pub(crate) const UNREACHED_AFTER_MS: u64 = 10_000;

/// A set, merged from the responses of its nodes.
#[derive(Debug, Default, Serialize)]
pub struct SetView {
    /// Name of the set.
    pub name: String,
    /// First uid of the set, inclusive.
    #[serde(serialize_with = "digits")]
    pub uid_start: u64,
    /// End of its uids, exclusive; 0 if they are unknown.
    #[serde(serialize_with = "digits")]
    pub uid_end: u64,
    /// Number of uids in a section.
    pub section_size: u32,
    /// Number of sections of the set. It is 0 if the set has no sections, or if none of its StoreSvrs responded.
    pub sections: u32,
    /// Number of sections whose owner has a lease.
    pub sections_served: u32,
    /// Highest count of restores of any set of the cluster, as recorded in the log of this set.
    pub restores: u32,
    /// Number of sections that departed to another set at least one second ago and have not arrived there yet.
    pub sections_delayed: u32,
    /// The pause of balancing; absent if balancing is not paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balancing_paused: Option<Pause>,
    /// Number of sections that operators moved to an allocator.
    pub sections_moved: u32,
    /// The state of the set according to the verdict.
    pub state: Option<State>,
    /// Name of the condition that determined the verdict. `docs/operations/watching.md` describes the conditions under
    /// these names.
    pub condition: &'static str,
    /// The verdict in one sentence, followed by the remarks.
    pub verdict: String,
    /// Number of StoreSvrs that respond.
    pub stores: usize,
    /// Number of AllocSvrs that respond.
    pub allocs: usize,
    /// Highest version of the route table that a node reported.
    pub route_version: u64,
    /// Number of allocations since the allocators started.
    pub allocations: u64,
    /// Number of raises since the allocators started.
    pub raises: u64,
    /// Numbers allocated per second since the previous view of the cluster. It is absent in the first view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers_per_second: Option<f64>,
    /// Raises per second since the previous view of the cluster. It is absent in the first view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raises_per_second: Option<f64>,
    /// Whether the open migrations, the pause of balancing and the number of moved sections are those of an earlier
    /// view, because the leader of the store did not respond for this view.
    pub outdated: bool,
    /// Whether the StoreSvr that leads the store with a majority responded. It alone reports the open migrations, the
    /// pause of balancing and the number of moved sections.
    #[serde(skip)]
    pub(crate) is_led: bool,
    /// Number of sections that departed to another set and of which this set does not know yet that they have arrived.
    #[serde(skip)]
    pub(crate) on_their_way: u32,
    #[serde(skip)]
    pub(crate) layout_sections: u32,
    /// Number of sets that are not closed and that the store of this set knows, including this set itself.
    #[serde(skip)]
    pub(crate) open_sets: u32,
    /// Open migrations that began in this set.
    pub migrations: Vec<MigrationView>,
    /// The migrations in `migrations`, in the form in which the store reports them.
    #[serde(skip)]
    pub moves: Vec<MigrationStatus>,
    #[serde(skip)]
    pub(crate) facts: Facts,
    /// The members of the store, and the rank of the StoreSvr that reported them. Among the lists of several StoreSvrs,
    /// the list with the highest rank is kept.
    #[serde(skip)]
    pub(crate) members: Option<((bool, u64, u64), Vec<Voter>)>,
    /// AllocSvrs by name, as reported by the StoreSvr whose list is in `members`.
    #[serde(skip)]
    pub(crate) registered: BTreeMap<String, Registered>,
    /// Addresses of the nodes that respond, by role and name.
    #[serde(skip)]
    pub(crate) responding: BTreeMap<(NodeRole, String), BTreeSet<String>>,
}

/// A pause of balancing.
#[derive(Clone, Debug, Serialize)]
pub struct Pause {
    by: String,
    at: String,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "paused by {} since {}", self.by, self.at)
    }
}

impl Pause {
    /// Converts a pause as reported by the store.
    #[must_use]
    pub fn new(pause: &BalancingPause) -> Pause {
        Pause { by: pause.principal.clone(), at: utc::text_of_ms(pause.since_unix_ms) }
    }
}

#[derive(Debug)]
pub(crate) struct Voter {
    pub(crate) name: String,
    pub(crate) addr: String,
    pub(crate) voter: bool,
    pub(crate) silent_ms: u64,
}

/// An allocator's record in the store.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) addr: String,
    pub(crate) drained: bool,
    pub(crate) leaving: bool,
    pub(crate) sections: u32,
    /// Milliseconds since the death of the process of the newest incarnation was reported; 0 if it was not.
    pub(crate) died_ms: u64,
    /// Whether the allocator responds and has a lease.
    pub(crate) is_leased: bool,
}

impl SetView {
    /// Returns whether a StoreSvr of the set responded.
    pub(crate) fn is_known(&self) -> bool {
        self.stores > 0
    }

    fn member(&self, is_it: impl Fn(&Voter) -> bool) -> Option<&Voter> {
        self.members.iter().flat_map(|(_, members)| members).find(|member| is_it(member))
    }

    /// Returns the role and the name of the node that is listed with the address `addr` by the set's store.
    pub(crate) fn node_at(&self, addr: &str) -> Option<(NodeRole, String)> {
        let store = self.member(|member| member.addr == addr).map(|member| (NodeRole::Store, member.name.clone()));
        let registered = || self.registered.iter().find(|(_, alloc)| alloc.addr == addr);
        store.or_else(|| registered().map(|(name, _)| (NodeRole::Alloc, name.clone())))
    }

    /// Returns whether the store lists a member with this name. Returns `false` if `name` is `None`.
    pub(crate) fn lists(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| self.member(|member| member.name == name).is_some())
    }

    /// Returns the milliseconds since the StoreSvr `name` last acknowledged the leader. Returns `None` if unknown, and
    /// for other roles.
    pub(crate) fn silent_ms(&self, role: Option<NodeRole>, name: &str) -> Option<u64> {
        let member = self.member(|member| role == Some(NodeRole::Store) && member.name == name);
        member.map(|member| member.silent_ms).filter(|silent| *silent > 0)
    }

    /// Returns the milliseconds since the death of the process of the AllocSvr `name` was reported. Returns `None` if
    /// it was not reported, and for other roles.
    pub(crate) fn died_ms(&self, role: Option<NodeRole>, name: &str) -> Option<u64> {
        let record = self.registered.get(name).filter(|_| role == Some(NodeRole::Alloc));
        record.map(|record| record.died_ms).filter(|died| *died > 0)
    }

    /// Returns whether an operator drained the AllocSvr `name` and it owns no section any more. If such an AllocSvr
    /// does not respond, that is no fault.
    pub(crate) fn is_stopped(&self, name: &str) -> bool {
        let record = self.registered.get(name).filter(|alloc| alloc.drained);
        record.is_some_and(|alloc| {
            AllocState::of_silent(alloc.drained, alloc.leaving, alloc.sections) == AllocState::Stopped
        })
    }

    /// Adds a silent node, which responds at none of its addresses, to the facts about this set.
    pub(crate) fn miss(&mut self, role: NodeRole, name: Option<&str>, addr: &str) {
        let nodes = match role {
            NodeRole::Store => &mut self.facts.silent_stores,
            NodeRole::Alloc => &mut self.facts.silent_allocs,
        };
        let addrs = nodes.entry(name.unwrap_or(addr).to_owned()).or_default();
        addrs.extend(name.map(|_| addr.to_owned()));
    }

    /// Completes the facts about this set that depend on several responses. It is called after all responses were
    /// added.
    pub(crate) fn counted(mut self, name: &str) -> SetView {
        let responds = |member: &Voter| self.responding.contains_key(&(NodeRole::Store, member.name.clone()));
        let voters = self.members.iter().flat_map(|(_, members)| members).filter(|member| member.voter);
        self.facts.voters = voters.map(|member| (member.name.clone(), responds(member))).collect();
        let copies = self.responding.iter().filter(|((role, _), addrs)| *role == NodeRole::Store && addrs.len() > 1);
        self.facts.copies = copies.map(|((_, name), addrs)| (name.clone(), addrs.clone())).collect();
        self.migrations = self.moves.iter().map(MigrationView::new).collect();
        self.facts.restores = self.restores;
        SetView { name: name.to_owned(), ..self }
    }

    /// Adopts from an earlier view of the set the values that only StoreSvrs report, as far as no StoreSvr reported
    /// them for this view. The caller must judge the set again.
    pub(super) fn adopt(&mut self, before: &SetView) {
        if self.section_size == 0 {
            (self.uid_start, self.uid_end) = (before.uid_start, before.uid_end);
            (self.section_size, self.sections) = (before.section_size, before.sections);
        }
        if self.is_led || self.facts.closed {
            return;
        }
        self.outdated = before.is_led || before.outdated;
        let of_now = |migration: &MigrationStatus| MigrationStatus { sections_per_second: 0.0, ..migration.clone() };
        self.moves = before.moves.iter().map(of_now).collect();
        self.migrations = self.moves.iter().map(MigrationView::new).collect();
        (self.balancing_paused, self.sections_moved) = (before.balancing_paused.clone(), before.sections_moved);
        (self.facts.paused, self.facts.moved) = (before.facts.paused.clone(), before.facts.moved);
    }

    /// Sets the verdict. After a change of the facts, the caller calls this function again.
    pub(crate) fn judge(&mut self) {
        self.sections_delayed = self.facts.delayed;
        let all = self.sections + self.facts.delayed;
        // The allocators and the store counted their sections at different moments. The sum is limited, because
        // allocators own at most the sections that the store assigned to them.
        let granted: u32 = self.registered.values().filter(|alloc| alloc.is_leased).map(|alloc| alloc.sections).sum();
        if self.is_known() {
            let most = if self.registered.is_empty() { self.sections } else { granted.min(self.sections) };
            self.sections_served = self.sections_served.min(most);
        }
        self.facts.sections = self.is_known().then_some(all);
        let drained = self.registered.iter().filter(|(_, alloc)| alloc.drained);
        self.facts.drained = drained.map(|(name, alloc)| (name.clone(), alloc.sections)).collect();
        self.facts.served = self.sections_served;
        (self.state, self.condition) = (Some(self.facts.state()), self.facts.condition().name);
        self.verdict = self.facts.text();
    }

    pub(crate) fn store(&mut self, addr: &str, response: &StatusResponse, store: &StoreStatus) -> StoreView {
        self.uid_start = store.uid_start;
        self.uid_end = store.uid_end;
        self.section_size = store.section_size;
        self.sections = store.sections;
        self.stores += 1;
        if store.members.is_empty() {
            self.facts.unformed.push(response.node.clone());
        }
        self.route_version = self.route_version.max(store.route_version);
        let leads = store.leader == store.id && store.id != 0;
        // The lists of the leader of a majority are authoritative. If there is no such leader, the lists of the
        // StoreSvr with the newest log are used.
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
                addr: alloc.addr.clone(),
                is_leased: false,
                drained: alloc.drained,
                leaving: alloc.leaving,
                sections: alloc.sections,
                died_ms: alloc.died_ms,
            };
            self.registered = store.allocs.iter().map(|alloc| (alloc.name.clone(), registered(alloc))).collect();
        }
        self.note(response, store, leads);
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
            sync_p99_us: store.sync_p99_us,
            term: store.term,
            last_log_index: store.last_log_index,
            applied_index: store.applied_index,
            snapshot_index: store.snapshot_index,
            raises_applied: store.raises_applied,
            admin: response.admin_addrs.first().cloned(),
            http: None,
            certificate: None,
            uptime_ms: response.uptime_ms,
            version: response.version.clone(),
            revision: response.revision.clone(),
        }
    }

    /// Records the facts that a StoreSvr reports about the set.
    fn note(&mut self, response: &StatusResponse, store: &StoreStatus, leads: bool) {
        // The report of a follower suffices, because the leader may be unreachable only from this machine.
        self.facts.quorum |= store.quorum;
        if store.quorum {
            // The leader's text is preferred, because only the leader knows the sets for which the quarantine waits.
            if leads || self.facts.quarantine.is_empty() {
                self.facts.quarantine.clone_from(&store.quarantine);
            }
            self.facts.lineages.entry(store.lineage).or_default().push(response.node.clone());
        }
        self.facts.defined |= store.layout_sections > 0;
        self.facts.closed |= store.set_state() == SetState::Closed;
        self.facts.store_uptime_ms = self.facts.store_uptime_ms.max(response.uptime_ms);
        if store.set_id != 0 {
            self.facts.set_ids.entry(store.set_id).or_default().push(response.node.clone());
        }
        if let (Some(free), Some(all)) = (store.data_free_bytes, store.data_disk_bytes) {
            self.facts.disks.push((response.node.clone(), free, all));
        }
        self.facts.syncs.extend(store.sync_p99_us.map(|us| (response.node.clone(), us)));
        if leads && store.quorum {
            self.is_led = true;
            (self.facts.delayed, self.facts.delayed_ms) = (store.sections_delayed, store.delayed_ms);
            self.moves.clone_from(&store.migrations);
            (self.on_their_way, self.layout_sections) = (store.sections_on_their_way, store.layout_sections);
            self.open_sets = store.open_sets;
            (self.balancing_paused, self.sections_moved) =
                (store.balancing_paused.as_ref().map(Pause::new), store.sections_moved);
            self.facts.paused =
                store.balancing_paused.as_ref().map(|pause| Pause::new(pause).to_string()).unwrap_or_default();
            self.facts.moved = store.sections_moved;
        }
        self.restores = self.restores.max(store.restores);
        let lineage = Lineage(store.lineage);
        if lineage.is_of_set() {
            self.facts.begun = self.facts.begun.max(lineage.restores());
        }
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
    }

    pub(crate) fn alloc(&mut self, addr: &str, response: &StatusResponse, alloc: &AllocStatus) -> AllocView {
        self.allocs += 1;
        self.facts.allocs += 1;
        if alloc.leases_expired > 0 {
            self.facts.lapses.push((response.node.clone(), alloc.leases_expired));
        }
        if response.uptime_ms >= UNREACHED_AFTER_MS {
            self.facts.present.push(response.node.clone());
        }
        self.facts.unreached.extend(alloc.unreached.iter().map(|name| (name.clone(), response.node.clone())));
        if !alloc.withdrawn.is_empty() {
            self.facts.withdrawn.push((response.node.clone(), alloc.withdrawn.clone()));
        }
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
            // The caller replaces the state after all responses are merged, because it depends on the record in the
            // store.
            state: AllocState::Serves,
            incarnation: alloc.incarnation,
            sections: alloc.sections,
            lease_remaining_ms: alloc.lease_remaining_ms,
            lease_ms: alloc.lease_ms,
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
            ..AllocView::default()
        }
    }
}
