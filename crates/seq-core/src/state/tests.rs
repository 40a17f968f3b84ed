use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::layout::{Lanes, TickClock};
use crate::lease::LeaseTerms;
use crate::route::RouteTable;

mod beginnings;
mod between_sets;
mod departures;
mod neighbours;
mod restores;

fn definition(name: &str) -> SetDefinition {
    SetDefinition::only(name, Layout::new(0..400, 100).unwrap())
}

/// Creates a set with four sections and no nodes.
fn defined() -> State {
    let mut state = State::default();
    assert_eq!(state.apply(&Command::DefineSet(definition("dev"))), Answer::SetDefined(Ok(())));
    state
}

/// Creates a set with four sections and two nodes; node 1 owns sections 0 and 1 under epoch 1, with ceilings of 100.
fn served() -> State {
    let mut state = defined();
    assert_eq!(register(&mut state, "a1", 11), Ok((NodeId(1), Incarnation(1))));
    assert_eq!(register(&mut state, "a2", 21), Ok((NodeId(2), Incarnation(1))));
    assert_eq!(reassign(&mut state, &[(0, 0, 1, 1), (1, 0, 1, 1)]), [Some(Epoch(1)), Some(Epoch(1))]);
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, 100), (1, 1, 100)]), Ok(vec![Some(Seq(100)), Some(Seq(100))]));
    state
}

fn record(state: &State, section: u32) -> Residence {
    *state.sections.resident(SectionId(section)).unwrap()
}

/// Creates a registration that follows the newest incarnation of the name.
fn registration(state: &State, name: &str, token: u64) -> Registration {
    let known = state.nodes.iter().find(|node| node.name == name);
    Registration {
        name: name.into(),
        addr: format!("{name}:1"),
        peer_addr: format!("{name}:2"),
        token,
        lease: LeaseTerms::DEFAULTS.lease,
        follows: known.map_or(Incarnation(0), |node| node.incarnation),
        seen: Revision(0),
        process: 0,
    }
}

fn register(state: &mut State, name: &str, token: u64) -> Result<(NodeId, Incarnation), CommandRefusal> {
    let registration = registration(state, name, token);
    apply_registration(state, registration)
}

