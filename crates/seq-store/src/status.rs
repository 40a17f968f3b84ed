//! What a member tells about itself: to operators, to probes, to whoever collects metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use seq_api::metrics::{
    RAFT_APPLIED_INDEX, RAFT_IS_LEADER, RAFT_LAST_LOG_INDEX, RAFT_QUORUM, RAFT_ROUND_TRIP_SECONDS, RAFT_SNAPSHOT_INDEX,
    RAFT_TERM, RAFT_VOTERS, RAISES_APPLIED_TOTAL, ROUTE_VERSION, SECTIONS,
};
use seq_core::RouteVersion;
use seq_core::state::{SetDefinition, State};
use seq_kit::http::Checks;
use seq_proto::v1::admin_service_server::AdminService;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::{AllocMember, StatusRequest, StatusResponse, StoreMember, StoreStatus};
use tonic::{Request, Response, Status};

use crate::bootstrap;
use crate::gate::Gate;
use crate::quorum::Quorum;
use crate::storage::SharedState;
use crate::types::{LogId, Raft, TypeConfig};

/// How far the applied entries may lag behind the committed ones on a member that is ready.
const READY_LAG: u64 = 10_000;

/// How often gauges are set.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// A view of one member. Clones see the same member.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) raft: Raft,
    pub(crate) quorum: Quorum,
    pub(crate) state: SharedState,
    pub(crate) set: Arc<SetDefinition>,
    pub(crate) node: Arc<str>,
    pub(crate) revision: Arc<str>,
    pub(crate) cpu_us: fn() -> u64,
    pub(crate) started: Instant,
}

impl View {
    pub(crate) fn leader(&self) -> Option<u64> {
        self.metrics().current_leader
    }

    /// Named checks of whether this member takes part and is current.
    pub(crate) fn readiness(&self) -> Checks {
        let mut checks = Checks::new();
        let view = self.clone();
        checks.add("store-leader", move || view.check_leader());
        let view = self.clone();
        checks.add("store-applied", move || view.check_applied());
        let view = self.clone();
        checks.add("store-set", move || view.check_set());
        checks
    }

    /// This member leads a majority that acknowledged it, or follows a leader that it receives from.
    fn check_leader(&self) -> Result<(), String> {
        let sight = self.quorum.sight();
        if sight.has_quorum() { Ok(()) } else { Err(sight.to_string()) }
    }

    /// This member has applied about everything that it knows to be committed.
    fn check_applied(&self) -> Result<(), String> {
        let metrics = self.metrics();
        let committed = metrics.cluster_committed.max(metrics.local_committed);
        let (committed, applied) = (index(committed), index(metrics.last_applied));
        if committed == 0 {
            return Err("nothing is known to be committed yet".to_owned());
        }
        if applied + READY_LAG < committed {
            return Err(format!("applied {applied} of {committed} committed entries"));
        }
        Ok(())
    }

    /// The set is defined as the set file says.
    fn check_set(&self) -> Result<(), String> {
        match bootstrap::check_set(&self.state, &self.set) {
            Ok(true) => Ok(()),
            Ok(false) => Err("the set is not defined yet".to_owned()),
            Err(mismatch) => Err(mismatch.to_string()),
        }
    }

    fn metrics(&self) -> RaftMetrics<TypeConfig> {
        self.raft.metrics().borrow_watched().clone()
    }

    fn status(&self) -> StoreStatus {
        let metrics = self.metrics();
        let uids = self.set.layout.uids();
        let sight = self.quorum.sight();
        let mut status = StoreStatus {
            id: metrics.id,
            leader: metrics.current_leader.unwrap_or(0),
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            applied_index: index(metrics.last_applied),
            snapshot_index: index(metrics.snapshot),
            members: members(&metrics, &self.quorum),
            uid_start: uids.start,
            uid_end: uids.end,
            section_size: self.set.layout.section_size(),
            sections: self.set.layout.sections(),
            sections_unowned: self.set.layout.sections(),
            raises_applied: self.state.raises_applied(),
            quorum: sight.has_quorum(),
            quorum_lost_ms: ms(sight.lost()),
            max_round_trip_ms: ms(self.quorum.carried()),
            ..StoreStatus::default()
        };
        self.state.read(|state| {
            if state.set.is_some() {
                status.sections_unowned = unowned(state);
            }
            status.route_version = state.route_version.0;
            status.allocs = allocs(state);
        });
        status
    }

