use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::id::{Epoch, HandoverId, Liveness, MigrationId, RenewSeq, Seq};
use crate::layout::Layout;
use crate::state::{
    Answer, BeganBy, Beginning, Command, CopyPart, Drain, Fields, Raise, RaiseCeilings, Reassign, Registration, Renew,
    Rules, SetDefinition, State, Transfer,
};

/// Creates a set of a hundred sections with three nodes, and the time 1,000 ms.
fn state() -> State {
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::only("s", Layout::new(0..1_000, 10).unwrap())));
    at(&mut state, 1_000);
    for name in ["a1", "a2", "a3"] {
        state.apply(&Command::Register(Registration::new(name, "h:1", 7)));
    }
    state
}

fn at(state: &mut State, unix_ms: u64) {
    state.apply(&Command::Note(Note { unix_ms, about: Noted::Time }));
}

/// Gives sections to a node, even if another node owns them.
fn give(state: &mut State, sections: core::ops::Range<u32>, to: u32) {
    let one = |section| {
        let record = *state.sections.resident(SectionId(section)).unwrap();
        let owner =
            record.owner.and_then(|owner| state.node(owner)).filter(|one| one.incarnation == record.incarnation);
        let liveness: Option<Liveness> = owner.map(|owner| owner.liveness);
        let (to, incarnation) = (NodeId(to), Incarnation(1));
        Reassign { section: SectionId(section), expected: record.epoch, liveness, to, incarnation }
    };
    let Answer::Reassigned(outcome) = state.apply(&Command::Reassign(sections.map(one).collect())) else { panic!() };
    assert!(outcome.iter().all(Option::is_some), "{outcome:?}");
}

fn raise(state: &mut State, node: u32, section: u32, to: u64) {
    let epoch = state.sections.resident(SectionId(section)).unwrap().epoch;
    let raises = vec![Raise { section: SectionId(section), epoch, to: Seq(to) }];
    let command = RaiseCeilings { node: NodeId(node), incarnation: Incarnation(1), raises };
    assert_eq!(state.apply(&Command::Raise(command)), Answer::Raised(Ok(vec![Some(Seq(to))])));
}

fn hand_over(state: &mut State, section: u32, from: u32, to: u32) {
    let epoch = state.sections.resident(SectionId(section)).unwrap().epoch;
    let (section, handover_id) = (SectionId(section), HandoverId(9));
    let (incarnation, to_incarnation) = (Incarnation(1), Incarnation(1));
    let (from, to) = (NodeId(from), NodeId(to));
    let transfer = Transfer { section, epoch, from, incarnation, to, to_incarnation, handover_id };
    let Answer::Transferred(outcome) = state.apply(&Command::Transfer(transfer)) else { panic!() };
    outcome.unwrap();
}

/// Returns the ownerships of the newest event.
fn newest(state: &State) -> &Ownerships {
    match &state.events.iter().next_back().unwrap().record {
        EventRecord::Began { ownerships } => ownerships,
        other => panic!("{other:?}"),
    }
}

fn kinds(state: &State) -> Vec<&'static str> {
    state.events.iter().map(|event| event.record.kind().name()).collect()
}

#[test]
fn a_takeover_of_many_sections_is_one_event_with_its_owners() {
    let state = &mut state();
    give(state, 0..40, 1);
    assert_eq!(kinds(state), ["set_defined", "registered", "registered", "registered", "first_owners"]);
    let first = newest(state);
    assert_eq!((first.by, &first.from, &*first.to), (BeganBy::First, &None, &[(String::from("a1"), 40)][..]));
    raise(state, 1, 7, 25_000);
    at(state, 5_000);
    let (node, incarnation, silent_ms) = (NodeId(1), Incarnation(1), 2_500);
    state.apply(&Command::Note(Note { unix_ms: 5_000, about: Noted::Silent { node, incarnation, silent_ms } }));
    give(state, 0..20, 2);
    at(state, 6_000);
    give(state, 20..40, 3);
    assert_eq!(kinds(state)[5..], ["silent", "takeover"]);
    let event = state.events.iter().next_back().unwrap();
    assert_eq!((event.index, event.at_unix_ms, event.until_unix_ms), (7, 5_000, 6_000));
    let sections = SectionCount { count: 40, first: SectionId(0), last: SectionId(39) };
    let to = vec![("a2".into(), 20), ("a3".into(), 20)];
    let routed = state.route_version;
    let (by, from) = (BeganBy::Takeover, Some(("a1".into(), Incarnation(1))));
    let expected = Ownerships { by, from, silent_ms, to, others: 0, sections, most_skipped: Some(25_000), routed };
    assert_eq!(newest(state), &expected);
    let began = state.sections.resident(SectionId(7)).unwrap().began;
    assert_eq!((began.at_unix_ms, began.by, began.ceiling), (5_000, BeganBy::Takeover, Seq(25_000)));
    assert_eq!(began.skipped, Some(25_000));
}

