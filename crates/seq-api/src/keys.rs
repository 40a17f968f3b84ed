//! Keyspaces of the cluster in the form that endpoints use, and items of requests for keys.

use seq_core::keyspace::{Bucket, Hashing, KeyHash};
use seq_core::layout::SectionRun;
use seq_core::{Count, Epoch, Refusal, SectionId, Uid};

/// A keyspace of which a node has the buckets' routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// Name of the keyspace.
    pub name: String,
    /// Hashing of its keys.
    pub hashing: Hashing,
    /// The sections of its buckets.
    pub buckets: SectionRun,
}

/// A key, by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey {
    /// The section of the key's bucket.
    pub section: SectionId,
    /// The hash of the key.
    pub hash: KeyHash,
}

/// One item of a request for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedItem {
    /// The key.
    pub key: HashedKey,
    /// The number of seqs; ignored by reads.
    pub count: Count,
    /// Newest epoch of the bucket's section that the client has seen; 0 for none.
    pub epoch: Epoch,
}

/// Items of a request for keys. All of them are of one keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedItems {
    /// Digest of the seed under which the keys are hashed. The owner of a bucket refuses hashes under another seed,
    /// because a key with two hashes would have two counters.
    pub digest: u64,
    /// The items.
    pub items: Vec<KeyedItem>,
}

/// One item of a request for keys, with the key as the caller sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeKey<'a> {
    /// The key, whose size is valid.
    pub key: &'a [u8],
    /// The number of seqs; ignored by reads.
    pub count: Count,
    /// Newest epoch of the bucket's section that the client has seen; 0 for none.
    pub epoch: Epoch,
}

/// Reason why an item of a request for whole keys is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefused {
    /// The key belongs to another tenant than the tenant of this process at the owner.
    OtherTenants,
    /// The numbers of the key were refused.
    Numbers(Refusal),
}

impl From<Refusal> for KeyRefused {
    fn from(refusal: Refusal) -> KeyRefused {
        KeyRefused::Numbers(refusal)
    }
}

/// Converts the results of a request for hashed keys.
pub(crate) fn refused<T>(results: Vec<Result<T, Refusal>>) -> Vec<Result<T, KeyRefused>> {
    results.into_iter().map(|result| result.map_err(KeyRefused::Numbers)).collect()
}

impl Keyspace {
    /// Returns the section of the bucket of a key.
    #[must_use]
    pub fn section_of(&self, key: &[u8]) -> SectionId {
        SectionId(self.buckets.first.0 + u32::from(Bucket::of(key).index()))
    }

    /// Hashes the keys of a request.
    ///
    /// # Errors
    /// [`Refusal::Unserved`] while this node does not know the seed.
    pub fn hashed(&self, keys: &[WholeKey<'_>]) -> Result<KeyedItems, Refusal> {
        let unserved = Refusal::Unserved { section: self.buckets.first };
        let item = |item: &WholeKey<'_>| {
            let WholeKey { key, count, epoch } = *item;
            Some(KeyedItem { key: self.locate(key)?, count, epoch })
        };
        let items = keys.iter().map(item).collect::<Option<Vec<_>>>().ok_or(unserved)?;
        Ok(KeyedItems { digest: self.hashing.digest(), items })
    }

    /// Returns the hash of a key and the section of its bucket; `None` while this node does not know the seed.
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<HashedKey> {
        let seed = self.hashing.seed()?;
        Some(HashedKey { section: self.section_of(key), hash: seed.hash(key) })
    }

    /// Returns the hash of a uid and the section of its bucket, in a keyspace whose keys are the sparse uids; `None`
    /// while this node does not know the seed.
    #[must_use]
    pub fn locate_uid(&self, uid: Uid) -> Option<HashedKey> {
        let seed = self.hashing.seed()?;
        let section = SectionId(self.buckets.first.0 + u32::from(Bucket::of_uid(uid).index()));
        Some(HashedKey { section, hash: seed.hash_uid(uid) })
    }
}

#[cfg(test)]
mod tests {
    use seq_core::keyspace::{BUCKETS, Seed};

    use super::*;

    #[test]
    fn a_key_is_located_by_nodes_that_know_the_seed() {
        let seed = Seed::new([7; 16]);
        let buckets = SectionRun { first: SectionId(10), sections: BUCKETS.into() };
        let keyspace = Keyspace { name: "main".into(), hashing: Hashing::new(seed), buckets };
        // The specification of Redis Cluster has this slot.
        let located = HashedKey { section: SectionId(10 + 12_739), hash: seed.hash(b"123456789") };
        assert_eq!(keyspace.locate(b"123456789"), Some(located));
        let uid = Uid(123_456_789);
        assert_eq!(keyspace.locate_uid(uid), Some(HashedKey { hash: seed.hash_uid(uid), ..located }));
        let client = Keyspace { hashing: Hashing::of_digest(keyspace.hashing.digest()), ..keyspace };
        assert_eq!((client.locate(b"123456789"), client.locate_uid(Uid(123_456_789))), (None, None));
    }
}
