//! The bytes of commands that are encoded by the fields in their rows of the table. A released row never changes them.

use seq_core::layout::{Lanes, TickClock};
use seq_core::series::Series;
use seq_core::state::{
    AdoptSeries, BeganBy, Beginning, CreateSeries, Death, Died, Event, EventRecord, Events, LayoutWriter, Note,
    NoteClock, NoteReadsLanes, Noted, Ownerships, RetireSeries, SectionCount, SetLayoutWriter, StatedSeries,
};

use super::*;

/// Every file with the bytes of commands.
const PINNED: [&str; 6] = [
    include_str!("../tests.rs"),
    include_str!("audit.rs"),
    include_str!("balancing.rs"),
    include_str!("by_fields.rs"),
    include_str!("keyspaces.rs"),
    include_str!("neighbours.rs"),
];

#[test]
fn the_bytes_of_every_command_are_pinned() {
    let is_pinned = |name: &&str| PINNED.iter().any(|file| file.contains(&format!("Command::{name}(")));
    let unpinned: Vec<&str> = Command::NAMES.iter().copied().filter(|name| !is_pinned(name)).collect();
    assert!(unpinned.is_empty(), "pin the bytes of {unpinned:?} in encoding/tests/by_fields.rs");
}

const WRITER: LayoutWriter =
    LayoutWriter { term: 0x0a0b, from: SetId(0x0c), set: SetId(0x0d), changes: 0x0e, restores: 0x0f, taken: true };

