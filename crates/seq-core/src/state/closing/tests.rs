use alloc::vec;
use core::time::Duration;

use super::*;
use crate::id::{Epoch, HandoverId, Incarnation, Lineage, MigrationId, NodeId, Revision, Seq};
use crate::layout::{Layout, SectionRun};
use crate::state::{
    Answer, Arrive, Arrived, Arriving, Command, Complete, DepartSilent, Fence, Inherit, LearnDirectory, Pace, Rollback,
    Rules, Scope, SetDefinition, SetFacts, SetLayoutWriter, StartMigration,
};

const SECTION: SectionId = SectionId(0);
const PACE: Pace = Pace { rate: 1, max_pause: Duration::from_secs(1), paused: false };

/// Creates two sets that know each other. The section is in the first set.
fn sets() -> [State; 2] {
    let layout = Layout::new(0..100, 100).unwrap();
    let mut sets = [State::default(), State::default()];
    sets[0].apply(&Command::DefineSet(SetDefinition::first("s0", SetId(1), layout.clone())));
    sets[1].apply(&Command::DefineSet(SetDefinition::joining("s1", SetId(2), layout)));
    exchange(&mut sets);
    sets
}

/// Lets both sets learn each other's facts.
fn exchange(sets: &mut [State; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let facts = sets[from].facts(vec![]).unwrap();
        let id = facts.id;
        sets[to].apply(&Command::LearnDirectory(LearnDirectory::of(facts)));
        let awaited = sets[to].awaited_inheritances().find(|(set, _)| *set == id);
        if let Some((_, first)) = awaited
            && let Ok(page) = sets[from].final_records(sets[to].set.as_ref().unwrap().id, first)
        {
            assert_eq!(sets[to].apply(&Command::Inherit(Inherit(page))), Answer::Inherited(Ok(true)));
        }
    }
}

/// Hands the layout from the first set to the second set.
fn hand_over_series(sets: &mut [State; 2]) {
    let [first, second] = sets;
    let adopt = |from: &State, to: &mut State| to.apply(&Command::AdoptSeries(from.stated_series()));
    adopt(first, second);
    first.apply(&Command::SetLayoutWriter(SetLayoutWriter { term: 0, to: SetId(2) }));
    adopt(first, second);
    adopt(second, first);
}

fn close(state: &mut State) -> Result<Closing, CommandRefusal> {
    match state.apply(&Command::Close(Close)) {
        Answer::Closed(result) => result,
        other => panic!("{other:?}"),
    }
}

fn start(state: &mut State, id: u64, to: SetId) -> Result<MigrationId, CommandRefusal> {
    let runs = vec![SectionRun { first: SECTION, sections: 1 }];
    let fingerprint = state.fingerprint(to, &runs).unwrap();
    let (lineage, layout_id) = (state.lineage, state.set.as_ref().unwrap().layout.id());
    let start = StartMigration { id: MigrationId(id), to, lineage, layout_id, runs, pace: PACE, fingerprint };
    match state.apply(&Command::StartMigration(start)) {
        Answer::MigrationStarted(result) => result,
        other => panic!("{other:?}"),
    }
}

/// Sends the section, which has no owner, to the other set by a migration. Returns the message with its arrival.
fn depart(state: &mut State, id: u64, to: SetId) -> Arrive {
    let (lineage, migration) = (Lineage(0), MigrationId(id));
    let epoch = depart_silent(state, id, to).expect("it departs");
    let (max_seq, handover_id, incarnation) = (Seq(0), HandoverId(0), Incarnation(0));
    let one = Arriving { section: SECTION, epoch, max_seq, handover_id, node: None, incarnation, migration };
    let set = state.set.as_ref().unwrap();
    let (from, from_lineage, to_lineage, layout_id) = (set.id, Lineage(0), lineage, set.layout.id());
    Arrive { from, from_lineage, to_lineage, layout_id, sections: vec![one] }
}

/// Returns the epoch under which the section, which has no owner, departs; `None` if it does not depart.
fn depart_silent(state: &mut State, id: u64, to: SetId) -> Option<Epoch> {
    let expected = state.sections.resident(SECTION).unwrap().epoch;
    let (lineage, migration) = (Lineage(0), MigrationId(id));
    let silent = DepartSilent { section: SECTION, expected, liveness: None, to, lineage, migration };
    match state.apply(&Command::DepartSilent(vec![silent])) {
        Answer::DepartedSilently(departed) => departed[0],
        other => panic!("{other:?}"),
    }
}

