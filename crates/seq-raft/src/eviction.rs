//! Reason why this member must stop permanently. Messages of other members or this member's own checks set the reason,
//! and a task of the member waits for it.

use tokio::sync::watch;

/// Reason why this member must stop and no longer takes part in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The list of members names another data directory for this member's id.
    OtherDataDirectory(String),
    /// This member's data directory lacks entries that this member acknowledged to another member.
    AcknowledgedDataLost(String),
    /// A leader's log contradicts entries that this member knows to be committed.
    Contradicted(String),
    /// A majority of the voters has a state that differs from this member's state after the same log entry.
    Outvoted(String),
    /// This member was removed from the group.
    Removed(String),
}

impl Eviction {
    /// Returns the description of the reason.
    pub(crate) fn cause(&self) -> &str {
        match self {
            Eviction::OtherDataDirectory(cause)
            | Eviction::AcknowledgedDataLost(cause)
            | Eviction::Contradicted(cause)
            | Eviction::Outvoted(cause)
            | Eviction::Removed(cause) => cause,
        }
    }
}

/// Sender of the reason why this member must stop; `None` as long as it may run.
pub(crate) type Evictions = watch::Sender<Option<Eviction>>;
