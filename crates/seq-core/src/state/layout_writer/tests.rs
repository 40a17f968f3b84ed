use alloc::vec;

use super::*;
use crate::id::{Epoch, Lineage, Revision, SectionId, Seq};
use crate::layout::{Lanes, Layout};
use crate::limits;
use crate::series::Series;
use crate::state::{
    AdoptSeries, Close, Command, CreateSeries, EndQuarantine, Fence, Forget, LearnDirectory, Replicated, RetireSeries,
    SectionRecord, SetDefinition, SetFacts,
};

/// Index and id of the set with which the cluster began.
const A: usize = 0;
/// Index of a set that joined.
const B: usize = 1;
/// Index of another set that joined.
const C: usize = 2;

fn id(set: usize) -> SetId {
    SetId(set as u64 + 1)
}

/// Creates three sets that know each other and the layout writer.
fn sets() -> [State; 3] {
    let layout = Layout::new(0..100, 10).unwrap();
    let mut sets = [A, B, C].map(|set| {
        let name = alloc::format!("s{set}");
        let mut state = State::default();
        let definition = match set {
            A => SetDefinition::first(&name, id(set), layout.clone()),
            _ => SetDefinition::joining(&name, id(set), layout.clone()),
        };
        state.apply(&Command::DefineSet(definition));
        state
    });
    for (from, to) in [(A, B), (A, C), (B, A), (B, C), (C, A), (C, B)] {
        let facts = LearnDirectory::of(sets[from].facts(vec![]).unwrap());
        applied(&mut sets[to], facts).unwrap();
    }
    for to in [B, C] {
        assert_eq!(state_to(&mut sets, A, to), Ok(true), "the first writer is learned");
        assert_eq!(state_to(&mut sets, A, to), Ok(false));
    }
    sets
}

fn applied<C: Replicated>(state: &mut State, command: C) -> C::Output {
    C::output(state.apply(&command.into()))
}

/// Lets one set adopt the series and the writer that another set states.
fn state_to(sets: &mut [State], from: usize, to: usize) -> Result<bool, CommandRefusal> {
    let stated = sets[from].stated_series();
    applied(&mut sets[to], stated)
}

fn series(name: &str) -> CreateSeries {
    let lanes = Lanes { count: 2, per_section: 1, start: Seq(7), margin: 3, clock: None, keys: None };
    CreateSeries { name: name.into(), shape: vec![1], lanes, created_ms: 5 }
}

fn create(state: &mut State, name: &str) -> Result<(), CommandRefusal> {
    applied(state, series(name)).map(drop)
}

fn hand_over(state: &mut State, term: u64, to: usize) -> Result<u64, CommandRefusal> {
    applied(state, SetLayoutWriter { term, to: id(to) }).map(|writer| writer.term)
}

fn not_writer(writer: usize) -> CommandRefusal {
    CommandRefusal::NotSeriesWriter { writer: Some(id(writer)) }
}

fn writers(sets: &[State]) -> vec::Vec<usize> {
    (0..sets.len()).filter(|set| sets[*set].writes_series()).collect()
}

#[test]
fn the_former_writer_appends_nothing_and_the_next_one_only_after_the_layout() {
    let mut sets = sets();
    create(&mut sets[A], "a").unwrap();
    assert_eq!(create(&mut sets[B], "b"), Err(not_writer(A)));
    let early = sets[A].stated_series();
    applied(&mut sets[A], RetireSeries { name: "a".into() }).unwrap();
    assert_eq!(hand_over(&mut sets[A], 0, B), Ok(1));
    assert_eq!(create(&mut sets[A], "b"), Err(not_writer(B)));
    assert_eq!(applied(&mut sets[A], RetireSeries { name: "a".into() }), Err(not_writer(B)));
    assert!(writers(&sets).is_empty(), "the next writer has not learned of it");

    // The list of series from before the retirement is not enough to adopt the hand-over.
    let newest = sets[A].stated_series();
    let short = AdoptSeries { series: early.series.clone(), ..newest.clone() };
    assert_eq!(applied(&mut sets[B], short), Err(CommandRefusal::OtherSeries { from: id(A) }));
    assert_eq!(applied(&mut sets[B], early), Ok(true));
    assert_eq!(create(&mut sets[B], "b"), Err(not_writer(A)));

    assert_eq!(applied(&mut sets[B], newest), Ok(true));
    assert_eq!(writers(&sets), [B]);
    create(&mut sets[B], "b").unwrap();
    assert_eq!(state_to(&mut sets, B, A), Ok(true));
    assert_eq!(sets[A].stated_series().series, sets[B].stated_series().series);
    let layout = |state: &State| state.set.as_ref().unwrap().layout.clone();
    assert_eq!(layout(&sets[A]), layout(&sets[B]));
    let first = layout(&sets[B]).declared().sections() + 2;
    assert!(sets[B].sections.resident(SectionId(first)).is_some(), "its sections begin in the set that creates it");
    assert_eq!(sets[A].sections.get(SectionId(first)), Some(&SectionRecord::Never));
}