fn roll_back(state: &mut State, id: u64) -> Result<(), CommandRefusal> {
    match state.apply(&Command::Rollback(Rollback { id: MigrationId(id) })) {
        Answer::RolledBack(result) => result,
        other => panic!("{other:?}"),
    }
}

/// Applies the arrival in one set, and notes it in the other set.
fn arrive(sets: &mut [State; 2], from: usize, arrive: &Arrive) {
    let to = 1 - from;
    sets[to].apply(&Command::Arrive(arrive.clone()));
    let (at, lineage) = (sets[to].set.as_ref().unwrap().id, Lineage(0));
    let sections = vec![(SECTION, arrive.sections[0].epoch)];
    sets[from].apply(&Command::Arrived(Arrived { at, lineage, sections, ended: vec![] }));
}

/// Completes a migration, and notes that the other set has the completion.
fn complete(sets: &mut [State; 2], from: usize, id: u64) {
    let (id, at) = (MigrationId(id), sets[1 - from].set.as_ref().unwrap().id);
    let own = sets[from].set.as_ref().unwrap().id;
    for (set, by) in [(from, None), (1 - from, Some(own))] {
        assert_eq!(sets[set].apply(&Command::Complete(Complete { id, by })), Answer::Completed(Ok(())));
    }
    sets[from].apply(&Command::Arrived(Arrived { at, lineage: Lineage(0), sections: vec![], ended: vec![id] }));
}

fn unchanged(state: &State, before: &State) {
    let revision = before.revision;
    assert_eq!(State { revision, ..state.clone() }, *before);
}

#[test]
fn a_set_with_sections_is_not_closed() {
    let [mut set, _] = sets();
    let before = set.clone();
    assert_eq!(close(&mut set), Err(SetRefusal::NotEmpty { section: SECTION, sections: 1 }.into()));
    unchanged(&set, &before);
    assert_eq!(close(&mut State::default()), Err(CommandRefusal::NoSet));
}

#[test]
fn an_empty_set_is_closed_once_the_others_have_recorded_it() {
    let mut sets = sets();
    assert_eq!(close(&mut sets[1]), Ok(Closing::Closing));
    assert_eq!(close(&mut sets[1]), Ok(Closing::Closing), "the other set has not recorded it");
    assert_eq!(sets[1].closing_waits_for().collect::<Vec<_>>(), [SetId(1)]);
    exchange(&mut sets);
    assert_eq!(start(&mut sets[0], 5, SetId(2)), Err(SetRefusal::SetClosing { set: SetId(2) }.into()));
    assert_eq!(sets[1].closing, Closing::Closing, "the other set has not inherited its records");
    assert_eq!(sets[1].closing_waits_for().collect::<Vec<_>>(), [SetId(1)]);
    exchange(&mut sets);
    exchange(&mut sets);
    assert_eq!(sets[1].closing, Closing::Closed);
    assert_eq!(close(&mut sets[1]), Ok(Closing::Closed));
    exchange(&mut sets);
    assert_eq!(sets[0].sets[&SetId(2)].facts.as_ref().unwrap().closing, Closing::Closed);
}

#[test]
fn a_section_on_its_way_arrives_in_a_closing_set_and_has_to_leave_it() {
    let mut sets = sets();
    start(&mut sets[0], 5, SetId(2)).unwrap();
    let arrival = depart(&mut sets[0], 5, SetId(2));
    assert_eq!(close(&mut sets[1]), Ok(Closing::Closing), "nothing is here yet");
    exchange(&mut sets);
    exchange(&mut sets);
    assert_eq!(sets[1].closing_waits_for().collect::<Vec<_>>(), [SetId(1)], "a section is on its way");
    arrive(&mut sets, 0, &arrival);
    complete(&mut sets, 0, 5);
    exchange(&mut sets);
    assert_eq!(sets[1].closing_waits_for().collect::<Vec<_>>(), [SetId(1)], "its records are not inherited");
    assert_eq!(close(&mut sets[1]), Ok(Closing::Closing), "the section is here");
    assert!(sets[1].final_records(SetId(1), SECTION).is_err(), "its records are not final");

    start(&mut sets[1], 6, SetId(1)).unwrap();
    let refusal = SetRefusal::SetClosing { set: SetId(2) };
    sets[1].rules = Rules::Nine;
    assert_eq!(roll_back(&mut sets[1], 6), Err(refusal.into()), "nothing could return");
    sets[1].rules = Rules::Ten;
    let arrival = depart(&mut sets[1], 6, SetId(1));
    arrive(&mut sets, 1, &arrival);
    assert_eq!(close(&mut sets[1]), Ok(Closing::Closing), "the migration is not complete");
    complete(&mut sets, 1, 6);
    for _ in 0..2 {
        assert_eq!(sets[1].closing, Closing::Closing);
        exchange(&mut sets);
    }
    assert_eq!(sets[1].closing, Closing::Closed);
}

