//! The bytes of format 10: the bytes of format 9, and behind them what operators changed of the placement of sections.

use std::collections::BTreeMap;

use seq_core::state::{Balancing, MoveSections, Pause, PauseBalancing};

use super::*;

fn pause() -> Pause {
    Pause { since_unix_ms: 0x0102_0304, principal: "operator/alice".into() }
}

fn balanced() -> State {
    let mut state = state();
    state.rules = Rules::of_format(BALANCING);
    let section = state.sections.residents().next().unwrap().0;
    state.balancing = Balancing::from_parts(Some(pause()), BTreeMap::from([(section, NodeId(1))]), 7);
    state
}

#[test]
fn commands_of_operators_about_the_placement() {
    let checked = |command: Command, expected: Expect| {
        let encoded = encode_command(BALANCING, &command);
        expected.assert_eq(&hex(&encoded));
        assert_eq!(decode_command(BALANCING, &encoded).unwrap(), command);
    };
    let sections = vec![SectionId(3), SectionId(4)];
    checked(
        Command::MoveSections(MoveSections { sections: sections.clone(), to: Some(NodeId(2)) }),
        expect![[r#"
        030000000400000000000000f4ffffff02000000020000000000000000000000
        000000000000000004"#]],
    );
    checked(
        Command::MoveSections(MoveSections { sections, to: None }),
        expect![[r#"
        030000000400000000000000f4ffffff02000000000000000000000000000000
        000000000000000004"#]],
    );
    checked(
        Command::PauseBalancing(PauseBalancing(Some(pause()))),
        expect![[r#"
        6f70657261746f722f616c696365000001000000000000000100000000000000
        04030201000000008e000000d8ffffff04"#]],
    );
    checked(
        Command::PauseBalancing(PauseBalancing(None)),
        expect![[r#"
        0100000000000000000000000000000000000000000000000000000000000000
        04"#]],
    );
    let renew = Command::Renew(Renew::default());
    assert_eq!(encode_command(BALANCING, &renew), encode_command(COPIES, &renew), "others are as before");
}

#[test]
fn a_state_with_moved_sections_and_a_pause() {
    let state = balanced();
    let encoded = encode_state(BALANCING, &state);
    let earlier = encode_state(COPIES, &state);
    assert_eq!(encoded[..earlier.len()], earlier);
    expect![[r#"
        6f70657261746f722f616c696365000000000000010000000100000000000000
        04030201000000008e000000d8ffffffe0ffffff01000000dcffffff01000000
        070000000000000048000000"#]]
    .assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_state(BALANCING, &encoded).unwrap(), state);
    let before = decode_state(COPIES, &earlier).unwrap();
    assert_eq!(before, State { balancing: Balancing::default(), rules: Rules::of_format(COPIES), ..state });
}

#[test]
fn a_moved_section_without_its_section_or_node_is_refused() {
    let state = balanced();
    let rest = encode_state(BALANCING, &state)[encode_state(COPIES, &state).len()..].to_vec();
    let mixed = [encode_state(COPIES, &State::default()), rest].concat();
    let error = decode_state(BALANCING, &mixed).unwrap_err();
    assert_eq!(error.to_string(), "a moved section is not in the set, or its node is none");
    assert!(decode_command(BALANCING, &[4]).is_err());
}

#[test]
fn the_largest_move_fits_an_entry() {
    let sections = vec![SectionId(u32::MAX); limits::MAX_MOVED];
    let length = encode_command(BALANCING, &Command::MoveSections(MoveSections { sections, to: None })).len();
    assert!(length <= MAX_COMMAND_BODY_BYTES, "{length} bytes");
}
