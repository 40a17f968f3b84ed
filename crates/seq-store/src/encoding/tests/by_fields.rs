//! The bytes of commands that are encoded by the fields in their rows of the table. A released row never changes them.

use seq_core::layout::{Lanes, TickClock};
use seq_core::series::Series;
use seq_core::state::{AdoptSeries, CreateSeries, NoteClock, NoteReadsLanes, RetireSeries};

use super::*;

/// Every file with the bytes of commands.
const PINNED: [&str; 5] = [
    include_str!("../tests.rs"),
    include_str!("audit.rs"),
    include_str!("balancing.rs"),
    include_str!("by_fields.rs"),
    include_str!("neighbours.rs"),
];

#[test]
fn the_bytes_of_every_command_are_pinned() {
    let is_pinned = |name: &&str| PINNED.iter().any(|file| file.contains(&format!("Command::{name}(")));
    let unpinned: Vec<&str> = Command::NAMES.iter().copied().filter(|name| !is_pinned(name)).collect();
    assert!(unpinned.is_empty(), "pin the bytes of {unpinned:?} in encoding/tests/by_fields.rs");
}

#[test]
fn commands_about_series() {
    let checked = |command: Command, expected: Expect| {
        let encoded = encode_command(SERIES, &command);
        expected.assert_eq(&hex(&encoded));
        assert_eq!(decode_command(SERIES, &encoded).unwrap(), command);
    };
    let clock = TickClock { epoch_ms: 1, unit_ms: 2, seq_bits: 3, lead_ms: 4 };
    let lanes = Lanes { count: 5, per_section: 6, start: Seq(7), margin: 8, clock: Some(clock) };
    let create = CreateSeries { name: "a".into(), shape: vec![1, 2], lanes, created_ms: 9 };
    checked(
        Command::CreateSeries(create.clone()),
        expect![[r#"
        0100010000006102000000010205000000060000000700000000000000080000
        0000000000010100000000000000020000000304000000090000000000000005"#]],
    );
    checked(Command::RetireSeries(RetireSeries { name: "a".into() }), expect!["0200010000006105"]);
    checked(
        Command::AdoptSeries(AdoptSeries { from: SetId(3), series: vec![(create, true)] }),
        expect![[r#"
        0300030000000000000001000000010000006102000000010205000000060000
        0007000000000000000800000000000000010100000000000000020000000304
        00000009000000000000000105"#]],
    );
    checked(Command::NoteClock(NoteClock { unix_ms: 0x0102 }), expect!["0500020100000000000005"]);
    let note = NoteReadsLanes { node: NodeId(1), incarnation: Incarnation(2) };
    checked(Command::NoteReadsLanes(note), expect!["040001000000020000000000000005"]);
}

#[test]
fn a_state_with_series() {
    let mut state = state();
    let first = state.set.as_ref().unwrap().layout.sections();
    let clock = Some(TickClock { epoch_ms: 1, unit_ms: 2, seq_bits: 3, lead_ms: 4 });
    let mut append = |name: &str, clock, retired| {
        let lanes = Lanes { count: 5, per_section: 2, start: Seq(7), margin: 8, clock };
        let set = state.set.as_mut().unwrap();
        let (layout, sections) = set.layout.append(lanes).unwrap();
        set.layout = layout;
        state.sections.grow(set.layout.sections());
        let (name, routed) = (name.into(), RouteVersion(3));
        state.series.push(Series { name, shape: vec![1, 2], lanes, sections, created_ms: 9, retired, routed });
    };
    append("a", None, false);
    append("b", clock, true);
    let record = state.sections.residents().next().unwrap().1;
    state.sections.put(SectionId(first + 4), SectionRecord::Resident(*record));
    state.nodes[0].reads_lanes = true;
    state.restored_ms = Some(0x0304);
    state.rules = Rules::of_format(SERIES);
    let encoded = encode_state(SERIES, &state);
    let earlier = encode_state(BALANCING, &state);
    assert!(encoded.starts_with(&earlier), "the earlier body comes first");
    expect![[r#"
        0200000001000000610200000001020500000002000000070000000000000008
        0000000000000000090000000000000000030000000000000001000000620200
        0000010205000000020000000700000000000000080000000000000001010000
        0000000000020000000304000000090000000000000001030000000000000001
        000000010104030000000000008d000000"#]]
    .assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_state(SERIES, &encoded).unwrap(), state);
    assert!(decode_state(BALANCING, &earlier).is_err(), "a section of lanes that the layout lacks");
    for end in earlier.len()..encoded.len() {
        assert!(decode_state(SERIES, &encoded[..end]).is_err(), "of {end} bytes");
    }
}

#[test]
fn fields_of_no_command_are_refused() {
    let body = [0xff, 0xff, BY_FIELDS];
    let refused = |format| decode_command(format, &body).unwrap_err().to_string();
    assert_eq!(refused(BALANCING), "a command of kind 5", "no format up to 10 ends so");
    assert_eq!(refused(BALANCING + 1), "no command of format 11 has these fields");
}

#[test]
#[should_panic(expected = "MoveSections is of format 10, and the group's is 9")]
fn a_command_is_not_written_in_a_format_before_its_own() {
    let sections = vec![SectionId(3)];
    let _ = encode_command(COPIES, &Command::MoveSections(state::MoveSections { sections, to: None }));
}
