//! The service for operators who change a store's members: checks the form of a request, and tells what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use seq_core::limits;
use seq_core::state::SetDefinition;
use seq_proto::v1::store_admin_service_server::StoreAdminService;
use seq_proto::v1::{
    AddLearnersRequest, AddLearnersResponse, ChangeVotersRequest, ChangeVotersResponse, ListMembersRequest,
    ListMembersResponse, MemberState, NewMember, TransferLeaderRequest, TransferLeaderResponse,
};
use tonic::{Request, Response, Status};

use crate::gate::Gate;
use crate::member_changes::{MemberChanges, Seen};
use crate::members::{MAX_VOTERS, Refusal, Wish};
use crate::nonce::Fingerprint;
use crate::quorum::Quorum;
use crate::standing;
use crate::status::{ms, us};
use crate::types::Member;

/// What the service works on.
pub(crate) struct StoreAdmin {
    pub(crate) set: Arc<SetDefinition>,
    pub(crate) changes: MemberChanges,
    pub(crate) quorum: Quorum,
}

impl StoreAdmin {
    fn check_set(&self, given: &str) -> Result<(), Refusal> {
        if given == self.set.name {
            return Ok(());
        }
        Err(Refusal::OtherSet { mine: self.set.name.clone(), given: given.to_owned() })
    }

    fn answer(&self, seen: Seen) -> ListMembersResponse {
        let membership = seen.list.membership();
        let sight = self.quorum.sight();
        let member = |(id, member): (&u64, &Member)| MemberState {
            id: *id,
            name: member.name.clone(),
            addr: member.addr.clone(),
            voter: seen.group.voters.contains(id),
            live: seen.group.live.contains(id),
            lag: seen.lags[id],
            caught_up: seen.group.caught_up.contains(id),
            round_trip_us: self.quorum.round_trip(*id).map_or(0, us),
        };
        ListMembersResponse {
            set: self.set.name.clone(),
            leader: seen.group.leader,
            membership: standing::number(&seen.list),
            changing: membership.get_joint_config().len() > 1,
            last_log_index: seen.last_log_index,
            members: membership.nodes().map(member).collect(),
            used_ids: seen.group.used.iter().copied().collect(),
            quorum: sight.has_quorum(),
            quorum_lost_ms: ms(sight.lost()),
        }
    }
}

#[tonic::async_trait]
impl StoreAdminService for Gate<StoreAdmin> {
    async fn list_members(&self, _: Request<ListMembersRequest>) -> Result<Response<ListMembersResponse>, Status> {
        let admin = self.get()?;
        Refusal::check_leader(&admin.quorum.sight())?;
        let seen = admin.changes.seen()?;
        Ok(Response::new(admin.answer(seen)))
    }

    async fn add_learners(
        &self,
        request: Request<AddLearnersRequest>,
    ) -> Result<Response<AddLearnersResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.sight())?;
        let added = admin.changes.add(read(request.members)?).await?;
        Ok(Response::new(AddLearnersResponse { added }))
    }

    async fn change_voters(
        &self,
        request: Request<ChangeVotersRequest>,
    ) -> Result<Response<ChangeVotersResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.sight())?;
        let wish = Wish {
            add: request.add.into_iter().collect(),
            remove: request.remove.into_iter().collect(),
            allow_even: request.allow_even,
            foresee: request.dry_run,
        };
        let (voters, changed) = admin.changes.change(&wish).await?;
        Ok(Response::new(ChangeVotersResponse { voters: voters.into_iter().collect(), changed }))
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderResponse>, Status> {
        let (admin, request) = (self.get()?, request.into_inner());
        admin.check_set(&request.set)?;
        Refusal::check_quorum(&admin.quorum.sight())?;
        let leader = admin.changes.lead(request.to).await?;
        Ok(Response::new(TransferLeaderResponse { leader }))
    }
}

fn read(members: Vec<NewMember>) -> Result<BTreeMap<u64, Member>, Refusal> {
    let count = members.len();
    if !(1..=MAX_VOTERS).contains(&count) {
        return Err(Refusal::BadCount { count });
    }
    let mut read = BTreeMap::new();
    for NewMember { id, name, addr } in members {
        if id == 0 {
            return Err(Refusal::BadId);
        }
        if name.is_empty() || name.len() > limits::MAX_NAME_BYTES {
            return Err(Refusal::BadName { id, name });
        }
        let port = addr.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) || addr.len() > limits::MAX_ADDR_BYTES {
            return Err(Refusal::BadAddr { id, addr });
        }
        // Asked of the member itself once the request is known to be whole.
        read.insert(id, Member { name, addr, fingerprint: Fingerprint::NONE });
    }
    Ok(read)
}
