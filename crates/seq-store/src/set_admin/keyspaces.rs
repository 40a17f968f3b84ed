//! Requests of operators to create keyspaces.
//!
//! **Invariant:** the seed of a keyspace is drawn here, by the operating system, and is in no request and no response.

use seq_core::keyspace::Seed;
use seq_core::layout::SectionRun;
use seq_core::plan::Fingerprint;
use seq_core::state::{CreateKeyspace, EventKind, State};
use seq_kit::nonce::draw_nonce;
use seq_proto::v1::{CreateKeyspaceRequest, CreateKeyspaceResponse, Keyspace};
use tonic::Status;

use super::{SetAdmin, refused};
use crate::preconditions::{self, Required};

impl SetAdmin {
    pub(super) async fn create_keyspace(
        &self,
        request: CreateKeyspaceRequest,
    ) -> Result<CreateKeyspaceResponse, Status> {
        self.linearize().await?;
        self.check_series_format()?;
        let CreateKeyspaceRequest { name, dry_run, plan, of_uids } = request;
        let required = Required::new(dry_run, plan);
        let created_ms = self.between.replicated.raft().clock_ms();
        let create = CreateKeyspace { name, seed: draw_seed(), of_uids, created_ms };
        let foresee = || self.read(|state, _| foresee(state, &create))?;
        let now = foresee()?;
        if now.exists {
            return Ok(now.response(false));
        }
        self.check_readers()?;
        let change = required.begin(self.between.replicated.raft()).await?;
        // Another request may have created the keyspace before this change began.
        let now = foresee()?;
        if now.exists || change.is_none() {
            return Ok(now.response(false));
        }
        required.check(now.plan)?;
        self.between.replicated.propose(create.clone()).await?.map_err(|refusal| refused(&refusal))?;
        let event = EventKind::KeyspaceCreated.name();
        let CreateKeyspace { name, of_uids, .. } = create;
        tracing::info!(event, set = self.declared.name, keyspace = name, of_uids, "a keyspace is created");
        Ok(CreateKeyspaceResponse { existed: false, ..now.response(true) })
    }
}

/// Returns a seed that nobody can guess.
fn draw_seed() -> Seed {
    let [low, high] = [draw_nonce(), draw_nonce()];
    Seed::new((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}

/// Keyspace, as it already exists or as the planned command would create it.
struct Foreseen {
    keyspace: Keyspace,
    exists: bool,
    plan: Fingerprint,
}

impl Foreseen {
    fn response(self, created: bool) -> CreateKeyspaceResponse {
        let Foreseen { keyspace, exists, plan } = self;
        CreateKeyspaceResponse { keyspace: Some(keyspace), created, fingerprint: plan.0, existed: exists }
    }
}

/// Returns the keyspace that the command `create` would create. If a keyspace of this name exists, returns that one.
fn foresee(state: &State, create: &CreateKeyspace) -> Result<Foreseen, Status> {
    let SectionRun { first, .. } = state.foresee_keyspace(create).map_err(|refusal| refused(&refusal))?;
    let known = state.series(&create.name).map(|known| known.created_ms);
    let (name, created_ms) = (create.name.clone(), known.unwrap_or(create.created_ms));
    let keyspace = Keyspace { name, first_section: first.0, created_ms, of_uids: create.of_uids };
    let plan = preconditions::create_keyspace(state, create);
    Ok(Foreseen { keyspace, exists: known.is_some(), plan })
}
