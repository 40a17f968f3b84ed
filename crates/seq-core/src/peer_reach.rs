//! Records which other nodes of its set a node reaches when it connects to their ports for callers.
//!
//! In each round a node connects to the next of the other nodes, and also to nodes to which its last connection failed.
//! So the rate of connections does not grow with the size of the set, and a node that cannot be reached is reported
//! after a few rounds.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound::{Excluded, Unbounded};

use crate::id::NodeId;

/// Number of connections in a row that must fail before a node counts as not reached. After one successful connection
/// the node counts as reached again.
const FAILURES: u32 = 3;

/// Most nodes to which a node connects in one round.
const MOST_DUE: usize = 4;

/// Reachability of the other nodes, as one node observes it.
#[derive(Clone, Debug, Default)]
pub struct PeerReach {
    /// For each node to which the last connection failed, the number of failed connections in a row.
    failures: BTreeMap<NodeId, u32>,
    /// The node whose turn was last.
    last: NodeId,
}

impl PeerReach {
    /// Returns the nodes to which this node should connect in the next round. `others` are all other nodes of the set.
    pub fn due(&mut self, others: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        self.failures.retain(|id, _| others.contains(id));
        let next = others.range((Excluded(self.last), Unbounded)).next().or_else(|| others.first()).copied();
        self.last = next.unwrap_or_default();
        let failing = self.failures.iter().filter(|(_, failures)| **failures < FAILURES).map(|(id, _)| *id);
        next.into_iter().chain(failing).take(MOST_DUE).collect()
    }

    /// Counts the result of a connection to the node `id`.
    pub fn dialled(&mut self, id: NodeId, reached: bool) {
        if reached {
            self.failures.remove(&id);
        } else {
            let failures = self.failures.entry(id).or_default();
            *failures = failures.saturating_add(1);
        }
    }

    /// Returns the nodes that this node does not reach.
    pub fn unreached(&self) -> impl Iterator<Item = NodeId> {
        self.failures.iter().filter(|(_, failures)| **failures >= FAILURES).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn ids(ids: &[u32]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    /// Dials the nodes that are due in a round, and returns them.
    fn round(reach: &mut PeerReach, others: &[u32], down: &[u32]) -> BTreeSet<NodeId> {
        let due = reach.due(&ids(others));
        due.iter().for_each(|id| reach.dialled(*id, !down.contains(&id.0)));
        due
    }

    #[test]
    fn each_node_has_its_turn_and_one_that_failed_is_dialled_again() {
        let mut reach = PeerReach::default();
        let mut rounds = |down: &[u32], count: usize| -> Vec<_> {
            (0..count).map(|_| round(&mut reach, &[1, 4, 7], down)).collect()
        };
        assert_eq!(rounds(&[], 4), [ids(&[1]), ids(&[4]), ids(&[7]), ids(&[1])]);
        assert_eq!(rounds(&[4], 4), [ids(&[4]), ids(&[4, 7]), ids(&[1, 4]), ids(&[4])]);
        assert_eq!(reach.unreached().collect::<Vec<_>>(), [NodeId(4)]);
        // It keeps its turn, and one success is enough.
        let mut rounds = |count: usize| -> Vec<_> { (0..count).map(|_| round(&mut reach, &[1, 4, 7], &[])).collect() };
        assert_eq!(rounds(3), [ids(&[7]), ids(&[1]), ids(&[4])]);
        assert_eq!(reach.unreached().count(), 0);
    }

    #[test]
    fn rounds_are_small_and_nodes_that_are_gone_are_forgotten() {
        let (mut reach, all) = (PeerReach::default(), (1..=50).collect::<Vec<_>>());
        for _ in 0..50 {
            assert!(round(&mut reach, &all, &all).len() <= MOST_DUE);
        }
        assert!(reach.unreached().count() > 5);
        assert_eq!(round(&mut reach, &[], &[]), ids(&[]));
        assert_eq!(reach.unreached().count(), 0);
    }
}
