//! The service through which operators list and drain the AllocSvrs of a set.
//!
//! **Invariant:** the last node that could own sections is not drained. The arbiter's plan is as old as its last evaluation;
//! the state is what is applied here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seq_core::NodeId;
use seq_core::arbiter::Plan;
use seq_core::state::{CommandRefusal, Drain, SetTerms, State, Terms};
use seq_proto::Reason;
use seq_proto::v1::node_admin_service_server::NodeAdminService;
use seq_proto::v1::{
    DrainNodeRequest, DrainNodeResponse, ListNodesRequest, ListNodesResponse, NodeState, SetTermsRequest,
    SetTermsResponse,
};
use seq_raft::{Gate, QuorumStatus};
use tokio::sync::watch;
use tonic::{Code, Request, Response, Status};

use crate::definition::DeclaredSet;
use crate::replicated_set::ReplicatedSet;

/// The open service.
pub(crate) struct NodeAdmin {
    set: Arc<DeclaredSet>,
    replicated: ReplicatedSet,
    /// The plan of the arbiter beside the leader.
    plan: watch::Receiver<Arc<Plan>>,
}

impl NodeAdmin {
    pub(crate) fn new(set: Arc<DeclaredSet>, replicated: ReplicatedSet, plan: watch::Receiver<Arc<Plan>>) -> NodeAdmin {
        NodeAdmin { set, replicated, plan }
    }

    /// The arbiter's plan, on the member that leads a majority: without one the plan is out of date.
    fn plan(&self) -> Result<Arc<Plan>, Status> {
        let raft = self.replicated.raft();
        raft.check_quorum()?;
        match raft.quorum() {
            QuorumStatus::Leads => Ok(self.plan.borrow().clone()),
            _ => Err(raft.not_leader().into()),
        }
    }

    /// Whether no other node could own sections.
    fn is_last(plan: &Plan, node: NodeId) -> bool {
        let free = |id: &&NodeId| !plan.draining.contains(*id);
        plan.living.iter().filter(free).all(|id| *id == node)
    }
}

/// The service, opened once the member is loaded.
#[derive(Clone)]
pub(crate) struct NodeServer(pub(crate) Gate<NodeAdmin>);

#[tonic::async_trait]
impl NodeAdminService for NodeServer {
    async fn list_nodes(&self, _: Request<ListNodesRequest>) -> Result<Response<ListNodesResponse>, Status> {
        let admin = self.0.get()?;
        let plan = admin.plan()?;
        Ok(Response::new(admin.replicated.read(|state| list(&admin.set.name, state, &plan))))
    }

    async fn drain_node(&self, request: Request<DrainNodeRequest>) -> Result<Response<DrainNodeResponse>, Status> {
        let (admin, request) = (self.0.get()?, request.into_inner());
        let plan = admin.plan()?;
        let DrainNodeRequest { set, node: name, drained, dry_run } = request;
        admin.check_set(&set)?;
        let known = admin.replicated.read(|state| {
            let (id, node) = state.nodes().find(|(_, node)| node.name == name)?;
            Some((id, node.drained, owned(state).get(&id).copied().unwrap_or(0)))
        });
        let Some((id, was, sections)) = known else {
            let text = CommandRefusal::UnknownName { name }.to_string();
            return Err(Reason::UnknownNode.status_as(Code::NotFound, text));
        };
        if drained && !was && NodeAdmin::is_last(&plan, id) {
            let text = format!("{name} is the last node of set {set} that could own sections");
            return Err(Reason::LastNode.status(text));
        }
        if !dry_run && was != drained {
            let known_as = name.clone();
            let outcome = admin.replicated.propose(Drain { name, drained }).await?;
            outcome.expect("a node that registered stays known");
            tracing::info!(set, node = id.0, name = known_as, drained, sections, "a node is drained, or no longer");
        }
        Ok(Response::new(DrainNodeResponse { sections, changed: was != drained && !dry_run }))
    }

    async fn set_terms(&self, request: Request<SetTermsRequest>) -> Result<Response<SetTermsResponse>, Status> {
        let (admin, request) = (self.0.get()?, request.into_inner());
        // On the leader only: another member's terms may be old.
        admin.plan()?;
        admin.check_set(&request.set)?;
        let wanted =
            (request.lease_wait_ms > 0).then_some(Terms { lease_wait: Duration::from_millis(request.lease_wait_ms) });
        let (terms, changed) = match wanted {
            Some(terms) => admin.set_terms(terms).await?,
            None => (admin.replicated.read(State::terms), false),
        };
        let lease_wait_ms = u64::try_from(terms.lease_wait.as_millis()).unwrap_or(u64::MAX);
        Ok(Response::new(SetTermsResponse { lease_wait_ms, changed }))
    }
}

impl NodeAdmin {
    fn check_set(&self, set: &str) -> Result<(), Status> {
        if set == self.set.name {
            return Ok(());
        }
        let text = format!("this is the store of set {:?}, not of {set:?}", self.set.name);
        Err(Reason::OtherSet.status(text))
    }

    /// Replaces the terms in force; returns those in force then, and whether anything changed.
    async fn set_terms(&self, terms: Terms) -> Result<(Terms, bool), Status> {
        let replaces = self.replicated.read(|state| state.terms);
        if replaces == Some(terms) {
            return Ok((terms, false));
        }
        let outcome = self.replicated.propose(SetTerms { replaces, terms }).await?;
        outcome.map_err(|refusal| {
            let reason = match refusal {
                CommandRefusal::BadTerms { .. } => Reason::BadTerms,
                _ => Reason::OtherTerms,
            };
            reason.status(refusal.to_string())
        })?;
        tracing::info!(
            set = self.set.name,
            lease_wait_ms = terms.lease_wait.as_millis(),
            "the lease terms are changed"
        );
        Ok((terms, true))
    }
}

/// Number of sections that each node owns, in any incarnation.
fn owned(state: &State) -> BTreeMap<NodeId, u32> {
    let mut owned = BTreeMap::new();
    for owner in state.sections.residents().filter_map(|(_, record)| record.owner) {
        *owned.entry(owner).or_insert(0) += 1;
    }
    owned
}

fn list(set: &str, state: &State, plan: &Plan) -> ListNodesResponse {
    let owned = owned(state);
    let mut to_move: BTreeMap<NodeId, u32> = BTreeMap::new();
    for one in &plan.handovers {
        *to_move.entry(one.from).or_insert(0) += 1;
    }
    let nodes = state.nodes().map(|(id, node)| NodeState {
        id: id.0,
        name: node.name.clone(),
        addr: node.addr.clone(),
        incarnation: node.incarnation.0,
        sections: owned.get(&id).copied().unwrap_or(0),
        to_move: to_move.get(&id).copied().unwrap_or(0),
        living: plan.living.contains(&id),
        drained: node.drained,
        leaving: node.leaving,
    });
    ListNodesResponse {
        set: set.to_owned(),
        nodes: nodes.collect(),
        unowned: state.sections.residents().filter(|(_, record)| record.owner.is_none()).count() as u32,
    }
}
