//! Requests that change a set's members, AllocSvrs or terms. Each of them is sent either as a dry run or with the
//! fingerprint of the plan that it requires.
//!
//! **Invariant:** if the response to a request is lost, the client sends the request again with the same fingerprint.
//! If the leader has made the change already, it responds that there was nothing to do.

use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient as NodeAdmin;
use seq_proto::v1::store_admin_service_client::StoreAdminServiceClient as StoreAdmin;
use seq_proto::v1::{
    AddLearnersRequest, AddLearnersResponse, ChangeVotersRequest, ChangeVotersResponse, DrainNodeRequest,
    DrainNodeResponse, MoveSectionsRequest, MoveSectionsResponse, NewMember, PauseBalancingRequest,
    PauseBalancingResponse, RaiseFormatRequest, RaiseFormatResponse, SetTermsRequest, SetTermsResponse,
    TransferLeaderRequest, TransferLeaderResponse,
};

use super::{CHANGE_TIMEOUT, READ_TIMEOUT, StoreClient, timed};
use crate::plan::{Mode, PlanArgs, no_plans};

/// Sends a request with its own timeout.
macro_rules! send {
    ($self:ident, $limit:expr, $client:ident . $method:ident, $request:expr) => {{
        let (request, limit) = ($request, $limit);
        $self.call(limit, async |to| $client::new(to).$method(timed(request.clone(), limit)).await).await
    }};
}

impl StoreClient {
    /// Returns whether the store supports dry runs. An older release does not know the field `dry_run`, so it would
    /// make the change of a dry run. For such a store, the command requests the change directly, without a dry run and
    /// without a fingerprint.
    ///
    /// # Errors
    /// The store supports no dry runs, but the arguments request a dry run or require a plan.
    pub async fn can_show(&mut self, args: PlanArgs) -> anyhow::Result<bool> {
        let can = self.compares_plans().await?;
        if !can && (args.dry_run || args.required.is_some()) { Err(no_plans().into()) } else { Ok(can) }
    }

    /// Adds members without a vote.
    pub async fn add_learners(&mut self, members: &[NewMember], mode: Mode) -> anyhow::Result<AddLearnersResponse> {
        let (dry_run, plan) = mode.fields();
        let request = AddLearnersRequest { set: self.set.clone(), members: members.to_vec(), dry_run, plan };
        send!(self, self.change_limit(), StoreAdmin.add_learners, request)
    }

    /// Adds and removes voters.
    pub async fn change_voters(
        &mut self,
        request: &ChangeVotersRequest,
        mode: Mode,
    ) -> anyhow::Result<ChangeVotersResponse> {
        let (dry_run, plan) = mode.fields();
        let request = ChangeVotersRequest { set: self.set.clone(), dry_run, plan, ..request.clone() };
        send!(self, self.change_limit(), StoreAdmin.change_voters, request)
    }

    /// Transfers leadership.
    pub async fn transfer(&mut self, to: u64, mode: Mode) -> anyhow::Result<TransferLeaderResponse> {
        let (dry_run, plan) = mode.fields();
        let request = TransferLeaderRequest { set: self.set.clone(), to, dry_run, plan };
        send!(self, self.change_limit(), StoreAdmin.transfer_leader, request)
    }

    /// Raises the format of the store's log and state.
    pub async fn raise_format(&mut self, mode: Mode) -> anyhow::Result<RaiseFormatResponse> {
        let (dry_run, plan) = mode.fields();
        let request = RaiseFormatRequest { set: self.set.clone(), dry_run, plan };
        send!(self, self.change_limit(), StoreAdmin.raise_format, request)
    }

    /// Drains the AllocSvr `node` if `drained` is true, otherwise ends its drain. `together` names other AllocSvrs that
    /// the same change drains.
    pub async fn drain(
        &mut self,
        node: &str,
        drained: bool,
        together: &[String],
        mode: Mode,
    ) -> anyhow::Result<DrainNodeResponse> {
        let (dry_run, plan) = mode.fields();
        let (set, node, together) = (self.set.clone(), node.to_owned(), together.to_vec());
        let request = DrainNodeRequest { set, node, drained, dry_run, plan, together };
        let limit = if dry_run { READ_TIMEOUT } else { self.change_limit() };
        send!(self, limit, NodeAdmin.drain_node, request)
    }

    /// Moves sections to the AllocSvr `node`. If `node` is empty, ends the moves that operators requested earlier for
    /// these sections, so that balancing may place the sections.
    pub async fn move_sections(
        &mut self,
        sections: &[u32],
        node: &str,
        mode: Mode,
    ) -> anyhow::Result<MoveSectionsResponse> {
        let (dry_run, plan) = mode.fields();
        let (set, node, sections) = (self.set.clone(), node.to_owned(), sections.to_vec());
        let request = MoveSectionsRequest { set, sections, node, dry_run, plan };
        let limit = if dry_run { READ_TIMEOUT } else { self.change_limit() };
        send!(self, limit, NodeAdmin.move_sections, request)
    }

    /// Begins or ends a pause of balancing.
    pub async fn pause_balancing(&mut self, paused: bool, mode: Mode) -> anyhow::Result<PauseBalancingResponse> {
        let (dry_run, plan) = mode.fields();
        let request = PauseBalancingRequest { set: self.set.clone(), paused, dry_run, plan };
        let limit = if dry_run { READ_TIMEOUT } else { self.change_limit() };
        send!(self, limit, NodeAdmin.pause_balancing, request)
    }

    /// Requests the set's lease terms.
    pub async fn terms(&mut self) -> anyhow::Result<SetTermsResponse> {
        let request = SetTermsRequest { set: self.set.clone(), ..SetTermsRequest::default() };
        send!(self, READ_TIMEOUT, NodeAdmin.set_terms, request)
    }

    /// Changes the set's lease terms.
    pub async fn set_terms(&mut self, lease_wait_ms: u64, mode: Mode) -> anyhow::Result<SetTermsResponse> {
        let (dry_run, plan) = mode.fields();
        let request = SetTermsRequest { set: self.set.clone(), lease_wait_ms, dry_run, plan };
        send!(self, self.change_limit(), NodeAdmin.set_terms, request)
    }

    fn change_limit(&self) -> std::time::Duration {
        self.left().min(CHANGE_TIMEOUT)
    }
}
