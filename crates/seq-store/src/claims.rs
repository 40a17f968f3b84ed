//! Which ids members ever had. An id is claimed in the log; it belongs to one disk for good.

use seq_core::state::{Answer, Command, State};

use crate::proposer::{ProposeError, Proposer};
use crate::storage::SharedState;

/// Whether an id is claimed, as far as the state says.
pub(crate) fn is_used(state: &State, id: u64) -> bool {
    state.store_ids.binary_search(&id).is_ok()
}

/// Claims an id, or finds it claimed.
pub(crate) async fn claim(proposer: &Proposer, state: &SharedState, id: u64) -> Result<(), ProposeError> {
    if state.read(|state| is_used(state, id)) {
        return Ok(());
    }
    match proposer.propose(&Command::ClaimStoreId { id }).await? {
        // Claimed in between is as good.
        Answer::StoreIdClaimed(_) => Ok(()),
        other => panic!("a claim was answered with {other:?}"),
    }
}