#[test]
fn sections_that_arrived_at_a_closing_set_leave_it_although_their_target_closes_too() {
    let mut sets = sets();
    start(&mut sets[0], 5, SetId(2)).unwrap();
    let arrival = depart(&mut sets[0], 5, SetId(2));
    close(&mut sets[1]).unwrap();
    arrive(&mut sets, 0, &arrival);
    complete(&mut sets, 0, 5);
    start(&mut sets[1], 6, SetId(1)).unwrap();
    let closing = SetFacts { closing: Closing::Closing, revision: Revision(50), ..sets[0].facts(vec![]).unwrap() };
    sets[1].apply(&Command::LearnDirectory(LearnDirectory::of(closing)));
    assert_eq!(start(&mut sets[1], 7, SetId(1)), Err(SetRefusal::SetClosing { set: SetId(1) }.into()));

    assert_eq!(roll_back(&mut sets[1], 6), Ok(()));
    assert_eq!(roll_back(&mut sets[1], 6), Ok(()), "it may be sent again");
    let ended = &sets[1].migrations[&MigrationId(6)];
    assert_eq!((&ended.scope, ended.phase), (&Scope::Runs(vec![]), Phase::Completed { noted: false }));
    assert!(sets[1].has_settled(MigrationId(6)), "the other set hears of it");
    assert_eq!(depart_silent(&mut sets[1], 6, SetId(1)), None, "it stays, for another migration");
    assert_eq!(sets[1].facts(vec![]).unwrap().closing, Closing::Closing);
}

#[test]
fn a_set_to_which_sections_may_return_is_not_closed() {
    let mut sets = sets();
    start(&mut sets[0], 5, SetId(2)).unwrap();
    let arrival = depart(&mut sets[0], 5, SetId(2));
    let refusal: CommandRefusal = SetRefusal::MayReturn { section: SECTION, migration: MigrationId(5) }.into();
    assert_eq!(close(&mut sets[0]), Err(refusal.clone()));
    arrive(&mut sets, 0, &arrival);
    let before = sets[0].clone();
    assert_eq!(close(&mut sets[0]), Err(refusal), "it can be rolled back");
    unchanged(&sets[0], &before);
    complete(&mut sets, 0, 5);
    hand_over_series(&mut sets);
    assert_eq!(close(&mut sets[0]), Ok(Closing::Closing));
}

#[test]
fn what_a_set_stated_before_it_was_restored_does_not_count() {
    let mut sets = sets();
    close(&mut sets[1]).unwrap();
    exchange(&mut sets);
    let stated = sets[0].facts(vec![]).unwrap();
    assert_eq!(stated.refuses, [(SetId(2), Lineage(0))]);
    sets[1].apply(&Command::Fence(Fence { set: SetId(1), lineage: Lineage(1 << 32) }));
    let late = LearnDirectory::of(stated);
    sets[1].apply(&Command::LearnDirectory(late));
    assert_eq!(sets[1].closing, Closing::Closing);
}

#[test]
fn a_plan_is_stale_once_what_it_rests_on_has_changed() {
    let [mut set, other] = sets();
    let runs = vec![SectionRun { first: SECTION, sections: 1 }];
    let to = SetId(2);
    let (planned, layout_id) = (set.fingerprint(to, &runs).unwrap(), set.set.as_ref().unwrap().layout.id());
    set.apply(&Command::Register(crate::state::Registration::new("a1", "a1:1", 7)));
    let (expected, node, incarnation) = (Epoch(0), NodeId(1), Incarnation(1));
    let reassign = crate::state::Reassign { section: SECTION, expected, liveness: None, to: node, incarnation };
    set.apply(&Command::Reassign(vec![reassign]));
    assert_eq!(set.fingerprint(to, &runs), Some(planned), "owners are not part of it");
    let restored = SetFacts { lineage: Lineage(1 << 32), ..other.facts(vec![]).unwrap() };
    set.apply(&Command::LearnDirectory(LearnDirectory::of(restored)));
    let (id, lineage) = (MigrationId(5), Lineage(0));
    let start = StartMigration { id, to, lineage, layout_id, runs, pace: PACE, fingerprint: planned };
    let before = set.clone();
    let refusal = SetRefusal::StalePlan { migration: id };
    assert_eq!(set.apply(&Command::StartMigration(start)), Answer::MigrationStarted(Err(refusal.into())));
    unchanged(&set, &before);
}
