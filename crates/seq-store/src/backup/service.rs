//! The service that makes backups, beside a leader that has a quorum.
//!
//! The state is copied under its lock and encoded elsewhere, so applying waits for the copy alone.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use seq_core::state::State;
use seq_proto::Reason;
use seq_proto::v1::backup_service_server::BackupService;
use seq_proto::v1::{BackupHeader, CreateBackupRequest, CreateBackupResponse};
use seq_raft::Gate;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::file::{Backup, SECRET_BYTES};
use crate::replicated_set::{ReplicatedSet, SetState};

/// Bytes of a part: a quarter of the stream's window would hold several.
const PART_BYTES: usize = 256 * 1024;

/// Backups that are made at a time: each holds its whole file in memory until it is sent.
const MAX_AT_A_TIME: usize = 2;

/// Makes backups of one set.
pub(crate) struct Backups {
    cluster: String,
    replicated: ReplicatedSet,
    permits: Arc<Semaphore>,
}

impl Backups {
    pub(crate) fn new(cluster: &str, replicated: ReplicatedSet) -> Backups {
        Backups { cluster: cluster.to_owned(), replicated, permits: Arc::new(Semaphore::new(MAX_AT_A_TIME)) }
    }

    /// Copies the state, on the leader.
    fn copy(&self, set: &str) -> Result<(BackupHeader, SetState), Status> {
        let raft = self.replicated.raft();
        if !raft.is_leader() {
            return Err(raft.not_leader().into());
        }
        raft.check_quorum()?;
        let (state, log_index) = raft.state().read_applied(|state, index| (state.clone(), index));
        let Some(defined) = &state.0.set else {
            return Err(Reason::NoSet.status("the set of this store is not defined yet"));
        };
        if !set.is_empty() && *set != *defined.name {
            let text = format!("this is the store of set {:?}, not of {set:?}", defined.name);
            return Err(Reason::OtherSet.status(text));
        }
        Ok((header(&self.cluster, raft.state().format(), &state.0, log_index), state))
    }
}

fn header(cluster: &str, format: u16, state: &State, log_index: u64) -> BackupHeader {
    let set = state.set.as_ref().expect("checked by the caller");
    let mut secret = vec![0; SECRET_BYTES];
    getrandom::fill(&mut secret).expect("the operating system gives random numbers");
    BackupHeader {
        cluster: cluster.to_owned(),
        set: set.name.to_string(),
        set_id: set.id.0,
        lineage: state.lineage.0,
        revision: state.revision.0,
        log_index,
        uid_start: set.layout.uids().start,
        uid_end: set.layout.uids().end,
        section_size: set.layout.section_size(),
        resident: state.sections.residents().count() as u32,
        created_unix_ms: wall_clock_ms(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state_format: format.into(),
        state_bytes: 0,
        secret,
    }
}

#[expect(clippy::disallowed_methods, reason = "operators recognise a backup by its time; nothing depends on it")]
fn wall_clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The service, opened once the member is loaded.
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
        let (header, state) = backups.copy(&request.into_inner().set)?;
        let (set, log_index) = (header.set.clone(), header.log_index);
        let encoded = tokio::task::spawn_blocking(move || Backup::encode(header, &state)).await;
        let mut file = Bytes::from(encoded.map_err(|error| Status::internal(error.to_string()))?);
        let file_bytes = file.len() as u64;
        tracing::info!(set, log_index, file_bytes, "a backup is made");
        let parts = std::iter::from_fn(move || {
            // Held until the last part is taken.
            let _ = &permit;
            let part = file.split_to(file.len().min(PART_BYTES));
            (!part.is_empty()).then_some(Ok(CreateBackupResponse { file_bytes, data: part }))
        });
        Ok(Response::new(Box::pin(stream::iter(parts))))
    }
}
