//! Measures how long a set of 41,950 sections takes to name the owner of one more section, as it does for each section
//! that another set is about to migrate to it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seq_core::arbiter::{Plan, Reserver};
use seq_core::layout::SectionRun;
use seq_core::state::{Command, Home, Registration, SetDefinition, State};
use seq_core::{Incarnation, Layout, NodeId, Revision, SectionId, SetId};

/// All uids of 32 bits, the widest set with a stated goal: 42,950 sections.
const UIDS: u64 = 1 << 32;
const SECTION_SIZE: u32 = 100_000;
/// Sections that begin in another set.
const ELSEWHERE: u32 = 1_000;
const NODES: u32 = 4;

fn set(layout: &Layout) -> (State, Plan) {
    let mut state = State::default();
    let (ours, other) = (SetId(1), SetId(2));
    let mut definition = SetDefinition::first("bench", ours, layout.clone());
    let here = layout.sections() - ELSEWHERE;
    let home = |first, sections, set| Home { sections: SectionRun { first: SectionId(first), sections }, set };
    definition.homes = vec![home(0, here, ours), home(here, ELSEWHERE, other)];
    state.apply(&Command::DefineSet(definition));
    assert_eq!(state.sections.residents().count(), here as usize);
    for node in 1..=NODES {
        let (name, addr) = (format!("a{node}"), format!("a{node}:7400"));
        let (follows, lease) = (Incarnation(0), Duration::from_secs(2));
        let peer_addr = addr.clone();
        let registration =
            Registration { name, addr, peer_addr, token: node.into(), lease, follows, seen: Revision(0), process: 0 };
        state.apply(&Command::Register(registration));
    }
    let plan = Plan { candidates: (1..=NODES).map(|node| (NodeId(node), 1)).collect(), ..Plan::default() };
    (state, plan)
}

fn placement(c: &mut Criterion) {
    let layout = Layout::new(0..UIDS, SECTION_SIZE).expect("a good layout");
    let (state, plan) = set(&layout);
    let mut group = c.benchmark_group("placement");
    group.throughput(Throughput::Elements(u64::from(layout.sections())));
    for (name, is_kept) in [("reserve, ring kept", true), ("reserve, ring made again", false)] {
        group.bench_function(name, |b| {
            let mut reserver = Reserver::default();
            let mut section = 0;
            b.iter(|| {
                if !is_kept {
                    reserver = Reserver::default();
                }
                // Each request is about other sections than the one before.
                section = (section + 1) % ELSEWHERE;
                let sections = [SectionId(layout.sections() - ELSEWHERE + section)];
                black_box(reserver.reserve(&plan, &state, layout.id(), &sections)).expect("a node can own the section")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, placement);
criterion_main!(benches);
