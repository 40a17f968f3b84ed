//! Requests of operators to create, list, close and forget sets.
//!
//! **Invariant:** a set is defined once, with an id that no other set has. A set that joins a cluster has the same
//! layout as the cluster, and a name that no other set known to the cluster has.

use seq_auth::ExpectedServer;
use seq_core::plan::Fingerprint;
use seq_core::set_spec::Genesis;
use seq_core::state::{Close, Closing, EventKind, EventRecord, Forget, PeerSet, Rules, SetDefinition, SetFacts, State};
use seq_core::{Lineage, SetId};
use seq_proto::v1::{
    self, CloseSetRequest, CloseSetResponse, CreateSetRequest, CreateSetResponse, ExchangeRequest, ExchangeResponse,
    ForgetSetRequest, ForgetSetResponse, ListSetsRequest, ListSetsResponse, SetInfo, SetState,
};
use seq_proto::{Reason, status};
use tonic::Status;

use super::{SetAdmin, name_of, refused};
use crate::between::exchange::{self, Stated};
use crate::between::link::Member;
use crate::preconditions::{self, Required};

impl SetAdmin {
    pub(super) async fn create_set(&self, request: CreateSetRequest) -> Result<CreateSetResponse, Status> {
        self.linearize().await?;
        self.check_name(&request.name)?;
        self.check_genesis(&request.join)?;
        let stored = self.between.replicated.read(|state| Some((state.set.as_ref()?.id, state.sets.is_empty())));
        let joins = self.declared.genesis == Genesis::Create && !request.join.is_empty();
        match stored {
            // An earlier creation was interrupted: the set is defined, but it does not know any other set.
            Some((id, true)) if joins => {
                let known = self.join(id, &request.join).await?;
                self.learn(&known).await?;
            }
            Some((id, _)) => return Err(self.exists(id)),
            None => self.define(&request.join).await?,
        }
        let set = self.read(|state, set| self.own_info(state, set))?;
        let event = EventKind::SetDefined.name();
        tracing::info!(event, set = set.name, id = set.id, sections = set.sections, "the set is created");
        Ok(CreateSetResponse { set: Some(set) })
    }

    async fn define(&self, join: &[String]) -> Result<(), Status> {
        let definition = self.declared.define();
        let id = definition.id;
        let known = if join.is_empty() { None } else { Some(self.join(id, join).await?) };
        self.between.replicated.propose(definition).await?.map_err(|refusal| refused(&refusal))?;
        let stored = self.read(|_, set| set.id)?;
        if stored != id {
            return Err(self.exists(stored));
        }
        match known {
            Some(known) => self.learn(&known).await,
            None => Ok(()),
        }
    }

    /// Learns the facts of the set through which this set joins the cluster, and then asks the other sets that are
    /// named in its statements.
    async fn learn(&self, known: &Stated) -> Result<(), Status> {
        exchange::learn(&self.between, known).await?;
        exchange::introduce(&self.between, &known.others).await;
        Ok(())
    }

    fn exists(&self, id: SetId) -> Status {
        Reason::SetExists.status(format!("set {:?} exists already, with id {id}", self.declared.name))
    }

    fn check_genesis(&self, join: &[String]) -> Result<(), Status> {
        let given = if join.is_empty() { Genesis::Init } else { Genesis::Create };
        let declared = self.declared.genesis;
        // If the set already exists, the error about its existence is returned instead.
        if declared == given || self.between.replicated.read(|state| state.set.is_some()) {
            return Ok(());
        }
        let (name, declared, given) = (&self.declared.name, declared.name(), given.name());
        let text = format!("the set file of {name:?} has genesis = {declared:?}, and the command is for {given:?}");
        Err(Reason::OtherGenesis.status(text))
    }

