//! Measures the cost of a number in memory: [`Section::take`] in comparison with the bare minimum, a random `fetch_add`
//! on an array of the same size and a compare with the ceiling. One thread. The goal is at most 1.3 times the bare
//! minimum; and for [`Section::take_within`] at most 1.3 times [`Section::take`].

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seq_core::section::Window;
use seq_core::{Count, Layout, Section, Seq, SlotIndex, Step, Take, Uid};

/// A ceiling that no run reaches.
const CEILING: Seq = Seq(1 << 40);
const STEP: Step = Step(10_000);

/// Draws indexes below `len`, the same indexes for each measurement.
struct Random {
    state: u64,
    len: u64,
}

impl Random {
    fn new(len: u32) -> Random {
        Random { state: 0x9e37_79b9_7f4a_7c15, len: u64::from(len) }
    }

    fn next(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (((self.state >> 32) * self.len) >> 32) as u32
    }
}

/// Creates a section whose every slot is touched.
fn section(uids: u32) -> Section {
    let section = Section::takeover(uids, Seq(0), STEP);
    let _ = section.raised(CEILING);
    for slot in 0..uids {
        section.take(SlotIndex(slot), Count::ONE);
    }
    section
}

fn value(taken: Take) -> u64 {
    match taken {
        Take::Given { value, .. } => value.0,
        other => panic!("{other:?}"),
    }
}

fn take(c: &mut Criterion) {
    for (name, slots) in [("100k slots", 100_000), ("10M slots", 10_000_000)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(1));

        group.bench_function("fetch_add and compare", |b| {
            let array: Vec<AtomicU64> = (0..slots).map(|_| AtomicU64::new(1)).collect();
            let ceiling = black_box(AtomicU64::new(CEILING.0));
            let mut random = Random::new(slots);
            b.iter(|| {
                let value = array[random.next() as usize].fetch_add(1, Ordering::Relaxed) + 1;
                assert!(value <= ceiling.load(Ordering::Acquire));
                black_box(value)
            });
        });

        group.bench_function("Section::take", |b| {
            let section = section(slots);
            let mut random = Random::new(slots);
            b.iter(|| black_box(value(section.take(SlotIndex(random.next()), Count::ONE))));
        });

        group.bench_function("Section::take_within", |b| {
            let section = section(slots);
            let window = black_box(Window { spread: 0xfff, ..Window::ALL });
            let mut random = Random::new(slots);
            b.iter(|| {
                let taken = section.take_within(SlotIndex(random.next()), Count::ONE, window);
                black_box(value(taken.expect("no limit")))
            });
        });

        group.bench_function("locate and take, sections of 100k", |b| {
            let layout = Layout::new(0..u64::from(slots), 100_000).expect("a good layout");
            let sections: Vec<Section> = (0..layout.sections()).map(|_| section(100_000)).collect();
            let mut random = Random::new(slots);
            b.iter(|| {
                let (id, slot) = layout.locate(Uid(random.next().into())).expect("in range");
                black_box(value(sections[id.0 as usize].take(slot, Count::ONE)))
            });
        });
        group.finish();
    }
}

criterion_group!(benches, take);
criterion_main!(benches);
