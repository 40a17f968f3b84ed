//! Measures the cost of a number of a key in memory: the hash and the bucket of a key, and [`KeyedSection::take`] of
//! random keys in all buckets of a keyspace. The same number of random uids in sections of 100,000 are next to it. One
//! thread. The goals are at most 50 ns for a key of 40 bytes, at most 5 times a uid for one key after the other, and at
//! most 2.5 times a uid in batches whose entries are prefetched.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seq_core::keyspace::{BUCKETS, Bucket, KeyHash, Seed};
use seq_core::section::{Keep, KeyedSection};
use seq_core::{Count, Layout, Section, SectionId, Seq, Step, Take, Uid};

/// A ceiling that no run reaches.
const CEILING: Seq = Seq(1 << 40);
const STEP: Step = Step(10_000);
/// Number of keys, and of uids.
const KEYS: u64 = 4_000_000;
const BATCH: usize = 64;

/// Draws numbers below [`KEYS`], the same numbers for each measurement.
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * KEYS) >> 32
    }
}

/// Mixes the bits of a number.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Returns the bucket and the hash of a key, without the time of the real hash and without a load from memory.
fn locate(key: u64) -> (usize, KeyHash) {
    let (lo, hi) = (mix(2 * key + 1), mix(2 * key + 2));
    let hash = KeyHash::from_bytes((u128::from(hi & !1 | 2) << 64 | u128::from(lo | 1)).to_le_bytes());
    ((hi >> 32) as usize % usize::from(BUCKETS), hash.expect("both halves are not 0"))
}

/// Creates all buckets of a keyspace, with all keys.
fn buckets() -> Vec<Arc<KeyedSection>> {
    let new = |_| {
        let bucket = KeyedSection::from_ceiling(Seq(0), STEP);
        let _ = bucket.raised(CEILING);
        bucket
    };
    let mut buckets: Vec<KeyedSection> = (0..BUCKETS).map(new).collect();
    for (bucket, hash) in (0..KEYS).map(locate) {
        while buckets[bucket].take(hash, Count::ONE).is_err() {
            buckets[bucket] = buckets[bucket].rebuild(Keep::All).section;
        }
    }
    buckets.into_iter().map(Arc::new).collect()
}

/// Creates the sections of all uids, each of which has taken a number.
fn sections(layout: &Layout) -> Vec<Arc<Section>> {
    let sections: Vec<_> =
        (0..layout.sections()).map(|_| Section::takeover(layout.section_size(), Seq(0), STEP)).collect();
    for (id, section) in (0..).map(SectionId).zip(&sections) {
        let _ = section.raised(CEILING);
        for uid in layout.uids_of(id) {
            let (_, slot) = layout.locate(Uid(uid)).expect("in range");
            section.take(slot, Count::ONE);
        }
    }
    sections.into_iter().map(Arc::new).collect()
}

fn value(taken: Take) -> u64 {
    match taken {
        Take::Given { value, .. } => value.0,
        other => panic!("{other:?}"),
    }
}

fn hash(c: &mut Criterion) {
    let seed = Seed::new(*b"0123456789abcdef");
    let key = black_box(*b"conversation:8f3a2b1c-5d6e-4f70-a1b2-c3d");
    let mut group = c.benchmark_group("key of 40 bytes");
    group.bench_function("bucket", |b| b.iter(|| Bucket::of(black_box(&key))));
    group.bench_function("hash", |b| b.iter(|| seed.hash(black_box(&key))));
    group.bench_function("bucket and hash", |b| {
        b.iter(|| (Bucket::of(black_box(&key)), seed.hash(black_box(&key))));
    });
    group.finish();
}

fn take(c: &mut Criterion) {
    let mut group = c.benchmark_group("4M, one after the other");
    group.throughput(Throughput::Elements(1));
    let layout = Layout::new(0..KEYS, 100_000).expect("a good layout");
    let (sections, buckets) = (sections(&layout), buckets());
    // As many bytes as the tables of the keys, without a search: a number of a key cannot cost less than an access.
    let bytes: usize = buckets.iter().map(|bucket| bucket.counter_bytes()).sum();
    let memory: Vec<AtomicU64> = (0..bytes as u64 / 8).map(AtomicU64::new).collect();
    group.bench_function("uid", |b| {
        let mut random = Random::new();
        b.iter(|| {
            let (id, slot) = layout.locate(Uid(random.next())).expect("in range");
            black_box(value(sections[id.0 as usize].take(slot, Count::ONE)))
        });
    });
    group.bench_function("key", |b| {
        let mut random = Random::new();
        b.iter(|| {
            let (bucket, hash) = locate(random.next());
            black_box(value(buckets[bucket].take(hash, Count::ONE).expect("it has a counter")))
        });
    });
    group.bench_function("memory", |b| {
        let mut random = Random::new();
        b.iter(|| {
            let place = mix(random.next()) % memory.len() as u64;
            black_box(memory[place as usize].fetch_add(1, Relaxed))
        });
    });
    group.finish();

    let mut group = c.benchmark_group("4M, batches of 64");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("uid", |b| {
        let mut random = Random::new();
        b.iter(|| {
            let located = [(); BATCH].map(|()| layout.locate(Uid(random.next())).expect("in range"));
            let warm = located.iter().fold(0, |warm, (id, slot)| warm | sections[id.0 as usize].warm(*slot));
            let take = |(id, slot): &(SectionId, _)| value(sections[id.0 as usize].take(*slot, Count::ONE));
            black_box((warm, located.iter().map(take).fold(0, u64::wrapping_add)))
        });
    });
    group.bench_function("key", |b| {
        let mut random = Random::new();
        b.iter(|| {
            let located = [(); BATCH].map(|()| locate(random.next()));
            let warm = located.iter().fold(0, |warm, (bucket, hash)| warm | buckets[*bucket].warm(*hash));
            let take = |(bucket, hash): &(usize, KeyHash)| buckets[*bucket].take(*hash, Count::ONE);
            let values = located.iter().map(|key| value(take(key).expect("it has a counter")));
            black_box((warm, values.fold(0, u64::wrapping_add)))
        });
    });
    group.finish();
}

fn rebuild(c: &mut Criterion) {
    let mut group = c.benchmark_group("bucket of 50,000 keys");
    let copy = {
        let mut bucket = KeyedSection::from_ceiling(Seq(0), STEP);
        let _ = bucket.raised(CEILING);
        for (_, hash) in (0..50_000).map(locate) {
            while bucket.take(hash, Count::ONE).is_err() {
                bucket = bucket.rebuild(Keep::All).section;
            }
        }
        bucket.freeze()
    };
    let start = || KeyedSection::from_copy(&copy, CEILING, STEP).expect("a good copy");
    group.bench_function("rebuild", |b| {
        b.iter_with_large_drop(|| {
            let bucket = start();
            (bucket.rebuild(Keep::All), bucket)
        });
    });
    group.bench_function("start from a copy", |b| b.iter_with_large_drop(start));
    group.finish();
}

criterion_group!(benches, hash, take, rebuild);
criterion_main!(benches);
