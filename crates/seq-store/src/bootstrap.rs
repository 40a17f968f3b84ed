//! From an empty group to one that has its set: forms the group once, defines the set once, and from then on holds the set
//! file against what is stored.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use seq_core::set_spec::StoreSpec;
use seq_core::state::{Command, SetDefinition};

use crate::nonce::Fingerprint;
use crate::proposer::Proposer;
use crate::storage::SharedState;
use crate::types::{Member, Raft};

/// When a definition that could not be proposed is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// The set file describes another set than the one that is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the set file says set {:?} with uids {:?} in sections of {}, but the store holds set {:?} with uids {:?} in \
     sections of {}; a set keeps its uids and sections for good",
    given.name, given.layout.uids(), given.layout.section_size(),
    stored.name, stored.layout.uids(), stored.layout.section_size()
)]
pub struct SetMismatch {
    /// What the store holds.
    pub stored: SetDefinition,
    /// What the set file says.
    pub given: SetDefinition,
}

/// Holds a set file against the applied state; `Ok(false)` while no set is defined.
pub(crate) fn check_set(state: &SharedState, given: &SetDefinition) -> Result<bool, SetMismatch> {
    match state.read(|state| state.set.clone()) {
        None => Ok(false),
        Some(stored) if stored == *given => Ok(true),
        Some(stored) => Err(SetMismatch { stored, given: given.clone() }),
    }
}

/// Makes an empty member the first of its group, with all stores of the set file and their data directories as members;
/// [`crate::greeting`] says when.
pub(crate) async fn form_group(
    raft: &Raft,
    stores: &[StoreSpec],
    directories: &BTreeMap<u64, Fingerprint>,
) -> Result<(), String> {
    let member = |StoreSpec { id, name, addr, .. }: &StoreSpec| {
        let fingerprint = *directories.get(id).ok_or_else(|| format!("store {id} has named no data directory"))?;
        Ok((*id, Member { name: name.clone(), addr: addr.clone(), fingerprint }))
    };
    let members = stores.iter().map(member).collect::<Result<BTreeMap<u64, Member>, String>>()?;
    match raft.initialize(members).await {
        Ok(()) => Ok(()),
        // Somebody's message came in between: the group exists.
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Waits until the set is defined, defining it where this member leads.
pub(crate) async fn define_set(
    raft: &Raft,
    state: &SharedState,
    proposer: &Proposer,
    given: &SetDefinition,
) -> Result<(), SetMismatch> {
    let mut metrics = raft.metrics();
    while !check_set(state, given)? {
        if raft.is_leader() {
            if let Err(error) = proposer.propose(&Command::DefineSet(given.clone())).await {
                tracing::debug!(%error, "the set could not be defined yet");
                tokio::time::sleep(RETRY).await;
            }
        } else if metrics.changed().await.is_err() {
            // The Raft library has stopped, and its task says why.
            std::future::pending::<()>().await;
        }
    }
    tracing::info!(set = given.name, "the set is defined");
    Ok(())
}