fn apply_registration(state: &mut State, registration: Registration) -> Result<(NodeId, Incarnation), CommandRefusal> {
    match state.apply(&Command::Register(registration)) {
        Answer::Registered(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Returns the state without its revision, which counts refused commands too.
fn timeless(state: &State) -> State {
    State { revision: Revision(0), ..state.clone() }
}

fn renew(state: &mut State, (node, incarnation): (u32, u64), renew_seq: u64) -> Result<(), CommandRefusal> {
    let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
    let renew_seq = RenewSeq(renew_seq);
    match state.apply(&Command::Renew(Renew { node, incarnation, renew_seq, leaving: false, ..Renew::default() })) {
        Answer::Renewed(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Applies raises, each with its section, epoch and ceiling.
fn raise(
    state: &mut State,
    (node, incarnation): (u32, u64),
    raises: &[(u32, u64, u64)],
) -> Result<Vec<Option<Seq>>, CommandRefusal> {
    let one = |&(section, epoch, to): &(u32, u64, u64)| Raise {
        section: SectionId(section),
        epoch: Epoch(epoch),
        to: Seq(to),
    };
    let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
    match state.apply(&Command::Raise(RaiseCeilings { node, incarnation, raises: raises.iter().map(one).collect() })) {
        Answer::Raised(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Returns the liveness counter of a section's owner, as a proposer reads it now.
fn liveness(state: &State, section: u32) -> Option<Liveness> {
    let record = state.sections.resident(SectionId(section))?;
    let owner = state.node(record.owner?)?;
    (owner.incarnation == record.incarnation).then_some(owner.liveness)
}

/// Applies reassignments, each with its section, expected epoch, new owner and the owner's incarnation.
fn reassign(state: &mut State, reassigns: &[(u32, u64, u32, u64)]) -> Vec<Option<Epoch>> {
    let one = |&(section, expected, to, incarnation): &(u32, u64, u32, u64)| Reassign {
        section: SectionId(section),
        expected: Epoch(expected),
        liveness: liveness(state, section),
        to: NodeId(to),
        incarnation: Incarnation(incarnation),
    };
    match state.apply(&Command::Reassign(reassigns.iter().map(one).collect())) {
        Answer::Reassigned(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn other_incarnation(node: u32, current: u64, given: u64) -> CommandRefusal {
    CommandRefusal::OtherIncarnation { node: NodeId(node), current: Incarnation(current), given: Incarnation(given) }
}

#[test]
fn the_set_is_defined_once_and_for_good() {
    let mut state = defined();
    let before = state.clone();
    assert_eq!(state.apply(&Command::DefineSet(definition("dev"))), Answer::SetDefined(Ok(())));
    let wider = SetDefinition { layout: Layout::new(0..500, 100).unwrap(), ..definition("dev") };
    for given in [definition("other"), wider] {
        let refusal = CommandRefusal::OtherSet { stored: Box::new(definition("dev")), given: Box::new(given.clone()) };
        assert_eq!(state.apply(&Command::DefineSet(given)), Answer::SetDefined(Err(refusal)));
    }
    assert_eq!(timeless(&state), timeless(&before));
}

#[test]
fn a_second_definition_of_the_same_set_keeps_the_stored_id_and_homes() {
    let mut state = defined();
    let before = state.clone();
    let layout = definition("dev").layout;
    let id = SetId(before.set.as_ref().unwrap().id.0 ^ 1);
    for again in [SetDefinition::first("dev", id, layout.clone()), SetDefinition::joining("dev", id, layout)] {
        assert_eq!(state.apply(&Command::DefineSet(again)), Answer::SetDefined(Ok(())));
    }
    assert_eq!(timeless(&state), timeless(&before));
}

#[test]
fn a_set_that_joins_begins_without_sections_and_claims() {
    let mut state = State::default();
    let joining = SetDefinition::joining("new", SetId(5), definition("dev").layout);
    assert_eq!(state.apply(&Command::DefineSet(joining)), Answer::SetDefined(Ok(())));
    assert_eq!((state.sections.len(), state.sections.residents().count()), (4, 0));
    assert_eq!(state.directory.runs().count(), 0);
}

#[test]
fn a_refused_set_is_named_with_the_stored_one() {
    let wider = SetDefinition { layout: Layout::new(0..500, 50).unwrap(), ..definition("dev") };
    let refusal = CommandRefusal::OtherSet { stored: Box::new(definition("dev")), given: Box::new(wider) };
    assert_eq!(
        format!("{refusal}"),
        "the stored set is dev with uids 0..400 in sections of 100, not dev with uids 0..500 in sections of 50"
    );
}

#[test]
fn no_node_registers_before_the_set_is_defined() {
    assert_eq!(register(&mut State::default(), "a1", 11), Err(CommandRefusal::NoSet));
}

#[test]
fn a_repeated_registration_is_the_same_incarnation() {
    let mut state = served();
    let before = state.clone();
    assert_eq!(register(&mut state, "a1", 11), Ok((NodeId(1), Incarnation(1))));
    assert_eq!(timeless(&state), timeless(&before));
}

#[test]
fn another_token_is_a_new_incarnation_that_owns_nothing_yet() {
    let mut state = served();
    assert_eq!(renew(&mut state, (1, 1), 1), Ok(()));
    assert_eq!(register(&mut state, "a1", 12), Ok((NodeId(1), Incarnation(2))));
    assert_eq!(state.node(NodeId(1)).unwrap().renew_seq, RenewSeq(0));
    assert_eq!(state.owned_since((NodeId(1), Incarnation(2)), RouteVersion(0)).count(), 0);
    assert_eq!(raise(&mut state, (1, 2), &[(0, 1, 900)]), Ok(vec![None]));
}

#[test]
fn an_incarnation_that_is_over_neither_renews_nor_raises() {
    let mut state = served();
    register(&mut state, "a1", 12).unwrap();
    let before = state.clone();
    assert_eq!(renew(&mut state, (1, 1), 1), Err(other_incarnation(1, 2, 1)));
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, 900)]), Err(other_incarnation(1, 2, 1)));
    assert_eq!(timeless(&state), timeless(&before));
}

#[test]
fn a_node_that_never_registered_does_nothing() {
    let mut state = served();
    let before = state.clone();
    for node in [0, 3, u32::MAX] {
        let refusal = CommandRefusal::UnknownNode { node: NodeId(node) };
        assert_eq!(renew(&mut state, (node, 1), 1), Err(refusal.clone()));
        assert_eq!(raise(&mut state, (node, 1), &[(0, 1, 900)]), Err(refusal));
        assert_eq!(reassign(&mut state, &[(2, 0, node, 1)]), [None]);
    }
    assert_eq!(timeless(&state), timeless(&before));
}

#[test]
fn a_registration_follows_the_newest_incarnation_or_is_refused() {
    let mut state = served();
    let first = Registration { follows: Incarnation(0), ..registration(&state, "a1", 11) };
    assert_eq!(apply_registration(&mut state, first.clone()), Ok((NodeId(1), Incarnation(1))), "a repeat");
    register(&mut state, "a1", 12).unwrap();
    let before = state.clone();
    let stale = CommandRefusal::OtherPredecessor { name: "a1".into(), current: Incarnation(2), given: Incarnation(0) };
    assert_eq!(apply_registration(&mut state, first), Err(stale), "a duplicate that was delayed past a later one");
    let unknown = Registration { follows: Incarnation(7), ..registration(&state, "a3", 31) };
    assert!(matches!(apply_registration(&mut state, unknown), Err(CommandRefusal::OtherPredecessor { .. })));
    assert_eq!(timeless(&state), timeless(&before));
    assert_eq!(renew(&mut state, (1, 2), 1), Ok(()), "the living incarnation goes on");
}

#[test]
fn a_store_behind_the_newest_response_of_a_process_refuses_to_register_it() {
    let mut state = served();
    let seen = |state: &State, revision| Registration { seen: revision, ..registration(state, "a1", 12) };
    let newest = state.revision;
    let (behind, knows) = (seen(&state, Revision(newest.0 + 1)), seen(&state, Revision(newest.0 + 1)));
    let refusal = CommandRefusal::StoreBehind { current: Revision(newest.0 + 1), seen: Revision(newest.0 + 1) };
    assert_eq!(apply_registration(&mut state, behind), Err(refusal));
    assert_eq!(apply_registration(&mut state, knows), Ok((NodeId(1), Incarnation(2))), "by now there is one more");
    let far = seen(&state, Revision(u64::MAX));
    assert!(matches!(apply_registration(&mut state, far), Err(CommandRefusal::StoreBehind { .. })));
}

#[test]
fn terms_are_replaced_by_name_and_bound_the_leases() {
    let mut state = defined();
    assert_eq!(state.terms(), Terms::DEFAULTS);
    let set = |state: &mut State, replaces: Option<u64>, wait: u64| {
        let terms = |ms| Terms { lease_wait: Duration::from_millis(ms) };
        match state.apply(&Command::SetTerms(SetTerms { replaces: replaces.map(terms), terms: terms(wait) })) {
            Answer::TermsSet(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(set(&mut state, None, 10_000), Ok(()));
    assert_eq!(set(&mut state, None, 10_000), Ok(()), "a repeat");
    let other = CommandRefusal::OtherTerms { current: Terms { lease_wait: Duration::from_secs(10) } };
    assert_eq!(set(&mut state, None, 2_500), Err(other.clone()), "the settings of another member");
    assert_eq!(set(&mut state, Some(9_000), 2_500), Err(other));
    for wait in [0, 3_600_001, u64::MAX] {
        assert!(matches!(set(&mut state, Some(10_000), wait), Err(CommandRefusal::BadTerms { .. })));
    }
    let with = |state: &State, lease_ms| Registration {
        lease: Duration::from_millis(lease_ms),
        ..registration(state, "a1", lease_ms)
    };
    for too_long in [0, 8_019, u64::MAX] {
        let registration = with(&state, too_long);
        let refused = apply_registration(&mut state, registration);
        assert!(matches!(refused, Err(CommandRefusal::LeaseTooLong { .. })), "{too_long}");
    }
    let registration = with(&state, 8_000);
    assert_eq!(apply_registration(&mut state, registration), Ok((NodeId(1), Incarnation(1))));
    assert_eq!(set(&mut state, Some(10_000), 2_500), Ok(()));
    assert_eq!(state.terms().wait_for(state.nodes[0].lease), LeaseTerms::shortest_wait(Duration::from_secs(8)));
}

#[test]
fn no_more_nodes_register_than_a_set_may_have() {
    let mut state = defined();
    for node in 0..limits::MAX_NODES {
        register(&mut state, &format!("n{node}"), 1).unwrap();
    }
    assert_eq!(register(&mut state, "one-more", 1), Err(CommandRefusal::TooManyNodes));
    assert_eq!(register(&mut state, "n7", 2), Ok((NodeId(8), Incarnation(2))), "who is known may come back");
}

#[test]
fn renewals_come_one_by_one_or_again() {
    let mut state = served();
    assert_eq!(renew(&mut state, (1, 1), 1), Ok(()));
    assert_eq!(renew(&mut state, (1, 1), 2), Ok(()));
    assert_eq!(renew(&mut state, (1, 1), 2), Ok(()));
    for given in [1, 4, u64::MAX] {
        let refusal = CommandRefusal::OtherRenewal { node: NodeId(1), current: RenewSeq(2), given: RenewSeq(given) };
        assert_eq!(renew(&mut state, (1, 1), given), Err(refusal));
    }
    assert_eq!(state.node(NodeId(1)).unwrap().renew_seq, RenewSeq(2));
}

#[test]
fn a_raise_is_absolute_and_never_lowers() {
    let mut state = served();
    for (to, committed) in [(100, 100), (250, 250), (250, 250), (99, 250), (0, 250), (251, 251)] {
        assert_eq!(raise(&mut state, (1, 1), &[(0, 1, to)]), Ok(vec![Some(Seq(committed))]), "to {to}");
    }
    assert_eq!(record(&state, 1).max_seq, Seq(100), "the other section keeps its ceiling");
}

#[test]
fn a_raise_past_the_last_number_is_refused() {
    let mut state = served();
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, Seq::MAX.0 + 1)]), Ok(vec![None]));
    let last = Residence { max_seq: Seq(Seq::MAX.0 - 1), ..record(&state, 0) };
    state.sections.put(SectionId(0), SectionRecord::Resident(last));
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, Seq::MAX.0)]), Ok(vec![Some(Seq::MAX)]));
}

#[test]
fn a_raise_moves_a_ceiling_by_a_bounded_distance() {
    let mut state = served();
    let bound = 100 + limits::MAX_RAISE;
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, bound)]), Ok(vec![Some(Seq(bound))]));
    assert_eq!(raise(&mut state, (1, 1), &[(1, 1, bound + 1)]), Ok(vec![Some(Seq(bound))]), "as far as one raise goes");
    assert_eq!(raise(&mut state, (1, 1), &[(1, 1, bound + 1)]), Ok(vec![Some(Seq(bound + 1))]), "and the rest");
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, Seq::MAX.0)]), Ok(vec![Some(Seq(bound + limits::MAX_RAISE))]));
}

