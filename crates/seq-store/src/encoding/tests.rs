//! The bytes of format 3. Once released they are on the disks of others: when one of these tests fails, the format was
//! changed, and the change belongs into a new format version.

use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use seq_core::state::{
    Command, NodeRecord, Raise, Reassign, Registration, SectionRecord, SetDefinition, State, Terms, Transfer,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, Liveness, NodeId, RenewSeq, Revision, RouteVersion, SectionId, Seq,
};
use seq_raft::MAX_COMMAND_BODY_BYTES;

use super::*;

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
}

/// Pins the bytes of a command, and that they are read back.
fn check_command(command: &Command, expected: Expect) {
    let encoded = encode_command(command);
    expected.assert_eq(&hex(&encoded));
    assert_eq!(&decode_command(&encoded).unwrap(), command);
}

fn set() -> SetDefinition {
    SetDefinition { name: "dev".into(), layout: Layout::new(0..1_000, 500).unwrap() }
}

fn state() -> State {
    let section = |epoch, owner, max_seq| SectionRecord {
        epoch: Epoch(epoch),
        owner,
        incarnation: Incarnation(epoch),
        max_seq: Seq(max_seq),
        routed: RouteVersion(epoch),
        handover_id: HandoverId(epoch * 2),
    };
    let node = NodeRecord {
        name: "a1".into(),
        addr: "127.0.0.1:7100".into(),
        incarnation: Incarnation(4),
        token: 0xfeed,
        renew_seq: RenewSeq(9),
        liveness: Liveness(31),
        drained: true,
        leaving: false,
        registered_at: Liveness(17),
        lease: Duration::from_secs(2),
    };
    State {
        set: Some(set()),
        sections: vec![section(3, Some(NodeId(1)), 10_000), section(0, None, 0)],
        nodes: vec![node],
        route_version: RouteVersion(3),
        store_ids: vec![1, 2, 4],
        terms: Some(Terms { lease_wait: Duration::from_millis(2_500) }),
        revision: Revision(77),
    }
}

