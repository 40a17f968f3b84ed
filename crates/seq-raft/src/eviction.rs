//! Reason why this member must stop permanently. The member's peers or its own checks set the reason once, and a task
//! of the member waits for it.

use tokio::sync::watch;

/// Reason why this member no longer takes part in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The list of members names another data directory for this member's id.
    OtherDataDirectory(String),
    /// The directory lacks entries that this member acknowledged to another member.
    AcknowledgedDataLost(String),
    /// A leader's log contradicts entries that are committed here.
    Contradicted(String),
    /// A majority of the voters has a different state after the same log entry.
    Outvoted(String),
    /// This member was removed from the group.
    Removed(String),
}

/// Set once this member must stop.
pub(crate) type Evictions = watch::Sender<Option<Eviction>>;
