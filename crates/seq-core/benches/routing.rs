//! Measures the cost of finding the owner of a uid: its section and slot, and the section's route. For comparison, it
//! also measures the plain division that [`Layout::locate`] avoids.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seq_core::route::{Route, RouteNode, RouteRun, RouteTable, RouteUpdate};
use seq_core::{Epoch, Layout, NodeId, RouteVersion, SectionId, Uid};

/// All uids of 32 bits, the widest set with a stated goal: 42,950 sections.
const UIDS: u64 = 1 << 32;
const SECTION_SIZE: u32 = 100_000;
const OWNERS: u32 = 10;

/// Draws uids in no order, cheaply.
fn uids() -> impl FnMut() -> Uid {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Uid(state >> 32)
    }
}

fn table(layout: &Layout) -> RouteTable {
    let node = |id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("a{id}:7400") });
    let run = |section| RouteRun {
        first: SectionId(section),
        sections: 1,
        route: Route::here(Some(NodeId(section % OWNERS + 1)), Epoch(1)),
    };
    let update = RouteUpdate {
        series: [].into(),
        id: seq_core::SetId(7),
        sets: BTreeMap::new(),
        set: "bench".to_owned(),
        layout: layout.clone(),
        version: RouteVersion(1),
        base: RouteVersion(0),
        nodes: (1..=OWNERS).map(node).collect::<BTreeMap<_, _>>(),
        runs: (0..layout.sections()).map(run).collect(),
    };
    RouteTable::from_whole(&update).expect("a whole table")
}

fn routing(c: &mut Criterion) {
    let layout = Layout::new(0..UIDS, SECTION_SIZE).expect("a good layout");
    let table = table(&layout);
    let mut group = c.benchmark_group("routing");
    group.throughput(Throughput::Elements(1));
    group.bench_function("division", |b| {
        let (mut draw, size) = (uids(), black_box(u64::from(SECTION_SIZE)));
        b.iter(|| {
            let uid = draw().0;
            black_box((uid / size, uid % size))
        });
    });
    group.bench_function("Layout::locate", |b| {
        let (mut draw, layout) = (uids(), black_box(&layout));
        b.iter(|| black_box(layout.locate(draw())).is_ok());
    });
    group.bench_function("locate and RouteTable::get", |b| {
        let mut draw = uids();
        b.iter(|| {
            let (section, _) = layout.locate(draw()).expect("in range");
            black_box(table.get(section))
        });
    });
    group.finish();
}

criterion_group!(benches, routing);
criterion_main!(benches);
