//! Service with which operators list and change the members of a store. The service checks the form of each request,
//! passes it to [`MemberChanges`], and returns the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use seq_core::limits;
use seq_core::plan::Fingerprint;
use seq_proto::v1::store_admin_service_server::StoreAdminService;
use seq_proto::v1::{
    AddLearnersRequest, AddLearnersResponse, ChangeVotersRequest, ChangeVotersResponse, ListMembersRequest,
    ListMembersResponse, MemberState, NewMember, RaiseFormatRequest, RaiseFormatResponse, TransferLeaderRequest,
    TransferLeaderResponse,
};
use tonic::{Request, Response, Status};

use super::changes::{ChangedVoters, MemberChanges, Observed};
use super::format::FormatRaise;
use super::plan::{MAX_VOTERS, MembershipRequest, Refusal};
use crate::gate::Gate;
use crate::leadership::quorum::Quorum;
use crate::membership_status;
use crate::nonce;
use crate::transport::{ms, us};
use crate::types::Member;

/// The service, once the member is loaded.
pub struct MemberAdmin {
    /// Name of the set, which every request for a change must contain.
    pub(crate) set: Arc<str>,
    pub(crate) changes: MemberChanges,
    pub(crate) quorum: Quorum,
}

impl MemberAdmin {
    fn check_set(&self, given: &str) -> Result<(), Refusal> {
        if given == &*self.set {
            return Ok(());
        }
        Err(Refusal::OtherSet { mine: self.set.to_string(), given: given.to_owned() })
    }

    fn list(&self, observed: Observed) -> ListMembersResponse {
        let membership = observed.list.membership();
        let quorum = self.quorum.status();
        let member = |(id, member): (&u64, &Member)| MemberState {
            id: *id,
            name: member.name.clone(),
            // The address at which this member connects to the other, as in its status.
            addr: self.changes.addr(*id, member),
            voter: observed.group.voters.contains(id),
            live: observed.group.live.contains(id),
            lag: observed.lags[id],
            caught_up: observed.group.caught_up.contains(id),
            round_trip_us: self.quorum.round_trip(*id).map_or(0, us),
            newest_format: self.changes.newest_format(*id).into(),
        };
        ListMembersResponse {
            set: self.set.to_string(),
            leader: observed.group.leader,
            membership: membership_status::number(&observed.list),
            changing: membership.get_joint_config().len() > 1,
            last_log_index: observed.last_log_index,
            members: membership.nodes().map(member).collect(),
            used_ids: observed.group.used.iter().copied().collect(),
            quorum: quorum.has_quorum(),
            quorum_lost_ms: ms(quorum.lost()),
            format: self.changes.format().into(),
            plans: true,
        }
    }
}

#[tonic::async_trait]
impl StoreAdminService for Gate<MemberAdmin> {
    async fn list_members(&self, _: Request<ListMembersRequest>) -> Result<Response<ListMembersResponse>, Status> {
        let admin = self.get()?;
        Refusal::check_leader(&admin.quorum.status())?;
        let observed = admin.changes.observe()?;
        Ok(Response::new(admin.list(observed)))
    }

    async fn add_learners(
        &self,
        request: Request<AddLearnersRequest>,
    ) -> Result<Response<AddLearnersResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.status())?;
        let required = (request.dry_run, Fingerprint(request.plan));
        let (added, fingerprint) = admin.changes.add(read(request.members)?, required).await?;
        Ok(Response::new(AddLearnersResponse { added, fingerprint: fingerprint.0 }))
    }

    async fn change_voters(
        &self,
        request: Request<ChangeVotersRequest>,
    ) -> Result<Response<ChangeVotersResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.status())?;
        let change = MembershipRequest {
            add: request.add.into_iter().collect(),
            remove: request.remove.into_iter().collect(),
            allow_even: request.allow_even,
            dry_run: request.dry_run,
            required: Fingerprint(request.plan),
        };
        let ChangedVoters { voters, changed, fingerprint } = admin.changes.change(&change).await?;
        let voters = voters.into_iter().collect();
        Ok(Response::new(ChangeVotersResponse { voters, changed, fingerprint: fingerprint.0 }))
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.status())?;
        let required = (request.dry_run, Fingerprint(request.plan));
        let (leader, fingerprint) = admin.changes.transfer_to(request.to, required).await?;
        Ok(Response::new(TransferLeaderResponse { leader, fingerprint: fingerprint.0 }))
    }

    async fn raise_format(
        &self,
        request: Request<RaiseFormatRequest>,
    ) -> Result<Response<RaiseFormatResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.status())?;
        let required = (request.dry_run, Fingerprint(request.plan));
        let (FormatRaise { from, to }, fingerprint) = admin.changes.raise_format(required).await?;
        Ok(Response::new(RaiseFormatResponse { from: from.into(), to: to.into(), fingerprint: fingerprint.0 }))
    }
}

fn read(members: Vec<NewMember>) -> Result<BTreeMap<u64, Member>, Refusal> {
    let count = members.len();
    if !(1..=MAX_VOTERS).contains(&count) {
        return Err(Refusal::BadCount { count });
    }
    let mut read = BTreeMap::new();
    for NewMember { id, name, addr, raft_addr } in members {
        if id == 0 {
            return Err(Refusal::BadId);
        }
        if name.is_empty() || name.len() > limits::MAX_NAME_BYTES {
            return Err(Refusal::BadName { id, name });
        }
        let raft_addr = if raft_addr.is_empty() { addr.clone() } else { raft_addr };
        for addr in [&addr, &raft_addr] {
            let port = addr.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none_or(|port| port == 0) || addr.len() > limits::MAX_ADDR_BYTES {
                return Err(Refusal::BadAddr { id, addr: addr.clone() });
            }
        }
        // The leader requests the fingerprint from the member itself after the whole request is checked.
        read.insert(id, Member { name, addr, raft_addr, fingerprint: nonce::Fingerprint::NONE });
    }
    Ok(read)
}
