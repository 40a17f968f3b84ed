//! The bytes of format 2. They are on the disks of others: when one of these tests fails, the format was changed, and the
//! change belongs into a new format version.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use seq_core::state::{
    Command, NodeRecord, Raise, Reassign, Registration, SectionRecord, SetDefinition, State, Terms, Transfer,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, Liveness, NodeId, RenewSeq, Revision, RouteVersion, SectionId, Seq,
};

use super::*;
use crate::nonce::Fingerprint;
use crate::types::{EncodedCommand, LeaderId, Member, Membership, Payload, StoredMembership};

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
}

/// Pins the bytes of a command, and that they are read back.
fn check_command(command: &Command, expected: Expect) {
    let encoded = EncodedCommand::encode(command).unwrap();
    expected.assert_eq(&hex(encoded.bytes()));
    assert_eq!(&encoded.decode().unwrap(), command);
    refuses_every_flip(encoded.bytes(), |record| read_command(record).map(drop));
}

fn refuses_every_flip(record: &[u8], read: impl Fn(&[u8]) -> Result<(), ReadError>) {
    for bit in 0..record.len() * 8 {
        let mut damaged = record.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&damaged).is_err(), "bit {bit} went unnoticed");
    }
}

fn log_id(term: u64, node: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: node }, index)
}

fn set() -> SetDefinition {
    SetDefinition { name: "dev".into(), layout: Layout::new(0..1_000, 500).unwrap() }
}

fn members() -> Membership {
    let member = |id: u8| Member {
        name: format!("s{id}"),
        addr: format!("s{id}:7201"),
        fingerprint: Fingerprint::from_bytes(&[id; 32]).unwrap(),
    };
    let nodes = BTreeMap::from([(1, member(1)), (2, member(2)), (3, member(3))]);
    Membership::new(vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])], nodes).unwrap()
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
    EncodedCommand::encode(&command(vec![raise; seq_core::limits::MAX_RAISES])).unwrap();
    let change = Reassign {
        section: SectionId(u32::MAX),
        expected: Epoch(u64::MAX),
        liveness: Some(Liveness(u64::MAX)),
        to: NodeId(u32::MAX),
        incarnation: Incarnation(u64::MAX),
    };
    EncodedCommand::encode(&Command::Reassign(vec![change; seq_core::arbiter::MAX_REASSIGNS])).unwrap();
    let error = EncodedCommand::encode(&command(vec![raise; 2 * seq_core::limits::MAX_RAISES])).unwrap_err();
    assert!(error.to_string().ends_with("send it in parts"), "{error}");
}

