//! Service for the stores of other sets. A request either becomes a command in this set's log, or gets a response from
//! the applied state of a leader with a majority.
//!
//! **Invariant:** before anything is proposed, a request is refused in each of these cases: it comes from another
//! cluster, it is addressed to another set, it is based on another layout, or its sender's certificate does not belong
//! to the set that the request names as its sender. The error names the difference.

use seq_auth::Identity;
use seq_core::arbiter::{Plan, Reserver};
use seq_core::state::{CommandRefusal, Complete, Fence, Pace, Rules, SetRefusal, StartReturn, State};
use seq_core::{LayoutId, Lineage, MigrationId, SectionId, SetId};
use seq_kit::telemetry::traces;
use seq_proto::v1::inter_set_service_server::InterSetService;
use seq_proto::v1::{
    ArmRequest, ArmResponse, ArmedNode, ArrivalOutcome, ArriveRequest, ArriveResponse, CompleteArrivalRequest,
    CompleteArrivalResponse, ConfirmRequest, ConfirmResponse, ExchangeRequest, ExchangeResponse, FenceRequest,
    FenceResponse, MigrationEnd, ReadFinalRequest, StartReturnRequest, StartReturnResponse,
};
use seq_proto::{Reason, inter_set, series, v1};
use seq_raft::Gate;
use std::time::Duration;
use tonic::{Request, Response, Status};

use super::{Between, confirm, exchange, refused};
use crate::sender;

/// The service, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct InterSetServer(pub(crate) Gate<Between>);

#[tonic::async_trait]
impl InterSetService for InterSetServer {
    async fn arm(&self, request: Request<ArmRequest>) -> Result<Response<ArmResponse>, Status> {
        let this = self.0.get()?;
        let (_, request) = this.check(request)?;
        this.replicated.raft().check_quorum()?;
        let plan = this.plan.borrow().clone();
        let mut reserver = this.reserver.lock();
        this.replicated.read(|state| arm(state, &plan, &request, &mut reserver)).map(Response::new)
    }

    async fn arrive(&self, request: Request<ArriveRequest>) -> Result<Response<ArriveResponse>, Status> {
        let this = self.0.get()?;
        traces::continued(request, |request| this.arrive(request)).await
    }

    async fn start_return(
        &self,
        request: Request<StartReturnRequest>,
    ) -> Result<Response<StartReturnResponse>, Status> {
        let this = self.0.get()?;
        let (between, request) = this.check(request)?;
        let (of, to) = (MigrationId(request.of_migration_id), SetId(between.from_set_id));
        let settled = this.confirm_end(to, of, MigrationEnd::RolledBack).await?;
        if request.settled && !settled {
            // A response to a request with `settled` would make the sender consider the return settled.
            return Err(Reason::SetUnavailable.status(format!("set {to} does not confirm that all has arrived")));
        }
        let start = StartReturn {
            of,
            to,
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
        let (between, request) = this.check(request)?;
        if this.replicated.read(State::is_quarantined) {
            // A section that arrived by this migration gets its record only when the quarantine ends. The sender
            // repeats the request until then.
            return Err(Reason::Quarantined.status("this set was restored and completes no arrival yet"));
        }
        let (id, by) = (MigrationId(request.migration_id), SetId(between.from_set_id));
        this.confirm_end(by, id, MigrationEnd::Completed).await?;
        let complete = Complete { id, by: Some(by) };
        this.replicated.propose(complete).await?.map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(CompleteArrivalResponse { lineage: this.lineage().0 }))
    }

