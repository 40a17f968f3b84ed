//! Configuration of one member.

use seq_api::node_events::NodeEvents;
use seq_proto::dial::Dial;

use crate::options::RaftOptions;
use crate::peer::Peer;
use crate::storage::DataDir;

/// Configuration of one member.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// Name of the cluster. The data directory stores this name and belongs permanently to this cluster.
    pub cluster: String,
    /// Name of the set, as it appears in metrics, logs and operators' requests.
    pub set: String,
    /// Raft id of this member.
    pub id: u64,
    /// Name of this member in the set file.
    pub node: String,
    /// Location of this member's data.
    pub data: DataDir,
    /// Members listed in the set file, including this member. A member's address in this list may be newer than its
    /// address in the replicated list of members.
    pub peers: Vec<Peer>,
    /// Whether this member waits to be added to an existing group. Such a member never forms a group.
    pub join: bool,
    /// Durations and sizes of this member.
    pub options: RaftOptions,
    /// Whether this member, while it leads, raises the format of the group's commands and snapshots as soon as every
    /// member can read the newest format of this member's program. If false, an operator raises the format.
    pub auto_upgrade: bool,
    /// Connector to other members.
    pub dial: Dial,
    /// Event log of this member's node.
    pub events: NodeEvents,
}