#[test]
fn a_second_takeover_skips_only_what_the_ownership_before_added() {
    let state = &mut state();
    give(state, 0..1, 1);
    raise(state, 1, 0, 10_000);
    give(state, 0..1, 2);
    raise(state, 2, 0, 12_000);
    give(state, 0..1, 1);
    assert_eq!(newest(state).most_skipped, Some(2_000));
}

#[test]
fn a_change_after_a_pause_is_another_event() {
    let state = &mut state();
    give(state, 0..1, 1);
    at(state, 1_000 + limits::EVENT_PAUSE_MS);
    give(state, 1..2, 1);
    assert_eq!(state.events.last(), 5, "continued");
    at(state, 2_001 + 2 * limits::EVENT_PAUSE_MS);
    give(state, 2..3, 1);
    assert_eq!(state.events.last(), 6);
}

#[test]
fn a_handover_skips_nothing_and_an_orderly_release_only_without_a_copy() {
    let state = &mut state();
    give(state, 0..3, 1);
    for section in 0..3 {
        raise(state, 1, section, 10_000);
    }
    hand_over(state, 0, 1, 2);
    let one = newest(state);
    assert_eq!((one.by, one.most_skipped, &*one.to), (BeganBy::Handover, Some(0), &[(String::from("a2"), 1)][..]));
    let (node, incarnation, epoch) = (NodeId(1), Incarnation(1), Epoch(1));
    let (section, highest, bytes) = (SectionId(1), Seq(9_000), vec![1, 2, 3]);
    let copies = vec![CopyPart { section, epoch, highest, length: 3, offset: 0, bytes }];
    let released = vec![(SectionId(1), epoch), (SectionId(2), epoch)];
    let renew = Renew { node, incarnation, renew_seq: RenewSeq(1), copies, released, leaving: true, taken: vec![] };
    state.apply(&Command::Renew(renew.clone()));
    state.apply(&Command::Renew(renew));
    give(state, 1..2, 2);
    let one = newest(state);
    assert_eq!((one.by, &one.from, one.most_skipped), (BeganBy::Release, &None, Some(0)));
    give(state, 2..3, 3);
    assert_eq!(newest(state).most_skipped, Some(10_000), "of the section without a copy");
    assert_eq!(newest(state).sections.count, 2);
    let leaving = kinds(state).iter().filter(|kind| **kind == "leaving").count();
    assert_eq!(leaving, 1, "a repeat is no event");
}

#[test]
fn more_owners_than_an_event_lists_are_counted() {
    let state = &mut state();
    let nodes = limits::MAX_EVENT_NODES as u32 + 3;
    for node in 4..=nodes {
        state.apply(&Command::Register(Registration::new(&alloc::format!("a{node}"), "h:1", 7)));
    }
    (0..nodes).for_each(|section| give(state, section..section + 1, section + 1));
    let one = newest(state);
    assert_eq!((one.to.len(), one.others, one.sections.count), (limits::MAX_EVENT_NODES, 3, nodes));
    let mut body = Vec::new();
    state.events.iter().next_back().unwrap().put(&mut body);
    assert!(body.len() <= 300, "{} bytes", body.len());
}

