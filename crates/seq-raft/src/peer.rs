//! A member of a store, as the set file lists it.

/// Member of a store, as the set file lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Raft id, 1 or above.
    pub id: u64,
    /// Name in the set file.
    pub name: String,
    /// Address of the member's port for peers.
    pub addr: String,
    /// Address of the member's port for Raft.
    pub raft_addr: String,
}