#[test]
fn a_hand_over_names_the_term_that_ends() {
    let mut sets = sets();
    assert_eq!(hand_over(&mut sets[A], 0, B), Ok(1));
    let before = sets[A].clone();
    assert_eq!(hand_over(&mut sets[A], 0, B), Ok(1), "the same command again");
    assert_eq!(hand_over(&mut sets[A], 0, C), Err(not_writer(B)));
    assert_eq!(hand_over(&mut sets[A], 1, C), Err(not_writer(B)));
    assert_eq!(State { revision: before.revision, ..sets[A].clone() }, before);
    assert_eq!(hand_over(&mut sets[B], 0, C), Err(not_writer(A)), "it has not learned that it is the writer");

    // The layout is handed back. A message that was sent before that changes nothing.
    let first = sets[A].stated_series();
    assert_eq!(applied(&mut sets[B], first.clone()), Ok(true));
    assert_eq!(hand_over(&mut sets[B], 1, A), Ok(2));
    let second = sets[B].stated_series();
    assert_eq!(applied(&mut sets[A], second.clone()), Ok(true));
    assert_eq!(writers(&sets), [A]);
    assert_eq!(hand_over(&mut sets[A], 0, B), Err(not_writer(A)), "a late command of an earlier term");
    create(&mut sets[A], "a").unwrap();
    assert_eq!(applied(&mut sets[B], first), Ok(false), "a late statement of an earlier term");
    assert_eq!(applied(&mut sets[C], second.clone()), Ok(false), "not from the writer that it knows");
    assert_eq!(state_to(&mut sets, A, C), Ok(true));
    assert_eq!(applied(&mut sets[C], second), Ok(false));
    assert_eq!(sets[C].layout_writer().map(|writer| (writer.term, writer.set)), Some((2, id(A))));
    assert_eq!(writers(&sets), [A]);
    assert_eq!(hand_over(&mut sets[A], 2, C), Ok(3));
}

#[test]
fn a_set_that_cannot_take_it_is_refused() {
    let mut sets = sets();
    assert_eq!(hand_over(&mut sets[A], 0, A), Err(SetRefusal::OwnSet.into()));
    let unknown = SetLayoutWriter { term: 0, to: SetId(9) };
    assert_eq!(applied(&mut sets[A], unknown), Err(SetRefusal::UnknownSet { set: SetId(9) }.into()));
    let state = |facts: SetFacts, sets: &mut [State; 3]| {
        let facts = SetFacts { revision: Revision(1_000 + facts.revision.0), ..facts };
        applied(&mut sets[A], LearnDirectory::of(facts)).unwrap();
    };
    let facts = sets[B].facts(vec![]).unwrap();
    state(SetFacts { quarantined: true, ..facts.clone() }, &mut sets);
    assert_eq!(hand_over(&mut sets[A], 0, B), Err(SetRefusal::InQuarantine { set: id(B) }.into()));
    for (step, closing) in [(1, Closing::Closing), (2, Closing::Closed)] {
        let revision = Revision(facts.revision.0 + step);
        state(SetFacts { closing, revision, ..facts.clone() }, &mut sets);
        assert_eq!(hand_over(&mut sets[A], 0, B), Err(SetRefusal::SetClosing { set: id(B) }.into()));
    }
    assert_eq!(hand_over(&mut sets[A], u64::MAX, C), Err(not_writer(A)));
    sets[A].restore(Lineage(1 << 32)).unwrap();
    assert_eq!(hand_over(&mut sets[A], 0, C), Err(SetRefusal::InQuarantine { set: id(A) }.into()));
}

