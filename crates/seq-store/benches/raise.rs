//! Cost of a raise on the members of a store, without its transport: its proposer encodes it once, and every member
//! decodes and applies it.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use seq_core::state::{Answer, Command, Raise, RaiseCeilings, Reassign, Registration, SetDefinition, State};
use seq_core::{Epoch, Incarnation, Layout, NodeId, SectionId, Seq};
use seq_raft::StateMachine;
use seq_store::SetState;

/// Raises per entry: of one section, of a busy AllocSvr, and the maximum.
const RAISES: [u32; 3] = [1, 64, 4_096];
/// Sections of all 32-bit uids.
const SECTIONS: u32 = 42_950;

/// Returns a state in which one node owns all sections.
fn state() -> State {
    let mut state = State::default();
    let layout = Layout::new(0..u64::from(SECTIONS) * 100_000, 100_000).expect("a good layout");
    state.apply(&Command::DefineSet(SetDefinition::only("bench", layout)));
    state.apply(&Command::Register(Registration::new("a1", "a1:7400", 1)));
    let own = |section| Reassign {
        section: SectionId(section),
        expected: Epoch(0),
        liveness: None,
        to: NodeId(1),
        incarnation: Incarnation(1),
    };
    state.apply(&Command::Reassign((0..SECTIONS).map(own).collect()));
    state
}

/// Returns raises of scattered sections, as in an entry of a busy node.
fn command(raises: u32) -> Command {
    let raise = |number| Raise { section: SectionId(number * (SECTIONS / 4_096)), epoch: Epoch(1), to: Seq(10_000) };
    Command::Raise(RaiseCeilings {
        node: NodeId(1),
        incarnation: Incarnation(1),
        raises: (0..raises).map(raise).collect(),
    })
}

fn raise(c: &mut Criterion) {
    let mut state = state();
    let mut group = c.benchmark_group("raise");
    for raises in RAISES {
        let command = command(raises);
        let encoded = SetState::encode_command(SetState::FORMAT, &command);
        group.throughput(Throughput::Elements(u64::from(raises)));
        group.bench_function(BenchmarkId::new("encode", raises), |b| {
            b.iter(|| SetState::encode_command(SetState::FORMAT, black_box(&command)));
        });
        group.bench_function(BenchmarkId::new("decode", raises), |b| {
            b.iter(|| SetState::decode_command(SetState::FORMAT, black_box(&encoded)).expect("just encoded"));
        });
        group.bench_function(BenchmarkId::new("State::apply", raises), |b| {
            b.iter(|| {
                let Answer::Raised(Ok(ceilings)) = state.apply(black_box(&command)) else { panic!("refused") };
                assert!(ceilings.iter().all(Option::is_some));
                ceilings
            });
        });
    }
    group.finish();
}

criterion_group!(benches, raise);
criterion_main!(benches);
