//! Service with which operators list and drain a set's AllocSvrs, change the lease terms, and control balancing.
//!
//! **Invariant:** the last node that could own sections cannot be drained, not even by two concurrent requests. A node
//! counts as live if it was live in the arbiter's last evaluation. Whether nodes are drained is read while no other
//! change can be made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seq_core::NodeId;
use seq_core::arbiter::Plan;
use seq_core::plan::Fingerprint;
use seq_core::state::{CommandRefusal, Drain, EventKind, NodeRecord, SetTerms, State, Terms};
use seq_proto::Reason;
use seq_proto::v1::node_admin_service_server::NodeAdminService;
use seq_proto::v1::{
    DrainNodeRequest, DrainNodeResponse, ListNodesRequest, ListNodesResponse, MoveSectionsRequest,
    MoveSectionsResponse, NodeState, PauseBalancingRequest, PauseBalancingResponse, SetTermsRequest, SetTermsResponse,
};
use seq_raft::Gate;
use tokio::sync::watch;
use tonic::{Code, Request, Response, Status};

use crate::definition::DeclaredSet;
use crate::preconditions::{self, Required};
use crate::replicated_set::ReplicatedSet;
use crate::sender::principal;

/// State of the service once the member is loaded.
pub(crate) struct NodeAdmin {
    pub(super) set: Arc<DeclaredSet>,
    pub(super) replicated: ReplicatedSet,
    /// Receiver of the arbiter's newest plan. The plan is empty while this member does not lead.
    plan: watch::Receiver<Arc<Plan>>,
}

impl NodeAdmin {
    pub(crate) fn new(set: Arc<DeclaredSet>, replicated: ReplicatedSet, plan: watch::Receiver<Arc<Plan>>) -> NodeAdmin {
        NodeAdmin { set, replicated, plan }
    }

    /// Returns the arbiter's plan if this member leads with a majority. Otherwise returns an error, because the plan
    /// may be out of date.
    pub(super) fn plan(&self) -> Result<Arc<Plan>, Status> {
        self.replicated.raft().check_leads()?;
        Ok(self.plan.borrow().clone())
    }
}

/// The node service, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct NodeServer(pub(crate) Gate<NodeAdmin>);

#[tonic::async_trait]
impl NodeAdminService for NodeServer {
    async fn list_nodes(&self, _: Request<ListNodesRequest>) -> Result<Response<ListNodesResponse>, Status> {
        let admin = self.0.get()?;
        admin.replicated.raft().linearize().await?;
        let plan = admin.plan()?;
        Ok(Response::new(admin.replicated.read(|state| list(&admin.set.name, state, &plan))))
    }

    async fn drain_node(&self, request: Request<DrainNodeRequest>) -> Result<Response<DrainNodeResponse>, Status> {
        let (admin, request) = (self.0.get()?, request.into_inner());
        admin.replicated.raft().linearize().await?;
        admin.check_set(&request.set)?;
        admin.drain(request).await.map(Response::new)
    }

    async fn set_terms(&self, request: Request<SetTermsRequest>) -> Result<Response<SetTermsResponse>, Status> {
        let (admin, request) = (self.0.get()?, request.into_inner());
        admin.replicated.raft().linearize().await?;
        admin.check_set(&request.set)?;
        let wanted =
            (request.lease_wait_ms > 0).then_some(Terms { lease_wait: Duration::from_millis(request.lease_wait_ms) });
        let required = Required::new(request.dry_run, request.plan);
        let (terms, changed, plan) = match wanted {
            Some(terms) => admin.set_terms(terms, required).await?,
            None => admin.replicated.read(|state| (state.terms(), false, preconditions::terms(state, None))),
        };
        let lease_wait_ms = u64::try_from(terms.lease_wait.as_millis()).unwrap_or(u64::MAX);
        Ok(Response::new(SetTermsResponse { lease_wait_ms, changed, fingerprint: plan.0 }))
    }

    async fn move_sections(
        &self,
        request: Request<MoveSectionsRequest>,
    ) -> Result<Response<MoveSectionsResponse>, Status> {
        let (admin, request) = (self.0.get()?, request.into_inner());
        admin.replicated.raft().linearize().await?;
        admin.check_set(&request.set)?;
        admin.move_sections(request).await.map(Response::new)
    }

