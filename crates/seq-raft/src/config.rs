//! Configuration of one member.

use seq_proto::dial::Dial;

use crate::options::RaftOptions;
use crate::peer::Peer;
use crate::storage::DataDir;

/// Configuration of one member.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// Name of the cluster; a data directory belongs permanently to one cluster.
    pub cluster: String,
    /// Name of the set, in metrics, logs and requests of operators.
    pub set: String,
    /// Raft id of this member.
    pub id: u64,
    /// Name of this member in the set file.
    pub node: String,
    /// Location of its data.
    pub data: DataDir,
    /// Members listed in the set file, this member included. Their addresses may be newer than the addresses in the
    /// replicated list of members.
    pub peers: Vec<Peer>,
    /// Whether this member waits to be added to an existing group. Such a member never forms a group.
    pub join: bool,
    /// Times and sizes.
    pub options: RaftOptions,
    /// Whether this member, while it leads, raises the group's format as soon as every member reads the newest format
    /// of this member's program. If false, an operator raises the format.
    pub auto_upgrade: bool,
    /// Connector to other members.
    pub dial: Dial,
}
