//! The rows of the page, and the observation that the page shows.

use std::sync::Arc;
use std::time::Duration;

use seq_observe::Observation;

/// The last observation, its age, and the error if a newer observation failed.
pub(super) struct Seen {
    pub(super) observation: Arc<Observation>,
    pub(super) age: Duration,
    /// Reason why a newer observation failed.
    pub(super) error: Option<String>,
    /// Index of the section that is shown in detail, with the lines about this section.
    pub(super) described: Option<(u32, Vec<String>)>,
}

/// A row of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) look: Look,
}

/// The look of a row. For terminals without colours, the text of the row also contains a mark that shows its look.
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