#[test]
fn entries() {
    let check = |payload: Payload, expected: Expect| {
        let entry = Entry { log_id: log_id(7, 2, 41), payload };
        let record = write_entry(&entry);
        expected.assert_eq(&hex(&record));
        assert_eq!(read_entry(&record).unwrap(), entry);
        refuses_every_flip(&record, |record| read_entry(record).map(drop));
    };
    check(
        Payload::Blank,
        expect![[r#"
            535153520200020048000000564df97907000000000000000200000000000000
            2900000000000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000"#]],
    );
    check(
        Payload::Normal(EncodedCommand::from_bytes(vec![1, 2, 3].into())),
        expect![[r#"
            535153520200020050000000520f75e301020300000000000700000000000000
            0200000000000000290000000000000001000000dcffffff0300000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check(
        Payload::Membership(members()),
        expect![[r#"
            5351535202000200200100000a15a03b01000000000000000200000000000000
            02000000000000000300000000000000e0ffffff02000000e8ffffff02000000
            0100000000000000020000000000000003000000000000007331ffffffffffff
            7332ffffffffffff7333ffffffffffff73313a37323031ff73323a37323031ff
            73333a37323031ff010101010101010101010101010101010101010101010101
            0101010101010101020202020202020202020202020202020202020202020202
            0202020202020202030303030303030303030303030303030303030303030303
            0303030303030303070000000000000002000000000000002900000000000000
            020000002cffffff0200000034ffffff0300000044ffffff0300000054ffffff
            0300000064ffffff0300000000000000"#]],
    );
}

#[test]
fn single_records() {
    let vote = Vote { leader_id: LeaderId { term: 7, node_id: 2 }, committed: true };
    expect![[r#"
        5351535203000200180000008591d7bd07000000000000000200000000000000
        0100000000000000"#]]
    .assert_eq(&hex(&write_vote(&vote)));
    assert_eq!(read_vote(&write_vote(&vote)).unwrap(), vote);

    let id = log_id(7, 2, 41);
    let record = write_log_id(Kind::Committed, &id);
    expect![[r#"
        535153520400020018000000b7c29c4207000000000000000200000000000000
        2900000000000000"#]]
    .assert_eq(&hex(&record));
    assert_eq!(read_log_id(Kind::Committed, &record).unwrap(), id);
    // The same shape, but not the same thing.
    assert!(read_log_id(Kind::Purged, &record).is_err());

    let identity = Identity { cluster: "dev".into(), node: 2, nonce: [0x11; 16] };
    expect![[r#"
        535153520800020020000000ef9a01dd646576ffffffffff0200000000000000
        11111111111111111111111111111111"#]]
    .assert_eq(&hex(&write_identity(&identity)));
    assert_eq!(read_identity(&write_identity(&identity)).unwrap(), identity);

    let id = Some((&id).into());
    let watermark = Watermark { generation: 9, vote: Some((&vote).into()), last: id, purged: None, snapshot: id };
    expect![[r#"
        535153520900020088000000aa6c72a209000000000000000100000000000000
        0700000000000000020000000000000001000000000000000100000000000000
        0700000000000000020000000000000029000000000000000000000000000000
        0000000000000000000000000000000000000000000000000100000000000000
        070000000000000002000000000000002900000000000000"#]]
    .assert_eq(&hex(&write_watermark(&watermark)));
    assert_eq!(read_watermark(&write_watermark(&watermark)).unwrap(), watermark);

    let membership = (&StoredMembership::new(Some(log_id(1, 1, 0)), members())).into();
    let manifest =
        Manifest { last_log_id: id, membership, file: "snapshot-41-7-2".into(), length: 1_000, crc: 0xdead_beef };
    expect![[r#"
        535153520600020068010000610b3a6201000000000000000200000000000000
        02000000000000000300000000000000e0ffffff02000000e8ffffff02000000
        0100000000000000020000000000000003000000000000007331ffffffffffff
        7332ffffffffffff7333ffffffffffff73313a37323031ff73323a37323031ff
        73333a37323031ff010101010101010101010101010101010101010101010101
        0101010101010101020202020202020202020202020202020202020202020202
        0202020202020202030303030303030303030303030303030303030303030303
        0303030303030303736e617073686f742d34312d372d32000100000000000000
        0700000000000000020000000000000029000000000000000100000000000000
        010000000000000001000000000000000000000000000000f8feffff02000000
        00ffffff0300000010ffffff0300000020ffffff0300000030ffffff03000000
        8f00000088ffffffe803000000000000efbeadde00000000"#]]
    .assert_eq(&hex(&write_manifest(&manifest)));
    assert_eq!(read_manifest(&write_manifest(&manifest)).unwrap(), manifest);
}

#[test]
fn snapshots() {
    let snapshot = Snapshot {
        last_log_id: Some((&log_id(7, 2, 41)).into()),
        membership: (&StoredMembership::new(Some(log_id(1, 1, 0)), members())).into(),
        state: (&state()).into(),
    };
    let record = write_snapshot(&snapshot);
    expect![[r#"
        5351535207000200d80200008fb893d101000000000000000200000000000000
        02000000000000000300000000000000e0ffffff02000000e8ffffff02000000
        0100000000000000020000000000000003000000000000007331ffffffffffff
        7332ffffffffffff7333ffffffffffff73313a37323031ff73323a37323031ff
        73333a37323031ff010101010101010101010101010101010101010101010101
        0101010101010101020202020202020202020202020202020202020202020202
        0202020202020202030303030303030303030303030303030303030303030303
        0303030303030303030000000000000000000000000000000100000000000000
        0300000000000000000000000000000010270000000000000000000000000000
        0300000000000000000000000000000006000000000000000000000000000000
        6131ffffffffffff3132372e302e302e313a3731303000008e000000f0ffffff
        0400000000000000edfe00000000000009000000000000001f00000000000000
        0100000000000000110000000000000000943577000000000100000000000000
        0200000000000000040000000000000001000000000000000700000000000000
        0200000000000000290000000000000001000000000000000100000000000000
        0100000000000000000000000000000040feffff0200000048feffff03000000
        58feffff0300000068feffff0300000078feffff030000000100000000000000
        646576ffffffffff0000000000000000e803000000000000f401000000000000
        0300000000000000a0feffff02000000a8feffff02000000a8feffff02000000
        b0feffff02000000b8feffff02000000c0feffff02000000c8feffff01000000
        d8feffff01000000d8feffff01000000d8feffff01000000d8feffff01000000
        d8feffff01000000d8feffff01000000d1feffff01000000d0feffff01000000
        d0feffff01000000d0feffff03000000010000000000000000f9029500000000
        4d00000000000000"#]]
    .assert_eq(&hex(&record));
    let read = read_snapshot(&record).unwrap();
    assert_eq!(read.state.into_core().unwrap(), state());
    assert_eq!(read.last_log_id, snapshot.last_log_id);
    assert_eq!(read.membership.into_core().unwrap(), StoredMembership::new(Some(log_id(1, 1, 0)), members()));
    refuses_every_flip(&record, |record| read_snapshot(record).map(drop));
}

#[test]
fn a_state_of_many_sections_is_read_back() {
    let layout = Layout::new(0..43_000, 1).unwrap();
    let sections: Vec<SectionRecord> = (0..43_000)
        .map(|section| SectionRecord { max_seq: Seq(section), epoch: Epoch(section % 7), ..SectionRecord::default() })
        .collect();
    let set = Some(SetDefinition { name: "wide".into(), layout });
    let state = State { set, sections, ..State::default() };
    let membership = (&StoredMembership::default()).into();
    let record = write_snapshot(&Snapshot { last_log_id: None, membership, state: (&state).into() });
    assert_eq!(read_snapshot(&record).unwrap().state.into_core().unwrap(), state);
}

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let refused = |change: &dyn Fn(&mut State)| {
        let mut state = state();
        change(&mut state);
        v2::State::from(&state).into_core().unwrap_err()
    };
    assert_eq!(refused(&|state| state.sections.truncate(1)), "there is not one record for each section of the set");
    assert_eq!(refused(&|state| state.nodes.clear()), "a section's owner is no node");
    assert_eq!(refused(&|state| state.sections[0].max_seq = Seq(1 << 63)), "a ceiling is above 2^63-1");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let record = envelope::seal_body(Kind::Snapshot, newest::VERSION + 1, &[0; 8]);
    expect!["snapshot record of 24 bytes: has format version 3, newer than 2, the newest this program reads"]
        .assert_eq(&read_snapshot(&record).unwrap_err().to_string());
}

#[test]
fn the_format_of_unreleased_programs_is_refused_by_name() {
    let record = envelope::seal_body(Kind::Snapshot, 1, &[0; 8]);
    expect!["snapshot record of 24 bytes: has format version 1, older than 2, the oldest this program reads"]
        .assert_eq(&read_snapshot(&record).unwrap_err().to_string());
}

/// Reads anything as every kind of record.
fn read_as_everything(record: &[u8]) {
    let _ = read_command(record);
    let _ = read_entry(record);
    let _ = read_vote(record);
    let _ = read_log_id(Kind::Committed, record);
    let _ = read_identity(record);
    let _ = read_watermark(record);
    let _ = read_manifest(record).map(|manifest| manifest.membership.into_core());
    let _ = read_snapshot(record).map(|read| (read.state.into_core(), read.membership.into_core()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes);
        // The same behind a frame that is right, so that they reach the decoders.
        for kind in [Kind::Command, Kind::Entry, Kind::Vote, Kind::Committed, Kind::Manifest, Kind::Snapshot] {
            read_as_everything(&envelope::seal_body(kind, newest::VERSION, &bytes));
        }
    }

    #[test]
    fn a_body_with_a_changed_byte_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let snapshot = Snapshot {
            last_log_id: None,
            membership: (&StoredMembership::new(None, members())).into(),
            state: (&state()).into(),
        };
        let entry = Entry { log_id: log_id(1, 1, 1), payload: Payload::Membership(members()) };
        for (kind, record) in [(Kind::Snapshot, write_snapshot(&snapshot)), (Kind::Entry, write_entry(&entry))] {
            let mut body = record[envelope::HEADER_BYTES..].to_vec();
            let at = at.index(body.len());
            body[at] = byte;
            read_as_everything(&envelope::seal_body(kind, newest::VERSION, &body));
        }
    }
}
