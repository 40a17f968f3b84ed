//! Keys of any bytes, which a keyspace maps to counters as the layout maps uids to slots. A keyspace has 16,384
//! sections, which are called buckets.
//!
//! The bucket of a key is the slot of Redis Cluster, so clients can compute it and route by it. Within its bucket, a
//! key is identified by a hash of 127 bits, and the key itself is not stored. The hash depends on a secret seed of the
//! keyspace, so callers cannot choose keys whose hashes collide.
//!
//! Two keys of a bucket with equal hashes would share a counter. Each of the two would still get unique, increasing
//! numbers, but with gaps, and reads of their last numbers would be wrong. With `n` keys in a keyspace, the probability
//! of any such pair is `n^2 / 2^142`, which is below the rate of memory errors.
//!
//! **Invariant:** these functions never change, because another function would assign other counters to keys.

use core::fmt;

use sha2::{Digest, Sha256};
use siphasher::sip128::{Hash128, SipHasher13};

use crate::id::Uid;

mod crc16;

/// Number of buckets of each keyspace.
pub const BUCKETS: u16 = 16_384;

/// Index of a bucket in its keyspace, `0 .. BUCKETS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u16);

/// Secret number of a keyspace, drawn at random when the keyspace is created. Nodes of the cluster know it, clients do
/// not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 16]);

/// How the keys of a keyspace are hashed, as far as a process knows it. Two values are equal if their digests and the
/// kinds of their keys are.
#[derive(Clone, Copy, Debug)]
pub struct Hashing {
    digest: u64,
    seed: Option<Seed>,
    of_uids: bool,
}

/// Hash of a key under the seed of its keyspace. It identifies the key within the key's bucket.
///
/// Invariant: `lo` is not 0; `hi` is not 0, and its lowest bit is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash {
    lo: u64,
    hi: u64,
}

impl Bucket {
    /// Returns the bucket of a key: CRC16 (XMODEM) modulo [`BUCKETS`], of the key's hash tag if the key has one. The
    /// hash tag is the text between the first `{` and the next `}`, unless it is empty.
    #[must_use]
    pub fn of(key: &[u8]) -> Bucket {
        Bucket(crc16::crc16(hash_tag(key).unwrap_or(key)) % BUCKETS)
    }

    /// Returns the bucket of a uid, which is the bucket of its decimal digits. So the key `{N}` of a client of Redis
    /// Cluster is in the same bucket as the uid `N`.
    #[must_use]
    pub fn of_uid(uid: Uid) -> Bucket {
        let mut digits = [0; MAX_DIGITS];
        let (mut first, mut rest) = (MAX_DIGITS, uid.0);
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Bucket::of(&digits[first..]);
            }
        }
    }

    /// Returns the bucket with this index; `None` if the index is not below [`BUCKETS`].
    #[must_use]
    pub fn new(index: u16) -> Option<Bucket> {
        (index < BUCKETS).then_some(Bucket(index))
    }

    /// Returns the index.
    #[must_use]
    pub fn index(self) -> u16 {
        self.0
    }
}

/// Number of decimal digits of the highest uid.
const MAX_DIGITS: usize = 20;

/// Returns the hash tag of a key; `None` if the key has none, so that the whole key decides its bucket.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    // Searches several bytes at a time, unlike `position`. Few keys have a tag.
    if !key.contains(&b'{') {
        return None;
    }
    let (_, after) = split_at_byte(key, b'{')?;
    let (tag, _) = split_at_byte(after, b'}')?;
    (!tag.is_empty()).then_some(tag)
}

/// Returns the bytes before and after the first `byte`.
fn split_at_byte(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|other| *other == byte)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

impl Seed {
    /// Creates the seed from random bytes.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Seed {
        Seed(random)
    }

    /// Returns the bytes, which are secret.
    #[must_use]
    pub fn secret(&self) -> [u8; 16] {
        self.0
    }

    /// Returns the hash of a key.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let Hash128 { h1, h2 } = SipHasher13::new_with_key(&self.0).hash(key);
        KeyHash::nearest(h1, h2)
    }

    /// Returns the hash of a uid, which is the hash of its 8 bytes in little endian order.
    #[must_use]
    pub fn hash_uid(&self, uid: Uid) -> KeyHash {
        self.hash(&uid.0.to_le_bytes())
    }
}

impl Hashing {
    /// Creates the hashing of a process that knows the seed.
    #[must_use]
    pub fn new(seed: Seed) -> Hashing {
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = Sha256::digest(seed.0).into();
        Hashing { digest: u64::from_le_bytes([a, b, c, d, e, f, g, h]), seed: Some(seed), of_uids: false }
    }

    /// Creates the hashing of a process that does not know the seed, for example of a client.
    #[must_use]
    pub fn of_digest(digest: u64) -> Hashing {
        Hashing { digest, seed: None, of_uids: false }
    }

    /// Returns this hashing for a keyspace whose keys are the sparse uids if `of_uids`, and otherwise any bytes.
    #[must_use]
    pub fn with_uids(self, of_uids: bool) -> Hashing {
        Hashing { of_uids, ..self }
    }

    /// Returns whether the keys are the sparse uids, which are the uids that the set files do not declare. Their
    /// buckets and hashes are [`Bucket::of_uid`] and [`Seed::hash_uid`].
    #[must_use]
    pub fn has_uids(&self) -> bool {
        self.of_uids
    }

    /// Returns the digest of the seed, from which the seed cannot be computed: the first 64 bits of SHA-256.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the seed; `None` if this process does not know it.
    #[must_use]
    pub fn seed(&self) -> Option<Seed> {
        self.seed
    }
}

impl PartialEq for Hashing {
    fn eq(&self, other: &Hashing) -> bool {
        (self.digest, self.of_uids) == (other.digest, other.of_uids)
    }
}

impl Eq for Hashing {}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

impl KeyHash {
    /// Bit of `hi` that is 0 in every hash, because entries in memory use it as a mark.
    pub(crate) const SPARE: u64 = 1;

    /// Creates a hash from 128 bits, of which the values that no hash has are replaced.
    fn nearest(lo: u64, hi: u64) -> KeyHash {
        let hi = hi & !KeyHash::SPARE;
        KeyHash { lo: lo.max(1), hi: if hi == 0 { KeyHash::SPARE << 1 } else { hi } }
    }

    /// Creates a hash from its two halves; `None` if no key has this hash.
    pub(crate) fn from_halves(lo: u64, hi: u64) -> Option<KeyHash> {
        let hash = KeyHash { lo, hi };
        (hash == KeyHash::nearest(lo, hi)).then_some(hash)
    }

    /// Returns the lower 64 bits, which are not 0.
    #[inline]
    pub(crate) fn lo(self) -> u64 {
        self.lo
    }

    /// Returns the upper 64 bits, which are not 0, with a lowest bit of 0.
    #[inline]
    pub(crate) fn hi(self) -> u64 {
        self.hi
    }

    /// Reads a hash from the bytes of a message; `None` if no key has this hash.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<KeyHash> {
        let bits = u128::from_le_bytes(bytes);
        KeyHash::from_halves(bits as u64, (bits >> 64) as u64)
    }

    /// Returns the bytes of the hash, the lowest bits first.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.hi) << 64 | u128::from(self.lo)).to_le_bytes()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.hi, self.lo)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
