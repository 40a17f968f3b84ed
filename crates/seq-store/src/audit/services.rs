//! Wrappers of the operators' services that record every change in the audit log. Requests that only read or plan, and
//! dry runs, are passed on without a record.
//!
//! Each request is one operation. For example, the command `store replace` results in two operations, an addition of a
//! member and a change of voters.

use std::fmt::Display;

use seq_proto::v1::backup_service_server::BackupService;
use seq_proto::v1::keyspace_admin_service_server::KeyspaceAdminService;
use seq_proto::v1::node_admin_service_server::NodeAdminService;
use seq_proto::v1::series_admin_service_server::SeriesAdminService;
use seq_proto::v1::set_admin_service_server::SetAdminService;
use seq_proto::v1::store_admin_service_server::StoreAdminService;
use seq_proto::v1::{
    AddLearnersRequest, AddLearnersResponse, ChangeVotersRequest, ChangeVotersResponse, CloseSetRequest,
    CloseSetResponse, CompleteMigrationRequest, CompleteMigrationResponse, CreateBackupRequest, CreateKeyspaceRequest,
    CreateKeyspaceResponse, CreateSeriesRequest, CreateSeriesResponse, CreateSetRequest, CreateSetResponse,
    DrainNodeRequest, DrainNodeResponse, ForgetSetRequest, ForgetSetResponse, ListMembersRequest, ListMembersResponse,
    ListMigrationsRequest, ListMigrationsResponse, ListNodesRequest, ListNodesResponse, ListSectionsRequest,
    ListSectionsResponse, ListSetsRequest, ListSetsResponse, MigrationPace, MoveSectionsRequest, MoveSectionsResponse,
    PauseBalancingRequest, PauseBalancingResponse, PlanMigrationRequest, PlanMigrationResponse, RaiseFormatRequest,
    RaiseFormatResponse, RetireSeriesRequest, RetireSeriesResponse, RollbackMigrationRequest,
    RollbackMigrationResponse, SetLayoutWriterRequest, SetLayoutWriterResponse, SetPaceRequest, SetPaceResponse,
    SetTermsRequest, SetTermsResponse, StartMigrationRequest, StartMigrationResponse, TransferLeaderRequest,
    TransferLeaderResponse,
};
use seq_raft::Gate;
use tonic::{Request, Response, Status};

use super::recorder::{Operation, Recorder};

/// Wrapper of the service `inner` that records the service's changes.
#[derive(Clone)]
pub(crate) struct Audited<S> {
    pub(crate) inner: S,
    pub(crate) recorder: Gate<Recorder>,
}

/// Returns the items of a list as text, each after a space.
fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| format!(" {item}")).collect()
}

#[tonic::async_trait]
impl<S: StoreAdminService> StoreAdminService for Audited<S> {
    async fn list_members(
        &self,
        request: Request<ListMembersRequest>,
    ) -> Result<Response<ListMembersResponse>, Status> {
        self.inner.list_members(request).await
    }

    async fn add_learners(
        &self,
        request: Request<AddLearnersRequest>,
    ) -> Result<Response<AddLearnersResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.add_learners(request).await;
        }
        let members = given.members.iter().map(|new| format!("{} {} {}", new.id, new.name, new.addr));
        let operation = Operation { text: format!("store add{}", list(members)), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.add_learners(request)).await
    }

    async fn change_voters(
        &self,
        request: Request<ChangeVotersRequest>,
    ) -> Result<Response<ChangeVotersResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.change_voters(request).await;
        }
        let (mut add, mut remove) = (list(&given.add), list(&given.remove));
        if !add.is_empty() {
            add.insert_str(0, " add");
        }
        if !remove.is_empty() {
            remove.insert_str(0, " remove");
        }
        let operation = Operation { text: format!("store voters{add}{remove}"), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.change_voters(request)).await
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.transfer_leader(request).await;
        }
        let operation = Operation { text: format!("store lead --to {}", given.to), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.transfer_leader(request)).await
    }

    async fn raise_format(
        &self,
        request: Request<RaiseFormatRequest>,
    ) -> Result<Response<RaiseFormatResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.raise_format(request).await;
        }
        let operation = Operation { text: "store upgrade".to_owned(), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.raise_format(request)).await
    }
}

