//! Requests of the gRPC service `SetAdminService` to the leader of a set's store.
//!
//! **Invariant:** if the response to a request is lost, the client may send the request again, and the leader returns
//! the same response.

use std::time::Duration;

use seq_proto::reason::Reason;
use seq_proto::status;
use seq_proto::v1::set_admin_service_client::SetAdminServiceClient as SetAdmin;
use seq_proto::v1::{
    CloseSetRequest, CloseSetResponse, CompleteMigrationRequest, CreateSetRequest, ForgetSetRequest, ForgetSetResponse,
    ListMigrationsRequest, ListSectionsRequest, ListSectionsResponse, ListSetsRequest, MigrationPace, MigrationPlan,
    MigrationStatus, PlanMigrationRequest, PlanMigrationResponse, RollbackMigrationRequest, SetInfo, SetPaceRequest,
    StartMigrationRequest,
};
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::{CHANGE_TIMEOUT, READ_TIMEOUT, StoreClient, refused, timed};
use crate::exit::{Exit, Failure};
use crate::plan::Mode;

/// Timeout of the request for a migration's plan. It is long because the leader of the source set's store itself sends
/// a request to the store of the target set, which may be far away.
const PLAN_TIMEOUT: Duration = Duration::from_secs(10);

/// Reasons of refusals that concern the whole set, not only the member that responds. The client does not try another
/// member after such a refusal, because every member would refuse the request for the same reason.
const FINAL: [Reason; 4] = [Reason::NoSet, Reason::SetUnavailable, Reason::NoCandidate, Reason::Quarantined];

impl StoreClient {
    /// Requests a list of the store's own set, followed by the other sets that the store knows. Returns `None` if no
    /// set is defined in the store yet. If the set's name is not known yet, the client adopts the name in the response.
    pub async fn sets(&mut self) -> anyhow::Result<Option<Vec<SetInfo>>> {
        let list = self.admin(READ_TIMEOUT, async |mut to| to.list_sets(ListSetsRequest {}).await).await?;
        let sets = match list {
            Ok(list) => {
                self.plans = Some(list.plans);
                list.sets
            }
            Err(status) if status::known_reason(&status) == Some(Reason::NoSet) => return Ok(None),
            Err(status) => return Err(refusal(&status).into()),
        };
        let Some(own) = sets.first() else {
            return Err(Failure::new(Exit::Failed, "the store responds with no set, not even its own").into());
        };
        self.learn_set(&own.name)?;
        Ok(Some(sets))
    }

    /// Defines the set `name` in a store that has no set. The new set joins the cluster of another set, whose StoreSvrs
    /// have the addresses `join`.
    pub async fn create_set(&mut self, name: &str, join: Vec<String>) -> anyhow::Result<SetInfo> {
        let request = CreateSetRequest { name: name.to_owned(), join };
        let response = self.change(async |mut to, limit| to.create_set(timed(request.clone(), limit)).await).await?;
        given(response.set, "set")
    }

    /// Closes this set, or reports the progress of its close.
    pub async fn close_set(&mut self, name: &str, mode: Mode) -> anyhow::Result<CloseSetResponse> {
        let (dry_run, plan) = mode.fields();
        let request = CloseSetRequest { name: name.to_owned(), dry_run, plan };
        self.change(async |mut to, limit| to.close_set(timed(request.clone(), limit)).await).await
    }

    /// Requests that this set forgets another set, which has the name `name` and the id `set`.
    pub async fn forget_set(&mut self, name: &str, set: u64, mode: Mode) -> anyhow::Result<ForgetSetResponse> {
        let (dry_run, plan) = mode.fields();
        let request = ForgetSetRequest { name: name.to_owned(), forget_id: set, dry_run, plan };
        self.change(async |mut to, limit| to.forget_set(timed(request.clone(), limit)).await).await
    }

    /// Plans a migration from this set, without any change.
    pub async fn plan(&mut self, request: PlanMigrationRequest) -> anyhow::Result<PlanMigrationResponse> {
        let response = self.admin(PLAN_TIMEOUT, async |mut to| to.plan_migration(request.clone()).await).await?;
        Ok(response.map_err(|status| refusal(&status))?)
    }

