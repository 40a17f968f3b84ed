use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::route::RouteTable;

fn definition(name: &str) -> SetDefinition {
    SetDefinition { name: name.into(), layout: Layout::new(0..400, 100).unwrap() }
}

/// Four sections and no nodes.
fn defined() -> State {
    let mut state = State::default();
    assert_eq!(state.apply(&Command::DefineSet(definition("dev"))), Answer::SetDefined(Ok(())));
    state
}

/// Four sections and two nodes; node 1 owns sections 0 and 1 under epoch 1, with ceilings of 100.
fn served() -> State {
    let mut state = defined();
    assert_eq!(register(&mut state, "a1", 11), Ok((NodeId(1), Incarnation(1))));
    assert_eq!(register(&mut state, "a2", 21), Ok((NodeId(2), Incarnation(1))));
    assert_eq!(reassign(&mut state, &[(0, 0, 1, 1), (1, 0, 1, 1)]), [Some(Epoch(1)), Some(Epoch(1))]);
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, 100), (1, 1, 100)]), Ok(vec![Some(Seq(100)), Some(Seq(100))]));
    state
}

fn register(state: &mut State, name: &str, token: u64) -> Result<(NodeId, Incarnation), CommandRefusal> {
    match state.apply(&Command::Register { name: name.into(), addr: format!("{name}:1"), token }) {
        Answer::Registered(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn renew(state: &mut State, (node, incarnation): (u32, u64), renew_seq: u64) -> Result<(), CommandRefusal> {
    let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
    match state.apply(&Command::Renew { node, incarnation, renew_seq: RenewSeq(renew_seq) }) {
        Answer::Renewed(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Raises of (section, epoch, to).
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
    match state.apply(&Command::Raise { node, incarnation, raises: raises.iter().map(one).collect() }) {
        Answer::Raised(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Changes of (section, expected epoch, new owner, its incarnation).
fn reassign(state: &mut State, moves: &[(u32, u64, u32, u64)]) -> Vec<Option<Epoch>> {
    let one = |&(section, expected, to, incarnation): &(u32, u64, u32, u64)| Reassign {
        section: SectionId(section),
        expected: Epoch(expected),
        to: NodeId(to),
        incarnation: Incarnation(incarnation),
    };
    match state.apply(&Command::Reassign(moves.iter().map(one).collect())) {
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
        let refusal = CommandRefusal::OtherSet { stored: definition("dev"), given: given.clone() };
        assert_eq!(state.apply(&Command::DefineSet(given)), Answer::SetDefined(Err(refusal)));
    }
    assert_eq!(state, before);
}

#[test]
fn a_refused_set_is_named_with_the_stored_one() {
    let wider = SetDefinition { layout: Layout::new(0..500, 50).unwrap(), ..definition("dev") };
    let refusal = CommandRefusal::OtherSet { stored: definition("dev"), given: wider };
    assert_eq!(
        format!("{refusal}"),
        "the stored set is dev with uids 0..400 in sections of 100, not dev with uids 0..500 in sections of 50"
    );
}

#[test]
fn nobody_registers_before_the_set_is_defined() {
    assert_eq!(register(&mut State::default(), "a1", 11), Err(CommandRefusal::NoSet));
}

#[test]
fn a_repeated_registration_is_the_same_life() {
    let mut state = served();
    let before = state.clone();
    assert_eq!(register(&mut state, "a1", 11), Ok((NodeId(1), Incarnation(1))));
    assert_eq!(state, before);
}

#[test]
fn another_token_is_a_new_life_that_owns_nothing_yet() {
    let mut state = served();
    assert_eq!(renew(&mut state, (1, 1), 1), Ok(()));
    assert_eq!(register(&mut state, "a1", 12), Ok((NodeId(1), Incarnation(2))));
    assert_eq!(state.node(NodeId(1)).unwrap().renew_seq, RenewSeq(0));
    assert_eq!(state.owned_by(NodeId(1), Incarnation(2)).count(), 0);
    assert_eq!(raise(&mut state, (1, 2), &[(0, 1, 900)]), Ok(vec![None]));
}

#[test]
fn a_life_that_is_over_neither_renews_nor_raises() {
    let mut state = served();
    register(&mut state, "a1", 12).unwrap();
    let before = state.clone();
    assert_eq!(renew(&mut state, (1, 1), 1), Err(other_incarnation(1, 2, 1)));
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, 900)]), Err(other_incarnation(1, 2, 1)));
    assert_eq!(state, before);
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
    assert_eq!(state, before);
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
    assert_eq!(state.sections[1].max_seq, Seq(100), "the other section keeps its ceiling");
}

#[test]
fn a_raise_past_the_last_number_is_refused() {
    let mut state = served();
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, Seq::MAX.0 + 1)]), Ok(vec![None]));
    assert_eq!(raise(&mut state, (1, 1), &[(0, 1, Seq::MAX.0)]), Ok(vec![Some(Seq::MAX)]));
}

