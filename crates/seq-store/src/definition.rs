//! The set's definition and lease terms: set once, by the first leader or by command, and compared with the set file
//! from then on.

use std::time::Duration;

use seq_core::set_spec::Genesis;
use seq_core::state::{SetDefinition, SetTerms, State, Terms};
use seq_core::{Layout, SetId};
use tokio::time::Instant;

use crate::replicated_set::ReplicatedSet;

/// Pause before a definition that could not be proposed is retried.
const RETRY: Duration = Duration::from_millis(100);

/// The set as its file declares it. It has no id: that is drawn where the set is defined, and is in the applied state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredSet {
    /// Name of the set.
    pub name: String,
    /// Its uids and sections: those of its cluster.
    pub layout: Layout,
    /// How it comes into being.
    pub genesis: Genesis,
}

impl DeclaredSet {
    /// Its definition under a new id.
    pub(crate) fn define(&self) -> SetDefinition {
        let id = SetId(draw_nonce());
        match self.genesis {
            Genesis::Start | Genesis::Init => SetDefinition::first(&self.name, id, self.layout.clone()),
            Genesis::Create => SetDefinition::joining(&self.name, id, self.layout.clone()),
        }
    }

    /// Why there is no such set yet, with what to do.
    pub(crate) fn undefined(&self) -> &'static str {
        match self.genesis {
            Genesis::Start => "the set is not defined yet",
            Genesis::Init => "the set is not created yet: run `seqsvr set init --set FILE`",
            Genesis::Create => "the set is not created yet: run `seqsvr set create --set FILE`",
        }
    }
}

/// A random number, not 0: the id of a set or of a migration.
///
/// # Panics
/// When the operating system gives no random numbers.
pub(crate) fn draw_nonce() -> u64 {
    let mut nonce = 0;
    while nonce == 0 {
        nonce = getrandom::u64().expect("the operating system gives random numbers");
    }
    nonce
}

/// The set file describes another set than the one that is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the set file has set {:?} with uids {:?} in sections of {}, but the store holds set {:?} with uids {:?} in \
     sections of {}; a set keeps its uids and sections for good",
    given.name, given.layout.uids(), given.layout.section_size(),
    stored.name, stored.layout.uids(), stored.layout.section_size()
)]
pub struct SetMismatch {
    /// The stored one.
    pub stored: Box<SetDefinition>,
    /// That of the set file.
    pub given: Box<DeclaredSet>,
}

/// Compares a set file with the applied state; `Ok(false)` while no set is defined.
pub(crate) fn check_set(state: &State, given: &DeclaredSet) -> Result<bool, SetMismatch> {
    match &state.set {
        None => Ok(false),
        Some(stored) if stored.defines(&given.name, &given.layout) => Ok(true),
        Some(stored) => Err(SetMismatch { stored: Box::new(stored.clone()), given: Box::new(given.clone()) }),
    }
}

/// How long a member that knows a leader may hold other terms than the set's before it ends: a member that was away
/// receives the entries that it lacks well within it.
const TERMS_TIMEOUT: Duration = Duration::from_secs(5);

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

/// Waits until the set's lease terms are those of this member's settings, setting them where this member leads and
/// there are none. Terms that are changed later, by command, hold whatever the settings are.
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
                // The state shows whether these or another leader's terms were set.
                if let Err(error) = set.propose(SetTerms { replaces: None, terms: given }).await {
                    tracing::debug!(%error, "the lease terms could not be set yet");
                    // A member that was elected and cannot write yet would otherwise propose in a tight loop.
                    tokio::time::sleep(RETRY).await;
                }
            }
            None => {}
        }
        // Woken by a timer as well: a member whose leader is lost sees no change of its own.
        let changed = tokio::time::timeout(RETRY, changes.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            // The Raft library has stopped, and its task logs why.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until the set is defined. By [`Genesis::Start`] this member defines it where it leads, else a command does.
pub(crate) async fn define_set(set: &ReplicatedSet, given: &DeclaredSet) -> Result<(), SetMismatch> {
    let mut changes = set.raft().changes();
    while !set.read(|state| check_set(state, given))? {
        if set.raft().is_leader() {
            // A former release wrote nothing here that it could return to. A member that reads only older formats, or
            // is silent, leaves the raise to an operator.
            if let Err(error) = set.raft().raise_format().await {
                tracing::debug!(%error, "the new group does not begin with the newest format");
            }
        }
        if given.genesis == Genesis::Start && set.raft().is_leader() {
            // The state shows whether this or another leader's definition was stored.
            if let Err(error) = set.propose(given.define()).await {
                tracing::debug!(%error, "the set could not be defined yet");
                tokio::time::sleep(RETRY).await;
            }
        } else if changes.changed().await.is_err() {
            // The Raft library has stopped, and its task logs why.
            std::future::pending::<()>().await;
        }
    }
    tracing::info!(set = given.name, "the set is defined");
    Ok(())
}