    /// Starts a planned migration.
    pub async fn start_migration(
        &mut self,
        plan: MigrationPlan,
        pace: MigrationPace,
    ) -> anyhow::Result<MigrationStatus> {
        let request = StartMigrationRequest { plan: Some(plan), pace: Some(pace) };
        let response =
            self.change(async |mut to, limit| to.start_migration(timed(request.clone(), limit)).await).await?;
        given(response.migration, "migration")
    }

    /// Changes the pace of a migration.
    pub async fn set_pace(&mut self, id: u64, pace: MigrationPace) -> anyhow::Result<MigrationStatus> {
        let request = SetPaceRequest { id, pace: Some(pace) };
        let response = self.change(async |mut to, limit| to.set_pace(timed(request, limit)).await).await?;
        given(response.migration, "migration")
    }

    /// Rolls a migration back.
    pub async fn rollback(&mut self, id: u64) -> anyhow::Result<MigrationStatus> {
        let request = RollbackMigrationRequest { id };
        let response = self.change(async |mut to, limit| to.rollback_migration(timed(request, limit)).await).await?;
        given(response.migration, "migration")
    }

    /// Completes a migration.
    pub async fn complete(&mut self, id: u64) -> anyhow::Result<MigrationStatus> {
        let request = CompleteMigrationRequest { id };
        let response = self.change(async |mut to, limit| to.complete_migration(timed(request, limit)).await).await?;
        given(response.migration, "migration")
    }

    /// Requests a list of the migrations that began in this set, in the order in which they began. If `id` is given,
    /// the list has only the migration with this id.
    pub async fn migrations(&mut self, id: Option<u64>) -> anyhow::Result<Vec<MigrationStatus>> {
        let request = ListMigrationsRequest { id: id.unwrap_or(0) };
        let response = self.admin(READ_TIMEOUT, async |mut to| to.list_migrations(request).await).await?;
        Ok(response.map_err(|status| refusal(&status))?.migrations)
    }

    /// Requests a migration that began in this set.
    pub async fn migration(&mut self, id: u64) -> anyhow::Result<MigrationStatus> {
        given(self.migrations(Some(id)).await?.into_iter().find(|migration| migration.id == id), "migration")
    }

    /// Requests a page of the records of sections.
    pub async fn sections(&mut self, request: ListSectionsRequest) -> anyhow::Result<ListSectionsResponse> {
        let response = self.admin(READ_TIMEOUT, async |mut to| to.list_sections(request).await).await?;
        Ok(response.map_err(|status| refusal(&status))?)
    }

    /// Sends a request for a change as [`StoreClient::admin`] does. The deadline of the request is the timeout of a
    /// change, or the remaining time of the command if that is shorter.
    async fn change<T>(
        &mut self,
        send: impl AsyncFn(SetAdmin<Channel>, Duration) -> Result<Response<T>, Status>,
    ) -> anyhow::Result<T> {
        let limit = self.left().min(CHANGE_TIMEOUT);
        let response = self.admin(CHANGE_TIMEOUT, async |to| send(to, limit).await).await?;
        Ok(response.map_err(|status| refusal(&status))?)
    }

    /// Sends a request as [`StoreClient::call`] does. But if a member refuses it for a reason in [`FINAL`], the
    /// function returns the refusal as the inner error without trying another member.
    async fn admin<T>(
        &mut self,
        limit: Duration,
        send: impl AsyncFn(SetAdmin<Channel>) -> Result<Response<T>, Status>,
    ) -> anyhow::Result<Result<T, Status>> {
        self.call(limit, async |to| match send(SetAdmin::new(to)).await {
            Ok(response) => Ok(Response::new(Ok(response.into_inner()))),
            Err(status) if status::known_reason(&status).is_some_and(|reason| FINAL.contains(&reason)) => {
                Ok(Response::new(Err(status)))
            }
            Err(status) => Err(status),
        })
        .await
    }
}

fn refusal(status: &Status) -> Failure {
    refused(&status::reason(status).unwrap_or_default(), status)
}

fn given<T>(field: Option<T>, name: &str) -> anyhow::Result<T> {
    Ok(field.ok_or_else(|| Failure::new(Exit::Failed, format!("the response of the store has no {name}")))?)
}
