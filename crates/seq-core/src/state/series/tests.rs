use alloc::vec;

use super::*;
use crate::arbiter::{Arbiter, ArbiterTimeouts, Declared};
use crate::id::{Incarnation, Lineage, NodeId, RouteVersion, SectionId, SlotIndex, Uid};
use crate::layout::{AppendError, Layout, address};
use crate::route::RouteTable;
use crate::state::{Command, EndQuarantine, Fence, Home, LearnDirectory, Registration, Replicated};
use core::time::Duration;

const SECTIONS: u32 = 10;

/// The set with which the cluster began; with another set, which joined.
fn sets() -> [State; 2] {
    let layout = Layout::new(0..100, 10).unwrap();
    let definitions =
        [SetDefinition::first("im-a", SetId(1), layout.clone()), SetDefinition::joining("im-b", SetId(2), layout)];
    definitions.map(|definition| {
        let mut state = State::default();
        state.apply(&Command::DefineSet(definition));
        state
    })
}

fn applied<C: Replicated>(state: &mut State, command: C) -> C::Output {
    C::output(state.apply(&command.into()))
}

fn lanes(count: u32, per_section: u32) -> Lanes {
    Lanes { count, per_section, start: Seq(7), margin: 3, clock: None, keys: None }
}

fn series(name: &str, lanes: Lanes) -> CreateSeries {
    CreateSeries { name: name.into(), shape: vec![1, 2], lanes, created_ms: 5 }
}

#[test]
fn a_series_has_sections_of_its_own_from_its_start_on() {
    let [mut state, _] = sets();
    let tweets = series("tweets", lanes(5, 2));
    let version = state.route_version;
    let sections = SectionRun { first: SectionId(SECTIONS), sections: 3 };
    assert_eq!(applied(&mut state, tweets.clone()), Ok(sections));
    assert!(state.route_version > version);
    let began = Beginning { ceiling: Seq(7), floor: Some(Seq(7)), ..Beginning::FIRST };
    let expected = Residence { max_seq: Seq(7), routed: state.route_version, began, ..Residence::default() };
    for section in sections.iter() {
        assert_eq!(state.sections.resident(section), Some(&expected));
        assert_eq!(state.directory.get(section).map(|claim| (claim.since, claim.set)), Some((Epoch(0), SetId(1))));
    }
    let layout = &state.set.as_ref().unwrap().layout;
    assert_eq!(layout.locate(address(SectionId(12), SlotIndex(0))), Ok((SectionId(12), SlotIndex(0))));
    assert!(layout.locate(address(SectionId(12), SlotIndex(1))).is_err(), "the last section has one lane");
    assert_eq!(layout.locate(Uid(99)), Ok((SectionId(9), SlotIndex(9))), "the uids are where they were");

    let before = state.clone();
    assert_eq!(applied(&mut state, CreateSeries { created_ms: 6, ..tweets }), Ok(sections), "a repeat");
    assert_eq!(State { revision: before.revision, ..state }, before);
}

#[test]
fn a_set_that_closes_creates_no_series() {
    let [mut state, _] = sets();
    applied(&mut state, series("orders", lanes(1, 1))).unwrap();
    for closing in [Closing::Closing, Closing::Closed] {
        state.closing = closing;
        let refused = Err(SetRefusal::SetClosing { set: SetId(1) }.into());
        assert_eq!(applied(&mut state, series("tweets", lanes(1, 1))), refused);
        assert!(applied(&mut state, series("orders", lanes(1, 1))).is_ok(), "a repeat");
    }
}

#[test]
fn a_name_is_used_once() {
    let [mut state, _] = sets();
    applied(&mut state, series("orders", lanes(1, 1))).unwrap();
    let exists = |retired| Err(CommandRefusal::SeriesExists { name: "orders".into(), retired });
    assert_eq!(applied(&mut state, series("orders", lanes(2, 1))), exists(false));
    let other = CreateSeries { shape: vec![9], ..series("orders", lanes(1, 1)) };
    assert_eq!(applied(&mut state, other), exists(false));
    let retire = RetireSeries { name: "orders".into() };
    assert_eq!(applied(&mut state, retire.clone()), Ok(true));
    let version = state.route_version;
    assert_eq!(applied(&mut state, retire), Ok(false));
    assert_eq!(state.route_version, version);
    assert_eq!(applied(&mut state, series("orders", lanes(1, 1))), exists(true));
    let none = RetireSeries { name: "order".into() };
    assert_eq!(applied(&mut state, none), Err(CommandRefusal::UnknownSeries { name: "order".into() }));
}

