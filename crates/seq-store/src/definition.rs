//! The stored definition and lease terms of a set. The definition consists of the set's name, its id and its layout.
//! The first leader or an operator's command stores both once. From then on, each member compares them with its set
//! file and its settings.

use std::time::Duration;

use seq_core::set_spec::Genesis;
use seq_core::state::{EventKind, SetDefinition, SetTerms, State, Terms};
use seq_core::{Layout, SetId};
use seq_kit::nonce::draw_nonce;
use tokio::time::Instant;

use crate::replicated_set::ReplicatedSet;

/// Pause before a failed proposal of the definition or the terms is retried.
const RETRY: Duration = Duration::from_millis(100);

/// Set as its set file declares it. The declaration contains no id, because the set's id is drawn when the set is
/// defined, and is stored in the replicated state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredSet {
    /// Name of the set.
    pub name: String,
    /// Layout of the set's uids, which divides them into sections. It is the same in all sets of a cluster.
    pub layout: Layout,
    /// Way in which the set is created: by its store's first leader, or by a command.
    pub genesis: Genesis,
}

impl DeclaredSet {
    /// Returns the definition of this set with a new random id.
    pub(crate) fn define(&self) -> SetDefinition {
        let id = SetId(draw_nonce());
        match self.genesis {
            Genesis::Start | Genesis::Init => SetDefinition::first(&self.name, id, self.layout.clone()),
            Genesis::Create => SetDefinition::joining(&self.name, id, self.layout.clone()),
        }
    }

    /// Returns a text that states why the set is not defined yet. If a command has to define the set, the text also
    /// names this command.
    pub(crate) fn undefined(&self) -> &'static str {
        match self.genesis {
            Genesis::Start => "the set is not defined yet",
            Genesis::Init => "the set is not created yet: run `seqsvr set init --set FILE`",
            Genesis::Create => "the set is not created yet: run `seqsvr set create --set FILE`",
        }
    }
}

/// Error of a set file that describes another set than the stored set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the set file has set {:?} with uids {:?} in sections of {}, but the store holds set {:?} with uids {:?} in \
     sections of {}; a set keeps its uids and sections for good",
    given.name, given.layout.uids(), given.layout.section_size(),
    stored.name, stored.layout.uids(), stored.layout.section_size()
)]
pub struct SetMismatch {
    /// Definition in the replicated state.
    pub stored: Box<SetDefinition>,
    /// Declaration in the set file.
    pub given: Box<DeclaredSet>,
}

/// Checks that the set in the applied state is the set that the set file declares. Returns `Ok(false)` while no set is
/// defined.
pub(crate) fn check_set(state: &State, given: &DeclaredSet) -> Result<bool, SetMismatch> {
    match &state.set {
        None => Ok(false),
        Some(stored) if stored.defines(&given.name, &given.layout) => Ok(true),
        Some(stored) => Err(SetMismatch { stored: Box::new(stored.clone()), given: Box::new(given.clone()) }),
    }
}

/// Maximum time for which the lease terms in a member's settings may differ from the stored terms while the member
/// knows a leader. After this time the member stops. A member that was unreachable receives its missing entries well
/// within this time.
const TERMS_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of a member whose settings differ from the stored lease terms of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "store.lease_wait_ms is {} here, and the set was defined with {}: all members of a store have the same; write {} into \
     the settings of this one, or change it for the set with `seqsvr store terms`",
    given.lease_wait.as_millis(), stored.lease_wait.as_millis(), stored.lease_wait.as_millis()
)]
pub(crate) struct TermsMismatch {
    /// Lease terms in the replicated state.
    pub(crate) stored: Terms,
    /// Lease terms in this member's settings.
    pub(crate) given: Terms,
}

/// Waits until the stored lease terms equal the terms `given` from this member's settings. If no terms are stored yet
/// and this member leads, stores `given`. After this function has returned, a command may change the terms regardless
/// of the settings.
pub(crate) async fn agree_on_terms(set: &ReplicatedSet, given: Terms) -> Result<(), TermsMismatch> {
    let mut changes = set.raft().changes();
    let mut differ_since = None;
    loop {
        let led = set.raft().leader().is_some();
        match set.read(|state| state.terms) {
            Some(stored) if stored == given => return Ok(()),
            Some(stored) if led => {
                let since = *differ_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= TERMS_TIMEOUT {
                    return Err(TermsMismatch { stored, given });
                }
            }
            Some(_) => differ_since = None,
            None if set.raft().is_leader() => {
                // Afterwards, the state shows whether these terms or the terms of another leader were stored.
                match set.propose(SetTerms { replaces: None, terms: given }).await {
                    Ok(outcome) if outcome.is_ok() => {
                        let lease_wait_ms = given.lease_wait.as_millis();
                        tracing::info!(event = EventKind::Terms.name(), lease_wait_ms, "the lease terms are set");
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "the lease terms could not be set yet");
                        // Without this pause, an elected member that cannot write yet would propose in a tight loop.
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
            None => {}
        }
        // The timeout is needed, because a member that has lost its leader gets no notification.
        let changed = tokio::time::timeout(RETRY, changes.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            // The Raft library has stopped, and its own task logs the reason.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until the set is defined in the replicated state. If its genesis is [`Genesis::Start`] and this member leads,
/// this member defines the set. With any other genesis, an operator's command defines it.
pub(crate) async fn define_set(set: &ReplicatedSet, given: &DeclaredSet) -> Result<(), SetMismatch> {
    let mut changes = set.raft().changes();
    while !set.read(|state| check_set(state, given))? {
        if set.raft().is_leader() {
            // The group is new, so no data exists that a previous release wrote and might have to read again. If a
            // member does not respond or reads only older formats, the raise fails, and an operator has to raise the
            // format later.
            if let Err(error) = set.raft().raise_format().await {
                tracing::debug!(%error, "the new group does not begin with the newest format");
            }
        }
        if given.genesis == Genesis::Start && set.raft().is_leader() {
            // Afterwards, the state shows whether this definition or the definition of another leader was stored.
            match set.propose(given.define()).await {
                Ok(outcome) if outcome.is_ok() => {
                    tracing::info!(event = EventKind::SetDefined.name(), set = given.name, "the set is defined");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "the set could not be defined yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        } else if changes.changed().await.is_err() {
            // The Raft library has stopped, and its own task logs the reason.
            std::future::pending::<()>().await;
        }
    }
    Ok(())
}