    fn set_gauges(&self) {
        let metrics = self.metrics();
        let (set, node) = (self.set.name.clone(), self.node.to_string());
        let gauge = |name: &'static str, value: u64| {
            // A gauge is a float: exact up to 2^53, which no index reaches.
            metrics::gauge!(name, "set" => set.clone(), "node" => node.clone()).set(value as f64);
        };
        gauge(RAFT_IS_LEADER, u64::from(metrics.current_leader == Some(metrics.id)));
        gauge(RAFT_TERM, metrics.current_term);
        gauge(RAFT_LAST_LOG_INDEX, metrics.last_log_index.unwrap_or(0));
        gauge(RAFT_APPLIED_INDEX, index(metrics.last_applied));
        gauge(RAFT_SNAPSHOT_INDEX, index(metrics.snapshot));
        gauge(RAFT_QUORUM, u64::from(self.quorum.sight().has_quorum()));
        self.set_member_gauges(&metrics);
        let (sections, unowned, RouteVersion(version)) =
            self.state.read(|state| (state.sections.len(), unowned(state), state.route_version));
        for (name, value) in [("owned", sections as u32 - unowned), ("unowned", unowned)] {
            metrics::gauge!(SECTIONS, "set" => set.clone(), "node" => node.clone(), "state" => name)
                .set(f64::from(value));
        }
        metrics::counter!(RAISES_APPLIED_TOTAL, "set" => set.clone(), "node" => node.clone())
            .absolute(self.state.raises_applied());
        metrics::gauge!(ROUTE_VERSION, "node" => node.clone()).set(version as f64);
    }

    /// How many voters there are, and on the leader how many of them respond, and how far away the members are.
    fn set_member_gauges(&self, metrics: &RaftMetrics<TypeConfig>) {
        let (set, node) = (&self.set.name, &self.node);
        let voters: Vec<u64> = metrics.membership_config.membership().voter_ids().collect();
        let live = Quorum::live(metrics, self.quorum.within());
        let leads = metrics.current_leader == Some(metrics.id);
        let responding = if leads { voters.iter().filter(|id| live.contains(id)).count() } else { 0 };
        for (state, count) in [("all", voters.len()), ("responding", responding)] {
            metrics::gauge!(RAFT_VOTERS, "set" => set.clone(), "node" => node.to_string(), "state" => state)
                .set(count as f64);
        }
        for (id, member) in metrics.membership_config.membership().nodes() {
            let trip = self.quorum.round_trip(*id).filter(|_| leads && *id != metrics.id);
            if let Some(trip) = trip {
                let labels = [("set", set.clone()), ("node", node.to_string()), ("member", member.name.clone())];
                metrics::gauge!(RAFT_ROUND_TRIP_SECONDS, &labels).set(trip.as_secs_f64());
            }
        }
    }

    /// Keeps the gauges current until it is dropped.
    pub(crate) async fn keep_gauges(self) {
        let mut tick = tokio::time::interval(GAUGES_EVERY);
        loop {
            tick.tick().await;
            self.set_gauges();
        }
    }
}

#[tonic::async_trait]
impl AdminService for Gate<View> {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let view = self.get()?;
        Ok(Response::new(StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: view.revision.to_string(),
            set: view.set.name.clone(),
            node: view.node.to_string(),
            uptime_ms: u64::try_from(view.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
            cpu_us: (view.cpu_us)(),
            role: Some(Role::Store(view.status())),
        }))
    }
}

fn index(id: Option<LogId>) -> u64 {
    id.map_or(0, |id| id.index())
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn members(metrics: &RaftMetrics<TypeConfig>, quorum: &Quorum) -> Vec<StoreMember> {
    let live = Quorum::live(metrics, quorum.within() * 2);
    let leads = metrics.current_leader == Some(metrics.id);
    let membership = metrics.membership_config.membership();
    let voters: Vec<u64> = membership.voter_ids().collect();
    let matched = |id: &u64| {
        if *id == metrics.id {
            return metrics.last_log_index.unwrap_or(0);
        }
        metrics.replication.as_ref().and_then(|all| all.get(id)).map_or(0, |matched| index(*matched))
    };
    let member = |(id, member): (&u64, &crate::types::Member)| StoreMember {
        id: *id,
        name: member.name.clone(),
        addr: member.addr.clone(),
        voter: voters.contains(id),
        matched_index: matched(id),
        live: leads && live.contains(id),
        round_trip_us: quorum.round_trip(*id).filter(|_| leads).map_or(0, us),
    };
    membership.nodes().map(member).collect()
}

/// The same in whole microseconds, at least one: 0 says that nothing is known.
pub(crate) fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1)
}

fn allocs(state: &State) -> Vec<AllocMember> {
    let mut owned = vec![0u32; state.nodes.len()];
    for record in &state.sections {
        let Some(owner) = record.owner else { continue };
        let current = state.node(owner).is_some_and(|node| node.incarnation == record.incarnation);
        owned[owner.0 as usize - 1] += u32::from(current);
    }
    let member = |((id, node), sections): ((seq_core::NodeId, &seq_core::state::NodeRecord), u32)| AllocMember {
        id: id.0,
        name: node.name.clone(),
        addr: node.addr.clone(),
        incarnation: node.incarnation.0,
        renew_seq: node.renew_seq.0,
        sections,
    };
    state.nodes().zip(owned).map(member).collect()
}

fn unowned(state: &State) -> u32 {
    state.sections.iter().filter(|record| record.owner.is_none()).count() as u32
}
