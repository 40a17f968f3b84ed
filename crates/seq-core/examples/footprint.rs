//! Prints the memory that counters of uids and of keys take, and the time to take over all sections of 2^32 uids.
//!
//! `cargo run --release -p seq-core --example footprint`. Resident memory is read from `/proc`, so on Linux only.

use std::time::Instant;

use seq_core::keyspace::{BUCKETS, Bucket, Seed};
use seq_core::section::{Keep, KeyedSection};
use seq_core::{Count, Layout, Section, SectionId, Seq, SlotIndex, Step, Take, Uid};

const SECTION_SIZE: u32 = 100_000;
const STEP: Step = Step(10_000);

fn main() {
    // Memory that was freed would be used again, and would not be counted.
    let kept = [100_000, 1_000_000, 10_000_000].map(print_keys);
    print_uids();
    drop(kept);
}

/// Prints the memory of a keyspace with this number of keys, and returns its buckets.
fn print_keys(keys: u64) -> Vec<KeyedSection> {
    let seed = Seed::new(*b"0123456789abcdef");
    let before = resident_bytes();
    let mut buckets: Vec<KeyedSection> = (0..BUCKETS).map(|_| KeyedSection::from_ceiling(Seq(0), STEP)).collect();
    for uid in (0..keys).map(Uid) {
        let (bucket, hash) = (&mut buckets[usize::from(Bucket::of_uid(uid).index())], seed.hash_uid(uid));
        while let Err(_) | Ok(Take::AtCeiling { .. }) = bucket.take(hash, Count::ONE) {
            let _ = bucket.raised(Seq(STEP.0));
            *bucket = bucket.rebuild(Keep::All).section;
        }
    }
    let bytes = resident_bytes() - before;
    let counter_bytes: usize = buckets.iter().map(KeyedSection::counter_bytes).sum();
    let largest = buckets.iter().max_by_key(|bucket| bucket.keys()).expect("there are buckets");
    println!(
        "{keys} keys: {:.1} MiB resident, {:.2} bytes a key; {:.2} bytes a key in counters; a bucket has up to {}",
        mib(bytes),
        bytes as f64 / keys as f64,
        counter_bytes as f64 / keys as f64,
        largest.keys(),
    );
    buckets
}

#[expect(clippy::disallowed_methods, reason = "it measures time, it decides nothing by it")]
fn print_uids() {
    let before = resident_bytes();
    let start = Instant::now();
    let layout = Layout::new(0..1 << 32, SECTION_SIZE).expect("a good layout");
    let length = |section| {
        let uids = layout.uids_of(SectionId(section));
        (uids.end - uids.start) as u32
    };
    let sections: Vec<Section> =
        (0..layout.sections()).map(|section| Section::takeover(length(section), Seq(0), STEP)).collect();
    let took = start.elapsed();
    let bytes = resident_bytes() - before;
    println!(
        "{} empty sections: {:.1} MiB resident, {} bytes a section, loaded in {:.1} ms",
        sections.len(),
        mib(bytes),
        bytes / sections.len(),
        took.as_secs_f64() * 1e3,
    );

    const TOUCHED: usize = 10_000_000;
    let used = &sections[..TOUCHED / SECTION_SIZE as usize];
    for section in used {
        let _ = section.raised(Seq(STEP.0));
    }
    let before = resident_bytes();
    for section in used {
        for slot in 0..SECTION_SIZE {
            assert!(matches!(section.take(SlotIndex(slot), Count::ONE), Take::Given { .. }));
        }
    }
    let bytes = resident_bytes() - before;
    let slot_bytes: usize = used.iter().map(Section::slot_bytes).sum();
    println!(
        "{TOUCHED} touched uids: {:.1} MiB resident, {:.2} bytes a uid; {:.2} bytes a uid in slots",
        mib(bytes),
        bytes as f64 / TOUCHED as f64,
        slot_bytes as f64 / TOUCHED as f64,
    );
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of resident memory");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1_024
}