/// The leader limits a raise of ticks by its clock before it proposes the raise.
#[test]
fn a_raise_of_ticks_goes_to_any_distance() {
    let clock = TickClock { epoch_ms: 0, unit_ms: 1, seq_bits: 12, lead_ms: 60_000 };
    let lanes = Lanes { count: 1, per_section: 1, start: Seq(100), margin: 0, clock: Some(clock), keys: None };
    let (layout, _) = definition("dev").layout.append(lanes).unwrap();
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::only("dev", layout)));
    register(&mut state, "a1", 11).unwrap();
    reassign(&mut state, &[(3, 0, 1, 1), (4, 0, 1, 1)]);
    let now = clock.tick(1_700_000_000_000);
    assert_eq!(
        raise(&mut state, (1, 1), &[(3, 1, now.0), (4, 1, now.0)]),
        Ok(vec![Some(Seq(limits::MAX_RAISE)), Some(now)])
    );
    assert_eq!(raise(&mut state, (1, 1), &[(4, 1, Seq::MAX.0 + 1)]), Ok(vec![None]));
}

#[test]
fn an_entry_raises_a_section_once() {
    let mut state = served();
    let batch = [(0, 1, 200), (0, 1, Seq::MAX.0), (1, 1, 200)];
    assert_eq!(raise(&mut state, (1, 1), &batch), Ok(vec![Some(Seq(200)), None, Some(Seq(200))]));
}

