use alloc::vec;
use core::time::Duration;

use super::*;
use crate::id::{Epoch, Incarnation, Liveness, NodeId, Revision};
use crate::layout::{Lanes, Layout, TickClock};
use crate::state::{Answer, Command, CreateSeries, RaiseCeilings, Reassign, Registration, SetDefinition};

const OWNER: Session = Session { node: NodeId(1), incarnation: Incarnation(1) };
const OTHER: Session = Session { node: NodeId(2), incarnation: Incarnation(1) };

/// Returns a set of ten sections and two AllocSvrs, the first of which owns section 3 under epoch 1 with a ceiling of
/// 500.
fn state() -> State {
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::only("im-a", Layout::new(0..1_000, 100).unwrap())));
    for (name, token) in [("a1", 1), ("a2", 2)] {
        state.apply(&Command::Register(Registration {
            name: name.into(),
            addr: alloc::format!("{name}:1"),
            peer_addr: alloc::format!("{name}:2"),
            token,
            lease: Duration::from_secs(2),
            follows: Incarnation(0),
            seen: Revision(0),
            process: 0,
        }));
    }
    assign(&mut state, SectionId(3), OWNER, Epoch(0), None);
    assert_eq!(apply(&mut state, OWNER, &[raise(1, 500)]), [Some(Seq(500))]);
    state
}

fn assign(state: &mut State, section: SectionId, to: Session, expected: Epoch, liveness: Option<Liveness>) {
    let reassign = Reassign { section, expected, liveness, to: to.node, incarnation: to.incarnation };
    let answer = state.apply(&Command::Reassign(vec![reassign]));
    assert_eq!(answer, Answer::Reassigned(vec![Some(expected.next())]));
}

fn raise(epoch: u64, to: u64) -> Raise {
    Raise { section: SectionId(3), epoch: Epoch(epoch), to: Seq(to) }
}

fn apply(state: &mut State, Session { node, incarnation }: Session, raises: &[Raise]) -> Vec<Option<Seq>> {
    let Answer::Raised(answer) =
        state.apply(&Command::Raise(RaiseCeilings { node, incarnation, raises: raises.to_vec() }))
    else {
        panic!()
    };
    answer.unwrap()
}

#[test]
fn a_raise_of_the_owner_counts_for_as_far_as_it_moves_the_ceiling() {
    let state = state();
    for (to, distance) in [(1, 0), (500, 0), (501, 1), (10_500, 10_000), (Seq::MAX.0, limits::MAX_RAISE)] {
        let mut raises = [raise(1, to)];
        assert_eq!(bound(&state, OWNER, &mut raises, 0), (vec![(SectionId(3), distance)], Lowered::default()));
        assert_eq!(raises, [raise(1, to)], "proposed as requested");
    }
}

#[test]
fn a_raise_without_an_ownership_takes_nothing_and_moves_nothing_when_the_ownership_begins_meanwhile() {
    let mut state = state();
    for (session, epoch) in [(OTHER, 1), (OWNER, 2), (Session { incarnation: Incarnation(2), ..OWNER }, 1)] {
        let mut raises = [raise(epoch, 9_000)];
        let (distances, lowered) = bound(&state, session, &mut raises, 0);
        assert_eq!((distances, lowered), (vec![], Lowered(vec![(0, Seq(9_000))])));
        assert_eq!(raises, [raise(epoch, 500)]);
    }
    // The node guessed its epoch, and the ownership begins between the lookup and the entry.
    let mut raises = [raise(2, 9_000)];
    let (_, lowered) = bound(&state, OTHER, &mut raises, 0);
    let liveness = state.node(OWNER.node).unwrap().liveness;
    assign(&mut state, SectionId(3), OTHER, Epoch(1), Some(liveness));
    let ceilings = apply(&mut state, OTHER, &raises);
    assert_eq!(ceilings, [Some(Seq(500))], "the ceiling is where it was");
    assert_eq!(lowered.first_accepted(&ceilings), Some(0));
    // Now the repeated request is a raise of the owner.
    let mut again = [raise(2, 9_000)];
    assert_eq!(bound(&state, OTHER, &mut again, 0), (vec![(SectionId(3), 8_500)], Lowered::default()));
    assert_eq!(lowered.first_accepted(&[None]), None, "refused by the log");
}

#[test]
fn a_raise_of_ticks_is_cut_short_by_the_clock_of_the_store() {
    let mut state = state();
    let clock = TickClock { epoch_ms: 0, unit_ms: 1, seq_bits: 0, lead_ms: 2_000 };
    let lanes = Lanes { count: 1, per_section: 1, start: Seq(0), margin: 0, clock: Some(clock), keys: None };
    let (name, shape) = ("ids".into(), vec![]);
    state.apply(&Command::CreateSeries(CreateSeries { name, shape, lanes, created_ms: 0 }));
    let section = SectionId(10);
    assign(&mut state, section, OWNER, Epoch(0), None);
    for (to, bounded) in [(100_000, 100_000), (3_600_000, 112_000)] {
        let mut raises = [Raise { section, epoch: Epoch(1), to: Seq(to) }];
        assert_eq!(bound(&state, OWNER, &mut raises, 100_000), (vec![], Lowered::default()));
        assert_eq!(raises[0].to, Seq(bounded), "the lead and ten seconds above the clock");
    }
}
