//! Keyspaces in commands and states.

use expect_test::{Expect, expect};
use seq_core::keyspace::{Hashing, Seed};
use seq_core::layout::Lanes;
use seq_core::series::Series;
use seq_core::state::{AdoptSeries, CreateKeyspace, CreateSeries, StatedSeries};
use seq_core::{Lineage, RouteVersion, SetId};

use super::*;

const SEED: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn checked(command: impl Into<Command>, expected: Expect) {
    let command = command.into();
    let encoded = encode_command(SERIES, &command);
    expected.assert_eq(&hex(&encoded));
    assert_eq!(decode_command(SERIES, &encoded).unwrap(), command);
}

/// Returns the command that would create the record of a keyspace.
fn record() -> CreateSeries {
    let lanes = Lanes::of_keyspace(Hashing::new(Seed::new(SEED)));
    CreateSeries { name: "a".into(), shape: Vec::new(), lanes, created_ms: 9 }
}

#[test]
fn commands_of_keyspaces() {
    let create = CreateKeyspace { name: "a".into(), seed: Seed::new(SEED), of_uids: false, created_ms: 0x0102 };
    checked(
        Command::CreateKeyspace(CreateKeyspace { of_uids: true, ..create.clone() }),
        expect![[r#"
        090001000000610102030405060708090a0b0c0d0e0f10010201000000000000
        05"#]],
    );
    checked(
        Command::CreateKeyspace(create),
        expect![[r#"
            090001000000610102030405060708090a0b0c0d0e0f10000201000000000000
            05"#]],
    );
    let series = vec![StatedSeries { create: record(), home: SetId(5), retired: false }];
    checked(
        AdoptSeries { from: SetId(3), lineage: Lineage(4), series, writer: None },
        expect![[r#"
        0300030000000000000004000000000000000100000001000000610000000000
        4000000100000000000000000000000000000000010000020102030405060708
        090a0b0c0d0e0f1009000000000000000500000000000000000005"#]],
    );
}

#[test]
fn a_state_with_a_keyspace() {
    [false, true].into_iter().for_each(checked_state);
}

/// Encodes and decodes a state with a keyspace, whose keys are uids if `of_uids`.
fn checked_state(of_uids: bool) {
    let mut state = State { rules: Rules::of_format(SERIES), ..state() };
    let before = encode_state(SERIES, &state);
    let set = state.set.as_mut().unwrap();
    let CreateSeries { name, shape, mut lanes, created_ms } = record();
    lanes.keys = lanes.keys.map(|keys| keys.with_uids(of_uids));
    let (layout, sections) = set.layout.append(lanes).unwrap();
    set.layout = layout;
    state.sections.grow(set.layout.sections());
    let (home, routed) = (SetId(4), RouteVersion(3));
    state.series.push(Series { name, shape, lanes, sections, created_ms, home, retired: false, routed });
    let encoded = encode_state(SERIES, &state);
    assert!(encoded.len() > before.len() + SEED.len());
    let decoded = decode_state(SERIES, &encoded).unwrap();
    assert_eq!(decoded, state);
    // Two layouts are equal without the seeds.
    let keyspaces: Vec<_> =
        decoded.set.unwrap().layout.keyspaces().map(|(keys, _)| (keys.seed(), keys.has_uids())).collect();
    assert_eq!(keyspaces, [(Some(Seed::new(SEED)), of_uids)]);
    assert_eq!(decoded.series[0].lanes.keys.unwrap().seed(), Some(Seed::new(SEED)));
}
