//! From an empty group to one that has its set: forms the group once, defines the set once, and from then on holds the set
//! file against what is stored.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use seq_core::set_spec::StoreSpec;
use seq_core::state::{Command, SetDefinition, Terms};
use tokio::time::Instant;

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

/// How long a member that knows a leader may hold other terms than the set's before it ends: a member that was away receives
/// the entries that it lacks well within it.
const TERMS_PATIENCE: Duration = Duration::from_secs(5);

/// This member's settings are not the terms of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "store.lease_wait_ms is {} here, and the set was defined with {}: all members of a store have the same; write {} into \
     the settings of this one, or change it for the set with `seqsvr store terms`",
    given.lease_wait.as_millis(), stored.lease_wait.as_millis(), stored.lease_wait.as_millis()
)]
pub(crate) struct TermsMismatch {
    /// What is committed.
    pub(crate) stored: Terms,
    /// What this member was configured with.
    pub(crate) given: Terms,
}

/// Waits until the set's lease terms are those of this member's settings, setting them where this member leads and there are
/// none. Terms that are changed later, by command, hold whatever the settings say.
pub(crate) async fn agree_on_terms(
    raft: &Raft,
    state: &SharedState,
    proposer: &Proposer,
    given: Terms,
) -> Result<(), TermsMismatch> {
    let mut metrics = raft.metrics();
    let mut differ_since = None;
    loop {
        let led = metrics.borrow_watched().current_leader.is_some();
        match state.read(|state| state.terms) {
            Some(stored) if stored == given => return Ok(()),
            Some(stored) if led => {
                let since = *differ_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= TERMS_PATIENCE {
                    return Err(TermsMismatch { stored, given });
                }
            }
            Some(_) => differ_since = None,
            None if raft.is_leader() => {
                let command = Command::SetTerms { replaces: None, terms: given };
                if let Err(error) = proposer.propose(&command).await {
                    tracing::debug!(%error, "the lease terms could not be set yet");
                }
            }
            None => {}
        }
        // Woken at times as well: a member whose leader is lost sees no change of its own.
        let changed = tokio::time::timeout(RETRY, metrics.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            // The Raft library has stopped, and its task says why.
            std::future::pending::<()>().await;
        }
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
