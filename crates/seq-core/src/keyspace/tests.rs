extern crate std;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// The key of the published test vectors of SipHash.
const SEED: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// A sparse uid, with the slot that Redis Cluster has for its digits.
const SNOWFLAKE: u64 = 1_234_567_890_123_456_789;
const SNOWFLAKE_SLOT: u16 = 5_033;

fn bucket(key: &str) -> u16 {
    Bucket::of(key.as_bytes()).index()
}

/// `CLUSTER KEYSLOT` of Redis gives these slots. The keys with braces are the examples of the specification of Redis
/// Cluster.
#[test]
fn buckets_are_the_slots_of_redis_cluster() {
    for (key, slot) in [
        ("123456789", 0x31c3),
        ("somekey", 11_058),
        ("foo", 12_182),
        ("bar", 5_061),
        ("foo{hash_tag}", 2_515),
        ("hash_tag", 2_515),
        ("user1000", 3_443),
        ("{user1000}.following", 3_443),
        ("{user1000}.followers", 3_443),
        ("foo{}{bar}", 8_363),
        ("foo{bar}{zap}", 5_061),
        ("{bar", 4_015),
        ("foo{{bar}}zap", 4_015),
        ("{}", 15_257),
        ("{", 4_092),
        ("", 0),
    ] {
        assert_eq!(bucket(key), slot, "{key}");
    }
    assert_eq!(bucket("}a{b}c"), bucket("b"), "a brace before the tag does not count");
    assert_eq!(Bucket::of(b"\xff{\0\xfe}\n"), Bucket::of(b"\0\xfe"), "keys are bytes");
}

#[test]
fn the_bucket_of_a_uid_is_that_of_its_digits() {
    for (uid, slot) in [(0, 13_907), (42, 8_000), (u64::MAX, 5_255)] {
        assert_eq!(Bucket::of_uid(Uid(uid)).index(), slot, "{uid}");
    }
    // A Snowflake id: `CLUSTER KEYSLOT 1234567890123456789` of Redis gives this slot.
    assert_eq!(Bucket::of_uid(Uid(SNOWFLAKE)).index(), SNOWFLAKE_SLOT);
    for uid in [9, 10, 1_234_567_890, SNOWFLAKE, 1 << 63] {
        assert_eq!(Bucket::of_uid(Uid(uid)).index(), bucket(&format!("seq:{{{uid}}}")));
    }
}

#[test]
fn a_bucket_has_an_index_below_the_number_of_buckets() {
    assert_eq!(Bucket::new(16_383).map(Bucket::index), Some(16_383));
    assert_eq!(Bucket::new(16_384), None);
}

/// SipHash with 128 bits from its definition, with `compressions` and `finalizations` rounds.
fn siphash(key: [u8; 16], message: &[u8], compressions: u32, finalizations: u32) -> [u8; 16] {
    fn rounds(v: &mut [u64; 4], rounds: u32) {
        for _ in 0..rounds {
            v[0] = v[0].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[2] = v[2].rotate_left(32);
        }
    }
    let half = |half: usize| u64::from_le_bytes(key[8 * half..][..8].try_into().unwrap());
    let (k0, k1) = (half(0), half(1));
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = message.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = message.len() as u8;
    for word in words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word)) {
        v[3] ^= word;
        rounds(&mut v, compressions);
        v[0] ^= word;
    }
    let mut hash = [0; 16];
    for (half, (lane, mask)) in hash.chunks_mut(8).zip([(2, 0xee), (1, 0xdd)]) {
        v[lane] ^= mask;
        rounds(&mut v, finalizations);
        half.copy_from_slice(&(v[0] ^ v[1] ^ v[2] ^ v[3]).to_le_bytes());
    }
    hash
}

/// Compares the definition above with the vectors that the authors of SipHash published, which have two and four
/// rounds: messages of 0 to 63 bytes.
#[test]
fn the_definition_of_siphash_yields_its_published_vectors() {
    let message: Vec<u8> = (0..63).collect();
    let vectors: Vec<[u8; 16]> = (0..=63).map(|len| siphash(SEED, &message[..len], 2, 4)).collect();
    assert_eq!(u128::from_be_bytes(vectors[0]), 0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293);
    assert_eq!(u128::from_be_bytes(vectors[15]), 0x5493_e999_33b0_a811_7e08_ec0f_97cf_c3d9);
    assert_eq!(u128::from_be_bytes(vectors[63]), 0x5150_d177_2f50_834a_503e_069a_973f_bd7c);
    let all: [u8; 32] = Sha256::digest(vectors.concat()).into();
    assert_eq!(all[..8], [0xec, 0xfa, 0xa9, 0xfe, 0x47, 0xff, 0x78, 0x8f]);
}

