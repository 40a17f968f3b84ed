//! Why this member must stop for good: a verdict of its peers or of its own checks, set once and watched by its task.

use tokio::sync::watch;

/// Why this member takes no part any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The list of members names another data directory under its id.
    OtherDataDirectory(String),
    /// It lacks what it acknowledged to another member.
    AcknowledgedDataLost(String),
    /// A leader's log contradicts what is committed here.
    Contradicted(String),
    /// A majority of the voters has another state behind the same entry of the log.
    Outvoted(String),
    /// It was removed from the group.
    Removed(String),
}

/// Set once this member must stop.
pub(crate) type Evictions = watch::Sender<Option<Eviction>>;