#[test]
fn each_raise_of_a_batch_stands_alone() {
    let mut state = served();
    let batch = [(0, 0, 900), (0, 2, 900), (1, 1, 500), (2, 1, 900), (2, 0, 900), (4, 1, 900)];
    assert_eq!(raise(&mut state, (1, 1), &batch), Ok(vec![None, None, Some(Seq(500)), None, None, None]));
    assert_eq!([0, 1, 2, 3].map(|section| record(&state, section).max_seq.0), [100, 500, 0, 0]);
}

#[test]
fn the_sections_of_another_are_not_raised() {
    let mut state = served();
    assert_eq!(raise(&mut state, (2, 1), &[(0, 1, 900)]), Ok(vec![None]));
    assert_eq!(record(&state, 0).max_seq, Seq(100));
}

#[test]
fn a_new_owner_begins_at_the_ceiling_and_the_old_epoch_is_over() {
    let mut state = served();
    assert_eq!(reassign(&mut state, &[(0, 1, 2, 1)]), [Some(Epoch(2))]);
    let record = record(&state, 0);
    assert_eq!((record.owner, record.epoch, record.max_seq), (Some(NodeId(2)), Epoch(2), Seq(100)));
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, 900)]), Ok(vec![None]));
    assert_eq!(raise(&mut state, (2, 1), &[(0, 1, 900)]), Ok(vec![None]));
    assert_eq!(raise(&mut state, (2, 1), &[(0, 2, 900)]), Ok(vec![Some(Seq(900))]));
}

#[test]
fn a_change_of_owner_is_made_once() {
    let mut state = served();
    assert_eq!(reassign(&mut state, &[(0, 1, 2, 1), (0, 1, 1, 1)]), [Some(Epoch(2)), None]);
    let before = state.clone();
    assert_eq!(reassign(&mut state, &[(0, 1, 2, 1)]), [None]);
    assert_eq!(timeless(&state), timeless(&before), "not even the version of the routes grew");
}

#[test]
fn a_command_of_the_owner_in_between_wins_over_a_change_of_owner() {
    let change = |liveness| {
        Command::Reassign(vec![Reassign {
            section: SectionId(0),
            expected: Epoch(1),
            liveness,
            to: NodeId(2),
            incarnation: Incarnation(1),
        }])
    };
    let refused = Answer::Reassigned(vec![None]);
    let mut state = served();
    let seen = liveness(&state, 0);
    renew(&mut state, (1, 1), 1).unwrap();
    assert_eq!(state.apply(&change(seen)), refused, "a renewal");
    let seen = liveness(&state, 0);
    renew(&mut state, (1, 1), 1).unwrap();
    assert_eq!(state.apply(&change(seen)), refused, "a repeated one");
    let seen = liveness(&state, 0);
    raise(&mut state, (1, 1), &[(1, 1, 500)]).unwrap();
    assert_eq!(state.apply(&change(seen)), refused, "a raise of another section");
    let seen = liveness(&state, 0);
    register(&mut state, "a1", 12).unwrap();
    assert_eq!(state.apply(&change(seen)), refused, "the session ended, and may have renewed before that");
    assert_eq!(state.apply(&change(None)), Answer::Reassigned(vec![Some(Epoch(2))]));
}