/// Empties a set, as a migration of all its sections to another set would.
fn emptied(state: &State) -> State {
    let mut state = state.clone();
    state.sections = crate::state::SectionRecords::new(state.sections.len() as u32);
    state
}

#[test]
fn the_writer_neither_closes_nor_is_forgotten() {
    let mut sets = sets();
    sets[A] = emptied(&sets[A]);
    let writes = SetRefusal::WritesLayout { set: id(A) };
    assert_eq!(applied(&mut sets[A], Close), Err(writes.clone().into()));
    assert_eq!(applied(&mut sets[C], Forget { set: id(A) }), Err(writes.into()));
    let before = State { rules: Rules::Ten, ..sets[A].clone() };
    assert_eq!(applied(&mut before.clone(), Close), Ok(Closing::Closing), "by the rules of earlier formats");

    hand_over(&mut sets[A], 0, B).unwrap();
    let awaits = SetRefusal::LayoutNotTaken { set: id(B) };
    assert_eq!(applied(&mut sets[A], Close), Err(awaits.into()));
    state_to(&mut sets, A, B).unwrap();
    assert_eq!(state_to(&mut sets, B, A), Ok(true), "the next writer states that it has the layout");
    assert_eq!(state_to(&mut sets, B, A), Ok(false));
    assert_eq!(applied(&mut sets[A], Close), Ok(Closing::Closing));
    assert_eq!(state_to(&mut sets, A, C), Ok(true));
    assert_eq!(applied(&mut sets[C], Forget { set: id(A) }), Ok(true));

    // A set in quarantine may have lost the writer permanently.
    assert!(applied(&mut sets[C], Forget { set: id(B) }).is_err());
    sets[C].restore(Lineage(1 << 32)).unwrap();
    assert_eq!(applied(&mut sets[C], Forget { set: id(B) }), Ok(true));
}

/// Checks a set that closes while the layout is on its way to it. The set must not become closed before it has handed
/// the layout to another set.
#[test]
fn a_set_that_closes_hands_on_what_is_on_its_way_to_it() {
    let mut sets = sets();
    hand_over(&mut sets[A], 0, B).unwrap();
    assert_eq!(applied(&mut sets[B], Close), Ok(Closing::Closing), "it has not learned of the hand-over");
    let facts = sets[B].facts(vec![]).unwrap();
    for set in [A, C] {
        applied(&mut sets[set], LearnDirectory::of(facts.clone())).unwrap();
    }
    let refuses = |state: &State| state.facts(vec![]).unwrap().refuses;
    assert!(refuses(&sets[A]).is_empty(), "the layout is on its way");
    assert_eq!(refuses(&sets[C]), [(id(B), Lineage(0))]);
    state_to(&mut sets, A, B).unwrap();
    assert_eq!(create(&mut sets[B], "b"), Err(SetRefusal::SetClosing { set: id(B) }.into()));
    assert_eq!(hand_over(&mut sets[B], 1, C), Ok(2));
    state_to(&mut sets, B, A).unwrap();
    assert_eq!(refuses(&sets[A]), [(id(B), Lineage(0))]);
}

/// Lets the other sets fence a restored set, lets the restored set learn their statements, and ends its quarantine.
fn recover(sets: &mut [State; 3], restored: usize) {
    let (set, lineage) = (id(restored), sets[restored].lineage);
    for other in (A..=C).filter(|other| *other != restored) {
        applied(&mut sets[other], Fence { set, lineage }).unwrap();
        let page = sets[other].fence_response(set, lineage, SectionId(0)).unwrap();
        state_to(sets, other, restored).unwrap();
        assert_eq!(applied(&mut sets[restored], page), Ok(true));
    }
    applied(&mut sets[restored], EndQuarantine { lineage }).unwrap();
}

