//! Status of a member of the store, for operators, health probes and metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use seq_api::metrics::{
    MIGRATION_SECTIONS, MIGRATIONS_STUCK, RAISES_APPLIED_TOTAL, ROUTE_VERSION, SECTIONS, SET_LINEAGE_BEGUN,
    SET_RESTORES,
};
use seq_api::node_events::NodeEvents;
use seq_core::state::{Closing, Death, NodeRecord, PeerSet, Residence, Rules, State};
use seq_core::{RouteVersion, SectionId, limits};
use seq_kit::connection::{Peer, Tls};
use seq_kit::http::Checks;
use seq_kit::wall_clock;
use seq_proto::reason::Reason;
use seq_proto::settings::NodeSettings;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_server::StatusService;
use seq_proto::v1::{
    AllocMember, DescribeSectionRequest, DescribeSectionResponse, GetConfigRequest, GetConfigResponse,
    ListActivityRequest, ListActivityResponse, ListCeilingsRequest, ListCeilingsResponse, ListNodeEventsRequest,
    ListNodeEventsResponse, SectionCeiling, StatusRequest, StatusResponse, StoreMember, StoreStatus,
};
use seq_proto::{node_events, roles};
use seq_raft::{Gate, MemberStatus};
use tonic::{Request, Response, Status};

use super::balancing;
use crate::between::quarantine::{self, Awaited};
use crate::definition::{self, DeclaredSet};
use crate::replicated_set::ReplicatedSet;
use crate::set_admin::SetAdmin;
use crate::set_admin::sets::set_state;

mod on_their_way;

pub(crate) use on_their_way::OnTheirWay;

/// Maximum number of committed entries that a ready member has not applied yet.
const READY_LAG: u64 = 10_000;

/// Interval at which the gauges of the member are set.
const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

/// Data of which the status of one member is computed. Clones refer to the same member.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) replicated: ReplicatedSet,
    pub(crate) set: Arc<DeclaredSet>,
    /// Text with the condition for which the end of a quarantine waits. It is empty unless this member leads.
    pub(crate) awaited: Awaited,
    pub(crate) node: Arc<str>,
    /// Addresses of the admin ports of the set's stores, beginning with this member's.
    pub(crate) admin_addrs: Vec<String>,
    pub(crate) revision: Arc<str>,
    pub(crate) started: Instant,
    /// Function that returns the CPU time of the process since its start, in microseconds.
    pub(crate) cpu_us: fn() -> u64,
    /// Settings of the process, as they are shown to operators.
    pub(crate) settings: NodeSettings,
    /// Event log of the node.
    pub(crate) events: NodeEvents,
    /// TLS state of the member's port for peers.
    pub(crate) tls: Option<Tls>,
    /// Random number that identifies this run of the process.
    pub(crate) instance: u64,
    /// Service that provides the other sets and the migrations for the status.
    pub(crate) sets: SetAdmin,
    pub(crate) on_their_way: OnTheirWay,
}

impl View {
    /// Returns the named readiness checks of this member: whether it is connected to a majority, has applied nearly all
    /// entries, and holds a defined set that is not in quarantine.
    pub(crate) fn readiness(&self) -> Checks {
        let mut checks = Checks::new();
        let view = self.clone();
        checks.add("store-leader", move || view.check_leader());
        let view = self.clone();
        checks.add("store-applied", move || view.check_applied());
        let view = self.clone();
        checks.add("store-set", move || view.check_set());
        let view = self.clone();
        checks.add("store-quarantine", move || view.check_quarantine());
        checks
    }

    /// Checks that a majority of the voters acknowledges this member as the leader, or that messages of a leader arrive
    /// here.
    fn check_leader(&self) -> Result<(), String> {
        let quorum = self.replicated.raft().quorum();
        if quorum.has_quorum() { Ok(()) } else { Err(quorum.to_string()) }
    }