#[test]
fn a_refused_series_changes_nothing() {
    let [mut state, _] = sets();
    let before = state.clone();
    let mut refused = |series: CreateSeries| {
        let refusal = applied(&mut state, series).unwrap_err();
        assert_eq!(State { revision: before.revision, ..state.clone() }, before, "{refusal}");
        refusal
    };
    for name in ["", "Tweets", "a b", "ä", &"x".repeat(64)] {
        assert_eq!(refused(series(name, lanes(1, 1))), CommandRefusal::BadSeriesName { name: name.into() });
    }
    let long = CreateSeries { shape: vec![0; 65], ..series("a", lanes(1, 1)) };
    assert_eq!(refused(long), CommandRefusal::ShapeTooLong { bytes: 65 });
    let none = AppendError::BadLanes { count: 0, per_section: 1 };
    assert_eq!(refused(series("a", lanes(0, 1))), CommandRefusal::Layout(none));
    let count = limits::MAX_SERIES_SECTIONS + 1;
    let many = AppendError::BadLanes { count, per_section: 1 };
    assert_eq!(refused(series("a", lanes(count, 1))), CommandRefusal::Layout(many));
}

#[test]
fn another_set_adopts_the_series_of_the_writer() {
    let [mut writer, mut other] = sets();
    assert_eq!(applied(&mut other, series("a", lanes(1, 1))), Err(CommandRefusal::NotSeriesWriter { writer: None }));
    applied(&mut writer, series("a", lanes(3, 1))).unwrap();
    assert_eq!(applied(&mut other, State::stated_series(&writer)), Ok(true));
    assert_eq!(applied(&mut other, State::stated_series(&writer)), Ok(false));
    applied(&mut writer, series("b", lanes(1, 1))).unwrap();
    applied(&mut writer, RetireSeries { name: "a".into() }).unwrap();
    let newest = State::stated_series(&writer);
    assert_eq!(applied(&mut other, newest.clone()), Ok(true));
    assert_eq!(State::stated_series(&other).series, newest.series);
    let layout = |state: &State| state.set.as_ref().unwrap().layout.clone();
    assert_eq!(layout(&other), layout(&writer));
    assert_eq!(other.sections.get(SectionId(13)), Some(&SectionRecord::Never), "the section is in the writer");
    assert_eq!(
        applied(&mut other, RetireSeries { name: "b".into() }),
        Err(CommandRefusal::NotSeriesWriter { writer: Some(SetId(1)) })
    );

    // An older list has nothing new. A list that differs is refused, and so is any list that is sent to the writer.
    let older = AdoptSeries { series: newest.series[..1].to_vec(), ..newest.clone() };
    assert_eq!(applied(&mut other, older), Ok(false));
    let mut differs = newest.clone();
    differs.series[1].create.lanes.margin += 1;
    assert_eq!(applied(&mut other, differs), Err(CommandRefusal::OtherSeries { from: SetId(1) }));
    let from = AdoptSeries { from: SetId(2), ..newest.clone() };
    assert_eq!(applied(&mut writer, from), Err(CommandRefusal::OtherSeries { from: SetId(2) }));
    assert_eq!(applied(&mut writer, newest), Err(SetRefusal::OwnSet.into()));
}

#[test]
fn the_set_with_the_first_section_creates_series() {
    let layout = Layout::new(0..100, 10).unwrap();
    let home = |first, set| Home { sections: SectionRun { first: SectionId(first), sections: 5 }, set: SetId(set) };
    for (id, writes) in [(1, true), (2, false)] {
        let mut state = State::default();
        let (name, homes) = (alloc::format!("s{id}"), vec![home(0, 1), home(5, 2)]);
        state.apply(&Command::DefineSet(SetDefinition { name, id: SetId(id), layout: layout.clone(), homes }));
        assert_eq!(state.writes_series(), writes);
    }
}

