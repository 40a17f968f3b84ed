//! The service for the stores of other sets. Each request becomes one entry of this set's log, or reads the applied state
//! beside a leader that has a quorum.
//!
//! **Invariant:** a request of another cluster, for another set or of another layout is refused by name before anything is
//! proposed.

use seq_core::arbiter::Plan;
use seq_core::state::{Closing, CommandRefusal, Complete, Fence, Pace, SetRefusal, StartReturn, State};
use seq_core::{LayoutId, Lineage, MigrationId, SectionId, SetId, limits};
use seq_proto::v1::inter_set_service_server::InterSetService;
use seq_proto::v1::{
    ArmRequest, ArmResponse, ArmedNode, ArrivalOutcome, ArriveRequest, ArriveResponse, CompleteArrivalRequest,
    CompleteArrivalResponse, ExchangeRequest, ExchangeResponse, FenceRequest, FenceResponse, StartReturnRequest,
    StartReturnResponse,
};
use seq_proto::{Reason, inter_set, v1};
use seq_raft::Gate;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

use super::{Between, exchange};

/// The service, opened once the member is loaded.
#[derive(Clone)]
pub(crate) struct InterSetServer(pub(crate) Gate<Between>);

#[tonic::async_trait]
impl InterSetService for InterSetServer {
    async fn arm(&self, request: Request<ArmRequest>) -> Result<Response<ArmResponse>, Status> {
        let this = self.0.get()?;
        let request = request.into_inner();
        this.check(request.between.as_ref())?;
        this.replicated.raft().check_quorum()?;
        let plan = this.plan.borrow().clone();
        this.replicated.read(|state| arm(state, &plan, &request)).map(Response::new)
    }

    async fn arrive(&self, request: Request<ArriveRequest>) -> Result<Response<ArriveResponse>, Status> {
        let this = self.0.get()?;
        let request = request.into_inner();
        let between = this.check(request.between.as_ref())?;
        let arrive = inter_set::arrive(&request, between)?;
        let outcome = this.replicated.propose(arrive).await?;
        let outcomes = outcome.map_err(|refusal| refused(&refusal))?;
        let outcomes = outcomes.into_iter().map(|one| ArrivalOutcome::from(one).into()).collect();
        Ok(Response::new(ArriveResponse { lineage: this.lineage().0, outcomes }))
    }

    async fn start_return(
        &self,
        request: Request<StartReturnRequest>,
    ) -> Result<Response<StartReturnResponse>, Status> {
        let this = self.0.get()?;
        let request = request.into_inner();
        let between = this.check(request.between.as_ref())?;
        let start = StartReturn {
            of: MigrationId(request.of_migration_id),
            to: SetId(between.from_set_id),
            id: MigrationId(request.return_id),
            pace: Pace {
                rate: request.rate,
                max_pause: Duration::from_millis(request.max_pause_ms.into()),
                paused: false,
            },
            settled: request.settled,
        };
        this.replicated.propose(start).await?.map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(StartReturnResponse { lineage: this.lineage().0 }))
    }

    async fn complete_arrival(
        &self,
        request: Request<CompleteArrivalRequest>,
    ) -> Result<Response<CompleteArrivalResponse>, Status> {
        let this = self.0.get()?;
        let request = request.into_inner();
        this.check(request.between.as_ref())?;
        let complete = Complete { id: MigrationId(request.migration_id), by: None };
        this.replicated.propose(complete).await?.map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(CompleteArrivalResponse { lineage: this.lineage().0 }))
    }

    async fn fence(&self, request: Request<FenceRequest>) -> Result<Response<FenceResponse>, Status> {
        let this = self.0.get()?;
        let request = request.into_inner();
        let between = this.check(request.between.as_ref())?;
        let (set, lineage) = (SetId(between.from_set_id), Lineage(between.from_lineage));
        let page = |state: &State| state.fence_response(set, lineage, SectionId(request.first_section));
        let known = this.replicated.read(page);
        let page = match known {
            // The first request: another page needs no entry.
            Err(CommandRefusal::BetweenSets(SetRefusal::FenceNotApplied { .. })) => {
                match this.replicated.propose(Fence { set, lineage }).await? {
                    Ok(()) => this.replicated.read(page),
                    Err(CommandRefusal::BetweenSets(SetRefusal::TooFewRestores { least, .. })) => {
                        let lineages = (this.lineage().0, lineage.0);
                        return Ok(Response::new(too_few_restores(lineages, least)));
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            known => known,
        };
        Ok(Response::new((&page.map_err(|refusal| refused(&refusal))?).into()))
    }

    async fn exchange(&self, request: Request<ExchangeRequest>) -> Result<Response<ExchangeResponse>, Status> {
        let this = self.0.get()?;
        let request = request.into_inner();
        this.check(request.between.as_ref())?;
        let stores = this.replicated.raft().member_addrs();
        let response = this.replicated.read(|state| exchanged(state, stores, &request))?;
        if let Some(facts) = &request.facts {
            exchange::learn(this, &[], &[inter_set::facts(facts)?]).await?;
        }
        Ok(Response::new(response))
    }
}

impl Between {
    /// Checks that this member leads the set that a request is for, of the sender's cluster.
    fn check<'a>(&self, between: Option<&'a v1::Between>) -> Result<&'a v1::Between, Status> {
        let between = between.ok_or_else(|| Reason::Malformed.status("the request does not name its sets"))?;
        if between.cluster != *self.cluster {
            let (ours, given) = (&self.cluster, &between.cluster);
            return Err(Reason::OtherCluster.status(format!("this is cluster {ours:?}, not {given:?}")));
        }
        let Some((id, name)) = self.replicated.read(|state| state.set.as_ref().map(|set| (set.id, set.name.clone())))
        else {
            return Err(Reason::NoSet.status("the set of this store is not defined yet"));
        };
        if between.to_set_id != 0 && between.to_set_id != id.0 {
            let given = between.to_set_id;
            return Err(Reason::OtherSet.status(format!("this is set {name:?} with id {id}, not the set {given}")));
        }
        if !self.replicated.raft().is_leader() {
            return Err(self.replicated.raft().not_leader().into());
        }
        Ok(between)
    }

    fn lineage(&self) -> Lineage {
        self.replicated.read(|state| state.lineage)
    }
}

