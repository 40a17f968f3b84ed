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

use alloc::sync::Arc;
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

/// The nodes that may own sections, and the hash ring with their points.
///
/// A section's first node on the ring depends only on the nodes, so the ring remembers it: placing a section again
/// costs a few nanoseconds. A set whose sections depart one after another places all its sections after each departure.
#[derive(Debug)]
pub struct Ring {
    /// The nodes with a weight above 0, in order of name. No two nodes have the same name.
    nodes: Vec<RingNode>,
    points: StaticHashRing<'static, RingName, usize, PinnedHash>,
    /// Index in `nodes` of each section's first node on the ring, by the number of the section; [`UNKNOWN`] for
    /// sections that were not placed yet. At most two bytes for each of [`limits::MAX_SECTIONS`].
    first: Vec<u16>,
}

/// Mark in [`Ring::first`] of a section that was not placed yet. No node has this index, because a set has at most
/// [`limits::MAX_NODES`].
const UNKNOWN: u16 = u16::MAX;

/// A node on the ring; see [`Candidate`].
#[derive(Debug)]
struct RingNode {
    id: NodeId,
    name: Arc<str>,
    /// Between 1 and [`limits::MAX_WEIGHT`].
    weight: u32,
}

impl Default for Ring {
    /// Creates a ring without nodes.
    fn default() -> Ring {
        Ring::new(&[])
    }
}

impl Ring {
    /// Creates the ring of these nodes. It does not depend on their order.
    #[must_use]
    pub fn new(nodes: &[Candidate<'_>]) -> Ring {
        let node = |node: &Candidate<'_>| RingNode { id: node.id, name: node.name.into(), weight: node.weight };
        let nodes: Vec<RingNode> = weighted(nodes).iter().map(node).collect();
        assert!(nodes.len() <= limits::MAX_NODES, "{} nodes of a set", nodes.len());
        let points = nodes.iter().enumerate().map(|(index, node)| Node {
            key: RingName(node.name.clone()),
            value: index,
            quantity: (node.weight * POINTS_PER_WEIGHT) as usize,
        });
        let points = StaticHashRing::new(PinnedHash, points);
        Ring { nodes, points, first: Vec::new() }
    }

    /// Makes this the ring of these nodes. If it is already, it keeps what it remembers.
    pub fn renew(&mut self, nodes: &[Candidate<'_>]) {
        if !self.is_of(nodes) {
            *self = Ring::new(nodes);
        }
    }

    fn is_of(&self, nodes: &[Candidate<'_>]) -> bool {
        let same = |(ours, one): (&RingNode, Candidate<'_>)| {
            (ours.id, &*ours.name, ours.weight) == (one.id, one.name, one.weight)
        };
        let nodes = weighted(nodes);
        nodes.len() == self.nodes.len() && self.nodes.iter().zip(nodes).all(same)
    }

    /// Returns a proposed owner for each section, in the order of `sections`. The result is empty if no node has a
    /// weight above 0. No node gets more than 1.10 times its share by weight, rounded up.
    #[must_use]
    pub fn propose(&mut self, sections: &[SectionId]) -> Vec<NodeId> {
        if self.nodes.is_empty() {
            return Vec::new();
        }
        let total: u64 = self.nodes.iter().map(|node| u64::from(node.weight)).sum();
        // Rounded up, so that the room of all nodes together is enough for every section.
        let cap = |node: &RingNode| {
            (sections.len() as u64 * u64::from(node.weight) * LOAD_BOUND_PERCENT).div_ceil(total * 100)
        };
        let mut room: Vec<u64> = self.nodes.iter().map(cap).collect();
        let mut place = |section: &SectionId| {
            let mut index = self.first(*section);
            if room[index] == 0 {
                let others = self.candidates(*section).find(|&index| room[index] > 0);
                index = others.expect("the nodes have room for every section");
            }
            room[index] -= 1;
            self.nodes[index].id
        };
        sections.iter().map(&mut place).collect()
    }

    /// Returns the index of the first node on the ring for a section.
    fn first(&mut self, section: SectionId) -> usize {
        let number = section.0 as usize;
        if self.first.len() <= number {
            self.first.resize(number + 1, UNKNOWN);
        }
        if self.first[number] == UNKNOWN {
            let first = self.candidates(section).next().expect("the ring has a node");
            self.first[number] = u16::try_from(first).expect("at most 1,024 nodes");
        }
        self.first[number].into()
    }

    /// Returns the indices of all nodes, in the order in which the ring gives them for a section.
    fn candidates(&self, section: SectionId) -> impl Iterator<Item = usize> + use<'_> {
        self.points.calc_candidates(&RingBytes(section.0.to_le_bytes())).map(|node| node.value)
    }
}

/// Returns the nodes that a ring has: those with a weight above 0, limited to the largest weight, in order of name, and
/// of several with the same name the node with the lowest id.
fn weighted<'a>(nodes: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let limited = nodes.iter().map(|node| Candidate { weight: node.weight.min(limits::MAX_WEIGHT), ..*node });
    let mut nodes: Vec<Candidate<'a>> = limited.filter(|node| node.weight > 0).collect();
    nodes.sort_unstable_by_key(|node| (node.name, node.id));
    nodes.dedup_by_key(|node| node.name);
    nodes
}

/// Hashes the bytes that [`RingName`] and [`RingBytes`] write, and nothing else.
#[derive(Debug)]
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
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RingName(Arc<str>);

impl Hash for RingName {
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
