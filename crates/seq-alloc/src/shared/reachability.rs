//! Whether this node and its peers can be reached at their addresses for callers, as found by the most recent checks.

use parking_lot::Mutex;
use seq_core::self_check::Decision;

/// Results of the checks of `self_check`, which alone writes them.
#[derive(Debug)]
pub(crate) struct Reachability {
    /// Decision of the last round of checks of this node.
    decision: Mutex<Decision>,
    /// Names of the other nodes of the set that this node cannot reach, for this node's status.
    unreached: Mutex<Vec<String>>,
}

impl Reachability {
    /// Creates the state before the first round of checks. In this state the node serves, and no peer is unreachable.
    pub(crate) fn new() -> Reachability {
        Reachability { decision: Mutex::new(Decision::Serve), unreached: Mutex::default() }
    }

    /// Replaces the decision, and returns the former one.
    pub(crate) fn decide(&self, decision: Decision) -> Decision {
        std::mem::replace(&mut *self.decision.lock(), decision)
    }

    /// Returns the cause for which this node is withdrawn; `None` if it is not withdrawn. A withdrawn node hands its
    /// sections over to other nodes, or sends no renewals.
    pub(crate) fn withdrawn(&self) -> Option<String> {
        let decision = *self.decision.lock();
        let withdrawn = matches!(decision, Decision::HandOver(_) | Decision::Stop);
        decision.cause().filter(|_| withdrawn).map(|cause| cause.to_string())
    }

    /// Returns whether this node sends no registrations and renewals until it has another certificate.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.decision.lock() == Decision::Stop
    }

    /// Returns the names of the other nodes that this node cannot reach.
    pub(crate) fn unreached(&self) -> Vec<String> {
        self.unreached.lock().clone()
    }

    /// Replaces the names of the nodes that this node cannot reach, and returns the previous names.
    pub(crate) fn set_unreached(&self, names: Vec<String>) -> Vec<String> {
        std::mem::replace(&mut *self.unreached.lock(), names)
    }
}