    async fn fence(&self, request: Request<FenceRequest>) -> Result<Response<FenceResponse>, Status> {
        let this = self.0.get()?;
        let (between, request) = this.check(request)?;
        let (set, lineage) = (SetId(between.from_set_id), Lineage(between.from_lineage));
        let page = |state: &State| state.fence_response(set, lineage, SectionId(request.first_section));
        let known = this.replicated.read(page);
        let page = match known {
            // This is the first request of that set, so the fence is proposed. Requests for further pages need no
            // command.
            Err(CommandRefusal::BetweenSets(SetRefusal::FenceNotApplied { .. })) => {
                this.confirm_lineage(set, lineage).await?;
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
        let page = page.map_err(|refusal| refused(&refusal))?;
        let (series, writer) =
            this.replicated.read(|state| (state.series.iter().map(series::with_seed).collect(), writer(state)));
        Ok(Response::new(FenceResponse { series, writer, ..(&page).into() }))
    }

    async fn exchange(&self, request: Request<ExchangeRequest>) -> Result<Response<ExchangeResponse>, Status> {
        let this = self.0.get()?;
        let of_set = sender::peer(&request).and_then(Identity::set).map(str::to_owned);
        let (between, request) = this.check_receiver(request)?;
        let stores = this.replicated.raft().member_addrs();
        let response = this.replicated.read(|state| exchanged(state, stores, &request))?;
        if let Some(facts) = &request.facts {
            let facts = inter_set::facts(facts)?;
            // A set that is not known yet becomes known with the name in its certificate.
            let known = this.known_name(facts.id);
            let named = of_set.is_none_or(|set| set == facts.name && known.is_none_or(|known| set == known));
            if !named || facts.id.0 != between.from_set_id {
                let text = format!(
                    "facts of set {} with name {:?}: a set states its own facts under its own name",
                    facts.id, facts.name
                );
                return Err(Reason::OtherHolder.status(text));
            }
            exchange::learn_facts(this, facts).await?;
        }
        Ok(Response::new(response))
    }

    async fn confirm(&self, request: Request<ConfirmRequest>) -> Result<Response<ConfirmResponse>, Status> {
        let this = self.0.get()?;
        let (_, request) = this.check(request)?;
        this.replicated.raft().check_quorum()?;
        let id = MigrationId(request.migration_id);
        let knows = |state: &State| id == MigrationId(0) || state.migrations.contains_key(&id);
        if !this.replicated.read(knows) {
            // The other set may complete the migration after this response. So a command that starts the migration must
            // not be committed but not yet applied here.
            this.replicated.raft().catch_up().await?;
        }
        this.replicated.read(|state| confirm::confirmed(state, &request)).map(Response::new)
    }

    async fn read_final(&self, request: Request<ReadFinalRequest>) -> Result<Response<FenceResponse>, Status> {
        let this = self.0.get()?;
        let (between, request) = this.check(request)?;
        this.replicated.raft().check_quorum()?;
        let (to, first) = (SetId(between.from_set_id), SectionId(request.first_section));
        let page = this.replicated.read(|state| state.final_records(to, first));
        Ok(Response::new((&page.map_err(|refusal| refused(&refusal))?).into()))
    }
}

/// Request between sets, with a header that names both sets.
trait BetweenSets {
    fn between(&self) -> Option<&v1::Between>;
}

/// Implements [`BetweenSets`] for messages with the field `between`.
macro_rules! between_sets {
    ($($message:ty),*) => {$(
        impl BetweenSets for $message {
            fn between(&self) -> Option<&v1::Between> {
                self.between.as_ref()
            }
        }
    )*};
}

between_sets!(
    ArmRequest,
    ArriveRequest,
    StartReturnRequest,
    CompleteArrivalRequest,
    FenceRequest,
    ExchangeRequest,
    ConfirmRequest,
    ReadFinalRequest
);

impl Between {
    /// Confirms that the sections in the request have departed to this set, proposes their arrival, and returns the
    /// outcome for each section.
    async fn arrive(&self, request: Request<ArriveRequest>) -> Result<Response<ArriveResponse>, Status> {
        let (between, request) = self.check(request)?;
        let arrive = inter_set::arrive(&request, &between)?;
        if self.replicated.read(State::is_quarantined) {
            // The records of the other sets must be learned first.
            let outcomes = vec![ArrivalOutcome::Waits.into(); arrive.sections.len()];
            return Ok(Response::new(ArriveResponse { lineage: self.lineage().0, outcomes }));
        }
        let arrive = self.confirm_arrival(arrive).await?;
        let outcome = self.replicated.propose(arrive).await?;
        let outcomes = outcome.map_err(|refusal| refused(&refusal))?;
        let outcomes = outcomes.into_iter().map(|one| ArrivalOutcome::from(one).into()).collect();
        Ok(Response::new(ArriveResponse { lineage: self.lineage().0, outcomes }))
    }

    /// Checks that this member leads the store of the set to which the request is addressed, and that the sender's
    /// certificate belongs to the set that the request names as its sender. Returns the header and the request.
    ///
    /// # Errors
    /// `OTHER_CLUSTER`, `OTHER_SET`, `NOT_LEADER`; `OTHER_HOLDER` if the certificate is of another set; `UNKNOWN_SET`
    /// if no facts of the sender's set are known.
    fn check<M: BetweenSets>(&self, request: Request<M>) -> Result<(v1::Between, M), Status> {
        let peer = sender::peer(&request).cloned();
        let (between, request) = self.check_receiver(request)?;
        let from = SetId(between.from_set_id);
        let name = self
            .known_name(from)
            .ok_or_else(|| Reason::UnknownSet.status(format!("this set does not know the set {from} yet")))?;
        match peer.filter(|peer| peer.set() != Some(&name)) {
            Some(peer) => Err(Reason::OtherHolder.status(format!("{peer} does not act for set {name:?}"))),
            None => Ok((between, request)),
        }
    }

    /// Checks that the request is addressed to this member's cluster and set, and that this member leads. Returns the
    /// header and the request.
    fn check_receiver<M: BetweenSets>(&self, request: Request<M>) -> Result<(v1::Between, M), Status> {
        let request = request.into_inner();
        let between = request.between().cloned();
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
        Ok((between, request))
    }

    /// Returns the name of another set, or `None` if this set does not know that set's facts yet.
    fn known_name(&self, set: SetId) -> Option<String> {
        self.replicated.read(|state| Some(state.sets.get(&set)?.facts.as_ref()?.name.clone()))
    }

    fn lineage(&self) -> Lineage {
        self.replicated.read(|state| state.lineage)
    }
}

/// Returns the response to a set whose fence was refused. It contains the minimum number of restores that the lineage
/// of that set must count.
fn too_few_restores((lineage, fenced): (u64, u64), least_restores: u32) -> FenceResponse {
    FenceResponse { lineage, fenced, least_restores, ..FenceResponse::default() }
}

/// Returns the response to a request to arm sections: the nodes of this set that can own sections, and for each
/// requested section the node that would own it.
fn arm(state: &State, plan: &Plan, request: &ArmRequest, reserver: &mut Reserver) -> Result<ArmResponse, Status> {
    let sections: Vec<SectionId> = request.sections.iter().copied().map(SectionId).collect();
    let placed = reserver.reserve(plan, state, LayoutId(request.layout_id), &sections);
    let placed = placed.map_err(|refusal| Reason::not_reserved(&refusal).status(refusal.to_string()))?;
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

/// Returns the newest layout writer that this set knows. Returns `None` in formats before 11, in which sets do not
/// adopt a layout writer.
fn writer(state: &State) -> Option<v1::LayoutWriter> {
    state.layout_writer().filter(|_| state.rules >= Rules::Eleven).as_ref().map(v1::LayoutWriter::from)
}

/// Returns the response to an exchange: the facts of this set and of the sets that it knows, and the claims that
/// changed after the route version in the request.
fn exchanged(state: &State, stores: Vec<String>, request: &ExchangeRequest) -> Result<ExchangeResponse, Status> {
    let set = state.set.as_ref().ok_or_else(|| Reason::NoSet.status("the set is not defined yet"))?;
    if request.layout_id != 0 && request.layout_id != set.layout.declared().id().0 {
        let (uids, size) = (set.layout.uids(), set.layout.section_size());
        let text = format!(
            "the layout of cluster and set {:?} is uids {uids:?} in sections of {size}, and the sender has \
             another layout",
            set.name
        );
        return Err(Reason::OtherLayout.status(text));
    }
    let own = state.facts(stores);
    let known = state.sets.values().filter_map(|peer| peer.facts.as_ref());
    let uids = set.layout.uids();
    let lanes = set.layout.declared().sections();
    let (mut claims, mut lane_claims) = (Vec::new(), Vec::new());
    for run in state.directory.since(seq_core::RouteVersion(request.route_version)) {
        let (of_uids, of_lanes) = run.split_at(SectionId(lanes));
        claims.extend(of_uids.as_ref().map(v1::ClaimRun::from));
        lane_claims.extend(of_lanes.as_ref().map(v1::ClaimRun::from));
    }
    Ok(ExchangeResponse {
        sets: own.iter().chain(known).map(v1::SetFacts::from).collect(),
        claims,
        lane_claims,
        // Only the layout writer states the series, because a set states facts only about itself. A set that was the
        // layout writer before also states them, so that the next layout writer can append to them.
        series: state.series.iter().filter(|_| state.states_layout()).map(series::with_seed).collect(),
        writer: writer(state),
        route_version: state.route_version.0,
        uid_start: uids.start,
        uid_end: uids.end,
        section_size: set.layout.section_size(),
    })
}
