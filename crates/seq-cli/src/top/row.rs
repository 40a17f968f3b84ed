//! Rows of the page, and the observation that they show.

use std::sync::Arc;
use std::time::Duration;

use seq_observe::Observation;

/// The last observation, and whether it is the present state.
pub(super) struct Seen {
    pub(super) observation: Arc<Observation>,
    pub(super) age: Duration,
    /// Reason why no newer observation was made.
    pub(super) error: Option<String>,
    /// The section in detail, with the lines about it.
    pub(super) described: Option<(u32, Vec<String>)>,
}

/// A row of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) look: Look,
}

/// The look of a row. Each look has a mark in the text as well, for terminals without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Heading,
    Fault,
    Attention,
    /// The selected row, which begins with `>`.
    Selected,
    /// Figures that are not of now.
    Old,
}