    /// Checks that this member has applied nearly all entries that it knows to be committed.
    fn check_applied(&self) -> Result<(), String> {
        let status = self.replicated.raft().status();
        let (committed, applied) = (status.committed_index, status.applied_index);
        if committed == 0 {
            return Err("nothing is known to be committed yet".to_owned());
        }
        if applied + READY_LAG < committed {
            return Err(format!("applied {applied} of {committed} committed entries"));
        }
        Ok(())
    }

    /// Checks that the set is defined in the replicated state, and that it is the set in the set file.
    fn check_set(&self) -> Result<(), String> {
        match self.replicated.read(|state| definition::check_set(state, &self.set)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.set.undefined().to_owned()),
            Err(mismatch) => Err(mismatch.to_string()),
        }
    }

    /// Checks that the set is not in quarantine.
    fn check_quarantine(&self) -> Result<(), String> {
        match self.replicated.read(State::is_quarantined) {
            false => Ok(()),
            true => Err(self.quarantine()),
        }
    }

    /// Returns a text that states why the quarantine of the set has not ended yet.
    fn quarantine(&self) -> String {
        quarantine::text(&self.set.name, &self.awaited.borrow())
    }

    /// Returns the member's status. `is_shown` states whether the status includes the fields that only operators and
    /// viewers may see.
    fn status(&self, is_shown: bool) -> StoreStatus {
        let raft = self.replicated.raft().status();
        let uids = self.set.layout.uids();
        let mut status = StoreStatus {
            id: raft.id,
            leader: raft.leader.unwrap_or(0),
            term: raft.term,
            last_log_index: raft.last_log_index,
            applied_index: raft.applied_index,
            snapshot_index: raft.snapshot_index,
            members: raft.members.into_iter().map(member).collect(),
            uid_start: uids.start,
            uid_end: uids.end,
            section_size: self.set.layout.section_size(),
            sections: self.set.layout.sections(),
            sections_unowned: self.set.layout.sections(),
            raises_applied: self.replicated.raises_applied(),
            quorum: raft.quorum.has_quorum(),
            quorum_lost_ms: ms(raft.quorum.lost()),
            max_round_trip_ms: ms(raft.max_round_trip),
            difference: raft.difference,
            data_free_bytes: raft.disk.map(|disk| disk.free),
            data_disk_bytes: raft.disk.map(|disk| disk.total),
            sync_p99_us: raft.sync_p99.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            ..StoreStatus::default()
        };
        let clock_ms = self.replicated.raft().clock_ms();
        self.replicated.read(|state| {
            if let Some(set) = &state.set {
                (status.set_id, status.set_state) = (set.id.0, set_state(state.closing).into());
                (status.sections_delayed, status.delayed_ms) = self.on_their_way.delayed(state);
                if is_shown {
                    status.sets = self.sets.others(state, set);
                    status.migrations = self.sets.open_migrations(state);
                    status.balancing_paused = balancing::pause(state);
                }
                status.sections = state.sections.residents().count() as u32;
                status.sections_unowned = unowned(state);
                status.layout_sections = state.sections.len() as u32;
                status.sections_on_their_way = on_their_way::all(state).count() as u32;
                status.open_sets = open_sets(state);
            }
            status.route_version = state.route_version.0;
            status.lineage = state.lineage.0;
            status.restores = state.most_restores();
            status.counts_restores = state.rules >= Rules::Eight;
            status.entries_lost = state.refuse_after_loss().err().map(|loss| loss.to_string()).unwrap_or_default();
            if state.is_quarantined() {
                status.quarantine = self.quarantine();
            }
            status.allocs = allocs(state, clock_ms);
            status.sections_moved = state.balancing.all_moved().len() as u32;
        });
        status
    }

    fn set_gauges(&self) {
        let (set, node) = (self.set.name.clone(), self.node.to_string());
        let (sections, unowned, restores, lineage, RouteVersion(version)) = self.replicated.read(|state| {
            let (sections, restores) = (state.sections.residents().count(), state.most_restores());
            (sections, unowned(state), restores, state.lineage, state.route_version)
        });
        let (delayed, _) = self.replicated.read(|state| self.on_their_way.delayed(state));
        let migrations = self.replicated.read(|state| self.sets.migration_figures(state));
        for (name, value) in
            [("waiting", migrations.waiting), ("departed", migrations.departed), ("arrived", migrations.arrived)]
        {
            metrics::gauge!(MIGRATION_SECTIONS, "set" => set.clone(), "node" => node.clone(), "state" => name)
                .set(f64::from(value));
        }
        // Only the leader sends the requests of migrations.
        let stuck = if self.replicated.raft().is_leader() { migrations.stuck } else { 0 };
        metrics::gauge!(MIGRATIONS_STUCK, "set" => set.clone(), "node" => node.clone()).set(f64::from(stuck));
        for (name, value) in [("owned", sections as u32 - unowned), ("unowned", unowned), ("delayed", delayed)] {
            metrics::gauge!(SECTIONS, "set" => set.clone(), "node" => node.clone(), "state" => name)
                .set(f64::from(value));
        }
        metrics::counter!(RAISES_APPLIED_TOTAL, "set" => set.clone(), "node" => node.clone())
            .absolute(self.replicated.raises_applied());
        let begun = if lineage.is_of_set() { lineage.restores() } else { 0 };
        metrics::gauge!(SET_LINEAGE_BEGUN, "set" => set.clone(), "node" => node.clone()).set(f64::from(begun));
        metrics::gauge!(SET_RESTORES, "set" => set, "node" => node.clone()).set(f64::from(restores));
        metrics::gauge!(ROUTE_VERSION, "node" => node.clone()).set(version as f64);
    }

    /// Updates the member's gauges once in each [`GAUGE_INTERVAL`] until the future is dropped.
    pub(crate) async fn update_gauges(self) {
        let mut tick = tokio::time::interval(GAUGE_INTERVAL);
        loop {
            tick.tick().await;
            self.set_gauges();
        }
    }
}