#[test]
fn only_incarnations_that_can_own_lanes_get_them() {
    let [mut state, _] = sets();
    for (token, name) in [(1, "a1"), (2, "a2")] {
        applied(&mut state, Registration::new(name, "h:1", token)).unwrap();
    }
    applied(&mut state, series("a", lanes(4, 1))).unwrap();
    let declared = ["a1", "a2"].map(|name| Declared { name, weight: 1 });
    let timeouts = ArbiterTimeouts { registration_grace: Duration::ZERO, stable_for: Duration::ZERO };
    let mut arbiter = Arbiter::new(timeouts);
    let mut planned = |state: &State| {
        let plan = arbiter.evaluate(state, &declared, || Duration::ZERO).clone();
        let (uids, lanes) = plan.reassigns.split_at(plan.reassigns.partition_point(|one| one.section.0 < SECTIONS));
        let nodes: Vec<u32> = lanes.iter().map(|one| one.to.0).collect();
        (uids.len(), nodes, plan.stranded.iter().map(|one| one.section.0).collect::<Vec<u32>>())
    };
    assert_eq!(planned(&state), (10, vec![], vec![10, 11, 12, 13]), "no node is known to be able to");
    let note = |incarnation| NoteReadsLanes { node: NodeId(2), incarnation: Incarnation(incarnation) };
    assert!(applied(&mut state, note(2)).is_err(), "another incarnation");
    assert_eq!(applied(&mut state, note(1)), Ok(true));
    assert_eq!(applied(&mut state, note(1)), Ok(false));
    assert_eq!(planned(&state), (10, vec![2; 4], vec![]));
    let next = Registration { follows: Incarnation(1), ..Registration::new("a2", "h:1", 3) };
    applied(&mut state, next).unwrap();
    assert_eq!(planned(&state).1, [0; 0], "the next incarnation may be of an earlier release");
}

/// Lets the other set apply the fence of the restored set, and the restored set learn the other set's response and
/// series.
fn recover(restored: &mut State, other: &mut State) {
    let (set, lineage) = (restored.set.as_ref().unwrap().id, restored.lineage);
    applied(other, Fence { set, lineage }).unwrap();
    let page = other.fence_response(set, lineage, SectionId(0)).unwrap();
    let from = AdoptSeries { from: SetId(2), ..State::stated_series(other) };
    applied(restored, from).unwrap();
    assert_eq!(applied(restored, page), Ok(true));
}

fn ends(state: &mut State, unix_ms: u64) -> Result<(), CommandRefusal> {
    let lineage = state.lineage;
    if state.awaits_clock() {
        let refused = applied(state, EndQuarantine { lineage });
        assert_eq!(refused, Err(SetRefusal::ClockNotNoted.into()), "the time is not noted");
        applied(state, NoteClock { unix_ms }).unwrap();
    }
    applied(state, EndQuarantine { lineage })
}

#[test]
fn a_restore_loses_no_series_that_another_set_knows_and_repeats_no_number() {
    const CLOCK: TickClock = TickClock { epoch_ms: 1_000, unit_ms: 1, seq_bits: 12, lead_ms: 60_000 };
    let [mut writer, mut other] = sets();
    let facts = |state: &State| state.facts(vec![]).unwrap();
    let (ours, theirs) = (facts(&writer), facts(&other));
    applied(&mut writer, LearnDirectory::of(theirs)).unwrap();
    applied(&mut other, LearnDirectory::of(ours)).unwrap();
    applied(&mut writer, series("a", lanes(1, 1))).unwrap();
    let backup = writer.clone();
    applied(&mut writer, series("b", Lanes { clock: Some(CLOCK), ..lanes(2, 1) })).unwrap();
    applied(&mut other, State::stated_series(&writer)).unwrap();

    let mut restored = backup;
    restored.restore(Lineage(1 << 32)).unwrap();
    assert!(!restored.awaits_clock());
    recover(&mut restored, &mut other);
    assert_eq!(State::stated_series(&restored).series, State::stated_series(&other).series);
    assert!(restored.awaits_clock(), "a series follows the clock");
    let now = 5_000_000;
    ends(&mut restored, now).unwrap();
    let ceiling = |state: &State, section: u32| state.sections.resident(SectionId(section)).unwrap().max_seq;
    assert_eq!(ceiling(&restored, 0), Seq(limits::RESTORE_MARGIN), "of a section of uids");
    assert_eq!(ceiling(&restored, SECTIONS), Seq(7 + 3), "the margin of the series");
    let latest = CLOCK.tick(now + 60_000 + 10_000 + 60_000);
    assert_eq!([11, 12].map(|section| ceiling(&restored, section)), [latest; 2], "above any raise before the restore");
    assert!(restored.sections.resident(SectionId(11)).unwrap().epoch >= Epoch(1 << 32));

    // After another restore, no tick is repeated either. Noting an earlier time a second time does not lower the
    // ceiling.
    let backup = restored.clone();
    let mut again = backup;
    again.restore(Lineage(2 << 32)).unwrap();
    recover(&mut again, &mut other);
    ends(&mut again, now - 4_000_000).unwrap();
    assert_eq!([11, 12].map(|section| ceiling(&again, section)), [latest; 2]);
    assert_eq!(ceiling(&again, SECTIONS), Seq(7 + 2 * 3));
}