#[test]
fn a_former_writer_that_is_restored_learns_that_it_is_none() {
    let mut sets = sets();
    let backup = sets[A].clone();
    create(&mut sets[A], "a").unwrap();
    hand_over(&mut sets[A], 0, B).unwrap();
    state_to(&mut sets, A, B).unwrap();
    create(&mut sets[B], "b").unwrap();
    sets[A] = backup;
    sets[A].restore(Lineage(1 << 32)).unwrap();
    recover(&mut sets, A);
    assert_eq!(writers(&sets), [B]);
    assert_eq!(create(&mut sets[A], "x"), Err(not_writer(B)));
    // The sections of the lost series are in this set again, and the sections of the other set's series are not.
    let resident = |state: &State, name: &str| {
        let sections = state.series(name).unwrap().sections;
        sections.iter().filter(|section| state.sections.resident(*section).is_some()).count()
    };
    assert_eq!([resident(&sets[A], "a"), resident(&sets[A], "b"), resident(&sets[B], "b")], [2, 0, 2]);
}

#[test]
fn a_hand_over_that_no_set_has_learned_is_lost_with_a_restore_and_comes_never() {
    let mut sets = sets();
    let backup = sets[A].clone();
    hand_over(&mut sets[A], 0, B).unwrap();
    let late = sets[A].stated_series();
    sets[A] = backup;
    sets[A].restore(Lineage(1 << 32)).unwrap();
    recover(&mut sets, A);
    assert_eq!(writers(&sets), [A]);
    let old = SetRefusal::OldLineage { set: id(A), newest: Lineage(1 << 32), given: Lineage(0) };
    assert_eq!(applied(&mut sets[B], late.clone()), Err(old.clone().into()));
    assert_eq!(hand_over(&mut sets[A], 0, C), Ok(1));
    state_to(&mut sets, A, C).unwrap();
    assert_eq!(applied(&mut sets[B], late), Err(old.into()));
    assert_eq!(writers(&sets), [C]);
}

#[test]
fn the_next_writer_that_is_restored_learns_of_it_again() {
    let mut sets = sets();
    let backup = sets[B].clone();
    create(&mut sets[A], "a").unwrap();
    hand_over(&mut sets[A], 0, B).unwrap();
    state_to(&mut sets, A, B).unwrap();
    create(&mut sets[B], "b").unwrap();
    state_to(&mut sets, A, C).unwrap();
    state_to(&mut sets, B, C).unwrap();
    // The set that handed the layout over may be closed by now. The response of any set states the hand-over.
    sets[B] = backup;
    sets[B].restore(Lineage(1 << 32)).unwrap();
    recover(&mut sets, B);
    assert_eq!(writers(&sets), [B]);
    assert_eq!(sets[B].series.len(), 2);
}

#[test]
fn a_series_of_the_next_writer_begins_above_one_that_a_former_writer_has_lost() {
    let mut sets = sets();
    let backup = sets[A].clone();
    create(&mut sets[A], "lost").unwrap();
    sets[A] = backup;
    sets[A].restore(Lineage(1 << 32)).unwrap();
    recover(&mut sets, A);
    hand_over(&mut sets[A], 0, B).unwrap();
    state_to(&mut sets, A, B).unwrap();
    create(&mut sets[B], "lost").unwrap();
    let Series { sections, .. } = sets[B].series("lost").unwrap().clone();
    let record = sets[B].sections.resident(sections.first).unwrap();
    assert_eq!((record.max_seq, record.epoch), (Seq(7 + 3), Epoch(1 << 32)));
    assert_eq!(limits::RESTORE_MARGIN, 1 << 40, "the margin of uids is another one");
}

#[test]
fn only_the_writer_that_a_set_knows_states_the_next_one() {
    let mut sets = sets();
    let writer = LayoutWriter { term: 9, from: id(C), set: id(B), changes: 0, restores: 0, taken: true };
    let false_statement = AdoptSeries { writer: Some(writer), ..sets[C].stated_series() };
    assert_eq!(applied(&mut sets[B], false_statement), Ok(false));
    let far = LayoutWriter { from: id(A), restores: limits::MAX_RESTORE_STEP + 1, ..writer };
    let far = AdoptSeries { writer: Some(far), ..sets[A].stated_series() };
    assert_eq!(applied(&mut sets[B], far), Ok(false), "more restores than a fence may add");
    assert_eq!(writers(&sets), [A]);
}