#[test]
fn refusals_and_repeats_are_no_events() {
    let state = &mut state();
    let before = state.events.clone();
    for command in [
        Command::Register(Registration::new("a1", "h:1", 7)),
        Command::Drain(Drain { name: "nobody".into(), drained: true }),
        Command::Drain(Drain { name: "a1".into(), drained: false }),
        Command::DefineSet(SetDefinition::only("s", Layout::new(0..1_000, 10).unwrap())),
        Command::Reassign(vec![Reassign {
            section: SectionId(0),
            expected: Epoch(5),
            liveness: None,
            to: NodeId(1),
            incarnation: Incarnation(1),
        }]),
    ] {
        state.apply(&command);
        assert_eq!(state.events, before, "{command:?}");
    }
    state.apply(&Command::Drain(Drain { name: "a1".into(), drained: true }));
    assert_eq!(state.events.last(), before.last() + 1);
}

#[test]
fn the_rules_of_earlier_formats_keep_no_events() {
    let mut state = State { rules: Rules::Ten, ..State::default() };
    state.apply(&Command::DefineSet(SetDefinition::only("s", Layout::new(0..100, 10).unwrap())));
    state.apply(&Command::Register(Registration::new("a1", "h:1", 7)));
    give(&mut state, 0..1, 1);
    assert_eq!(state.events, Events::default());
    assert_eq!(state.sections.resident(SectionId(0)).unwrap().began, Beginning::default());
    state.raise_format(11);
    assert_eq!(kinds(&state), ["format"]);
    give(&mut state, 0..2, 1);
    let began = |section| state.sections.resident(SectionId(section)).unwrap().began;
    assert_eq!((began(0).by, began(0).skipped), (BeganBy::Takeover, None), "its numbers before are not known");
    assert_eq!((began(1).by, began(1).skipped), (BeganBy::First, Some(0)));
}

#[test]
fn the_most_frequent_kind_makes_room() {
    let state = &mut state();
    let drain = |drained| Command::Drain(Drain { name: "a1".into(), drained });
    for _ in 0..limits::MAX_EVENTS {
        state.apply(&drain(true));
        state.apply(&drain(false));
    }
    let kept: Vec<&Event> = state.events.iter().collect();
    assert_eq!(kept.len(), limits::MAX_EVENTS);
    assert_eq!(kinds(state)[..4], ["set_defined", "registered", "registered", "registered"]);
    assert_eq!(state.events.last(), 4 + 2 * limits::MAX_EVENTS as u64);
}

#[test]
fn a_watcher_gets_an_event_again_that_a_change_continues() {
    let state = &mut state();
    give(state, 0..1, 1);
    give(state, 1..2, 2);
    let drain = Command::Drain(Drain { name: "a3".into(), drained: true });
    state.apply(&drain);
    let seen = state.events.changes();
    assert!(state.events.changed_after(seen).is_empty());
    give(state, 2..3, 2);
    let changed = |seen| -> Vec<&str> {
        state.events.changed_after(seen).iter().map(|event| event.record.kind().name()).collect()
    };
    assert_eq!(changed(seen), ["first_owners"]);
    assert_eq!(changed(seen - 1), ["drained", "first_owners"], "in the order of the changes");
    assert_eq!(state.events.changed_after(0).len(), state.events.iter().count());
}

/// One change of the property below.
#[derive(Clone, Debug)]
enum Change {
    Give(u32, u32),
    HandOver(u32, u32),
    Raise(u32, u64),
    Wait(u64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0_u32..20, 1_u32..4).prop_map(|(section, to)| Change::Give(section, to)),
        (0_u32..20, 1_u32..4).prop_map(|(section, to)| Change::HandOver(section, to)),
        (0_u32..20, 1_u64..20_000).prop_map(|(section, by)| Change::Raise(section, by)),
        (0_u64..20_000).prop_map(Change::Wait),
    ]
}

