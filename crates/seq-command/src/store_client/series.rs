//! Requests of the gRPC services `SeriesAdminService` and `KeyspaceAdminService` to the leader of a set's store.
//!
//! **Invariant:** if the response to a request is lost, the client sends the request again with the same fingerprint.
//! If the leader has made the change already, it responds that there was nothing to do.

use seq_proto::v1::keyspace_admin_service_client::KeyspaceAdminServiceClient as KeyspaceAdmin;
use seq_proto::v1::series_admin_service_client::SeriesAdminServiceClient as SeriesAdmin;
use seq_proto::v1::{
    CreateKeyspaceRequest, CreateKeyspaceResponse, CreateSeriesRequest, CreateSeriesResponse, RetireSeriesRequest,
    RetireSeriesResponse, SetLayoutWriterRequest, SetLayoutWriterResponse,
};

use super::{CHANGE_TIMEOUT, READ_TIMEOUT, StoreClient, timed};
use crate::plan::Mode;

impl StoreClient {
    /// Creates a series.
    pub async fn create_series(
        &mut self,
        request: &CreateSeriesRequest,
        mode: Mode,
    ) -> anyhow::Result<CreateSeriesResponse> {
        let (dry_run, plan) = mode.fields();
        let request = CreateSeriesRequest { dry_run, plan, ..request.clone() };
        let limit = self.limit_of(dry_run);
        self.call(limit, async |to| SeriesAdmin::new(to).create_series(timed(request.clone(), limit)).await).await
    }

    /// Creates a keyspace, whose keys are the sparse uids if `of_uids`.
    pub async fn create_keyspace(
        &mut self,
        name: &str,
        of_uids: bool,
        mode: Mode,
    ) -> anyhow::Result<CreateKeyspaceResponse> {
        let (dry_run, plan) = mode.fields();
        let request = CreateKeyspaceRequest { name: name.to_owned(), dry_run, plan, of_uids };
        let limit = self.limit_of(dry_run);
        self.call(limit, async |to| KeyspaceAdmin::new(to).create_keyspace(timed(request.clone(), limit)).await).await
    }

    /// Retires a series.
    pub async fn retire_series(&mut self, name: &str, mode: Mode) -> anyhow::Result<RetireSeriesResponse> {
        let (dry_run, plan) = mode.fields();
        let request = RetireSeriesRequest { name: name.to_owned(), dry_run, plan };
        let limit = self.limit_of(dry_run);
        self.call(limit, async |to| SeriesAdmin::new(to).retire_series(timed(request.clone(), limit)).await).await
    }

    /// Hands the role of the layout writer to another set. `to` is the name of that set, or its id in decimal.
    pub async fn set_layout_writer(&mut self, to: &str, mode: Mode) -> anyhow::Result<SetLayoutWriterResponse> {
        let (dry_run, plan) = mode.fields();
        let request = SetLayoutWriterRequest { to: to.to_owned(), dry_run, plan };
        // The timeout of a change applies to a dry run too, because the leader sends a request to the other set's store
        // even for a dry run.
        let limit = self.left().min(CHANGE_TIMEOUT);
        self.call(limit, async |to| SeriesAdmin::new(to).set_layout_writer(timed(request.clone(), limit)).await).await
    }

    /// Returns the timeout of one attempt.
    fn limit_of(&self, dry_run: bool) -> std::time::Duration {
        self.left().min(if dry_run { READ_TIMEOUT } else { CHANGE_TIMEOUT })
    }
}