fn transfer(state: &mut State, to: (u32, u64), handover_id: u64) -> Result<Transferred, CommandRefusal> {
    let transfer = Transfer {
        section: SectionId(0),
        epoch: Epoch(1),
        from: NodeId(1),
        incarnation: Incarnation(1),
        to: NodeId(to.0),
        to_incarnation: Incarnation(to.1),
        handover_id: HandoverId(handover_id),
    };
    match state.apply(&Command::Transfer(transfer)) {
        Answer::Transferred(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transfer_keeps_the_ceiling_and_a_repeat_has_the_same_result() {
    let mut state = served();
    let made = Ok(Transferred { epoch: Epoch(2), max_seq: Seq(100) });
    assert_eq!(transfer(&mut state, (2, 1), 7), made);
    let record = record(&state, 0);
    assert_eq!((record.owner, record.epoch, record.handover_id), (Some(NodeId(2)), Epoch(2), HandoverId(7)));
    let version = state.route_version;
    assert_eq!(transfer(&mut state, (2, 1), 7), made);
    assert_eq!(state.route_version, version);
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, 900)]), Ok(vec![None]), "the old owner raises no more");
    register(&mut state, "a2", 22).unwrap();
    assert_eq!(transfer(&mut state, (2, 1), 7), made, "a repeat is not told that the target is gone since");
    let other =
        CommandRefusal::OtherOwnership { section: SectionId(0), current: Epoch(2), from: NodeId(1), given: Epoch(1) };
    assert_eq!(transfer(&mut state, (2, 1), 8), Err(other), "another attempt");
}

#[test]
fn a_transfer_to_an_incarnation_that_is_over_is_refused_for_good() {
    let mut state = served();
    register(&mut state, "a2", 22).unwrap();
    assert_eq!(transfer(&mut state, (2, 1), 1), Err(other_incarnation(2, 2, 1)));
    assert_eq!(record(&state, 0).owner, Some(NodeId(1)));
    assert!(transfer(&mut state, (2, 2), 2).is_ok());
}

#[test]
fn released_sections_have_no_owner_under_the_next_epoch() {
    let mut state = served();
    let released = vec![(SectionId(0), Epoch(1)), (SectionId(1), Epoch(9)), (SectionId(7), Epoch(1))];
    let (node, incarnation, renew_seq) = (NodeId(1), Incarnation(1), RenewSeq(1));
    let answer = state.apply(&Command::Renew(Renew {
        node,
        incarnation,
        renew_seq,
        released,
        leaving: true,
        ..Renew::default()
    }));
    assert_eq!(answer, Answer::Renewed(Ok(())));
    let owners: Vec<_> =
        state.sections.residents().map(|(_, record)| (record.owner, record.epoch.0, record.max_seq.0)).collect();
    assert_eq!(owners, [(None, 2, 100), (Some(NodeId(1)), 1, 100), (None, 0, 0), (None, 0, 0)]);
    assert!(state.nodes[0].leaving);
    register(&mut state, "a1", 12).unwrap();
    assert!(!state.nodes[0].leaving, "a new session stays");
}

#[test]
fn an_id_of_a_store_member_is_claimed_once() {
    let mut state = defined();
    let claim = |state: &mut State, id| state.apply(&Command::ClaimStoreId(ClaimStoreId { id }));
    for (id, free) in [(3, true), (1, true), (3, false), (2, true), (1, false)] {
        assert_eq!(claim(&mut state, id), Answer::StoreIdClaimed(free), "id {id}");
    }
    assert_eq!(state.store_ids, [1, 2, 3]);
}

#[test]
fn a_section_is_not_reassigned_to_an_incarnation_that_is_over() {
    let mut state = served();
    register(&mut state, "a2", 22).unwrap();
    let before = state.clone();
    assert_eq!(reassign(&mut state, &[(0, 1, 2, 1), (0, 1, 2, 3), (4, 0, 2, 2)]), [None, None, None]);
    assert_eq!(timeless(&state), timeless(&before));
}

#[test]
fn routes_grow_with_owners_and_addresses_only() {
    let mut state = served();
    let version = state.route_version;
    assert_eq!(state.routes_since(version), None);
    raise(&mut state, (1, 1), &[(0, 1, 900)]).unwrap();
    renew(&mut state, (1, 1), 1).unwrap();
    register(&mut state, "a1", 12).unwrap();
    assert_eq!(state.route_version, version);
    let elsewhere = Registration { addr: "elsewhere:1".into(), ..registration(&state, "a1", 13) };
    apply_registration(&mut state, elsewhere).unwrap();
    assert_eq!(state.route_version, RouteVersion(version.0 + 1));
    let update = state.routes_since(version).unwrap();
    assert_eq!(update.nodes[&NodeId(1)].addr, "elsewhere:1");
    assert_eq!(update.runs, []);
}

