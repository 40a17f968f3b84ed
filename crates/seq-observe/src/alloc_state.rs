//! States of AllocSvrs. All commands that list AllocSvrs print the same word for the same state.

use serde::Serialize;

/// State of an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocState {
    /// The node may own sections.
    #[default]
    Serves,
    /// An operator drains the node, which still owns sections.
    Draining,
    /// An operator drained the node, which owns no section.
    Drained,
    /// The process of the node is about to exit.
    Leaving,
    /// The process of the node exited after an orderly stop, or after a drain, and the node owns no section.
    Stopped,
    /// The node has no lease, so it serves nothing.
    NoLease,
    /// The node has not renewed its lease within the lease wait, or it does not respond to requests for its status.
    Silent,
}

impl AllocState {
    /// Returns the state of a node that renews its lease. The arguments are from the node's record in the store.
    pub fn of_live(drained: bool, leaving: bool, sections: u32) -> AllocState {
        match (leaving, drained, sections) {
            (true, ..) => AllocState::Leaving,
            (false, true, 0) => AllocState::Drained,
            (false, true, _) => AllocState::Draining,
            (false, false, _) => AllocState::Serves,
        }
    }

    /// Returns the state of a node that does not renew its lease. The arguments are from the node's record in the
    /// store.
    pub fn of_silent(drained: bool, leaving: bool, sections: u32) -> AllocState {
        if (drained || leaving) && sections == 0 { AllocState::Stopped } else { AllocState::Silent }
    }

    /// Returns the word for the state in a table.
    pub fn name(self) -> &'static str {
        match self {
            AllocState::Serves => "serves",
            AllocState::Draining => "draining",
            AllocState::Drained => "drained",
            AllocState::Leaving => "leaving",
            AllocState::Stopped => "stopped",
            AllocState::NoLease => "no lease",
            AllocState::Silent => "silent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_drained_once_it_owns_nothing() {
        let live = |drained, leaving, sections| AllocState::of_live(drained, leaving, sections).name();
        assert_eq!([live(false, false, 0), live(false, false, 5)], ["serves", "serves"]);
        assert_eq!([live(true, false, 5), live(true, false, 0)], ["draining", "drained"]);
        assert_eq!([live(false, true, 5), live(true, true, 0)], ["leaving", "leaving"]);
    }

    #[test]
    fn a_silent_node_is_stopped_if_it_left_its_sections() {
        let silent = |drained, leaving, sections| AllocState::of_silent(drained, leaving, sections).name();
        assert_eq!([silent(false, false, 0), silent(true, false, 5)], ["silent", "silent"]);
        assert_eq!([silent(true, false, 0), silent(false, true, 0)], ["stopped", "stopped"]);
    }
}