#[test]
fn each_raise_of_a_batch_stands_alone() {
    let mut state = served();
    let batch = [(0, 0, 900), (0, 2, 900), (1, 1, 500), (2, 1, 900), (2, 0, 900), (4, 1, 900)];
    assert_eq!(raise(&mut state, (1, 1), &batch), Ok(vec![None, None, Some(Seq(500)), None, None, None]));
    assert_eq!(state.sections.iter().map(|record| record.max_seq.0).collect::<Vec<_>>(), [100, 500, 0, 0]);
}

#[test]
fn the_sections_of_another_are_not_raised() {
    let mut state = served();
    assert_eq!(raise(&mut state, (2, 1), &[(0, 1, 900)]), Ok(vec![None]));
    assert_eq!(state.sections[0].max_seq, Seq(100));
}

#[test]
fn a_new_owner_begins_at_the_ceiling_and_the_old_epoch_is_over() {
    let mut state = served();
    assert_eq!(reassign(&mut state, &[(0, 1, 2, 1)]), [Some(Epoch(2))]);
    let record = state.sections[0];
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
    assert_eq!(state, before, "not even the version of the routes grew");
}

#[test]
fn a_section_does_not_go_to_a_life_that_is_over_or_to_no_section_at_all() {
    let mut state = served();
    register(&mut state, "a2", 22).unwrap();
    let before = state.clone();
    assert_eq!(reassign(&mut state, &[(0, 1, 2, 1), (0, 1, 2, 3), (4, 0, 2, 2)]), [None, None, None]);
    assert_eq!(state, before);
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
    state.apply(&Command::Register { name: "a1".into(), addr: "elsewhere:1".into(), token: 13 });
    assert_eq!(state.route_version, RouteVersion(version.0 + 1));
    let update = state.routes_since(version).unwrap();
    assert_eq!(update.nodes[&NodeId(1)].addr, "elsewhere:1");
    assert_eq!(update.runs, []);
}

#[test]
#[should_panic(expected = "a ceiling would fall")]
fn a_falling_ceiling_stops_the_process() {
    let mut record = SectionRecord { max_seq: Seq(5), ..SectionRecord::default() };
    record.advance(SectionRecord { max_seq: Seq(4), ..record });
}

#[test]
#[should_panic(expected = "an ownership would not get an epoch of its own")]
fn a_change_of_owner_within_an_epoch_stops_the_process() {
    let mut record = SectionRecord::default();
    record.advance(SectionRecord { owner: Some(NodeId(1)), ..record });
}

/// The rules again, as plainly as they can be put: names and numbers in maps, one command at a time.
#[derive(Default)]
struct Twin {
    /// Incarnation, token and renewals, by name.
    nodes: BTreeMap<String, (u64, u64, u64)>,
    /// Names by id, in the order of their first registration.
    names: Vec<String>,
    /// Epoch, owner's name, its incarnation and the ceiling.
    sections: BTreeMap<u32, (u64, Option<String>, u64, u64)>,
    claimed: BTreeSet<u64>,
}

impl Twin {
    fn lives(&self, node: NodeId, incarnation: Incarnation) -> Option<String> {
        let name = self.names.get((node.0 as usize).wrapping_sub(1))?;
        (self.nodes[name].0 == incarnation.0).then(|| name.clone())
    }

    fn apply(&mut self, command: &Command) -> Vec<Option<u64>> {
        match command {
            Command::DefineSet(_) => vec![],
            Command::ClaimStoreId { id } => vec![self.claimed.insert(*id).then_some(*id)],
            Command::Register { name, token, .. } => {
                if !self.nodes.contains_key(name) {
                    self.names.push(name.clone());
                    self.nodes.insert(name.clone(), (0, 0, 0));
                }
                let node = self.nodes.get_mut(name).unwrap();
                if node.1 != *token {
                    *node = (node.0 + 1, *token, 0);
                }
                vec![Some(node.0)]
            }
            Command::Renew { node, incarnation, renew_seq } => {
                let Some(name) = self.lives(*node, *incarnation) else { return vec![None] };
                let node = self.nodes.get_mut(&name).unwrap();
                let accepted = renew_seq.0 == node.2 || renew_seq.0 == node.2 + 1;
                if accepted {
                    node.2 = renew_seq.0;
                }
                vec![accepted.then_some(0)]
            }
            Command::Raise { node, incarnation, raises } => {
                let Some(name) = self.lives(*node, *incarnation) else { return vec![None] };
                let mut answers = Vec::new();
                for raise in raises {
                    let owned = (raise.epoch.0, Some(name.clone()), incarnation.0);
                    answers.push(match self.sections.get_mut(&raise.section.0) {
                        Some(record) if (record.0, record.1.clone(), record.2) == owned => {
                            record.3 = record.3.max(raise.to.0);
                            Some(record.3)
                        }
                        _ => None,
                    });
                }
                answers
            }
            Command::Reassign(moves) => {
                let mut answers = Vec::new();
                for change in moves {
                    let name = self.lives(change.to, change.incarnation);
                    answers.push(match (self.sections.get_mut(&change.section.0), name) {
                        (Some(record), Some(name)) if record.0 == change.expected.0 => {
                            *record = (record.0 + 1, Some(name), change.incarnation.0, record.3);
                            Some(record.0)
                        }
                        _ => None,
                    });
                }
                answers
            }
        }
    }
}