#[test]
#[should_panic(expected = "a ceiling would fall")]
fn a_falling_ceiling_stops_the_process() {
    let mut record = Residence { max_seq: Seq(5), ..Residence::default() };
    record.advance(Residence { max_seq: Seq(4), ..record });
}

#[test]
#[should_panic(expected = "an ownership would not get an epoch of its own")]
fn a_change_of_owner_within_an_epoch_stops_the_process() {
    let mut record = Residence::default();
    record.advance(Residence { owner: Some(NodeId(1)), ..record });
}

/// A simple model of the state's rules, with names and numbers in maps.
#[derive(Default)]
struct Twin {
    /// Incarnation, token, renewals and liveness counter, by name.
    nodes: BTreeMap<String, (u64, u64, u64, u64)>,
    /// Names by id, in the order of their first registration.
    names: Vec<String>,
    /// Epoch, name and incarnation of the owner, ceiling, and the handover attempt that began the ownership, by
    /// section.
    sections: BTreeMap<u32, (u64, Option<String>, u64, u64, u64)>,
    store_ids: Vec<u64>,
    /// Process of the newest incarnation, and the last incarnation that died, by name.
    processes: BTreeMap<String, (u64, u64)>,
}

impl Twin {
    fn current(&self, node: NodeId, incarnation: Incarnation) -> Option<String> {
        let name = self.names.get((node.0 as usize).wrapping_sub(1))?;
        let lives = self.nodes[name].0 == incarnation.0 && self.processes[name].1 != incarnation.0;
        lives.then(|| name.clone())
    }

    fn die(&mut self, died: &Died) -> Option<u64> {
        let name = self.names.get((died.node.0 as usize).wrapping_sub(1))?;
        let (newest, (process, dead)) = (self.nodes[name].0, self.processes.get_mut(name)?);
        let is_news = *process == died.process && died.process > 0 && *dead != newest;
        is_news.then(|| {
            *dead = newest;
            newest
        })
    }

    fn renew(&mut self, name: &String, incarnation: u64, seq: u64, released: &[(SectionId, Epoch)]) -> bool {
        let node = self.nodes.get_mut(name).unwrap();
        if seq != node.2 && seq != node.2 + 1 {
            return false;
        }
        (node.2, node.3) = (seq, node.3 + 1);
        for (section, epoch) in released {
            if let Some(record) = self.sections.get_mut(&section.0)
                && (record.0, record.1.as_ref(), record.2) == (epoch.0, Some(name), incarnation)
            {
                *record = (record.0 + 1, None, 0, record.3, 0);
            }
        }
        true
    }

    fn transfer(&mut self, transfer: &Transfer) -> Option<u64> {
        let from = self.current(transfer.from, transfer.incarnation)?;
        let to = self.names.get((transfer.to.0 as usize).wrapping_sub(1)).cloned();
        let living = self.current(transfer.to, transfer.to_incarnation).is_some();
        let record = self.sections.get_mut(&transfer.section.0)?;
        let next = (transfer.epoch.0.checked_add(1)?, to, transfer.to_incarnation.0, record.3, transfer.handover_id.0);
        let mine = (record.0, record.1.as_ref(), record.2) == (transfer.epoch.0, Some(&from), transfer.incarnation.0);
        if *record != next && !(mine && living) {
            return None;
        }
        *record = next;
        self.nodes.get_mut(&from).unwrap().3 += 1;
        Some(record.0)
    }

    fn register(&mut self, registration: &Registration) -> Option<u64> {
        let Registration { name, token, follows, process, .. } = registration;
        let known = self.nodes.get(name).copied().unwrap_or_default();
        let (former, dead) = self.processes.get(name).copied().unwrap_or_default();
        if *process > 0 && former == *process && dead == known.0 {
            return None;
        }
        if known.1 == *token {
            return Some(known.0);
        }
        if known.0 != follows.0 {
            return None;
        }
        if known.0 == 0 {
            self.names.push(name.clone());
        }
        self.nodes.insert(name.clone(), (known.0 + 1, *token, 0, known.3));
        self.processes.insert(name.clone(), (*process, dead));
        Some(known.0 + 1)
    }

