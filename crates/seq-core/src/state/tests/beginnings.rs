//! Tests of the beginnings of ownerships: each cause, with the time and the committed ceiling.

use alloc::vec;
use alloc::vec::Vec;

use super::*;

/// Notes a time, in milliseconds since 1970.
fn at(state: &mut State, unix_ms: u64) {
    state.apply(&Command::Note(Note { unix_ms, about: Noted::Time }));
}

/// Returns the way, the time and the ceiling with which the present ownership of a section began.
fn began(state: &State, section: u32) -> Option<(BeganBy, u64, u64)> {
    let began = record(state, section).beginning()?;
    Some((began.by, began.at_unix_ms, began.ceiling.0))
}

/// Hands section 0 from one node to another, both in their first incarnation.
fn hand_over(state: &mut State, epoch: u64, from: u32, to: u32) {
    let (section, epoch, handover_id) = (SectionId(0), Epoch(epoch), HandoverId(9));
    let (from, to, incarnation) = (NodeId(from), NodeId(to), Incarnation(1));
    let transfer = Transfer { section, epoch, from, incarnation, to, to_incarnation: incarnation, handover_id };
    let made = state.apply(&Command::Transfer(transfer));
    assert!(matches!(made, Answer::Transferred(Ok(_))), "{made:?}");
}

/// Takes section 0 with a copy for node 1, and section 1 without an owner, from another set. Both arrive under epoch 3
/// with the ceiling 700.
fn arrive(state: &mut State) {
    let layout_id = state.set.as_ref().unwrap().layout.id();
    let one = |section, handover_id, node, incarnation| Arriving {
        section: SectionId(section),
        epoch: Epoch(3),
        max_seq: Seq(700),
        handover_id: HandoverId(handover_id),
        node,
        incarnation: Incarnation(incarnation),
        migration: MigrationId(0),
    };
    let sections = vec![one(0, 9, Some(NodeId(1)), 1), one(1, 0, None, 0)];
    let (from, from_lineage, to_lineage) = (SetId(77), Lineage(0), Lineage(0));
    let arrive = Command::Arrive(Arrive { from, from_lineage, to_lineage, layout_id, sections });
    assert_eq!(state.apply(&arrive), Answer::Arrived(Ok(vec![Arrival::Arrived; 2])));
}

/// Creates a set without sections and with one node.
fn joining(rules: Rules) -> State {
    let mut state = State { rules, ..State::default() };
    let set = SetDefinition::joining("new", SetId(5), definition("dev").layout);
    assert_eq!(state.apply(&Command::DefineSet(set)), Answer::SetDefined(Ok(())));
    assert_eq!(register(&mut state, "a1", 11), Ok((NodeId(1), Incarnation(1))));
    state
}

#[test]
fn each_change_of_owner_in_a_set_begins_an_ownership() {
    let state = &mut defined();
    register(state, "a1", 11).unwrap();
    register(state, "a2", 21).unwrap();
    assert_eq!(began(state, 0), None, "it has no owner yet");
    at(state, 1_000);
    reassign(state, &[(0, 0, 1, 1)]);
    assert_eq!(began(state, 0), Some((BeganBy::First, 1_000, 0)));
    raise(state, (1, 1), &[(0, 1, 100)]).unwrap();
    at(state, 2_000);
    assert_eq!(began(state, 0), Some((BeganBy::First, 1_000, 0)), "a raise begins no ownership");

    hand_over(state, 1, 1, 2);
    assert_eq!(began(state, 0), Some((BeganBy::Handover, 2_000, 100)));
    raise(state, (2, 1), &[(0, 2, 250)]).unwrap();
    at(state, 3_000);
    reassign(state, &[(0, 2, 1, 1)]);
    assert_eq!(began(state, 0), Some((BeganBy::Takeover, 3_000, 250)));

    raise(state, (1, 1), &[(0, 3, 400)]).unwrap();
    at(state, 4_000);
    let (node, incarnation, released) = (NodeId(1), Incarnation(1), vec![(SectionId(0), Epoch(3))]);
    let renew = Renew { node, incarnation, renew_seq: RenewSeq(1), released, ..Renew::default() };
    assert_eq!(state.apply(&Command::Renew(renew)), Answer::Renewed(Ok(())));
    assert_eq!(began(state, 0), None, "it has no owner any more");
    at(state, 5_000);
    reassign(state, &[(0, 4, 2, 1)]);
    assert_eq!(began(state, 0), Some((BeganBy::Release, 5_000, 400)));

    register(state, "a2", 22).unwrap();
    at(state, 6_000);
    assert_eq!(reassign(state, &[(0, 5, 2, 2)]), [Some(Epoch(6))]);
    assert_eq!(began(state, 0), Some((BeganBy::Takeover, 6_000, 400)), "the process started anew");
}

