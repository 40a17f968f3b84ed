//! Proposes an owner for each section, by consistent hashing with bounded load.
//!
//! The result is only a proposal. Only the route table in the store's state decides which node owns a section. A node's
//! points on the hash ring depend only on the node's name and weight. So if a node joins or leaves, few sections move
//! in addition to the node's own share, and the sections of a dead node spread over all other nodes. The bound on the
//! load keeps even the node with the most sections near its share.
//!
//! The crate `consistent_hash` computes the ring. The keys on the ring are explicit little-endian bytes, because the
//! bytes that a derived `Hash` writes depend on the compiler and the machine. Tests compare the proposed owners with
//! stored results, because two versions of the program that propose different owners would move sections back and
//! forth.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use consistent_hash::{DefaultHash, Node, RingHash, StaticHashRing};

use crate::id::{NodeId, SectionId};
use crate::limits;

/// A node that may own sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The node's id.
    pub id: NodeId,
    /// Name of the node, unique among the candidates. A node's points on the ring are computed from its name and not
    /// from its id, because ids are assigned in the order of first registration, and that order must not matter.
    pub name: &'a str,
    /// Weight relative to the other candidates, up to [`limits::MAX_WEIGHT`]. A node with weight 0 gets no sections.
    pub weight: u32,
}

/// Number of points on the ring for each unit of a node's weight. Without a bound on the load, the node with the most
/// sections has 1.10 times its share with 160 points, and 1.36 times its share with 40 points. So with 40 points,
/// [`LOAD_BOUND_PERCENT`] would move many sections away from the first node that the ring gives for them.
const POINTS_PER_WEIGHT: u32 = 160;

/// Maximum number of sections of a node, in percent of the node's share by weight. With a lower maximum, more sections
/// would move when nodes join and leave.
const LOAD_BOUND_PERCENT: u64 = 110;

/// Returns a proposed owner for each section, in the order of `sections`.
///
/// The result does not depend on the order of `nodes`. It is empty if no node has a weight above 0. No node gets more
/// than 1.10 times its share by weight, rounded up.
#[must_use]
pub fn propose(sections: &[SectionId], nodes: &[Candidate<'_>]) -> Vec<NodeId> {
    let weight_of = |node: &Candidate<'_>| node.weight.min(limits::MAX_WEIGHT);
    let mut nodes: Vec<Candidate<'_>> = nodes.iter().copied().filter(|node| node.weight > 0).collect();
    nodes.sort_unstable_by_key(|node| (node.name, node.id));
    nodes.dedup_by_key(|node| node.name);
    if nodes.is_empty() {
        return Vec::new();
    }

    let total: u64 = nodes.iter().map(|node| u64::from(weight_of(node))).sum();
    // Rounded up, so that the room of all nodes together is enough for every section.
    let cap = |node: &Candidate<'_>| {
        (sections.len() as u64 * u64::from(weight_of(node)) * LOAD_BOUND_PERCENT).div_ceil(total * 100)
    };
    let mut room: Vec<u64> = nodes.iter().map(cap).collect();

    let points = nodes.iter().enumerate().map(|(index, node)| Node {
        key: RingName(node.name),
        value: index,
        quantity: (weight_of(node) * POINTS_PER_WEIGHT) as usize,
    });
    let ring = StaticHashRing::new(PinnedHash, points);
    let mut place = |section: &SectionId| {
        let mut candidates = ring.calc_candidates(&RingBytes(section.0.to_le_bytes())).map(|node| node.value);
        let index = candidates.find(|&index| room[index] > 0).expect("the nodes have room for every section");
        room[index] -= 1;
        nodes[index].id
    };
    sections.iter().map(&mut place).collect()
}

/// Hashes the bytes that [`RingName`] and [`RingBytes`] write, and nothing else.
struct PinnedHash;

impl RingHash for PinnedHash {
    fn hash_item<T: Hash>(&self, item: &T) -> u64 {
        // SipHash 1-3 with a fixed key, which reads its input as little-endian on every machine.
        DefaultHash.hash_item(item)
    }

    fn hash_vnode<K: Hash>(&self, node_key: &K, vnode_seq: usize) -> u64 {
        self.hash_item(&Point(node_key, vnode_seq as u32))
    }
}

/// A node's name, which is hashed as its bytes and an end mark that no name contains.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RingName<'a>(&'a str);

impl Hash for RingName<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0.as_bytes());
        state.write(&[0xff]);
    }
}

/// A section's id, which is hashed as four bytes.
struct RingBytes([u8; 4]);

impl Hash for RingBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

/// A point of a node on the ring.
struct Point<'a, K>(&'a K, u32);

impl<K: Hash> Hash for Point<'_, K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        state.write(&self.1.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