    fn apply(&mut self, command: &Command) -> Vec<Option<u64>> {
        match command {
            Command::DefineSet(_) | Command::SetTerms { .. } => vec![],
            Command::Register(registration) => vec![self.register(registration)],
            Command::Renew(Renew { node, incarnation, renew_seq, released, .. }) => {
                let Some(name) = self.current(*node, *incarnation) else { return vec![None] };
                vec![self.renew(&name, incarnation.0, renew_seq.0, released).then_some(0)]
            }
            Command::Raise(RaiseCeilings { node, incarnation, raises }) => {
                let Some(name) = self.current(*node, *incarnation) else { return vec![None] };
                self.nodes.get_mut(&name).unwrap().3 += 1;
                let mut answers = Vec::new();
                for (row, raise) in raises.iter().enumerate() {
                    if raises[..row].iter().any(|earlier| earlier.section == raise.section) {
                        answers.push(None);
                        continue;
                    }
                    let owned = (raise.epoch.0, Some(name.clone()), incarnation.0);
                    answers.push(match self.sections.get_mut(&raise.section.0) {
                        Some(record) if (record.0, record.1.clone(), record.2) == owned => {
                            let most = record.3 + limits::MAX_RAISE;
                            if raise.to.0 <= Seq::MAX.0 {
                                record.3 = record.3.max(raise.to.0.min(most));
                            }
                            (raise.to.0 <= Seq::MAX.0).then_some(record.3)
                        }
                        _ => None,
                    });
                }
                answers
            }
            Command::Reassign(moves) => {
                let mut answers = Vec::new();
                for change in moves {
                    let name = self.current(change.to, change.incarnation);
                    answers.push(match (self.sections.get_mut(&change.section.0), name) {
                        (Some(record), Some(name)) if record.0 == change.expected.0 => {
                            let owner = record.1.as_ref().map(|owner| self.nodes[owner]);
                            let liveness = owner.filter(|owner| owner.0 == record.2).map(|owner| owner.3);
                            if liveness == change.liveness.map(|liveness| liveness.0) {
                                *record = (record.0 + 1, Some(name), change.incarnation.0, record.3, 0);
                                Some(record.0)
                            } else {
                                None
                            }
                        }
                        _ => None,
                    });
                }
                answers
            }
            Command::Transfer(transfer) => vec![self.transfer(transfer)],
            Command::Drain(Drain { name, .. }) => vec![self.nodes.contains_key(name).then_some(0)],
            Command::ClaimStoreId(ClaimStoreId { id }) => {
                let free = !self.store_ids.contains(id);
                if free {
                    self.store_ids.push(*id);
                }
                vec![free.then_some(0)]
            }
            Command::Died(died) => vec![self.die(died)],
            other => unreachable!("{other:?} is of the tests of several sets"),
        }
    }
}

/// Returns a result in the twin's form: `None` for each refusal.
fn plain(answer: Answer) -> Vec<Option<u64>> {
    match answer {
        Answer::SetDefined(_) | Answer::TermsSet(_) => vec![],
        Answer::Registered(outcome) => vec![outcome.ok().map(|(_, incarnation)| incarnation.0)],
        Answer::Renewed(outcome) => vec![outcome.ok().map(|()| 0)],
        Answer::Raised(Ok(raised)) => raised.iter().map(|one| one.map(|seq| seq.0)).collect(),
        Answer::Raised(Err(_)) => vec![None],
        Answer::Reassigned(moved) => moved.iter().map(|one| one.map(|epoch| epoch.0)).collect(),
        Answer::Transferred(outcome) => vec![outcome.ok().map(|made| made.epoch.0)],
        Answer::Drained(outcome) => vec![outcome.ok().map(|_| 0)],
        Answer::StoreIdClaimed(free) => vec![free.then_some(0)],
        Answer::DeathNoted(outcome) => vec![outcome.ok().flatten().map(|incarnation| incarnation.0)],
        other => unreachable!("{other:?} is of the tests of several sets"),
    }
}

/// Returns the state without liveness counters. A raise increases the counter of its node even if each of its parts is
/// refused.
fn without_liveness(state: &State) -> State {
    let mut state = timeless(state);
    state.nodes.iter_mut().for_each(|node| node.liveness = Liveness(0));
    state
}