/// An answer as the twin gives it: `None` for each refusal.
fn plain(command: &Command, answer: Answer) -> Vec<Option<u64>> {
    match answer {
        Answer::SetDefined(_) => vec![],
        Answer::Registered(outcome) => vec![outcome.ok().map(|(_, incarnation)| incarnation.0)],
        Answer::StoreIdClaimed(claimed) => {
            let Command::ClaimStoreId { id } = command else { panic!("{command:?} was answered as a claim") };
            vec![claimed.then_some(*id)]
        }
        Answer::Renewed(outcome) => vec![outcome.ok().map(|()| 0)],
        Answer::Raised(Ok(raised)) => raised.iter().map(|one| one.map(|seq| seq.0)).collect(),
        Answer::Raised(Err(_)) => vec![None],
        Answer::Reassigned(moved) => moved.iter().map(|one| one.map(|epoch| epoch.0)).collect(),
    }
}

/// Commands from so small a world that most of them nearly fit the state.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let node = || (1..4u32).prop_map(NodeId);
    let incarnation = || (1..4u64).prop_map(Incarnation);
    let register = (prop::sample::select(vec!["a1", "a2", "a3"]), 1..4u64)
        .prop_map(|(name, token)| Command::Register { name: name.into(), addr: format!("{name}:{token}"), token });
    let renew = (node(), incarnation(), 0..5u64).prop_map(|(node, incarnation, seq)| Command::Renew {
        node,
        incarnation,
        renew_seq: RenewSeq(seq),
    });
    let one_raise = (0..5u32, 0..5u64, 0..1_000u64).prop_map(|(section, epoch, to)| Raise {
        section: SectionId(section),
        epoch: Epoch(epoch),
        to: Seq(to),
    });
    let raise = (node(), incarnation(), prop::collection::vec(one_raise, 0..8))
        .prop_map(|(node, incarnation, raises)| Command::Raise { node, incarnation, raises });
    let one_move = (0..5u32, 0..5u64, node(), incarnation()).prop_map(|(section, expected, to, incarnation)| {
        Reassign { section: SectionId(section), expected: Epoch(expected), to, incarnation }
    });
    let reassign = prop::collection::vec(one_move, 0..8).prop_map(Command::Reassign);
    let claim = (1..5u64).prop_map(|id| Command::ClaimStoreId { id });
    let command = prop_oneof![2 => register, 2 => renew, 5 => raise, 5 => reassign, 1 => claim];
    prop::collection::vec(command, 1..60)
}

proptest! {
    #[test]
    fn the_state_does_what_its_twin_does_and_nothing_falls(commands in commands()) {
        let mut state = defined();
        let mut twin = Twin { sections: (0..4).map(|section| (section, Default::default())).collect(), ..Twin::default() };
        for command in commands {
            let before = state.clone();
            let answer = plain(&command, state.apply(&command));
            prop_assert_eq!(&answer, &twin.apply(&command), "{:?}", command);
            if answer.iter().all(Option::is_none) {
                prop_assert_eq!(&state, &before, "a refused command changed something");
            }
            for (old, new) in before.sections.iter().zip(&state.sections) {
                prop_assert!(new.epoch >= old.epoch && new.max_seq >= old.max_seq && new.routed >= old.routed);
            }
            for (old, new) in before.nodes.iter().zip(&state.nodes) {
                prop_assert!(new.incarnation >= old.incarnation);
            }
            prop_assert!(state.route_version >= before.route_version);
        }
        for (record, (epoch, owner, incarnation, max_seq)) in state.sections.iter().zip(twin.sections.values()) {
            let name = record.owner.map(|id| state.node(id).unwrap().name.clone());
            prop_assert_eq!((record.epoch.0, &name, record.incarnation.0, record.max_seq.0), (*epoch, owner, *incarnation, *max_seq));
        }
    }

    /// Somebody who follows by deltas, from any versions on the way, knows the same routes as the store.
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
                    let record = state.sections[section.0 as usize];
                    prop_assert_eq!(follower.get(section).unwrap().owner, record.owner);
                    prop_assert_eq!(follower.get(section).unwrap().epoch, record.epoch);
                }
            }
        }
    }
}