#[test]
fn a_series_of_a_restored_set_begins_above_a_series_that_the_restore_lost() {
    const CLOCK: TickClock = TickClock { epoch_ms: 0, unit_ms: 1, seq_bits: 0, lead_ms: 1_000 };
    let [mut state, _] = sets();
    applied(&mut state, series("t", Lanes { clock: Some(CLOCK), ..lanes(1, 1) })).unwrap();
    state.restore(Lineage(1 << 32)).unwrap();
    ends(&mut state, 9_000).unwrap();
    let sections = applied(&mut state, series("a", lanes(1, 1))).unwrap();
    let record = *state.sections.resident(sections.first).unwrap();
    assert_eq!((record.max_seq, record.epoch, record.since), (Seq(7 + 3), Epoch(1 << 32), Epoch(1 << 32)));
    let sections = applied(&mut state, series("b", Lanes { clock: Some(CLOCK), ..lanes(1, 1) })).unwrap();
    let record = *state.sections.resident(sections.first).unwrap();
    assert_eq!(record.max_seq, Seq(9_000 + 60_000 + 10_000 + 1_000));
}

/// Checks a backup without a series that follows the clock, so that the quarantine noted no time.
#[test]
fn a_series_with_a_clock_begins_above_a_lost_one_if_the_backup_had_none() {
    const CLOCK: TickClock = TickClock { epoch_ms: 0, unit_ms: 1, seq_bits: 0, lead_ms: 1_000 };
    let [mut state, _] = sets();
    let timed = |created_ms| CreateSeries { created_ms, ..series("t", Lanes { clock: Some(CLOCK), ..lanes(1, 1) }) };
    state.restore(Lineage(1 << 32)).unwrap();
    assert!(!state.awaits_clock());
    ends(&mut state, 9_000).unwrap();
    let sections = applied(&mut state, timed(9_500)).unwrap();
    let record = *state.sections.resident(sections.first).unwrap();
    assert_eq!(record.max_seq, Seq(9_500 + 60_000 + 10_000 + 1_000));
}

#[test]
fn routes_name_the_series_and_grow_with_them() {
    let [mut state, _] = sets();
    let mut table = RouteTable::from_whole(&state.routes_since(RouteVersion(0)).unwrap_or_else(|| {
        applied(&mut state, Registration::new("a1", "h:1", 1)).unwrap();
        state.routes_since(RouteVersion(0)).unwrap()
    }))
    .unwrap();
    let known = table.version();
    applied(&mut state, series("a", lanes(300, 1))).unwrap();
    let update = state.routes_since(known).unwrap();
    assert_eq!(table.adopt(&update), crate::route::Adopted::Newer);
    assert_eq!(table.layout().sections(), SECTIONS + 300);
    assert_eq!(table.series().len(), 1);
    assert!(table.get(SectionId(SECTIONS + 299)).is_some());
    // A set that was restored from an older backup has lost the series.
    let lost = crate::route::RouteUpdate {
        layout: table.layout().declared(),
        version: RouteVersion(table.version().0 + 1),
        base: RouteVersion(0),
        runs: vec![],
        series: [].into(),
        ..update.clone()
    };
    let shorter = crate::route::RouteUpdate { base: known, ..lost.clone() };
    assert_eq!(table.clone().adopt(&shorter), crate::route::Adopted::Mismatch);
    assert_eq!(table.adopt(&lost), crate::route::Adopted::Newer);
    assert_eq!((table.layout().sections(), table.series().len()), (SECTIONS, 0));
}

#[test]
fn the_bytes_of_a_series() {
    let clock = TickClock { epoch_ms: 1, unit_ms: 2, seq_bits: 3, lead_ms: 4 };
    let lanes = Lanes { count: 5, per_section: 6, start: Seq(7), margin: 8, clock: Some(clock), keys: None };
    let mut body = Vec::new();
    (series("a", lanes), true).put(&mut body);
    let expected = [
        &[1, 0, 0, 0, b'a', 2, 0, 0, 0, 1, 2][..],
        &[5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0, 1],
    ];
    assert_eq!(body, expected.concat());
    assert_eq!(Fields::take(&mut &*body), Some((series("a", lanes), true)));
    assert_eq!(<(CreateSeries, bool)>::take(&mut &body[..body.len() - 1]), None);
}
