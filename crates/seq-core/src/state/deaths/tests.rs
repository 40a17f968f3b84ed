use alloc::vec;

use super::*;
use crate::id::{Epoch, HandoverId, Liveness, RenewSeq, SectionId, Seq};
use crate::layout::Layout;
use crate::state::{
    Answer, Command, Note, Noted, Raise, RaiseCeilings, Reassign, Registration, Renew, SetDefinition, Severity,
    Transfer,
};

const SECTION: SectionId = SectionId(0);

const A1: NodeId = NodeId(1);
const A2: NodeId = NodeId(2);

/// Number of the first process of a1.
const FIRST: u64 = 0xa1;

fn register(state: &mut State, name: &str, process: u64) -> Result<(NodeId, Incarnation), CommandRefusal> {
    let follows = state.nodes.iter().find(|node| node.name == name).map(|node| node.incarnation);
    let registration = Registration {
        follows: follows.unwrap_or_default(),
        process,
        ..Registration::new(name, "127.0.0.1:1", state.revision.0 + 1)
    };
    let Answer::Registered(outcome) = state.apply(&Command::Register(registration)) else { unreachable!() };
    outcome
}

fn die(state: &mut State, node: NodeId, process: u64) -> Result<Option<Incarnation>, CommandRefusal> {
    let Answer::DeathNoted(outcome) = state.apply(&Command::Died(Died { node, process })) else { unreachable!() };
    outcome
}

/// Creates a set of one section, which a1 owns under epoch 1; a2 owns none.
fn served() -> State {
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::only("im-a", Layout::new(0..100, 100).unwrap())));
    register(&mut state, "a1", FIRST).unwrap();
    register(&mut state, "a2", 0xa2).unwrap();
    let (to, incarnation) = (A1, Incarnation(1));
    let change = Reassign { section: SECTION, expected: Epoch(0), liveness: None, to, incarnation };
    assert_eq!(state.apply(&Command::Reassign(vec![change])), Answer::Reassigned(vec![Some(Epoch(1))]));
    state
}

/// Returns every command of an incarnation of a1 that changes the state while the incarnation lives, and the commands
/// that would give the section to it.
fn commands(incarnation: Incarnation) -> [Command; 4] {
    let (node, section, epoch) = (A1, SECTION, Epoch(1));
    let renew = Renew { node, incarnation, renew_seq: RenewSeq(1), ..Renew::default() };
    let raises = vec![Raise { section, epoch, to: Seq(500) }];
    let away = Transfer {
        section,
        epoch,
        from: A1,
        incarnation,
        to: A2,
        to_incarnation: Incarnation(1),
        handover_id: HandoverId(7),
    };
    let change = Reassign { section, expected: epoch, liveness: Some(Liveness(0)), to: A1, incarnation };
    [
        Command::Renew(renew),
        Command::Raise(RaiseCeilings { node, incarnation, raises }),
        Command::Transfer(away),
        Command::Reassign(vec![change]),
    ]
}

#[test]
fn no_command_of_an_incarnation_that_died_changes_anything() {
    let dead = CommandRefusal::ProcessDied { node: A1, incarnation: Incarnation(1) };
    for command in commands(Incarnation(1)) {
        let mut state = served();
        state.apply(&command);
        assert_ne!(
            (&state.nodes, &state.sections),
            (&served().nodes, &served().sections),
            "{command:?}, while it lives"
        );

        let mut state = served();
        assert_eq!(die(&mut state, A1, FIRST), Ok(Some(Incarnation(1))));
        let before = state.clone();
        match state.apply(&command) {
            Answer::Reassigned(outcome) => assert_eq!(outcome, [None]),
            Answer::Renewed(outcome) => assert_eq!(outcome, Err(dead.clone())),
            Answer::Raised(outcome) => assert_eq!(outcome, Err(dead.clone())),
            Answer::Transferred(outcome) => assert_eq!(outcome, Err(dead.clone())),
            other => panic!("{other:?}"),
        }
        assert_eq!((&state.nodes, &state.sections), (&before.nodes, &before.sections), "{command:?}");
    }
}

#[test]
fn a_report_names_the_process_and_not_the_node() {
    let mut state = served();
    assert_eq!(die(&mut state, A1, 0xff), Ok(None), "the number of another process");
    assert_eq!(die(&mut state, A2, FIRST), Ok(None), "the process of another node");
    assert_eq!(die(&mut state, NodeId(9), FIRST), Err(CommandRefusal::UnknownNode { node: NodeId(9) }));
    assert!(state.nodes.iter().all(|node| node.died.is_none()));

    // The process of incarnation 2 has registered before the report arrives.
    register(&mut state, "a1", 0xb1).unwrap();
    assert_eq!(die(&mut state, A1, FIRST), Ok(None));
    assert_eq!(state.node(A1).unwrap().died, None);
    for command in commands(Incarnation(2)).iter().take(1) {
        assert_eq!(state.apply(command), Answer::Renewed(Ok(())), "the process lives");
    }
}

#[test]
fn processes_without_a_number_have_no_reported_death() {
    let mut state = served();
    register(&mut state, "a1", 0).unwrap();
    assert_eq!(die(&mut state, A1, 0), Ok(None));
    assert_eq!(register(&mut state, "a1", 0), Ok((A1, Incarnation(3))), "no process of 0 is dead");
}

#[test]
fn a_dead_process_registers_no_more_and_its_successor_does() {
    let mut state = served();
    assert_eq!(register(&mut state, "a1", FIRST), Ok((A1, Incarnation(2))), "the process itself, while it lives");
    assert_eq!(die(&mut state, A1, FIRST), Ok(Some(Incarnation(2))));
    let dead = CommandRefusal::ProcessDied { node: A1, incarnation: Incarnation(2) };
    assert_eq!(register(&mut state, "a1", FIRST), Err(dead));
    assert_eq!(register(&mut state, "a1", 0xb1), Ok((A1, Incarnation(3))));
    let record = state.node(A1).unwrap();
    assert!(record.has_died(Incarnation(2)) && !record.has_died(Incarnation(3)), "{record:?}");
    assert!(!record.has_died(Incarnation(1)), "only the newest incarnation is certain to be of this process");
}

#[test]
fn a_repeated_report_changes_nothing_and_a_death_is_an_event() {
    let mut state = served();
    state.apply(&Command::Note(Note { unix_ms: 5_000, about: Noted::Time }));
    assert_eq!(die(&mut state, A1, FIRST), Ok(Some(Incarnation(1))));
    assert_eq!(state.node(A1).unwrap().died, Some(Death { incarnation: Incarnation(1), at_unix_ms: 5_000 }));
    let after = state.clone();
    state.apply(&Command::Note(Note { unix_ms: 9_000, about: Noted::Time }));
    assert_eq!(die(&mut state, A1, FIRST), Ok(None));
    assert_eq!((&state.nodes, state.events.last()), (&after.nodes, after.events.last()));

    let died = |state: &State| state.events.iter().next_back().cloned().unwrap();
    let event = died(&state);
    assert_eq!(event.record, EventRecord::Died { node: "a1".into(), incarnation: Incarnation(1), owned: 1 });
    assert_eq!((event.at_unix_ms, event.record.severity()), (5_000, Severity::Attention));
    assert_eq!(die(&mut state, A2, 0xa2), Ok(Some(Incarnation(1))));
    assert_eq!(died(&state).record.severity(), Severity::Info, "it owned nothing, as after an orderly stop");
}
