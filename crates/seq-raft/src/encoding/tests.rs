//! The bytes of format 4. Released formats are on the disks of users: when one of these tests fails, the format was
//! changed, and the change belongs into a new format version.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::nonce::Fingerprint;
use crate::test_machine::{Command, Journal, OLDEST};
use crate::types::{EncodedBatch, LeaderId, Member, Membership, Payload, StoredMembership};

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
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

fn members() -> Membership {
    let member = |id: u8| Member {
        name: format!("s{id}"),
        addr: format!("s{id}:7201"),
        raft_addr: format!("s{id}:7207"),
        fingerprint: Fingerprint::from_bytes(&[id; 32]).unwrap(),
    };
    let nodes = BTreeMap::from([(1, member(1)), (2, member(2)), (3, member(3))]);
    Membership::new(vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])], nodes).unwrap()
}

fn snapshot() -> Snapshot {
    Snapshot {
        last_log_id: Some((&log_id(7, 2, 41)).into()),
        membership: (&StoredMembership::new(Some(log_id(1, 1, 0)), members())).into(),
        state_format: 5,
        state: vec![1, 2, 3],
    }
}

#[test]
fn a_command_is_a_body_in_a_frame_and_bounded() {
    let command = Command::Append(vec![0xab; 3]);
    let encoded = write_command::<Journal>(OLDEST, &command).unwrap();
    expect!["5351535201000300040000001eba57e000ababab"].assert_eq(&hex(encoded.bytes()));
    assert_eq!(read_record::<Journal>(encoded.bytes()).unwrap(), Record::Command { format: OLDEST, command });
    refuses_every_flip(encoded.bytes(), |record| read_record::<Journal>(record).map(drop));
    // The encoding of the journal adds one byte.
    let most = MAX_COMMAND_BYTES - envelope::HEADER_BYTES - 1;
    write_command::<Journal>(OLDEST, &Command::Append(vec![0; most])).unwrap();
    let error = write_command::<Journal>(OLDEST, &Command::Append(vec![0; most + 1])).unwrap_err();
    assert!(error.to_string().ends_with("send it in parts"), "{error}");
}