proptest! {
    /// The twin counts every change by itself, and remembers how, when and at which ceiling each
    /// ownership began, and where its idle uids are.
    #[test]
    fn events_count_each_ownership_once(changes in prop::collection::vec(change(), 1..200)) {
        let state = &mut state();
        let (mut now, mut floors, mut skipped) = (1_000, [0_u64; 20], [0_u64; 3]);
        let (mut counts, mut beginnings) = ([0_u32; 3], [None; 20]);
        let owner = |state: &State, section| state.sections.resident(SectionId(section)).unwrap().owner;
        let ceiling = |state: &State, section| state.sections.resident(SectionId(section)).unwrap().max_seq.0;
        for change in changes {
            match change {
                Change::Give(section, to) => {
                    let kind = usize::from(owner(state, section).is_some());
                    let jump = ceiling(state, section) - floors[section as usize];
                    give(state, section..section + 1, to);
                    counts[kind] += 1;
                    skipped[kind] = skipped[kind].max(jump);
                    floors[section as usize] = ceiling(state, section);
                    let by = if kind == 0 { BeganBy::First } else { BeganBy::Takeover };
                    beginnings[section as usize] = Some((by, now, ceiling(state, section)));
                }
                Change::HandOver(section, to) => {
                    let Some(from) = owner(state, section) else { continue };
                    hand_over(state, section, from.0, to);
                    counts[2] += 1;
                    // The uids stay where they are, so a later takeover skips more than since the handover.
                    beginnings[section as usize] = Some((BeganBy::Handover, now, ceiling(state, section)));
                }
                Change::Raise(section, by) => {
                    let Some(owner) = owner(state, section) else { continue };
                    raise(state, owner.0, section, ceiling(state, section) + by);
                }
                Change::Wait(ms) => {
                    now += ms;
                    at(state, now);
                }
            }
        }
        let (mut seen, mut most) = ([0_u32; 3], [0_u64; 3]);
        for event in state.events.iter() {
            if let EventRecord::Began { ownerships } = &event.record {
                let kind = match ownerships.by {
                    BeganBy::First => 0,
                    BeganBy::Takeover => 1,
                    BeganBy::Handover => 2,
                    other => panic!("{other:?}"),
                };
                seen[kind] += ownerships.sections.count;
                most[kind] = most[kind].max(ownerships.most_skipped.unwrap());
                let listed: u32 = ownerships.to.iter().map(|(_, count)| count).sum();
                prop_assert_eq!(listed + ownerships.others, ownerships.sections.count);
            }
        }
        for (section, expected) in (0..).zip(beginnings) {
            let record = state.sections.resident(SectionId(section)).unwrap();
            let recorded = record.beginning().map(|began| (began.by, began.at_unix_ms, began.ceiling.0));
            prop_assert_eq!(recorded, expected);
        }
        prop_assert_eq!(seen, counts);
        prop_assert_eq!(most, skipped);
        let kept: Vec<Event> = state.events.iter().cloned().collect();
        let mut body = Vec::new();
        kept.put(&mut body);
        prop_assert_eq!(Vec::<Event>::take(&mut &*body), Some(kept));
    }
}

#[test]
fn voters_are_an_event_only_if_they_changed() {
    let state = &mut state();
    let note = |state: &mut State, voters: &[u64]| {
        state.apply(&Command::Note(Note { unix_ms: 2_000, about: Noted::Members { voters: voters.to_vec() } }));
        state.events.iter().filter(|event| event.record.kind() == EventKind::Members).count()
    };
    assert_eq!(state.events.voters(), None);
    assert_eq!([note(state, &[1, 2, 3]), note(state, &[1, 2, 3]), note(state, &[1, 2, 4])], [1, 1, 2]);
    assert_eq!(state.events.voters(), Some(&[1, 2, 4][..]));
}

#[test]
fn a_migration_that_does_not_advance_needs_attention() {
    let state = &mut state();
    let about = Noted::Stuck { migration: MigrationId(3), cause: "no response".into() };
    state.apply(&Command::Note(Note { unix_ms: 2_000, about }));
    let event = state.events.iter().next_back().unwrap();
    assert_eq!((event.record.kind(), event.record.severity()), (EventKind::MigrationStuck, Severity::Attention));
    assert_eq!(event.at_unix_ms, 2_000);
}
