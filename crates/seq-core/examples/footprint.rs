//! Prints the memory that counters take, and the time to take over all sections of 2^32 uids.
//!
//! `cargo run --release -p seq-core --example footprint`. Resident memory is read from `/proc`, so on Linux only.

use std::time::Instant;

use seq_core::{Count, Layout, Section, SectionId, Seq, SlotIndex, Step, Take};

const SECTION_SIZE: u32 = 100_000;
const STEP: Step = Step(10_000);

#[expect(clippy::disallowed_methods, reason = "it measures time, it decides nothing by it")]
fn main() {
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
