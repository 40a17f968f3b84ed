//! Services with which operators create and close sets, migrate sections between sets, and create and retire series.
//!
//! | module | subject |
//! |---|---|
//! | `sets` | creating, listing and closing sets |
//! | `plan` | checks of a migration and of its possible rollback, before it starts |
//! | `migrations` | starting, pacing, ending and listing migrations |
//! | `sections` | listing the records of sections |
//! | `series` | creating and retiring series |
//! | `keyspaces` | creating keyspaces |
//! | `layout_writer` | making another set the layout writer |
//!
//! **Invariant:** only a leader with a majority responds. Every change is one command in the log. A request that is
//! refused has changed nothing, and the error names the obstacle.

use std::sync::Arc;

use seq_core::SetId;
use seq_core::state::{CommandRefusal, SetDefinition, State};
use seq_proto::Reason;
use seq_proto::v1::keyspace_admin_service_server::KeyspaceAdminService;
use seq_proto::v1::series_admin_service_server::SeriesAdminService;
use seq_proto::v1::set_admin_service_server::SetAdminService;
use seq_proto::v1::{
    CloseSetRequest, CloseSetResponse, CompleteMigrationRequest, CompleteMigrationResponse, CreateKeyspaceRequest,
    CreateKeyspaceResponse, CreateSeriesRequest, CreateSeriesResponse, CreateSetRequest, CreateSetResponse,
    ForgetSetRequest, ForgetSetResponse, ListMigrationsRequest, ListMigrationsResponse, ListSectionsRequest,
    ListSectionsResponse, ListSetsRequest, ListSetsResponse, PlanMigrationRequest, PlanMigrationResponse,
    RetireSeriesRequest, RetireSeriesResponse, RollbackMigrationRequest, RollbackMigrationResponse,
    SetLayoutWriterRequest, SetLayoutWriterResponse, SetPaceRequest, SetPaceResponse, StartMigrationRequest,
    StartMigrationResponse,
};
use seq_raft::Gate;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::between::Between;
use crate::between::progress::Progress;
use crate::definition::DeclaredSet;

mod keyspaces;
mod layout_writer;
pub(crate) mod migrations;
mod plan;
mod sections;
mod series;
pub(crate) mod sets;

/// State of the services once the member is loaded. Clones share it.
#[derive(Clone)]
pub(crate) struct SetAdmin {
    /// This set, as the set file declares it.
    declared: Arc<DeclaredSet>,
    between: Between,
    /// Receiver of the progress of migrations, as this member observes it while it leads.
    progress: watch::Receiver<Arc<Progress>>,
}

impl SetAdmin {
    pub(crate) fn new(
        declared: Arc<DeclaredSet>,
        between: Between,
        progress: watch::Receiver<Arc<Progress>>,
    ) -> SetAdmin {
        SetAdmin { declared, between, progress }
    }

    /// Waits until the state here has all that the store has committed so far, so that an operator who was answered by
    /// the leader before this one never sees an older state.
    async fn linearize(&self) -> Result<(), Status> {
        self.between.replicated.raft().linearize().await
    }

    fn check_name(&self, given: &str) -> Result<(), Status> {
        if given == self.declared.name {
            return Ok(());
        }
        let text = format!("this is the store of set {:?}, not of {given:?}", self.declared.name);
        Err(Reason::OtherSet.status(text))
    }

    /// Calls `read` with the applied state and the set's definition, and returns the result. Returns an error while the
    /// set is not defined.
    fn read<T>(&self, read: impl FnOnce(&State, &SetDefinition) -> T) -> Result<T, Status> {
        let read = self.between.replicated.read(|state| state.set.as_ref().map(|set| read(state, set)));
        read.ok_or_else(|| Reason::NoSet.status(self.declared.undefined()))
    }
}