const NO_ACTIVITY: &str = "a StoreSvr has no counters: request it from the AllocSvr that owns the section";

/// The status service, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct StatusServer(pub(crate) Gate<View>);

#[tonic::async_trait]
impl StatusService for StatusServer {
    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let view = self.0.get()?;
        let caller = request.extensions().get::<Peer>().and_then(Peer::identity);
        let is_shown = roles::sees_whole_status(caller);
        let mut status = StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: view.revision.to_string(),
            set: view.set.name.clone(),
            node: view.node.to_string(),
            uptime_ms: u64::try_from(view.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
            cpu_us: (view.cpu_us)(),
            certificate_not_after: view.tls.as_ref().map(Tls::certificate_not_after),
            admin_addrs: if is_shown { view.admin_addrs.clone() } else { Vec::new() },
            instance: view.instance,
            clock_ms: wall_clock::now_ms(),
            settings_digest: view.settings.digest(),
            role: Some(Role::Store(view.status(is_shown))),
        };
        roles::narrow(&mut status, caller);
        Ok(Response::new(status))
    }

    async fn list_ceilings(
        &self,
        request: Request<ListCeilingsRequest>,
    ) -> Result<Response<ListCeilingsResponse>, Status> {
        let (view, first) = (self.0.get()?, SectionId(request.into_inner().first_section));
        Ok(Response::new(view.replicated.read(|state| ceilings(&view.set.name, state, first))))
    }

    async fn list_activity(
        &self,
        request: Request<ListActivityRequest>,
    ) -> Result<Response<ListActivityResponse>, Status> {
        let (view, request) = (self.0.get()?.clone(), request.into_inner());
        let listing = view.replicated.writes().begin_listing();
        let listing = listing.map_err(|error| Reason::TooManyReports.status(error.to_string()))?;
        let made = tokio::task::spawn_blocking(move || {
            let response = view.replicated.writes().response(&request, &view.set.name, &view.node);
            drop(listing);
            response
        });
        made.await.map(Response::new).map_err(|error| Status::internal(format!("the report was not made: {error}")))
    }

    async fn describe_section(
        &self,
        _: Request<DescribeSectionRequest>,
    ) -> Result<Response<DescribeSectionResponse>, Status> {
        Err(Status::unimplemented(NO_ACTIVITY))
    }

    async fn get_config(&self, _: Request<GetConfigRequest>) -> Result<Response<GetConfigResponse>, Status> {
        let view = self.0.get()?;
        Ok(Response::new(view.settings.response(&view.set.name, &view.node, "store")))
    }

    async fn list_node_events(
        &self,
        request: Request<ListNodeEventsRequest>,
    ) -> Result<Response<ListNodeEventsResponse>, Status> {
        let (view, ListNodeEventsRequest { after, limit }) = (self.0.get()?, request.into_inner());
        let page = view.events.page(after, limit);
        Ok(Response::new(node_events::response(page, (&view.set.name, &view.node), view.instance)))
    }
}

