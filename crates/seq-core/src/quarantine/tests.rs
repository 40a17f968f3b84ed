use alloc::vec;

use super::*;
use crate::layout::Layout;
use crate::limits;
use crate::state::{Answer, Command, FenceResponse, LearnDirectory, SetDefinition, SetFacts};
use crate::{Revision, RouteVersion};

const FIRST: Lineage = Lineage(1 << 32);
const OTHER: SetId = SetId(2);
const MS: Duration = Duration::from_millis(1);

/// Returns a restored set that knows another set.
fn restored() -> State {
    let mut state = State::default();
    let definition = SetDefinition::only("a", Layout::new(0..100, 10).unwrap());
    assert_eq!(state.apply(&Command::DefineSet(definition)), Answer::SetDefined(Ok(())));
    learn(&mut state, Lineage(0), 1);
    state.restore(FIRST).unwrap();
    state
}

fn learn(state: &mut State, lineage: Lineage, revision: u64) {
    let facts = SetFacts { id: OTHER, lineage, revision: Revision(revision), name: "b".into(), ..SetFacts::default() };
    let learned = state.apply(&Command::LearnDirectory(LearnDirectory::of(facts)));
    assert_eq!(learned, Answer::DirectoryLearned(Ok(true)));
}

/// Applies the whole response of the other set, which has no records.
fn respond(state: &mut State) {
    let page = FenceResponse {
        set: OTHER,
        lineage: Lineage(0),
        fenced: FIRST,
        first: SectionId(0),
        next: None,
        records: vec![],
        sets: vec![],
        closing: false,
        wait: Duration::ZERO,
        inherited: vec![],
    };
    assert_eq!(state.apply(&Command::LearnRecords(page)), Answer::RecordsLearned(Ok(true)));
}

#[test]
fn a_quarantine_ends_after_the_responses_and_the_wait() {
    let mut state = restored();
    let wait = state.quarantine_wait().unwrap();
    let quarantine = Quarantine::of(None, &state, 5 * MS).unwrap();
    assert_eq!(quarantine.step(&state, 5 * MS), Step::Fence(vec![(OTHER, SectionId(0))]));
    assert_eq!(
        quarantine.step(&state, 5 * MS + wait),
        Step::Fence(vec![(OTHER, SectionId(0))]),
        "the wait is not enough"
    );
    respond(&mut state);
    let quarantine = Quarantine::of(Some(quarantine), &state, 9 * MS).unwrap();
    assert_eq!(quarantine.step(&state, 9 * MS), Step::Wait(wait - 4 * MS), "the wait has begun at 5 ms");
    assert_eq!(quarantine.step(&state, 4 * MS + wait), Step::Wait(MS));
    let Step::End(end) = quarantine.step(&state, 5 * MS + wait) else { panic!("the wait is over") };
    assert_eq!(state.apply(&Command::EndQuarantine(end)), Answer::QuarantineEnded(Ok(())));
    assert_eq!(Quarantine::of(Some(quarantine.clone()), &state, 10 * MS), None);
    assert_eq!(quarantine.step(&state, 6 * MS + wait), Step::Restart, "nothing is proposed twice");
}

#[test]
fn the_wait_begins_again_with_a_newer_lineage_and_with_a_new_leader() {
    let mut state = restored();
    let wait = state.quarantine_wait().unwrap();
    respond(&mut state);
    let quarantine = Quarantine::of(None, &state, MS).unwrap();
    let new_leader = Quarantine::of(None, &state, 8 * MS).unwrap();
    assert_eq!(new_leader.step(&state, MS + wait), Step::Wait(7 * MS));
    assert!(matches!(quarantine.step(&state, MS + wait), Step::End(_)));
    // The other set continues from a backup as well.
    let fence = crate::state::Fence { set: OTHER, lineage: Lineage(1 << 32 | 7) };
    assert_eq!(state.apply(&Command::Fence(fence)), Answer::Fenced(Ok(())));
    assert_eq!(quarantine.step(&state, MS + wait), Step::Restart);
    let quarantine = Quarantine::of(Some(quarantine), &state, 9 * MS).unwrap();
    assert_eq!(quarantine.waited(10 * MS), MS);
    assert!(!matches!(quarantine.step(&state, 8 * MS + wait), Step::End(_)));
}

#[test]
fn rivals_that_may_have_served_are_outbid_once_they_serve_or_are_gone() {
    let of = |count: u64, has_majority, serves| Rival { lineage: Lineage(count << 32 | 5), has_majority, serves };
    let begun = || Quarantine::of(None, &restored(), MS).unwrap();
    for (rivals, contest, later) in [
        (vec![], Contest::None, Contest::None),
        (vec![of(1, false, false)], Contest::Waits, Contest::None),
        (vec![of(0, true, true)], Contest::Waits, Contest::None),
        // Two groups in quarantine wait for each other; after the rival is stopped, it may still have served.
        (vec![of(1, true, false)], Contest::Waits, Contest::Begin(2)),
        (vec![of(1, true, true)], Contest::Begin(2), Contest::Begin(2)),
        (vec![of(3, true, false), of(2, true, true)], Contest::Begin(4), Contest::Begin(4)),
    ] {
        let mut quarantine = begun();
        assert_eq!(quarantine.contest(&rivals), contest, "{rivals:?}");
        assert_eq!(quarantine.contest(&[]), later, "{rivals:?}, and none later");
    }
}

#[test]
fn a_newer_lineage_counts_more_than_any_that_the_log_knows() {
    let mut state = restored();
    assert_eq!(next_count(&state, FIRST, 2), Some(2));
    assert_eq!(next_count(&state, Lineage(0), 9), None, "another lineage has begun since");
    let fence = crate::state::Fence { set: OTHER, lineage: Lineage(5 << 32) };
    assert_eq!(state.apply(&Command::Fence(fence)), Answer::Fenced(Ok(())));
    assert_eq!(next_count(&state, FIRST, 2), Some(6));
    assert!(next_count(&state, FIRST, 9) <= Some(limits::MAX_RESTORES));
    state.recovery = None;
    assert_eq!(next_count(&state, FIRST, 2), None, "the quarantine is over");
    assert!(state.route_version > RouteVersion(0));
}
