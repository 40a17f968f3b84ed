//! Service that makes backups on a leader with a majority.
//!
//! The state is copied while it is locked, and encoded after the lock is released. So log entries wait only for the
//! copy before they are applied.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use seq_proto::Reason;
use seq_proto::v1::backup_service_server::BackupService;
use seq_proto::v1::{BackupHeader, CreateBackupRequest, CreateBackupResponse};
use seq_raft::Gate;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::file::Backup;
use super::header;
use crate::replicated_set::{ReplicatedSet, SetState};

/// Length in bytes of one part of the file in the response stream. Several parts fit into a quarter of the stream's
/// flow-control window.
const PART_BYTES: usize = 256 * 1024;

/// Maximum number of backups that are made at the same time. Each backup is held in memory until its whole file is
/// sent.
const MAX_AT_A_TIME: usize = 2;

/// State of the service once the member is loaded.
pub(crate) struct Backups {
    cluster: String,
    replicated: ReplicatedSet,
    permits: Arc<Semaphore>,
    started: Instant,
}

impl Backups {
    pub(crate) fn new(cluster: &str, replicated: ReplicatedSet) -> Backups {
        let (permits, started) = (Arc::new(Semaphore::new(MAX_AT_A_TIME)), Instant::now());
        Backups { cluster: cluster.to_owned(), replicated, permits, started }
    }

    /// Copies the state, and returns it with the header of its backup.
    fn copy(&self, set: &str) -> Result<(BackupHeader, SetState), Status> {
        let raft = self.replicated.raft();
        let (state, log_index) = raft.state().read_applied(|state, index| (state.clone(), index));
        let Some(defined) = &state.0.set else {
            return Err(Reason::NoSet.status("the set of this store is not defined yet"));
        };
        if !set.is_empty() && *set != *defined.name {
            let text = format!("this is the store of set {:?}, not of {set:?}", defined.name);
            return Err(Reason::OtherSet.status(text));
        }
        let format = raft.state().format();
        let header = BackupHeader {
            raises: self.replicated.raises_applied(),
            raises_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1),
            ..header::of(&self.cluster, defined, format, &state.0, log_index)
        };
        Ok((header, state))
    }
}

/// The backup service, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct BackupServer(pub(crate) Gate<Backups>);

#[tonic::async_trait]
impl BackupService for BackupServer {
    type CreateBackupStream = Pin<Box<dyn Stream<Item = Result<CreateBackupResponse, Status>> + Send>>;

    async fn create_backup(
        &self,
        request: Request<CreateBackupRequest>,
    ) -> Result<Response<Self::CreateBackupStream>, Status> {
        let backups = self.0.get()?;
        let permit = backups.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        backups.replicated.raft().linearize().await?;
        let (header, state) = backups.copy(&request.into_inner().set)?;
        let (set, log_index) = (header.set.clone(), header.log_index);
        let encoded = tokio::task::spawn_blocking(move || Backup::encode(header, &state)).await;
        let mut file = Bytes::from(encoded.map_err(|error| Status::internal(error.to_string()))?);
        let file_bytes = file.len() as u64;
        tracing::info!(set, log_index, file_bytes, "a backup is made");
        let parts = std::iter::from_fn(move || {
            // The permit is held until the last part is taken from the stream.
            let _ = &permit;
            let part = file.split_to(file.len().min(PART_BYTES));
            (!part.is_empty()).then_some(Ok(CreateBackupResponse { file_bytes, data: part }))
        });
        Ok(Response::new(Box::pin(stream::iter(parts))))
    }
}