    async fn pause_balancing(
        &self,
        request: Request<PauseBalancingRequest>,
    ) -> Result<Response<PauseBalancingResponse>, Status> {
        let (admin, principal) = (self.0.get()?, principal(&request)?);
        let request = request.into_inner();
        admin.replicated.raft().linearize().await?;
        admin.check_set(&request.set)?;
        admin.pause_balancing(request, principal).await.map(Response::new)
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

    /// Begins or ends the drain of a node. Unless the node is already as requested, the fingerprint in the request must
    /// equal the fingerprint of the plan that is computed now. So a request can be repeated after its change was made.
    async fn drain(&self, request: DrainNodeRequest) -> Result<DrainNodeResponse, Status> {
        let DrainNodeRequest { set, node: name, drained, dry_run, plan, together } = request;
        let required = Required::new(dry_run, plan);
        let now = self.foresee(&name, drained, &together)?;
        if now.was == drained {
            return Ok(now.response(false));
        }
        let change = required.begin(self.replicated.raft()).await?;
        // Another change may have been made before this change began.
        let now = self.foresee(&name, drained, &together)?;
        if now.was == drained {
            return Ok(now.response(false));
        }
        if drained && now.left.is_empty() {
            let text = format!("{name} is the last node of set {set} that could own sections");
            return Err(Reason::LastNode.status(text));
        }
        if change.is_none() {
            return Ok(now.response(false));
        }
        required.check(now.plan)?;
        let outcome = self.replicated.propose(Drain { name: name.clone(), drained }).await?;
        outcome.expect("a node that registered stays known");
        let (node, sections) = (now.id.0, now.sections);
        let event = if drained { EventKind::Drained } else { EventKind::Undrained }.name();
        tracing::info!(event, set, node, name, drained, sections, "a node is drained, or no longer");
        Ok(now.response(true))
    }

    /// Returns the foreseen result of draining the node `name` or ending its drain, with the plan's fingerprint. It is
    /// computed from the applied state and from the nodes that were live in the arbiter's last evaluation. `together`
    /// names the nodes that are drained by the same command of the operator.
    fn foresee(&self, name: &str, drained: bool, together: &[String]) -> Result<Foreseen, Status> {
        let living = self.plan()?.living.clone();
        let foreseen = self.replicated.read(|state| {
            let (id, node) = state.nodes().find(|(_, node)| node.name == name)?;
            let could_own = |(other, record): &(NodeId, &NodeRecord)| {
                let stays = !record.drained && !record.leaving && !together.contains(&record.name);
                *other != id && stays && living.contains(other)
            };
            let left: BTreeSet<NodeId> = state.nodes().filter(could_own).map(|(other, _)| other).collect();
            let plan = match drained {
                true => preconditions::drain(state, name, node.drained, &left),
                false => preconditions::undrain(state, name, node.drained),
            };
            let sections = owned(state).get(&id).copied().unwrap_or(0);
            Some(Foreseen { id, was: node.drained, left, sections, plan })
        });
        foreseen.ok_or_else(|| unknown(name))
    }

    /// Replaces the set's lease terms by `terms`, unless the request is a dry run. Returns the terms after the call,
    /// whether this call changed them, and the fingerprint of the plan, computed before the change.
    async fn set_terms(&self, terms: Terms, required: Required) -> Result<(Terms, bool, Fingerprint), Status> {
        let read = || self.replicated.read(|state| (state.terms, preconditions::terms(state, Some(terms))));
        if let (Some(in_force), plan) = read()
            && in_force == terms
        {
            return Ok((terms, false, plan));
        }
        let _change = required.begin(self.replicated.raft()).await?;
        let (replaces, plan) = read();
        if replaces == Some(terms) {
            return Ok((terms, false, plan));
        }
        if required.dry_run {
            terms.check().map_err(|refusal| refused(&refusal))?;
            return Ok((self.replicated.read(State::terms), false, plan));
        }
        required.check(plan)?;
        let outcome = self.replicated.propose(SetTerms { replaces, terms }).await?;
        outcome.map_err(|refusal| refused(&refusal))?;
        tracing::info!(
            event = EventKind::Terms.name(),
            set = self.set.name,
            lease_wait_ms = terms.lease_wait.as_millis(),
            "the lease terms are changed"
        );
        Ok((terms, true, plan))
    }
}

/// Foreseen result of starting or ending the drain of a node.
struct Foreseen {
    id: NodeId,
    /// Whether the node is drained before the change.
    was: bool,
    /// Other live nodes that could own the node's sections.
    left: BTreeSet<NodeId>,
    /// Number of sections that the node owns now.
    sections: u32,
    plan: Fingerprint,
}

impl Foreseen {
    fn response(&self, changed: bool) -> DrainNodeResponse {
        DrainNodeResponse { sections: self.sections, changed, fingerprint: self.plan.0 }
    }
}

/// Returns the error of a request that names a node that the set does not have.
pub(super) fn unknown(name: &str) -> Status {
    let text = CommandRefusal::UnknownName { name: name.to_owned() }.to_string();
    Reason::UnknownNode.status_as(Code::NotFound, text)
}

pub(super) fn refused(refusal: &CommandRefusal) -> Status {
    Reason::of_command(refusal).status(refusal.to_string())
}

/// Returns for each node the number of sections that it owns, in its present or an earlier incarnation.
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
