//! Room for the counters of keys at a node: the rules by which a bucket grows, and by which its counters are evicted,
//! so that the memory of keys is bounded.
//!
//! A bucket grows while the buckets of the node have room for fewer keys than the node's bound. In each **round** of
//! evictions the node visits all its buckets once. A visit evicts the counters that no call has used since the visit
//! before, if the node or the bucket is crowded. So a node that is crowded all the time keeps the counters that were
//! used within a round.
//!
//! A bucket that needs more room than is left cannot grow, although the node may not be crowded by then. Therefore the
//! node is crowded with half as many keys in a round in which a bucket was refused room, and in the round after it.

use crate::keyed::room_for;
use crate::limits;

/// Bound on the keys of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBound {
    /// Number of keys for which the buckets of the node may have room.
    pub most: u64,
}

/// Refusal of a bucket to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The bucket has as many keys as a bucket may have. Evictions in other buckets make no room for it.
    #[error("the bucket has as many keys as a bucket may have")]
    InBucket,
    /// The node has room for as many keys as it may have.
    #[error("the node has room for as many keys as it may have")]
    AtNode,
}

impl KeyBound {
    /// Returns whether a bucket with the counters of `keys` keys, which has no room for another one, may grow. `held`
    /// is the number of keys for which all buckets of the node have room.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn grow(self, keys: u32, held: u64) -> Result<(), NoRoom> {
        if keys as usize >= limits::MAX_BUCKET_KEYS {
            return Err(NoRoom::InBucket);
        }
        let more = room_for(keys as usize).saturating_sub(keys as usize) as u64;
        if held.saturating_add(more) > self.most { Err(NoRoom::AtNode) } else { Ok(()) }
    }

    /// Returns whether a visit evicts counters of a bucket that has counters of `keys` keys. `held` is the number of
    /// keys for which all buckets of the node have room.
    #[must_use]
    pub fn evicts(self, keys: u32, held: u64, rounds: Rounds) -> bool {
        let most = if rounds.lacks_room() { self.most / 2 } else { self.most };
        keys > 0 && (crowds(held, most) || crowds(keys.into(), limits::MAX_BUCKET_KEYS as u64))
    }
}

/// Returns whether `keys` are more than 90 % of `most`.
fn crowds(keys: u64, most: u64) -> bool {
    u128::from(keys) * 10 > u128::from(most) * 9
}

/// Rounds of evictions of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Whether a bucket was refused room in this round.
    refused: bool,
    /// Whether a bucket was refused room in the round before.
    refused_before: bool,
}

impl Rounds {
    /// Notes that a bucket did not grow.
    pub fn note(&mut self, refusal: NoRoom) {
        self.refused |= refusal == NoRoom::AtNode;
    }

    /// Begins the next round.
    pub fn next(&mut self) {
        *self = Rounds { refused: false, refused_before: self.refused };
    }

    fn lacks_room(self) -> bool {
        self.refused || self.refused_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: KeyBound = KeyBound { most: 1_000 };

    #[test]
    fn a_bucket_grows_while_the_larger_table_fits() {
        assert_eq!(BOUND.grow(0, 993), Ok(()));
        assert_eq!(BOUND.grow(0, 994), Err(NoRoom::AtNode));
        // A table for 200 keys has room for 300.
        assert_eq!(BOUND.grow(200, 900), Ok(()));
        assert_eq!(BOUND.grow(200, 901), Err(NoRoom::AtNode));
        assert_eq!(BOUND.grow(200, u64::MAX), Err(NoRoom::AtNode));
        let full = limits::MAX_BUCKET_KEYS as u32;
        let vast = KeyBound { most: u64::MAX };
        assert_eq!((vast.grow(full - 1, 0), vast.grow(full, 0)), (Ok(()), Err(NoRoom::InBucket)));
    }

    #[test]
    fn counters_are_evicted_from_90_percent_on() {
        let rounds = Rounds::default();
        assert_eq!([900, 901].map(|held| BOUND.evicts(1, held, rounds)), [false, true]);
        assert!(!BOUND.evicts(0, 1_000, rounds), "a bucket without counters has none to evict");
        let crowded = (limits::MAX_BUCKET_KEYS * 9 / 10) as u32;
        assert_eq!([crowded, crowded + 1].map(|keys| BOUND.evicts(keys, 0, rounds)), [false, true]);
    }

    #[test]
    fn a_refusal_halves_the_bound_for_its_round_and_the_next() {
        let mut rounds = Rounds::default();
        let evicts = |rounds| [450, 451].map(|held| BOUND.evicts(1, held, rounds));
        rounds.note(NoRoom::InBucket);
        assert_eq!(evicts(rounds), [false, false]);
        rounds.note(NoRoom::AtNode);
        assert_eq!(evicts(rounds), [false, true]);
        rounds.next();
        assert_eq!(evicts(rounds), [false, true]);
        rounds.next();
        assert_eq!(evicts(rounds), [false, false]);
    }
}