#[test]
fn commands_about_series() {
    let checked = |command: Command, expected: Expect| {
        let encoded = encode_command(SERIES, &command);
        expected.assert_eq(&hex(&encoded));
        assert_eq!(decode_command(SERIES, &encoded).unwrap(), command);
    };
    let clock = TickClock { epoch_ms: 1, unit_ms: 2, seq_bits: 3, lead_ms: 4 };
    let lanes = Lanes { count: 5, per_section: 6, start: Seq(7), margin: 8, clock: Some(clock), keys: None };
    let create = CreateSeries { name: "a".into(), shape: vec![1, 2], lanes, created_ms: 9 };
    checked(
        Command::CreateSeries(create.clone()),
        expect![[r#"
        0100010000006102000000010205000000060000000700000000000000080000
        0000000000010100000000000000020000000304000000090000000000000005"#]],
    );
    checked(Command::RetireSeries(RetireSeries { name: "a".into() }), expect!["0200010000006105"]);
    checked(
        Command::AdoptSeries(AdoptSeries {
            from: SetId(3),
            lineage: Lineage(4),
            series: vec![StatedSeries { create, home: SetId(5), retired: true }],
            writer: Some(WRITER),
        }),
        expect![[r#"
            0300030000000000000004000000000000000100000001000000610200000001
            0205000000060000000700000000000000080000000000000001010000000000
            00000200000003040000000900000000000000050000000000000001010b0a00
            00000000000c000000000000000d000000000000000e0000000f0000000105"#]],
    );
    checked(Command::NoteClock(NoteClock { unix_ms: 0x0102 }), expect!["0500020100000000000005"]);
    checked(
        Command::SetLayoutWriter(SetLayoutWriter { term: 0x0102, to: SetId(3) }),
        expect!["06000201000000000000030000000000000005"],
    );
    let silent = Noted::Silent { node: NodeId(1), incarnation: Incarnation(2), silent_ms: 3 };
    checked(
        Command::Note(Note { unix_ms: 0x0102, about: silent }),
        expect!["0700020100000000000002010000000200000000000000030000000000000005"],
    );
    let leader = Noted::Leader { member: 1, term: 2 };
    checked(
        Command::Note(Note { unix_ms: 0x0102, about: leader }),
        expect!["07000201000000000000010100000000000000020000000000000005"],
    );
    let stuck = Noted::Stuck { migration: MigrationId(1), cause: "no".into() };
    checked(
        Command::Note(Note { unix_ms: 0x0102, about: stuck }),
        expect!["07000201000000000000030100000000000000020000006e6f05"],
    );
    let members = Noted::Members { voters: vec![1, 2] };
    checked(
        Command::Note(Note { unix_ms: 0x0102, about: members }),
        expect!["0700020100000000000004020000000100000000000000020000000000000005"],
    );
    checked(Command::Note(Note { unix_ms: 0x0102, about: Noted::Time }), expect!["070002010000000000000005"]);
    let note = NoteReadsLanes { node: NodeId(1), incarnation: Incarnation(2) };
    checked(Command::NoteReadsLanes(note), expect!["040001000000020000000000000005"]);
}

#[test]
fn a_report_of_a_death() {
    let died = Command::Died(Died { node: NodeId(1), process: 0x0203 });
    let encoded = encode_command(SERIES, &died);
    expect!["080001000000030200000000000005"].assert_eq(&hex(&encoded));
    assert_eq!(decode_command(SERIES, &encoded).unwrap(), died);
}

/// The number of a process is behind the bytes of the formats before, which have none.
#[test]
fn a_registration_with_the_number_of_its_process() {
    let without = Registration::new("a1", "h:1", 7);
    let with = Registration { process: 0x0102, ..without.clone() };
    let encoded = encode_command(SERIES, &Command::Register(with.clone()));
    let earlier = encode_command(BALANCING, &Command::Register(with.clone()));
    assert!(encoded.starts_with(&earlier), "the earlier body comes first");
    expect!["020100000000000006"].assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_command(SERIES, &encoded).unwrap(), Command::Register(with));
    assert_eq!(decode_command(BALANCING, &earlier).unwrap(), Command::Register(without.clone()));
    assert_eq!(encode_command(SERIES, &Command::Register(without)), earlier, "a process without a number");
    for end in earlier.len() + 1..encoded.len() {
        assert!(decode_command(SERIES, &encoded[..end]).is_err(), "of {end} bytes");
    }
    let zero = [&earlier[..], &[0; 8], &[6]].concat();
    let other = [&encode_command(BALANCING, &Command::ClaimStoreId(state::ClaimStoreId { id: 1 }))[..], &[1; 8], &[6]];
    for wrong in [zero, other.concat()] {
        let refused = decode_command(SERIES, &wrong).unwrap_err().to_string();
        assert_eq!(refused, "no registration has this number of a process");
    }
}

/// One event of each kind.
fn events() -> Events {
    let sections = SectionCount { count: 1, first: SectionId(2), last: SectionId(3) };
    let ownerships = Ownerships {
        by: BeganBy::Takeover,
        from: Some(("a1".into(), Incarnation(2))),
        silent_ms: 7,
        to: vec![("a2".into(), 3)],
        others: 4,
        sections,
        most_skipped: Some(5),
        routed: RouteVersion(6),
    };
    let (node, name) = (|| String::from("a1"), || String::from("s"));
    let (incarnation, migration, set, lineage) = (Incarnation(2), MigrationId(3), SetId(4), Lineage(5));
    let records = [
        EventRecord::Leader { member: 1, term: 2 },
        EventRecord::Registered { node: node(), incarnation },
        EventRecord::Leaving { node: node(), incarnation },
        EventRecord::Silent { node: node(), incarnation, silent_ms: 6 },
        EventRecord::Drained { node: node(), drained: true },
        EventRecord::Began { ownerships },
        EventRecord::Departed { migration, to: set, sections },
        EventRecord::MigrationStarted { migration, to: set },
        EventRecord::MigrationPaced { migration, paused: true },
        EventRecord::MigrationRolledBack { migration },
        EventRecord::MigrationCompleted { migration },
        EventRecord::SetDefined { set },
        EventRecord::Closing { closed: false },
        EventRecord::Restored { lineage },
        EventRecord::QuarantineEnded,
        EventRecord::Fenced { set, lineage },
        EventRecord::EntriesLost { node: node() },
        EventRecord::Terms { lease_wait_ms: 7 },
        EventRecord::Format { format: 8 },
        EventRecord::SeriesCreated { name: name() },
        EventRecord::SeriesRetired { name: name() },
        EventRecord::Balancing { paused: false },
        EventRecord::MigrationStuck { migration, cause: name() },
        EventRecord::Members { voters: vec![1, 2] },
        EventRecord::Died { node: node(), incarnation, owned: 3 },
        EventRecord::KeyspaceCreated { name: name() },
    ];
    let event = |(index, record)| Event { index, change: index + 1, at_unix_ms: 9, until_unix_ms: 10, record };
    Events::from_parts((26, 27), 11, (1..).zip(records).map(event).collect()).unwrap()
}

/// Appends a series with lanes to a state.
fn append(state: &mut State, name: &str, clock: Option<TickClock>, retired: bool) {
    let lanes = Lanes { count: 5, per_section: 2, start: Seq(7), margin: 8, clock, keys: None };
    let set = state.set.as_mut().unwrap();
    let (layout, sections) = set.layout.append(lanes).unwrap();
    set.layout = layout;
    state.sections.grow(set.layout.sections());
    let (name, home, routed) = (name.into(), SetId(4), RouteVersion(3));
    state.series.push(Series { name, shape: vec![1, 2], lanes, sections, created_ms: 9, home, retired, routed });
}

/// Gives the node of a state a process, and a reported death of an earlier process.
fn name_process(state: &mut State) {
    state.nodes[0].process = 0x0a;
    state.nodes[0].died = Some(Death { incarnation: Incarnation(2), at_unix_ms: 8 });
}

/// Returns a state with series, and with all values of their format.
fn state_of_series() -> State {
    let mut state = state();
    let first = state.set.as_ref().unwrap().layout.sections();
    append(&mut state, "a", None, false);
    append(&mut state, "b", Some(TickClock { epoch_ms: 1, unit_ms: 2, seq_bits: 3, lead_ms: 4 }), true);
    let record = *state.sections.residents().next().unwrap().1;
    let began =
        Beginning { at_unix_ms: 5, by: BeganBy::Takeover, ceiling: Seq(6), skipped: Some(7), floor: Some(Seq(6)) };
    state.sections.put(SectionId(first + 4), SectionRecord::Resident(Residence { began, ..record }));
    state.nodes[0].reads_lanes = true;
    name_process(&mut state);
    (state.restored_ms, state.writer) = (Some(0x0304), Some(WRITER));
    state.rules = Rules::of_format(SERIES);
    state.events = events();
    state
}

#[test]
fn a_state_with_series() {
    let state = state_of_series();
    let encoded = encode_state(SERIES, &state);
    let earlier = encode_state(BALANCING, &state);
    assert!(encoded.starts_with(&earlier), "the earlier body comes first");
    expect![[r#"
        0200000001000000610200000001020500000002000000070000000000000008
        0000000000000000090000000000000004000000000000000003000000000000
        0001000000620200000001020500000002000000070000000000000008000000
        0000000001010000000000000002000000030400000009000000000000000400
        0000000000000103000000000000000100000001010403000000000000010b0a
        0000000000000c000000000000000d000000000000000e0000000f0000000103
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000000500000000000000030600000000000000010700000000
        0000000106000000000000001a000000000000001b000000000000000b000000
        000000001a000000010000000000000002000000000000000900000000000000
        0a00000000000000010100000000000000020000000000000002000000000000
        00030000000000000009000000000000000a0000000000000002020000006131
        0200000000000000030000000000000004000000000000000900000000000000
        0a00000000000000030200000061310200000000000000040000000000000005
        0000000000000009000000000000000a00000000000000040200000061310200
        0000000000000600000000000000050000000000000006000000000000000900
        0000000000000a00000000000000050200000061310106000000000000000700
        00000000000009000000000000000a0000000000000006030102000000613102
        0000000000000007000000000000000100000002000000613203000000040000
        0001000000020000000300000001050000000000000006000000000000000700
        000000000000080000000000000009000000000000000a000000000000000703
        0000000000000004000000000000000100000002000000030000000800000000
        000000090000000000000009000000000000000a000000000000000803000000
        00000000040000000000000009000000000000000a0000000000000009000000
        000000000a00000000000000090300000000000000010a000000000000000b00
        00000000000009000000000000000a000000000000000a03000000000000000b
        000000000000000c0000000000000009000000000000000a000000000000000b
        03000000000000000c000000000000000d000000000000000900000000000000
        0a000000000000000c04000000000000000d000000000000000e000000000000
        0009000000000000000a000000000000000d000e000000000000000f00000000
        00000009000000000000000a000000000000000e05000000000000000f000000
        00000000100000000000000009000000000000000a000000000000000f100000
        0000000000110000000000000009000000000000000a00000000000000100400
        0000000000000500000000000000110000000000000012000000000000000900
        0000000000000a00000000000000110200000061311200000000000000130000
        000000000009000000000000000a000000000000001207000000000000001300
        000000000000140000000000000009000000000000000a000000000000001308
        001400000000000000150000000000000009000000000000000a000000000000
        001401000000731500000000000000160000000000000009000000000000000a
        0000000000000015010000007316000000000000001700000000000000090000
        00000000000a0000000000000016001700000000000000180000000000000009
        000000000000000a000000000000001703000000000000000100000073180000
        0000000000190000000000000009000000000000000a00000000000000180200
        00000100000000000000020000000000000019000000000000001a0000000000
        000009000000000000000a000000000000001902000000613102000000000000
        00030000001a000000000000001b0000000000000009000000000000000a0000
        00000000001a0100000073010000000a00000000000000010200000000000000
        0800000000000000e8050000"#]]
    .assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_state(SERIES, &encoded).unwrap(), state);
    assert!(decode_state(BALANCING, &earlier).is_err(), "a section of lanes that the layout lacks");
    for end in earlier.len()..encoded.len() {
        assert!(decode_state(SERIES, &encoded[..end]).is_err(), "of {end} bytes");
    }
}

#[test]
fn beginnings_are_of_this_format_alone() {
    let state = State { rules: Rules::of_format(SERIES), ..state() };
    let began = Beginning { at_unix_ms: 5, by: BeganBy::Takeover, ceiling: Seq(10_000), skipped: None, floor: None };
    let with = |began: Beginning| {
        let mut state = state.clone();
        let (section, record) = state.sections.residents().next().map(|(section, one)| (section, *one)).unwrap();
        state.sections.put(section, SectionRecord::Resident(Residence { began, ..record }));
        state
    };
    let known = with(began);
    for format in OLDEST..SERIES {
        let encoded = encode_state(format, &known);
        assert_eq!(encoded, encode_state(format, &state), "format {format} has the bytes of earlier releases");
        let decoded = decode_state(format, &encoded).unwrap();
        assert!(decoded.sections.residents().all(|(_, one)| one.began == Beginning::default()), "format {format}");
    }
    assert_eq!(decode_state(SERIES, &encode_state(SERIES, &known)).unwrap(), known);
    let above = with(Beginning { ceiling: Seq(10_001), ..began });
    let error = decode_state(SERIES, &encode_state(SERIES, &above)).unwrap_err();
    assert_eq!(error.to_string(), "the beginnings of ownerships do not fit the sections");
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