    /// Requests the facts of a cluster from the store of one of its sets, whose addresses are `stores`. Checks that
    /// this set has the layout of the cluster and that no other set has its name. `id` is the id of this set.
    async fn join(&self, id: SetId, stores: &[String]) -> Result<Stated, Status> {
        let layout = &self.declared.layout;
        let request = ExchangeRequest {
            between: Some(v1::Between {
                cluster: self.between.cluster.to_string(),
                from_set_id: id.0,
                from_lineage: Lineage::default().0,
                to_set_id: 0,
            }),
            facts: None,
            route_version: 0,
            layout_id: layout.declared().id().0,
        };
        let method = async |mut member: Member, request| member.exchange(request).await;
        let response =
            self.between.links.call_at(ExpectedServer::store(), stores, request, method).await.map_err(|refusal| {
                if status::reason(&refusal).is_some() {
                    return refusal;
                }
                let text = format!("no set responds at {}: {}", stores.join(", "), refusal.message());
                Reason::SetUnavailable.status(text)
            })?;
        self.check_layout(&response)?;
        let stated = Stated::decode(&response, layout.sections())?;
        let is_taken = |facts: &&SetFacts| facts.name == self.declared.name && facts.id != id;
        if let Some(taken) = stated.others.iter().chain([&stated.facts]).find(is_taken) {
            let text = format!("set {} of the cluster has the name {:?} already", taken.id, taken.name);
            return Err(Reason::SetNameTaken.status(text));
        }
        Ok(stated)
    }

    /// Compares the layout in the set file with the cluster's layout in the response. The request contains only a hash
    /// of the layout, but the response contains its numbers, so the error can show both layouts.
    fn check_layout(&self, response: &ExchangeResponse) -> Result<(), Status> {
        let (uids, size) = (self.declared.layout.uids(), self.declared.layout.section_size());
        let theirs = (response.uid_start..response.uid_end, response.section_size);
        if (&uids, size) == (&theirs.0, theirs.1) {
            return Ok(());
        }
        let text = format!(
            "the set file has uids {uids:?} in sections of {size}, and the cluster has {:?} in sections of {}",
            theirs.0, theirs.1
        );
        Err(Reason::OtherLayout.status(text))
    }

    pub(super) async fn list_sets(&self, _: ListSetsRequest) -> Result<ListSetsResponse, Status> {
        self.linearize().await?;
        self.read(|state, set| {
            let mut others = self.others(state, set);
            others.insert(0, self.own_info(state, set));
            ListSetsResponse { sets: others, plans: true }
        })
    }

    /// Returns the other sets that this set knows, ordered by name.
    pub(crate) fn others(&self, state: &State, own: &SetDefinition) -> Vec<SetInfo> {
        let info = |peer: &PeerSet| Some(self.info(state, own, peer.facts.as_ref()?));
        let mut others: Vec<SetInfo> = state.sets.values().filter_map(info).collect();
        others.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
        others
    }