/// Generates commands with values from a small range, so that most commands nearly fit the state.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let node = || (1..4u32).prop_map(NodeId);
    let incarnation = || (1..4u64).prop_map(Incarnation);
    let register = (prop::sample::select(vec!["a1", "a2", "a3"]), 1..4u64, 0..3u64, 0..3u64).prop_map(
        |(name, token, follows, process)| {
            let registration = registration(&State::default(), name, token);
            Command::Register(Registration { follows: Incarnation(follows), process, ..registration })
        },
    );
    // Most values fit. The other values are sent only by a broken or hostile process.
    let epoch = || prop_oneof![9 => 0..5u64, 1 => u64::MAX - 1..=u64::MAX];
    let section = || prop_oneof![9 => 0..5u32, 1 => Just(u32::MAX)];
    let ownership = (section(), epoch()).prop_map(|(section, epoch)| (SectionId(section), Epoch(epoch)));
    let released = prop::collection::vec(ownership, 0..3);
    let renew = (node(), incarnation(), 0..5u64, released, any::<bool>()).prop_map(
        |(node, incarnation, seq, released, leaving)| {
            let renew_seq = RenewSeq(seq);
            Command::Renew(Renew { node, incarnation, renew_seq, released, leaving, ..Renew::default() })
        },
    );
    let to = prop_oneof![9 => 0..1_000u64, 1 => Seq::MAX.0 - 1..=Seq::MAX.0 + 1, 1 => Just(u64::MAX)];
    let one_raise = (section(), epoch(), to).prop_map(|(section, epoch, to)| Raise {
        section: SectionId(section),
        epoch: Epoch(epoch),
        to: Seq(to),
    });
    let raise = (node(), incarnation(), prop::collection::vec(one_raise, 0..8))
        .prop_map(|(node, incarnation, raises)| Command::Raise(RaiseCeilings { node, incarnation, raises }));
    let liveness = || prop::option::of((0..6u64).prop_map(Liveness));
    let one_move = (section(), epoch(), liveness(), node(), incarnation()).prop_map(
        |(section, expected, liveness, to, incarnation)| Reassign {
            section: SectionId(section),
            expected: Epoch(expected),
            liveness,
            to,
            incarnation,
        },
    );
    let reassign = prop::collection::vec(one_move, 0..8).prop_map(Command::Reassign);
    let transfer = (section(), epoch(), node(), incarnation(), node(), incarnation(), 1..3u64).prop_map(
        |(section, epoch, from, incarnation, to, to_incarnation, handover_id)| {
            Command::Transfer(Transfer {
                section: SectionId(section),
                epoch: Epoch(epoch),
                from,
                incarnation,
                to,
                to_incarnation,
                handover_id: HandoverId(handover_id),
            })
        },
    );
    let drain = (prop::sample::select(vec!["a1", "a2", "a9"]), any::<bool>())
        .prop_map(|(name, drained)| Command::Drain(Drain { name: name.into(), drained }));
    let died = (node(), 0..3u64).prop_map(|(node, process)| Command::Died(Died { node, process }));
    let claim = (1..5u64).prop_map(|id| Command::ClaimStoreId(ClaimStoreId { id }));
    let command = prop_oneof![
        2 => register, 2 => renew, 5 => raise, 5 => reassign, 5 => transfer, 1 => drain, 1 => claim, 1 => died
    ];
    prop::collection::vec(command, 1..60)
}

proptest! {
    #[test]
    fn the_state_does_what_its_twin_does_and_nothing_falls(commands in commands()) {
        let mut state = defined();
        let mut twin = Twin { sections: (0..4).map(|section| (section, Default::default())).collect(), ..Twin::default() };
        for command in commands {
            let before = state.clone();
            let answer = plain(state.apply(&command));
            prop_assert_eq!(&answer, &twin.apply(&command), "{:?}", command);
            if answer.iter().all(Option::is_none) {
                prop_assert_eq!(&without_liveness(&state), &without_liveness(&before), "a refused command changed something");
            }
            for ((_, old), (_, new)) in before.sections.residents().zip(state.sections.residents()) {
                prop_assert!(new.epoch >= old.epoch && new.max_seq >= old.max_seq && new.routed >= old.routed);
            }
            for (old, new) in before.nodes.iter().zip(&state.nodes) {
                prop_assert!(new.incarnation >= old.incarnation && new.liveness >= old.liveness);
            }
            prop_assert!(state.route_version >= before.route_version);
        }
        for ((_, record), known) in state.sections.residents().zip(twin.sections.values()) {
            let name = record.owner.map(|id| state.node(id).unwrap().name.clone());
            let Residence { epoch, incarnation, max_seq, handover_id, .. } = record;
            prop_assert_eq!(&(epoch.0, name, incarnation.0, max_seq.0, handover_id.0), known);
        }
        for node in &state.nodes {
            prop_assert_eq!(node.liveness.0, twin.nodes[&node.name].3);
        }
    }

    /// Checks that a follower has the same routes as the store after it adopted deltas from any versions.
    #[test]
    fn followed_deltas_are_the_whole_table(commands in commands(), asks in prop::collection::vec(any::<bool>(), 60)) {
        let mut state = defined();
        register(&mut state, "a1", 1).unwrap();
        let mut follower = RouteTable::from_whole(&state.routes_since(RouteVersion(0)).unwrap()).unwrap();
        for (command, ask) in commands.iter().zip(asks) {
            state.apply(command);
            if let Some(update) = state.routes_since(follower.version()).filter(|_| ask) {
                prop_assert_eq!(follower.adopt(&update), crate::route::Adopted::Newer);
                let whole = RouteTable::from_whole(&state.routes_since(RouteVersion(0)).unwrap()).unwrap();
                prop_assert_eq!(follower.nodes(), whole.nodes());
                prop_assert_eq!(follower.version(), whole.version());
                for section in (0..4).map(SectionId) {
                    let record = record(&state, section.0);
                    prop_assert_eq!(follower.get(section).unwrap().owner, record.owner);
                    prop_assert_eq!(follower.get(section).unwrap().epoch, record.epoch);
                }
            }
        }
    }
}
