//! Rows of the page, and the state of the cluster that the page shows.

use std::sync::Arc;
use std::time::Duration;

use seq_observe::Observation;

/// The last observation that succeeded and its age. If a later observation failed, also the error.
pub(super) struct Seen {
    pub(super) observation: Arc<Observation>,
    pub(super) age: Duration,
    /// Reason why a newer observation failed.
    pub(super) error: Option<String>,
    /// Index of the section that the user has opened, with lines about the state of this section.
    pub(super) described: Option<(u32, Vec<String>)>,
}

/// A row of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) look: Look,
}

/// Look of a row. Because some terminals have no colours, the text of the row also contains a mark for the look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Heading,
    Fault,
    Attention,
    /// The selected row, which begins with `>`.
    Selected,
    /// The header above figures of an old observation.
    Old,
}