#[test]
fn a_section_of_another_set_has_the_time_of_its_first_owner_here() {
    let state = &mut joining(Rules::default());
    at(state, 1_000);
    arrive(state);
    assert_eq!(began(state, 0), Some((BeganBy::Arrival, 1_000, 700)));
    assert_eq!(began(state, 1), None, "it has no owner yet");
    at(state, 2_000);
    reassign(state, &[(1, 3, 1, 1)]);
    assert_eq!(began(state, 1), Some((BeganBy::Arrival, 2_000, 700)));
    let skipped = |section| record(state, section).began.skipped;
    assert_eq!((skipped(0), skipped(1)), (Some(0), None));
    // Idle uids of section 0 are where they were in the other set, which this set does not know.
    assert_eq!((record(state, 0).began.floor, record(state, 1).began.floor), (None, Some(Seq(700))));
}

#[test]
fn a_restored_section_has_the_time_of_its_first_owner_after_the_restore() {
    let state = &mut served();
    let lineage = Lineage(1 << 32);
    at(state, 1_000);
    state.restore(lineage).unwrap();
    at(state, 2_000);
    let ended = state.apply(&Command::EndQuarantine(EndQuarantine { lineage }));
    assert_eq!(ended, Answer::QuarantineEnded(Ok(())));
    assert_eq!(began(state, 0), None);
    let follows = Incarnation(lineage.first_number());
    let registration = Registration { follows, ..registration(state, "a1", 12) };
    let (NodeId(node), Incarnation(incarnation)) = apply_registration(state, registration).unwrap();
    at(state, 3_000);
    let expected = record(state, 0).epoch.0;
    assert!(reassign(state, &[(0, expected, node, incarnation)])[0].is_some());
    let ceiling = record(state, 0).max_seq.0;
    assert!(ceiling > 100, "above all lost numbers");
    assert_eq!(began(state, 0), Some((BeganBy::Restore, 3_000, ceiling)));
}

#[test]
fn an_ownership_of_an_earlier_format_has_no_beginning_until_the_owner_changes() {
    let state = &mut joining(Rules::Ten);
    arrive(state);
    let defaults = |state: &State| state.sections.residents().all(|(_, one)| one.began == Beginning::default());
    assert!(defaults(state), "members of an earlier release have the same state");
    state.raise_format(11);
    assert_eq!((began(state, 0), began(state, 1)), (None, None));
    at(state, 1_000);
    reassign(state, &[(0, 3, 1, 1), (1, 3, 1, 1)]);
    assert_eq!(began(state, 0), Some((BeganBy::Takeover, 1_000, 700)));
    assert_eq!(began(state, 1), Some((BeganBy::Unknown, 1_000, 700)), "it came before the format was raised");
    let kinds: Vec<&str> = state.events.iter().map(|event| event.record.kind().name()).collect();
    assert_eq!(kinds, ["format", "takeover", "unknown_owners"]);
}

#[test]
fn a_kind_of_events_names_each_way() {
    let mut kinds: Vec<&str> = BeganBy::ALL.iter().map(|by| by.kind().name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), BeganBy::ALL.len());
}