/// Returns the number of sets of the cluster that are not closed, including this set. Only these sets have sections.
fn open_sets(state: &State) -> u32 {
    let is_open = |peer: &&PeerSet| peer.facts.as_ref().is_some_and(|facts| facts.closing < Closing::Closed);
    u32::from(state.closing < Closing::Closed) + state.sets.values().filter(is_open).count() as u32
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn member(member: MemberStatus) -> StoreMember {
    // The value is at least one microsecond, because 0 stands for an unknown round trip.
    let us = |trip: Duration| u64::try_from(trip.as_micros()).unwrap_or(u64::MAX).max(1);
    StoreMember {
        id: member.id,
        name: member.name,
        addr: member.addr,
        voter: member.voter,
        matched_index: member.matched_index,
        live: member.live,
        round_trip_us: member.round_trip.map_or(0, us),
        silent_ms: member.silent.map_or(0, ms),
    }
}

/// Returns the milliseconds since the death of the process of a node's newest incarnation was reported, 1 or above; 0
/// if it was not reported.
fn died_ms(node: &NodeRecord, now_ms: u64) -> u64 {
    match node.died {
        Some(death) if death.incarnation != node.incarnation => 0,
        // The time of the report is not known.
        Some(Death { at_unix_ms: 0, .. }) => 1,
        Some(death) => now_ms.saturating_sub(death.at_unix_ms).max(1),
        None => 0,
    }
}

/// Returns the records of all AllocSvrs. `now_ms` is the time of the store, in milliseconds since 1970.
fn allocs(state: &State, now_ms: u64) -> Vec<AllocMember> {
    let mut owned = vec![0u32; state.nodes.len()];
    for (_, record) in state.sections.residents() {
        let Some(owner) = record.owner else { continue };
        let current = state.node(owner).is_some_and(|node| node.incarnation == record.incarnation);
        owned[owner.0 as usize - 1] += u32::from(current);
    }
    let member = |((id, node), sections): ((seq_core::NodeId, &NodeRecord), u32)| AllocMember {
        id: id.0,
        name: node.name.clone(),
        addr: node.addr.clone(),
        incarnation: node.incarnation.0,
        renew_seq: node.renew_seq.0,
        sections,
        drained: node.drained,
        leaving: node.leaving,
        died_ms: died_ms(node, now_ms),
    };
    state.nodes().zip(owned).map(member).collect()
}

fn ceilings(set: &str, state: &State, first: SectionId) -> ListCeilingsResponse {
    let mut from = state.sections.residents().filter(|(section, _)| *section >= first);
    let ceiling = |(section, record): (SectionId, &Residence)| SectionCeiling {
        section: section.0,
        epoch: record.epoch.0,
        ceiling: record.max_seq.0,
    };
    let ceilings = from.by_ref().take(limits::MAX_CEILINGS).map(ceiling).collect();
    let next_section = from.next().map_or(0, |(section, _)| section.0);
    ListCeilingsResponse { set: set.to_owned(), ceilings, next_section }
}

fn unowned(state: &State) -> u32 {
    state.sections.residents().filter(|(_, record)| record.owner.is_none()).count() as u32
}