/// Returns the name of a set, or its id in decimal if the name is not known.
fn name_of(state: &State, set: SetId) -> String {
    let own = state.set.as_ref().filter(|own| own.id == set).map(|own| own.name.clone());
    let known = || Some(state.sets.get(&set)?.facts.as_ref()?.name.clone());
    own.or_else(known).unwrap_or_else(|| set.to_string())
}

fn refused(refusal: &CommandRefusal) -> Status {
    Reason::of_command(refusal).status(refusal.to_string())
}

/// The services, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct SetAdminServer(pub(crate) Gate<SetAdmin>);

/// Calls a method of [`SetAdmin`], and wraps its result in a response.
macro_rules! respond {
    ($self:ident, $request:ident, $method:ident) => {
        $self.0.get()?.$method($request.into_inner()).await.map(Response::new)
    };
}

#[tonic::async_trait]
impl KeyspaceAdminService for SetAdminServer {
    async fn create_keyspace(
        &self,
        request: Request<CreateKeyspaceRequest>,
    ) -> Result<Response<CreateKeyspaceResponse>, Status> {
        respond!(self, request, create_keyspace)
    }
}

#[tonic::async_trait]
impl SeriesAdminService for SetAdminServer {
    async fn create_series(
        &self,
        request: Request<CreateSeriesRequest>,
    ) -> Result<Response<CreateSeriesResponse>, Status> {
        respond!(self, request, create_series)
    }

    async fn retire_series(
        &self,
        request: Request<RetireSeriesRequest>,
    ) -> Result<Response<RetireSeriesResponse>, Status> {
        respond!(self, request, retire_series)
    }

    async fn set_layout_writer(
        &self,
        request: Request<SetLayoutWriterRequest>,
    ) -> Result<Response<SetLayoutWriterResponse>, Status> {
        respond!(self, request, set_layout_writer)
    }
}

#[tonic::async_trait]
impl SetAdminService for SetAdminServer {
    async fn create_set(&self, request: Request<CreateSetRequest>) -> Result<Response<CreateSetResponse>, Status> {
        respond!(self, request, create_set)
    }

    async fn list_sets(&self, request: Request<ListSetsRequest>) -> Result<Response<ListSetsResponse>, Status> {
        respond!(self, request, list_sets)
    }

    async fn close_set(&self, request: Request<CloseSetRequest>) -> Result<Response<CloseSetResponse>, Status> {
        respond!(self, request, close_set)
    }

    async fn forget_set(&self, request: Request<ForgetSetRequest>) -> Result<Response<ForgetSetResponse>, Status> {
        respond!(self, request, forget_set)
    }

    async fn plan_migration(
        &self,
        request: Request<PlanMigrationRequest>,
    ) -> Result<Response<PlanMigrationResponse>, Status> {
        respond!(self, request, plan_migration)
    }

    async fn start_migration(
        &self,
        request: Request<StartMigrationRequest>,
    ) -> Result<Response<StartMigrationResponse>, Status> {
        respond!(self, request, start_migration)
    }

    async fn set_pace(&self, request: Request<SetPaceRequest>) -> Result<Response<SetPaceResponse>, Status> {
        respond!(self, request, set_pace)
    }

    async fn rollback_migration(
        &self,
        request: Request<RollbackMigrationRequest>,
    ) -> Result<Response<RollbackMigrationResponse>, Status> {
        respond!(self, request, rollback_migration)
    }

    async fn complete_migration(
        &self,
        request: Request<CompleteMigrationRequest>,
    ) -> Result<Response<CompleteMigrationResponse>, Status> {
        respond!(self, request, complete_migration)
    }

    async fn list_migrations(
        &self,
        request: Request<ListMigrationsRequest>,
    ) -> Result<Response<ListMigrationsResponse>, Status> {
        respond!(self, request, list_migrations)
    }

    async fn list_sections(
        &self,
        request: Request<ListSectionsRequest>,
    ) -> Result<Response<ListSectionsResponse>, Status> {
        respond!(self, request, list_sections)
    }
}
