//! Memory of the counters of keys, and the pause of a bucket that grows.

use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use seq_core::keyspace::{BUCKETS, KeyHash};
use seq_core::section::{Keep, KeyedSection};
use seq_core::{Count, Seq, Step};

use crate::Scale;
use crate::memory::resident_bytes;
use crate::report::{Report, short};

const STEP: Step = Step(10_000);
/// A ceiling that no run reaches.
const CEILING: Seq = Seq(1 << 40);

/// The most keys of a bucket in the pauses that are measured: eight times the keys of a bucket in the largest keyspace.
const BUCKET_KEYS: u64 = 50_000;

/// Measures the bytes of a key over the number of keys of a keyspace, and how long a bucket is frozen when it grows.
///
/// A bucket has a random number of keys, as with real hashes. The largest case is a part of the buckets, each with as
/// many keys as in a keyspace of that size.
pub(crate) fn scenario(scale: Scale, report: &mut Report) -> io::Result<()> {
    // Keys of the keyspace, and the part of its buckets that are filled.
    let (cases, full): (&[(u64, u16)], u64) = match scale {
        Scale::Full => (&[(1_000_000, 1), (2_000_000, 1), (5_000_000, 1), (10_000_000, 1), (100_000_000, 16)], 64),
        Scale::Smoke => (&[(100_000, 16), (1_000_000, 64)], 1),
    };
    let bar = report.progress("bytes/key", cases.len() + 1);
    let before = resident_bytes();
    let empty: Vec<KeyedSection> = (0..BUCKETS).map(|_| bucket()).collect();
    report.goal(
        "bytes of a bucket without keys",
        resident_bytes().saturating_sub(before) as f64 / empty.len() as f64,
        1_024.0,
    );
    drop(empty);
    // Buckets stay until the end, and resident bytes are of all cases so far, because a case gets the memory that
    // growing buckets of the cases before have freed.
    let (mut rows, mut sum, mut kept, mut kept_keys) = (Vec::new(), 0.0, Vec::new(), 0);
    let before = resident_bytes();
    for &(keys, part) in cases {
        let (buckets, taken) = fill(keys, BUCKETS / part);
        kept_keys += taken;
        let resident = resident_bytes().saturating_sub(before) as f64 / kept_keys as f64;
        let tables = buckets.iter().map(KeyedSection::counter_bytes).sum::<usize>() as f64 / taken as f64;
        let load = 24.0 / tables;
        rows.push(vec![
            short(keys as f64),
            if part == 1 { "all".to_owned() } else { format!("1 of {part}") },
            short(keys as f64 / f64::from(BUCKETS)),
            format!("{tables:.1}"),
            format!("{load:.2}"),
            format!("{resident:.1}"),
        ]);
        sum += tables;
        kept.push(buckets);
        report.goal(format!("bytes a key in tables, {} keys", short(keys as f64)), tables, 42.0);
        bar.inc(1);
    }
    report.goal("bytes a key in tables, mean of all sizes", sum / cases.len() as f64, 36.0);
    report.table(
        "Memory of keys: 16,384 buckets with random keys",
        &["keys", "buckets filled", "keys a bucket", "bytes a key in tables", "load", "resident, with rows above"],
        &rows,
    );
    drop(kept);
    let pauses = pauses(full);
    bar.finish_and_clear();
    let ms = |ns: u64| ns as f64 / 1e6;
    report.table(
        "Growth of a bucket to 50,000 keys: how long its slots are frozen",
        &["times a bucket grew", "p50", "p99", "p99.9", "longest"],
        &[vec![
            short(pauses.len() as f64),
            format!("{:.3} ms", ms(pauses.value_at_quantile(0.5))),
            format!("{:.3} ms", ms(pauses.value_at_quantile(0.99))),
            format!("{:.3} ms", ms(pauses.value_at_quantile(0.999))),
            format!("{:.3} ms", ms(pauses.max())),
        ]],
    );
    report.goal("ms that a bucket is frozen when it grows, p99.9", ms(pauses.value_at_quantile(0.999)), 2.0);
    Ok(())
}

fn bucket() -> KeyedSection {
    let bucket = KeyedSection::from_ceiling(Seq(0), STEP);
    let _ = bucket.raised(CEILING);
    bucket
}

/// Takes a number for each of `keys` keys, except for keys of buckets from `buckets` on. Returns the buckets, and the
/// number of keys that took one.
fn fill(keys: u64, buckets: u16) -> (Vec<KeyedSection>, u64) {
    let mut sections: Vec<KeyedSection> = (0..buckets).map(|_| bucket()).collect();
    let mut taken = 0;
    for key in 0..keys {
        let (bucket, hash) = locate(key);
        let Some(section) = sections.get_mut(bucket) else { continue };
        take(section, hash, |_| {});
        taken += 1;
    }
    (sections, taken)
}

/// Returns how long each growth of buckets to [`BUCKET_KEYS`] keys took, in ns.
fn pauses(buckets: u64) -> Histogram<u64> {
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("good bounds");
    for number in 0..buckets {
        let mut section = bucket();
        let keys = number * BUCKET_KEYS..(number + 1) * BUCKET_KEYS;
        keys.for_each(|key| take(&mut section, locate(key).1, |ns| times.saturating_record(ns)));
    }
    times
}

/// Takes a number of a key. If its bucket has no room, the bucket grows, and `grew` gets the ns that this took.
fn take(section: &mut KeyedSection, hash: KeyHash, mut grew: impl FnMut(u64)) {
    while section.take(hash, Count::ONE).is_err() {
        let start = Instant::now();
        let larger = section.rebuild(Keep::All).section;
        grew(start.elapsed().as_nanos() as u64);
        *section = larger;
    }
}

/// Returns the bucket and the hash of a key, both random.
fn locate(key: u64) -> (usize, KeyHash) {
    let (lo, hi) = (mix(2 * key + 1), mix(2 * key + 2));
    let hash = KeyHash::from_bytes((u128::from(hi & !1 | 2) << 64 | u128::from(lo | 1)).to_le_bytes());
    ((hi >> 32) as usize % usize::from(BUCKETS), hash.expect("both halves are not 0"))
}

/// Mixes the bits of a number: the finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