#[test]
fn commands() {
    check_command(
        &Command::DefineSet(set()),
        expect![[r#"
            5351535201000200400000002902e94d0000000000000000646576ffffffffff
            0000000000000000e803000000000000f4010000000000000000000000000000
            00000000000000000000000000000000"#]],
    );
    let register = Command::Register(Registration {
        name: "a1".into(),
        addr: "127.0.0.1:7100".into(),
        token: 0x0102_0304,
        lease: Duration::from_secs(2),
        follows: Incarnation(3),
        seen: Revision(9),
    });
    check_command(
        &register,
        expect![[r#"
            535153520100020050000000a13c82063132372e302e302e313a373130300000
            010000006131ffffffffffff8e000000e4ffffff000000000403020100000000
            0094357700000000030000000000000009000000000000000000000000000000"#]],
    );
    let raise = |section, epoch, to| Raise { section: SectionId(section), epoch: Epoch(epoch), to: Seq(to) };
    let raises = vec![raise(0, 3, 20_000), raise(1, 4, 30_000)];
    check_command(
        &Command::Raise { node: NodeId(1), incarnation: Incarnation(2), raises },
        expect![[r#"
            5351535201000200680000007ef0ccd300000000010000000300000000000000
            0400000000000000204e00000000000030750000000000000300000001000000
            0200000000000000c8ffffff02000000c8ffffff02000000d0ffffff02000000
            000000000000000000000000000000000000000000000000"#]],
    );
}

#[test]
fn commands_that_keep_and_change_owners() {
    let renew = Command::Renew {
        node: NodeId(1),
        incarnation: Incarnation(2),
        renew_seq: RenewSeq(3),
        released: vec![(SectionId(4), Epoch(5))],
        leaving: true,
    };
    check_command(
        &renew,
        expect![[r#"
            535153520100020050000000a801f39104000000000000000500000000000000
            020000000100000002000000000000000300000000000000d8ffffff01000000
            d8ffffff01000000010000000000000000000000000000000000000000000000"#]],
    );
    let reassign = |liveness| Reassign {
        section: SectionId(1),
        expected: Epoch(3),
        liveness,
        to: NodeId(2),
        incarnation: Incarnation(5),
    };
    check_command(
        &Command::Reassign(vec![reassign(Some(Liveness(6))), reassign(None)]),
        expect![[r#"
            5351535201000200900000008f0dccfd01000000010000000300000000000000
            0300000000000000010000000000000006000000000000000000000000000000
            0000000000000000020000000200000005000000000000000500000000000000
            04000000acffffff02000000acffffff02000000b4ffffff02000000ccffffff
            02000000ccffffff020000000000000000000000000000000000000000000000"#]],
    );
    let transfer = Transfer {
        section: SectionId(1),
        epoch: Epoch(2),
        from: NodeId(3),
        incarnation: Incarnation(4),
        to: NodeId(5),
        to_incarnation: Incarnation(6),
        handover_id: HandoverId(7),
    };
    check_command(
        &Command::Transfer(transfer),
        expect![[r#"
            5351535201000200400000009b964c4a05000000000000000100000000000000
            0200000000000000030000000000000004000000000000000500000000000000
            06000000000000000700000000000000"#]],
    );
    check_command(
        &Command::Drain { name: "a1".into(), drained: true },
        expect![[r#"
            5351535201000200400000000deb5221060000006131ffffffffffff01000000
            0000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000"#]],
    );
    check_command(
        &Command::ClaimStoreId { id: 4 },
        expect![[r#"
            5351535201000200400000007bde8c6607000000000000000400000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000"#]],
    );
}

#[test]
fn the_largest_command_fits_an_entry_and_one_more_does_not() {
    let raise = Raise { section: SectionId(u32::MAX), epoch: Epoch(u64::MAX), to: Seq::MAX };
    let command = |raises| Command::Raise { node: NodeId(1), incarnation: Incarnation(1), raises };
    let bytes = |command: &Command| encode_command(command).len();
    assert!(bytes(&command(vec![raise; seq_core::limits::MAX_RAISES])) <= MAX_COMMAND_BODY_BYTES);
    let change = Reassign {
        section: SectionId(u32::MAX),
        expected: Epoch(u64::MAX),
        liveness: Some(Liveness(u64::MAX)),
        to: NodeId(u32::MAX),
        incarnation: Incarnation(u64::MAX),
    };
    assert!(bytes(&Command::Reassign(vec![change; seq_core::arbiter::MAX_REASSIGNS])) <= MAX_COMMAND_BODY_BYTES);
    assert!(bytes(&command(vec![raise; 2 * seq_core::limits::MAX_RAISES])) > MAX_COMMAND_BODY_BYTES);
}

#[test]
fn states() {
    let encoded = encode_state(&state());
    expect![[r#""#]].assert_eq(&hex(&encoded));
    assert_eq!(decode_state(&encoded).unwrap(), state());
}

#[test]
fn a_state_of_many_sections_is_read_back() {
    let layout = Layout::new(0..43_000, 1).unwrap();
    let sections: Vec<SectionRecord> = (0..43_000)
        .map(|section| SectionRecord { max_seq: Seq(section), epoch: Epoch(section % 7), ..SectionRecord::default() })
        .collect();
    let set = Some(SetDefinition { name: "wide".into(), layout });
    let state = State { set, sections, ..State::default() };
    assert_eq!(decode_state(&encode_state(&state)).unwrap(), state);
}

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let refused = |change: &dyn Fn(&mut State)| {
        let mut state = state();
        change(&mut state);
        decode_state(&encode_state(&state)).unwrap_err().to_string()
    };
    assert_eq!(refused(&|state| state.sections.truncate(1)), "there is not one record for each section of the set");
    assert_eq!(refused(&|state| state.nodes.clear()), "a section's owner is no node");
    assert_eq!(refused(&|state| state.sections[0].max_seq = Seq(1 << 63)), "a ceiling is above 2^63-1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_command(&bytes);
        let _ = decode_state(&bytes);
    }

    #[test]
    fn a_body_with_a_changed_byte_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut body = encode_state(&state());
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode_state(&body);
    }
}