    /// Returns the description of another set, as far as this set knows it.
    fn info(&self, state: &State, own: &SetDefinition, facts: &SetFacts) -> SetInfo {
        let claims = state.directory.runs().filter(|run| run.claim.set == facts.id);
        let responded = self.between.links.responded(facts.id);
        SetInfo {
            id: facts.id.0,
            name: facts.name.clone(),
            lineage: facts.lineage.0,
            sections: claims.map(|run| run.sections.sections).sum(),
            stores: facts.stores.clone(),
            allocs: facts.allocs.clone(),
            state: set_state(facts.closing).into(),
            responded_ms: responded.map_or(0, |ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX).max(1)),
            writes_series: is_writer(state, facts.id),
            ..layout_info(own)
        }
    }

    fn own_info(&self, state: &State, set: &SetDefinition) -> SetInfo {
        let quarantined = state.is_quarantined();
        SetInfo {
            id: set.id.0,
            name: set.name.clone(),
            lineage: state.lineage.0,
            sections: state.sections.residents().count() as u32,
            stores: self.between.replicated.raft().member_addrs(),
            allocs: state.nodes.iter().map(|node| node.addr.clone()).collect(),
            state: if quarantined { SetState::Quarantined } else { set_state(state.closing) }.into(),
            responded_ms: 0,
            writes_series: is_writer(state, set.id) && state.writes_series(),
            ..layout_info(set)
        }
    }

    pub(super) async fn close_set(&self, request: CloseSetRequest) -> Result<CloseSetResponse, Status> {
        self.linearize().await?;
        self.check_name(&request.name)?;
        let required = Required::new(request.dry_run, request.plan);
        let before = self.read(|state, _| state.closing)?;
        let (closing, plan) = self.close(required).await?;
        if !request.dry_run {
            let record = EventRecord::Closing { closed: closing == Closing::Closed };
            let event = (closing > before).then(|| record.kind().name());
            tracing::info!(event, set = request.name, ?closing, "the set takes no more sections");
        }
        let waiting_for = self.read(|state, _| match state.closing {
            Closing::Open | Closing::Closed => Vec::new(),
            Closing::Closing => state.closing_waits_for().map(|set| name_of(state, set)).collect(),
        })?;
        Ok(CloseSetResponse { state: set_state(closing).into(), waiting_for, fingerprint: plan.0 })
    }

    pub(super) async fn forget_set(&self, request: ForgetSetRequest) -> Result<ForgetSetResponse, Status> {
        self.linearize().await?;
        self.check_name(&request.name)?;
        let (set, required) = (SetId(request.forget_id), Required::new(request.dry_run, request.plan));
        if self.read(|state, _| state.rules)? < Rules::Eight {
            let text = "the group's format is below 8, which has no such command: `seqsvr store upgrade` raises it";
            return Err(Reason::OtherFormat.status(text));
        }
        let _change = required.begin(self.between.replicated.raft()).await?;
        let (known, plan) = self.read(|state, _| (state.sets.contains_key(&set), preconditions::forget(state, set)))?;
        if !required.dry_run {
            required.check(plan)?;
            self.between.replicated.propose(Forget { set }).await?.map_err(|refusal| refused(&refusal))?;
        }
        Ok(ForgetSetResponse { known, fingerprint: plan.0 })
    }

    /// Closes the set. Unless the set is already closing, the fingerprint in the request must equal the fingerprint of
    /// the plan that is computed now. So a request can be repeated after its change was made. Returns the state of the
    /// set, and the fingerprint of the plan, computed before the change.
    async fn close(&self, required: Required) -> Result<(Closing, Fingerprint), Status> {
        let (closing, plan) = self.read(|state, _| (state.closing, preconditions::close(state)))?;
        if required.dry_run {
            self.read(|state, _| state.check_close())?.map_err(|refusal| refused(&refusal))?;
            return Ok((closing, plan));
        }
        if closing > Closing::Open {
            let closing = self.between.replicated.propose(Close).await?.map_err(|refusal| refused(&refusal))?;
            return Ok((closing, plan));
        }
        let _change = required.begin(self.between.replicated.raft()).await?;
        let (closing, plan) = self.read(|state, _| (state.closing, preconditions::close(state)))?;
        if closing == Closing::Open {
            required.check(plan)?;
        }
        let closing = self.between.replicated.propose(Close).await?.map_err(|refusal| refused(&refusal))?;
        Ok((closing, plan))
    }
}

/// Converts the state of a set to the value that operators see.
pub(crate) fn set_state(closing: Closing) -> SetState {
    match closing {
        Closing::Open => SetState::Open,
        Closing::Closing => SetState::Closing,
        Closing::Closed => SetState::Closed,
    }
}

/// Returns whether `set` is the layout writer, as far as this set knows. Returns false in formats without series.
fn is_writer(state: &State, set: SetId) -> bool {
    state.rules >= Rules::Eleven && state.layout_writer().is_some_and(|writer| writer.set == set)
}

/// Returns a set's description in which only the layout is set. All sets of a cluster have the same layout.
fn layout_info(set: &SetDefinition) -> SetInfo {
    let uids = set.layout.uids();
    let (layout_id, section_size) = (set.layout.id().0, set.layout.section_size());
    let lane_sections = set.layout.lanes().map(|(_, run)| run.sections).sum();
    SetInfo { layout_id, uid_start: uids.start, uid_end: uids.end, section_size, lane_sections, ..SetInfo::default() }
}