#[tonic::async_trait]
impl<S: KeyspaceAdminService> KeyspaceAdminService for Audited<S> {
    async fn create_keyspace(
        &self,
        request: Request<CreateKeyspaceRequest>,
    ) -> Result<Response<CreateKeyspaceResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.create_keyspace(request).await;
        }
        let kind = if given.of_uids { " --uids" } else { "" };
        let operation = Operation { text: format!("keyspace create {}{kind}", given.name), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.create_keyspace(request)).await
    }
}

#[tonic::async_trait]
impl<S: SeriesAdminService> SeriesAdminService for Audited<S> {
    async fn create_series(
        &self,
        request: Request<CreateSeriesRequest>,
    ) -> Result<Response<CreateSeriesResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.create_series(request).await;
        }
        let operation = Operation { text: format!("series create {}", given.name), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.create_series(request)).await
    }

    async fn retire_series(
        &self,
        request: Request<RetireSeriesRequest>,
    ) -> Result<Response<RetireSeriesResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.retire_series(request).await;
        }
        let operation = Operation { text: format!("series retire {}", given.name), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.retire_series(request)).await
    }

    async fn set_layout_writer(
        &self,
        request: Request<SetLayoutWriterRequest>,
    ) -> Result<Response<SetLayoutWriterResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.set_layout_writer(request).await;
        }
        let operation = Operation { text: format!("set layout-writer {}", given.to), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.set_layout_writer(request)).await
    }
}

#[tonic::async_trait]
impl<S: NodeAdminService> NodeAdminService for Audited<S> {
    async fn list_nodes(&self, request: Request<ListNodesRequest>) -> Result<Response<ListNodesResponse>, Status> {
        self.inner.list_nodes(request).await
    }

    async fn drain_node(&self, request: Request<DrainNodeRequest>) -> Result<Response<DrainNodeResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.drain_node(request).await;
        }
        let verb = if given.drained { "drain" } else { "undrain" };
        let operation = Operation { text: format!("node {verb} {}", given.node), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.drain_node(request)).await
    }

    async fn move_sections(
        &self,
        request: Request<MoveSectionsRequest>,
    ) -> Result<Response<MoveSectionsResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.move_sections(request).await;
        }
        let to = if given.node.is_empty() { "--balanced".to_owned() } else { format!("--to {}", given.node) };
        let text = format!("section move {to}{}", list(&given.sections));
        let operation = Operation { text, plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.move_sections(request)).await
    }

    async fn pause_balancing(
        &self,
        request: Request<PauseBalancingRequest>,
    ) -> Result<Response<PauseBalancingResponse>, Status> {
        let PauseBalancingRequest { paused, dry_run, plan, .. } = *request.get_ref();
        if dry_run {
            return self.inner.pause_balancing(request).await;
        }
        let text = format!("section balance --{}", if paused { "pause" } else { "resume" });
        let operation = Operation { text, plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.pause_balancing(request)).await
    }

    async fn set_terms(&self, request: Request<SetTermsRequest>) -> Result<Response<SetTermsResponse>, Status> {
        let SetTermsRequest { lease_wait_ms, dry_run, plan, .. } = *request.get_ref();
        if lease_wait_ms == 0 || dry_run {
            return self.inner.set_terms(request).await;
        }
        let operation = Operation { text: format!("store terms --lease-wait-ms {lease_wait_ms}"), plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.set_terms(request)).await
    }
}

#[tonic::async_trait]
impl<S: SetAdminService> SetAdminService for Audited<S> {
    async fn create_set(&self, request: Request<CreateSetRequest>) -> Result<Response<CreateSetResponse>, Status> {
        let CreateSetRequest { name, join } = request.get_ref();
        let verb = if join.is_empty() { "init" } else { "create" };
        let operation = Operation::new(format!("set {verb} {name}{}", list(join)));
        self.recorder.get()?.record(request, operation, |request| self.inner.create_set(request)).await
    }

