//! Entry points of the fuzzer, for the store's own commands and states.

use crate::replicated_set::SetState;

/// See [`seq_raft::fuzzing::record`].
pub fn record(data: &[u8]) {
    seq_raft::fuzzing::record::<SetState>(data);
}

/// See [`seq_raft::fuzzing::raft`].
pub fn raft(data: &[u8]) {
    seq_raft::fuzzing::raft::<SetState>(data);
}