/// The response to a fence that nothing came of.
fn too_few_restores((lineage, fenced): (u64, u64), least_restores: u32) -> FenceResponse {
    FenceResponse { lineage, fenced, least_restores, ..FenceResponse::default() }
}

/// Names the owners that sections would get.
fn arm(state: &State, plan: &Arc<Plan>, request: &ArmRequest) -> Result<ArmResponse, Status> {
    let set = state.set.as_ref().ok_or_else(|| Reason::NoSet.status("the set is not defined yet"))?;
    if state.is_quarantined() {
        return Err(Reason::Quarantined.status(format!("set {:?} was restored and takes no sections yet", set.name)));
    }
    let from = request.between.as_ref().map_or(SetId(0), |between| SetId(between.from_set_id));
    if state.sets.get(&from).is_none_or(|peer| peer.facts.is_none()) {
        // It would not be waited for when this set closes.
        return Err(Reason::UnknownSet.status(format!("set {:?} does not know the set {from} yet", set.name)));
    }
    if state.closing > Closing::Open {
        return Err(Reason::SetClosing.status(format!("set {:?} is closing and takes no more sections", set.name)));
    }
    let sections: Vec<SectionId> = request.sections.iter().copied().map(SectionId).collect();
    if sections.len() > limits::MAX_MOVES {
        let text = format!("{} sections: name up to {}", sections.len(), limits::MAX_MOVES);
        return Err(Reason::BadRuns.status(text));
    }
    let last = sections.iter().max().copied().unwrap_or(SectionId(set.layout.sections() - 1));
    if set.layout.id_of(last) != Some(LayoutId(request.layout_id)) {
        let (ours, given) = (set.layout.id(), request.layout_id);
        return Err(Reason::OtherLayout.status(format!("the layout here is {ours}, and the request is of {given}")));
    }
    let placed = plan.place(state, &sections);
    if placed.len() < sections.len() || plan.candidates.is_empty() {
        return Err(Reason::NoCandidate.status(format!("no allocator of set {:?} can own sections now", set.name)));
    }
    let mut nodes: Vec<ArmedNode> = Vec::new();
    for (id, _) in &plan.candidates {
        let Some(record) = state.node(*id) else { continue };
        nodes.push(ArmedNode { id: id.0, incarnation: record.incarnation.0, addr: record.peer_addr.clone() });
    }
    let index = |owner: u32| nodes.iter().position(|node| node.id == owner).unwrap_or_default() as u32;
    Ok(ArmResponse {
        lineage: state.lineage.0,
        owners: placed.iter().map(|(node, _)| index(node.0)).collect(),
        sections: request.sections.clone(),
        resident: state.sections.residents().count() as u32,
        nodes,
    })
}

/// What is known here, as far as it changed since the request's version.
fn exchanged(state: &State, stores: Vec<String>, request: &ExchangeRequest) -> Result<ExchangeResponse, Status> {
    let set = state.set.as_ref().ok_or_else(|| Reason::NoSet.status("the set is not defined yet"))?;
    if request.layout_id != 0 && request.layout_id != set.layout.id().0 {
        let (uids, size) = (set.layout.uids(), set.layout.section_size());
        let text = format!(
            "the layout of cluster and set {:?} is uids {uids:?} in sections of {size}, and the sender has another one",
            set.name
        );
        return Err(Reason::OtherLayout.status(text));
    }
    let own = state.facts(stores);
    let known = state.sets.values().filter_map(|peer| peer.facts.as_ref());
    let uids = set.layout.uids();
    Ok(ExchangeResponse {
        sets: own.iter().chain(known).map(v1::SetFacts::from).collect(),
        claims: state
            .directory
            .since(seq_core::RouteVersion(request.route_version))
            .map(|run| v1::ClaimRun::from(&run))
            .collect(),
        route_version: state.route_version.0,
        uid_start: uids.start,
        uid_end: uids.end,
        section_size: set.layout.section_size(),
    })
}

fn refused(refusal: &CommandRefusal) -> Status {
    let reason = match refusal {
        CommandRefusal::BetweenSets(refusal) => Reason::between_sets(refusal),
        _ => Reason::NoSet,
    };
    reason.status(refusal.to_string())
}