    async fn list_sets(&self, request: Request<ListSetsRequest>) -> Result<Response<ListSetsResponse>, Status> {
        self.inner.list_sets(request).await
    }

    async fn close_set(&self, request: Request<CloseSetRequest>) -> Result<Response<CloseSetResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.close_set(request).await;
        }
        let operation = Operation { text: format!("set close {}", given.name), plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.close_set(request)).await
    }

    async fn forget_set(&self, request: Request<ForgetSetRequest>) -> Result<Response<ForgetSetResponse>, Status> {
        let given = request.get_ref();
        if given.dry_run {
            return self.inner.forget_set(request).await;
        }
        let text = format!("set forget {} in {}", given.forget_id, given.name);
        let operation = Operation { text, plan: given.plan };
        self.recorder.get()?.record(request, operation, |request| self.inner.forget_set(request)).await
    }

    async fn plan_migration(
        &self,
        request: Request<PlanMigrationRequest>,
    ) -> Result<Response<PlanMigrationResponse>, Status> {
        self.inner.plan_migration(request).await
    }

    async fn start_migration(
        &self,
        request: Request<StartMigrationRequest>,
    ) -> Result<Response<StartMigrationResponse>, Status> {
        let plan = request.get_ref().plan.clone().unwrap_or_default();
        let sections: u64 = plan.runs.iter().map(|run| u64::from(run.sections)).sum();
        let first = plan.runs.iter().map(|run| run.first_section).min().unwrap_or_default();
        let text = format!("set migrate {} --into {}: {sections} sections from {first} on", plan.from, plan.to);
        let text = format!("{text}, {}", migration_text(plan.id));
        let operation = Operation { text, plan: plan.fingerprint };
        self.recorder.get()?.record(request, operation, |request| self.inner.start_migration(request)).await
    }

    async fn set_pace(&self, request: Request<SetPaceRequest>) -> Result<Response<SetPaceResponse>, Status> {
        let SetPaceRequest { id, pace } = request.get_ref();
        let MigrationPace { rate, max_pause_ms, paused } = pace.unwrap_or_default();
        let text = format!("migration pace {id}: rate {rate}, max_pause_ms {max_pause_ms}, paused {paused}");
        let operation = Operation::new(text);
        self.recorder.get()?.record(request, operation, |request| self.inner.set_pace(request)).await
    }

    async fn rollback_migration(
        &self,
        request: Request<RollbackMigrationRequest>,
    ) -> Result<Response<RollbackMigrationResponse>, Status> {
        let operation = Operation::new(format!("migration rollback {}", request.get_ref().id));
        self.recorder.get()?.record(request, operation, |request| self.inner.rollback_migration(request)).await
    }

    async fn complete_migration(
        &self,
        request: Request<CompleteMigrationRequest>,
    ) -> Result<Response<CompleteMigrationResponse>, Status> {
        let operation = Operation::new(format!("migration complete {}", request.get_ref().id));
        self.recorder.get()?.record(request, operation, |request| self.inner.complete_migration(request)).await
    }

    async fn list_migrations(
        &self,
        request: Request<ListMigrationsRequest>,
    ) -> Result<Response<ListMigrationsResponse>, Status> {
        self.inner.list_migrations(request).await
    }

    async fn list_sections(
        &self,
        request: Request<ListSectionsRequest>,
    ) -> Result<Response<ListSectionsResponse>, Status> {
        self.inner.list_sections(request).await
    }
}

#[tonic::async_trait]
impl<S: BackupService> BackupService for Audited<S> {
    type CreateBackupStream = S::CreateBackupStream;

    async fn create_backup(
        &self,
        request: Request<CreateBackupRequest>,
    ) -> Result<Response<Self::CreateBackupStream>, Status> {
        let operation = Operation::new("backup create".to_owned());
        self.recorder.get()?.record(request, operation, |request| self.inner.create_backup(request)).await
    }
}

/// Returns the text with which the audit log names a migration in the operation that starts it.
pub(crate) fn migration_text(id: u64) -> String {
    format!("migration {id}")
}