#[test]
fn commands_of_an_entry_are_records_one_behind_the_other() {
    let commands = [Command::Append(vec![0xab; 3]), Command::ClaimId(9), Command::Append(vec![])];
    let encoded = commands.each_ref().map(|command| write_command::<Journal>(OLDEST, command).unwrap());
    let batch = EncodedBatch::of(&encoded);
    expect![[r#"
        5351535201000300040000001eba57e000ababab535153520100030009000000
        bbd301de0109000000000000005351535201000300010000006c97096b00"#]]
    .assert_eq(&hex(batch.bytes()));
    assert_eq!(
        read_batch::<Journal>(batch.bytes()).unwrap(),
        commands.map(|command| Record::Command { format: OLDEST, command })
    );
    refuses_every_flip(batch.bytes(), |records| read_batch::<Journal>(records).map(drop));
    assert_eq!(EncodedBatch::of(&encoded[..1]).bytes(), encoded[0].bytes());

    let ends: Vec<usize> = (1..=3).map(|count| EncodedBatch::of(&encoded[..count]).bytes().len()).collect();
    for cut in 0..batch.bytes().len() {
        assert_eq!(read_batch::<Journal>(&batch.bytes()[..cut]).is_ok(), ends.contains(&cut), "cut at {cut}");
    }
    let trailing = [&batch.bytes()[..], &[0]].concat();
    assert!(read_batch::<Journal>(&trailing).is_err());
}

#[test]
fn a_raise_is_a_command_without_a_body_which_only_a_reader_of_that_format_accepts() {
    const NEXT: u16 = OLDEST + 1;
    let raise = write_raise(NEXT);
    expect!["5351535201000400000000005c1b0ee6"].assert_eq(&hex(raise.bytes()));
    assert_eq!(read_record::<Journal<NEXT>>(raise.bytes()).unwrap(), Record::RaiseFormat(NEXT));
    let error = read_record::<Journal>(raise.bytes()).unwrap_err();
    assert_eq!(error.fault, envelope::Fault::NewerFormat { found: NEXT, newest: OLDEST });

    // Commands of both formats, in one entry.
    let command = Command::Append(vec![0xab]);
    let [old, new] = [OLDEST, NEXT].map(|format| write_command::<Journal<NEXT>>(format, &command).unwrap());
    assert_ne!(old, new);
    let batch = EncodedBatch::of(&[old.clone(), raise, new]);
    let written = |format| Record::Command { format, command: command.clone() };
    let records = [written(OLDEST), Record::RaiseFormat(NEXT), written(NEXT)];
    assert_eq!(read_batch::<Journal<NEXT>>(batch.bytes()).unwrap(), records);
    check_formats::<Journal<NEXT>>(batch.bytes()).unwrap();
    check_formats::<Journal>(old.bytes()).unwrap();
    assert_eq!(check_formats::<Journal>(batch.bytes()), Err(error));
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
            535153520200040050000000009593d007000000000000000200000000000000
            2900000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check(
        Payload::Normal(EncodedBatch::from_bytes(vec![1, 2, 3].into())),
        expect![[r#"
            535153520200040058000000e6fd1af701020300000000000700000000000000
            0200000000000000290000000000000001000000dcffffff0300000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000"#]],
    );
    check(
        Payload::Membership(members()),
        expect![[r#"
            535153520200040040010000770e07ec01000000000000000200000000000000
            02000000000000000300000000000000e0ffffff02000000e8ffffff02000000
            0100000000000000020000000000000003000000000000007331ffffffffffff
            7332ffffffffffff7333ffffffffffff73313a37323031ff73323a37323031ff
            73333a37323031ff73313a37323037ff73323a37323037ff73333a37323037ff
            0101010101010101010101010101010101010101010101010101010101010101
            0202020202020202020202020202020202020202020202020202020202020202
            0303030303030303030303030303030303030303030303030303030303030303
            0700000000000000020000000000000029000000000000000200000014ffffff
            020000001cffffff030000002cffffff030000003cffffff030000004cffffff
            030000005cffffff0300000000000000"#]],
    );
}

#[test]
fn single_records() {
    let vote = Vote { leader_id: LeaderId { term: 7, node_id: 2 }, committed: true };
    expect![[r#"
        535153520300040018000000b3174cc007000000000000000200000000000000
        0100000000000000"#]]
    .assert_eq(&hex(&write_vote(&vote)));
    assert_eq!(read_vote(&write_vote(&vote)).unwrap(), vote);

    let id = log_id(7, 2, 41);
    let record = write_log_id(Kind::Committed, &id);
    expect![[r#"
        5351535204000400180000008144073f07000000000000000200000000000000
        2900000000000000"#]]
    .assert_eq(&hex(&record));
    assert_eq!(read_log_id(Kind::Committed, &record).unwrap(), id);
    // A record of the same shape with another meaning.
    assert!(read_log_id(Kind::Purged, &record).is_err());

    let identity = Identity { cluster: "dev".into(), node: 2, nonce: [0x11; 16] };
    expect![[r#"
        535153520800040020000000de2ccc51646576ffffffffff0200000000000000
        11111111111111111111111111111111"#]]
    .assert_eq(&hex(&write_identity(&identity)));
    assert_eq!(read_identity(&write_identity(&identity)).unwrap(), identity);

    let id = Some((&id).into());
    let watermark = Watermark { generation: 9, vote: Some((&vote).into()), last: id, purged: None, snapshot: id };
    expect![[r#"
        5351535209000400880000000cc08ce709000000000000000100000000000000
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
        535153520600040088010000884f9d2501000000000000000200000000000000
        02000000000000000300000000000000e0ffffff02000000e8ffffff02000000
        0100000000000000020000000000000003000000000000007331ffffffffffff
        7332ffffffffffff7333ffffffffffff73313a37323031ff73323a37323031ff
        73333a37323031ff73313a37323037ff73323a37323037ff73333a37323037ff
        0101010101010101010101010101010101010101010101010101010101010101
        0202020202020202020202020202020202020202020202020202020202020202
        0303030303030303030303030303030303030303030303030303030303030303
        736e617073686f742d34312d372d320001000000000000000700000000000000
        0200000000000000290000000000000001000000000000000100000000000000
        01000000000000000000000000000000e0feffff02000000e8feffff03000000
        f8feffff0300000008ffffff0300000018ffffff0300000028ffffff03000000
        8f00000080ffffffe803000000000000efbeadde00000000"#]]
    .assert_eq(&hex(&write_manifest(&manifest)));
    assert_eq!(read_manifest(&write_manifest(&manifest)).unwrap(), manifest);
}

#[test]
fn snapshots() {
    let record = write_snapshot(&snapshot());
    expect![[r#"
        535153520700040078010000426ef42701000000000000000200000000000000
        02000000000000000300000000000000e0ffffff02000000e8ffffff02000000
        0100000000000000020000000000000003000000000000007331ffffffffffff
        7332ffffffffffff7333ffffffffffff73313a37323031ff73323a37323031ff
        73333a37323031ff73313a37323037ff73323a37323037ff73333a37323037ff
        0101010101010101010101010101010101010101010101010101010101010101
        0202020202020202020202020202020202020202020202020202020202020202
        0303030303030303030303030303030303030303030303030303030303030303
        0102030000000000010000000000000007000000000000000200000000000000
        2900000000000000010000000000000001000000000000000100000000000000
        0000000000000000e8feffff02000000f0feffff0300000000ffffff03000000
        10ffffff0300000020ffffff0300000030ffffff030000000500000084ffffff
        0300000000000000"#]]
    .assert_eq(&hex(&record));
    let read = read_snapshot(&record).unwrap();
    assert_eq!((read.state_format, &read.state[..]), (5, &[1, 2, 3][..]));
    assert_eq!(read.last_log_id, snapshot().last_log_id);
    assert_eq!(read.membership.into_library().unwrap(), StoredMembership::new(Some(log_id(1, 1, 0)), members()));
    refuses_every_flip(&record, |record| read_snapshot(record).map(drop));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let record = envelope::seal_body(Kind::Snapshot, newest::VERSION + 1, &[0; 8]);
    expect!["snapshot record of 24 bytes: has format version 5, newer than 4, the newest this program reads"]
        .assert_eq(&read_snapshot(&record).unwrap_err().to_string());
}

#[test]
fn the_format_of_unreleased_programs_is_refused_by_name() {
    let record = envelope::seal_body(Kind::Snapshot, 2, &[0; 8]);
    expect!["snapshot record of 24 bytes: has format version 2, older than 4, the oldest this program reads"]
        .assert_eq(&read_snapshot(&record).unwrap_err().to_string());
}

/// Reads the bytes as every kind of record.
fn read_as_everything(record: &[u8]) {
    let _ = read_record::<Journal>(record);
    let _ = read_batch::<Journal>(record);
    let _ = read_entry(record);
    let _ = read_vote(record);
    let _ = read_log_id(Kind::Committed, record);
    let _ = read_identity(record);
    let _ = read_watermark(record);
    let _ = read_manifest(record).map(|manifest| manifest.membership.into_library());
    let _ = read_snapshot(record).map(|read| read.membership.into_library());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes);
        // The same bytes in a valid frame, so that they reach the decoders.
        for kind in [Kind::Command, Kind::Entry, Kind::Vote, Kind::Committed, Kind::Manifest, Kind::Snapshot] {
            read_as_everything(&envelope::seal_body(kind, newest::VERSION, &bytes));
        }
    }

    #[test]
    fn a_body_with_a_changed_byte_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let entry = Entry { log_id: log_id(1, 1, 1), payload: Payload::Membership(members()) };
        for (kind, record) in [(Kind::Snapshot, write_snapshot(&snapshot())), (Kind::Entry, write_entry(&entry))] {
            let mut body = record[envelope::HEADER_BYTES..].to_vec();
            let at = at.index(body.len());
            body[at] = byte;
            read_as_everything(&envelope::seal_body(kind, newest::VERSION, &body));
        }
    }
}
