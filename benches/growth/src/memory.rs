//! Memory of the counters: bytes per touched uid, bytes per untouched section, and the takeover of 2^32 uids.

use std::io;
use std::time::Instant;

use seq_core::{Count, Layout, Section, SectionId, Seq, SlotIndex, Step, Take};

use crate::Scale;
use crate::plot::Plot;
use crate::report::{Report, short};

/// The section size of the set files.
pub(crate) const SECTION_SIZE: u32 = 100_000;
const STEP: Step = Step(10_000);
/// Uids of the widest case, 42,950 sections.
const WIDE: u64 = 1 << 32;

/// Measures memory; the first scenario, because freed memory stays with the process for a while.
pub(crate) fn scenario(scale: Scale, report: &mut Report) -> io::Result<()> {
    let wide = if scale == Scale::Full { WIDE } else { WIDE >> 10 };
    let before = resident_bytes();
    let start = Instant::now();
    let sections = sections(wide);
    let took = start.elapsed().as_secs_f64();
    let bytes = resident_bytes().saturating_sub(before) as f64;
    println!("{} sections taken over in {:.1} ms, {:.1} MiB resident", sections.len(), took * 1e3, bytes / MIB);
    report.goal("bytes of an untouched section", bytes / sections.len() as f64, 1_024.0);
    report.goal("seconds to take over every section", took, 1.0);
    report.goal("MiB of every section, taken over and untouched", bytes / MIB, 100.0);
    drop(sections);

    let most = if scale == Scale::Full { 8 } else { 5 };
    let bar = report.progress("bytes/uid", most - 2);
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for power in 3..=most {
        let uids = 10_u64.pow(power as u32);
        let sections = self::sections(uids);
        let before = resident_bytes();
        touch(&sections);
        let resident = resident_bytes().saturating_sub(before) as f64 / uids as f64;
        let slots = sections.iter().map(Section::slot_bytes).sum::<usize>() as f64 / uids as f64;
        rows.push(vec![short(uids as f64), format!("{slots:.2}"), format!("{resident:.2}")]);
        points.push((uids as f64, slots));
        if power == most {
            report.goal(format!("bytes a touched uid, {uids} of them"), slots.max(resident), 8.0 * 1.02);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    report.table("Memory", &["touched uids", "bytes a uid in slots", "bytes a uid resident"], &rows);
    report.draw(
        "memory",
        &Plot {
            title: "Memory of touched uids",
            x: "touched uids, all of a section",
            y: "bytes a uid in slots",
            log_y: false,
            lines: vec![("bytes a uid", points)],
        },
    )
}

const MIB: f64 = 1_048_576.0;

/// Untouched sections.
pub(crate) fn sections(uids: u64) -> Vec<Section> {
    sections_of(&Layout::new(0..uids, SECTION_SIZE).expect("a good layout"))
}

pub(crate) fn sections_of(layout: &Layout) -> Vec<Section> {
    let length = |section| {
        let uids = layout.uids_of(SectionId(section));
        (uids.end - uids.start) as u32
    };
    (0..layout.sections()).map(|section| Section::takeover(length(section), Seq(0), STEP)).collect()
}

/// Allocates a number for every uid.
pub(crate) fn touch(sections: &[Section]) {
    for section in sections {
        let _ = section.raised(Seq(1 << 40));
        for slot in 0..section.uids() {
            assert!(matches!(section.take(SlotIndex(slot), Count::ONE), Take::Given { .. }));
        }
    }
}

pub(crate) fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of resident memory");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1_024
}