proptest! {
    #[test]
    fn a_hash_is_siphash_with_one_and_three_rounds(
        seed in any::<[u8; 16]>(),
        key in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let [lo, hi] = [0, 8].map(|at| u64::from_le_bytes(siphash(seed, &key, 1, 3)[at..][..8].try_into().unwrap()));
        prop_assert_eq!(Seed::new(seed).hash(&key), KeyHash::nearest(lo, hi));
    }

    #[test]
    fn the_bytes_of_a_hash_are_read_as_the_hash(seed in any::<[u8; 16]>(), key in any::<[u8; 9]>()) {
        let hash = Seed::new(seed).hash(&key);
        prop_assert_eq!(KeyHash::from_bytes(hash.to_bytes()), Some(hash));
    }
}

/// Other hashes would assign other counters to the keys of a cluster.
#[test]
fn hashes_are_pinned() {
    let seed = Seed::new(SEED);
    assert_eq!(format!("{:?}", seed.hash(b"conv:42")), "03158b1363daf0e4fd1d77ed11654791");
    assert_eq!(format!("{:?}", seed.hash_uid(Uid(42))), "353e67c071b29c9c954aee18e847ab76");
    assert_eq!(seed.hash_uid(Uid(42)), seed.hash(&[42, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(format!("{:?}", seed.hash_uid(Uid(SNOWFLAKE))), "1b65f33b813e84c6c9c2328df0a7b844");
    assert_eq!(format!("{:?}", seed.hash_uid(Uid(u64::MAX))), "565ddd71bb9a0cae772d5bb1d8d6400b");
}

#[test]
fn no_hash_has_the_values_that_entries_in_memory_need() {
    assert_eq!(KeyHash::nearest(0, 0), KeyHash { lo: 1, hi: 2 });
    assert_eq!(KeyHash::nearest(0, 1), KeyHash { lo: 1, hi: 2 });
    assert_eq!(KeyHash::nearest(7, 9), KeyHash { lo: 7, hi: 8 });
    let bytes = |lo: u64, hi: u64| (u128::from(hi) << 64 | u128::from(lo)).to_le_bytes();
    for (lo, hi) in [(0, 8), (7, 0), (7, 1), (7, 9)] {
        assert_eq!(KeyHash::from_bytes(bytes(lo, hi)), None, "{lo} {hi}");
    }
    assert_eq!(KeyHash::from_bytes(bytes(7, 8)), Some(KeyHash { lo: 7, hi: 8 }));
}

/// The digest is in the id of the layout, so that two processes with other seeds refuse each other's messages.
#[test]
fn a_digest_stands_for_a_seed() {
    let hashing = Hashing::new(Seed::new(SEED));
    assert_eq!(hashing.digest(), 0xbe36_bf05_26cb_45be, "{:#x}", hashing.digest());
    assert_eq!(Hashing::of_digest(hashing.digest()), hashing);
    assert_ne!(Hashing::new(Seed::new([7; 16])), hashing);
    assert_eq!((hashing.seed(), Hashing::of_digest(1).seed()), (Some(Seed::new(SEED)), None));
    let of_uids = hashing.with_uids(true);
    assert_eq!((of_uids.has_uids(), of_uids.digest(), of_uids.seed()), (true, hashing.digest(), hashing.seed()));
    assert_ne!(of_uids, hashing, "keys of another kind have other counters");
    assert_eq!(of_uids.with_uids(false), hashing);
}

#[test]
fn another_seed_makes_other_hashes_and_is_never_printed() {
    let hashes: BTreeSet<KeyHash> = (0..100).map(|seed| Seed::new([seed; 16]).hash(b"conv:42")).collect();
    assert_eq!(hashes.len(), 100);
    assert_eq!(format!("{:?}", Seed::new([7; 16])), "Seed(..)");
    assert_eq!(Seed::new([7; 16]).secret(), [7; 16]);
}
