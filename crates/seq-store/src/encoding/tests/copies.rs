//! The bytes of format 9: the bytes of format 8, and behind them the copies of sections.

use std::collections::BTreeMap;
use std::sync::Arc;

use seq_core::state::{Copies, CopyPart, KeptCopy, KeptFor, Renew};

use super::*;

fn renewal() -> Renew {
    let part = CopyPart {
        section: SectionId(4),
        epoch: Epoch(5),
        highest: Seq(300),
        length: 6,
        offset: 2,
        bytes: vec![0xaa, 0xbb, 0xcc],
    };
    Renew {
        node: NodeId(1),
        incarnation: Incarnation(2),
        renew_seq: RenewSeq(3),
        copies: vec![part],
        released: vec![(SectionId(4), Epoch(5))],
        taken: vec![(SectionId(6), Epoch(7))],
        leaving: true,
    }
}

fn kept(kept_for: KeptFor, length: u32, bytes: &[u8]) -> KeptCopy {
    KeptCopy { kept_for, highest: Seq(300), length, bytes: Arc::new(bytes.to_vec()) }
}

fn with_copies() -> State {
    let mut state = state();
    state.rules = Rules::Nine;
    let resident: Vec<SectionId> = state.sections.residents().map(|(section, _)| section).take(2).collect();
    let copies = [kept(KeptFor::After(Epoch(3)), 4, &[1, 2]), kept(KeptFor::Granted(Epoch(8)), 3, &[7, 8, 9])];
    let copies: BTreeMap<SectionId, KeptCopy> = resident.into_iter().zip(copies).collect();
    assert_eq!(copies.len(), 2);
    state.copies = Copies::from_parts(copies).unwrap();
    state
}

#[test]
fn a_renewal_with_copies() {
    let renew = Command::Renew(renewal());
    let encoded = encode_command(COPIES, &renew);
    expect![[r#"
        0400000000000000050000000000000006000000000000000700000000000000
        040000000000000005000000000000002c010000000000000600000002000000
        03000000aabbcc00010000000000000002000000000000000300000000000000
        010000009cffffff010000009cffffff010000009cffffff010000009cffffff
        010000009cffffff010000009cffffff010000009cffffff010000009cffffff
        0100000098ffffff0100000094ffffff0100000090ffffff0300000000000000
        03"#]]
    .assert_eq(&hex(&encoded));
    assert_eq!(decode_command(COPIES, &encoded).unwrap(), renew);
}

#[test]
fn earlier_formats_release_without_copies_and_a_renewal_without_them_is_as_before() {
    let plain = Command::Renew(Renew { copies: vec![], taken: vec![], ..renewal() });
    assert_eq!(encode_command(COPIES, &plain), encode_command(NEIGHBOURS, &plain));
    for format in [OLDEST, AUDIT, NEIGHBOURS] {
        let encoded = encode_command(format, &Command::Renew(renewal()));
        assert_eq!(decode_command(format, &encoded).unwrap(), plain, "format {format}");
    }
}

#[test]
fn a_state_with_copies() {
    let state = with_copies();
    let encoded = encode_state(COPIES, &state);
    let earlier = encode_state(NEIGHBOURS, &state);
    assert_eq!(encoded[..earlier.len()], earlier);
    expect![[r#"
        0000000001000000030000000000000008000000000000002c01000000000000
        2c01000000000000040000000300000000000000010000000200000005000000
        0102070809000000b8ffffff02000000b8ffffff02000000c0ffffff02000000
        c8ffffff02000000c8ffffff02000000c8ffffff02000000c8ffffff05000000
        80000000"#]]
    .assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_state(COPIES, &encoded).unwrap(), state);
    let before = decode_state(NEIGHBOURS, &earlier).unwrap();
    assert_eq!(before, State { copies: Copies::default(), rules: Rules::Eight, ..state });
}

#[test]
fn copies_that_no_store_keeps_are_refused() {
    let state = with_copies();
    let rest = encode_state(COPIES, &state)[encode_state(NEIGHBOURS, &state).len()..].to_vec();
    let empty = State::default();
    let mixed = [encode_state(NEIGHBOURS, &empty), rest].concat();
    let error = decode_state(COPIES, &mixed).unwrap_err();
    assert_eq!(error.to_string(), "a copy is of a section that is not in the set");
    assert!(decode_command(COPIES, &[]).is_err() && decode_command(COPIES, &[3]).is_err());
}

/// A renewal with as much of everything as one call may bring is one entry of the log.
#[test]
fn the_largest_renewal_fits_an_entry() {
    let ownerships = |count: usize| vec![(SectionId(1), Epoch(u64::MAX)); count];
    let bytes = vec![0; limits::MAX_COPY_PART_BYTES / 64];
    let part = CopyPart { bytes, ..renewal().copies.remove(0) };
    let renew =
        Renew { copies: vec![part; 64], released: ownerships(limits::MAX_RAISES), taken: ownerships(256), ..renewal() };
    let length = encode_command(COPIES, &Command::Renew(renew)).len();
    assert!(length <= MAX_COMMAND_BODY_BYTES, "{length} bytes");
}
