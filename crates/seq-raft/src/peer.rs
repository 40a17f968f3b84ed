//! A member in the set file.

/// A member of the set file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Raft id, 1 or above.
    pub id: u64,
    /// Name in the set file.
    pub name: String,
    /// Address of its port for peers.
    pub addr: String,
    /// Address of its port for Raft.
    pub raft_addr: String,
}
