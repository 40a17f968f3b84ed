//! The bytes of format 5. Once released they are on the disks of others: when one of these tests fails, the format was
//! changed, and the change belongs into a new format version.

use std::time::Duration;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use seq_core::directory::{Claim, ClaimRun, Directory};
use seq_core::layout::SectionRun;
use seq_core::limits;
use seq_core::plan::Fingerprint;
use seq_core::state::{
    Arrive, Arrived, Arriving, BeginLineage, ClaimStoreId, Close, Closing, Command, Complete, Depart, DepartSilent,
    Destination, Drain, EndQuarantine, Fence, FenceResponse, Home, LearnDirectory, Migration, NodeRecord, Pace,
    PeerSet, Phase, Quarantine, Raise, RaiseCeilings, Reassign, RecordClaim, Recovery, Registration, Renew, Residence,
    Rollback, Rules, Scope, SectionRecord, SectionRecords, SetDefinition, SetFacts, SetPace, SetTerms, StartMigration,
    StartReturn, State, Terms, Tombstone, Transfer,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, LayoutId, Lineage, Liveness, MigrationId, NodeId, RenewSeq, Revision,
    RouteVersion, SectionId, Seq, SetId,
};
use seq_raft::MAX_COMMAND_BODY_BYTES;

use super::*;

mod audit;
mod balancing;
mod by_fields;
mod copies;
mod keyspaces;
mod neighbours;

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
}

/// Pins the bytes of a command, and that they are read back.
fn check_command(command: &Command, expected: Expect) {
    let mut encoded = encode_command(OLDEST, command);
    expected.assert_eq(&hex(&encoded));
    assert_eq!(&decode_command(OLDEST, &encoded).unwrap(), command);
    // A byte more, from format 7 on.
    encoded.push(0);
    assert_eq!(encode_command(AUDIT, command), encoded);
    assert_eq!(&decode_command(AUDIT, &encoded).unwrap(), command);
    assert_eq!(&decode_command(NEWEST, &encode_command(NEWEST, command)).unwrap(), command);
}

/// Six sections, the last of which begin in another set.
fn set() -> SetDefinition {
    let layout = Layout::new(0..3_000, 500).unwrap();
    let home = |first, sections, set| Home { sections: run(first, sections), set: SetId(set) };
    SetDefinition { name: "dev".into(), id: SetId(0xd5), layout, homes: vec![home(0, 4, 0xd5), home(4, 2, 0xe6)] }
}

fn run(first: u32, sections: u32) -> SectionRun {
    SectionRun { first: SectionId(first), sections }
}

fn claim(first: u32, sections: u32, since: u64, set: u64) -> ClaimRun {
    ClaimRun { sections: run(first, sections), claim: Claim { since: Epoch(since), set: SetId(set) } }
}

const PACE: Pace = Pace { rate: 50, max_pause: Duration::from_millis(20), paused: true };

const TO: Destination =
    Destination { set: SetId(0xe6), lineage: Lineage(1 << 32), node: Some(NodeId(2)), incarnation: Incarnation(3) };

fn record_claim() -> RecordClaim {
    RecordClaim {
        claim: Claim { since: Epoch(12), set: SetId(0xe6) },
        lineage: Lineage(1 << 32),
        max_seq: Seq(800),
        migration: MigrationId(0x77),
    }
}

fn facts() -> SetFacts {
    SetFacts {
        id: SetId(0xe6),
        lineage: Lineage(1 << 32),
        revision: Revision(8),
        name: "im-b".into(),
        stores: vec!["127.0.0.1:7200".into()],
        allocs: vec!["127.0.0.1:7100".into()],
        closing: Closing::Closing,
        refuses: vec![(SetId(0xd5), Lineage(2 << 32))],
        ..SetFacts::default()
    }
}

fn resident(epoch: u64, owner: Option<NodeId>, max_seq: u64) -> Residence {
    Residence {
        since: Epoch(epoch / 2),
        epoch: Epoch(epoch),
        owner,
        incarnation: Incarnation(epoch),
        max_seq: Seq(max_seq),
        routed: RouteVersion(epoch),
        handover_id: HandoverId(epoch * 2),
        came_by: MigrationId(epoch * 3),
        ..Residence::default()
    }
}

fn state() -> State {
    let mut sections = SectionRecords::new(set().layout.sections());
    sections.put(SectionId(0), SectionRecord::Resident(resident(3, Some(NodeId(1)), 10_000)));
    sections.put(SectionId(1), SectionRecord::Resident(resident(0, None, 0)));
    let (handover_id, routed, came_by) = (HandoverId(8), RouteVersion(2), MigrationId(0x7a));
    let (epoch, max_seq, by) = (Epoch(5), Seq(700), MigrationId(0x77));
    let tombstone = Tombstone { epoch, to: TO, handover_id, max_seq, by, arrived: true, routed };
    sections.put(SectionId(2), SectionRecord::Departed(tombstone));
    let quarantine = Quarantine { since: Epoch(1), epoch: Epoch(2), max_seq: Seq(90), came_by, routed };
    sections.put(SectionId(5), SectionRecord::Quarantined(quarantine));
    let mut directory = Directory::default();
    directory.merge(&[claim(0, 6, 0, 0xd5)], RouteVersion(1));
    directory.merge(&[claim(2, 2, 5, 0xe6)], RouteVersion(2));
    let migration = |scope, phase| Migration { to: SetId(0xe6), scope, pace: PACE, phase, began: Revision(70) };
    let migrations = [
        (MigrationId(0x77), migration(Scope::Runs(vec![run(2, 2)]), Phase::Open)),
        (
            MigrationId(0x78),
            migration(Scope::Return { of: MigrationId(9), settled: true }, Phase::RolledBack { noted: false }),
        ),
        (MigrationId(0x79), migration(Scope::Runs(vec![run(0, 1)]), Phase::Completed { noted: true })),
    ];
    let (fenced, admitted, routed) = (Lineage(1 << 32), Lineage(0), RouteVersion(2));
    let peer = PeerSet { fenced, admitted, closing: true, facts: Some(facts()), routed, inherited: None };
    let recovery = Recovery {
        wait: Duration::from_millis(2_500),
        responses: [(SetId(0xe6), None), (SetId(0xf7), Some(SectionId(4)))].into(),
        claims: [(SectionId(1), record_claim())].into(),
        ..Recovery::default()
    };
    let node = NodeRecord {
        reads_lanes: false,
        process: 0,
        died: None,
        name: "a1".into(),
        addr: "127.0.0.1:7100".into(),
        peer_addr: "127.0.0.1:7104".into(),
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
        sections,
        nodes: vec![node],
        route_version: RouteVersion(3),
        store_ids: vec![1, 2, 4],
        terms: Some(Terms { lease_wait: Duration::from_millis(2_500) }),
        revision: Revision(77),
        lineage: Lineage(7 << 32 | 4),
        recovery: Some(recovery),
        directory,
        sets: [(SetId(0xe6), peer), (SetId(0xf7), PeerSet::default())].into(),
        migrations: migrations.into(),
        closing: Closing::Closing,
        rules: Rules::Seven,
        ..State::default()
    }
}

#[test]
fn commands() {
    check_command(
        &Command::DefineSet(set()),
        expect![[r#"
            0000000000000000b80b000000000000f4010000000000000400000004000000
            0200000000000000d500000000000000e600000000000000646576ffffffffff
            d500000000000000b8ffffff01000000b8ffffff01000000b8ffffff01000000
            b4ffffff02000000b4ffffff02000000b8ffffff0200000000000000bcffffff
            0000000000000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000"#]],
    );
    let register = Command::Register(Registration {
        name: "a1".into(),
        addr: "127.0.0.1:7100".into(),
        peer_addr: "127.0.0.1:7104".into(),
        token: 0x0102_0304,
        lease: Duration::from_secs(2),
        follows: Incarnation(3),
        seen: Revision(9),
        process: 0,
    });
    check_command(
        &register,
        expect![[r#"
            3132372e302e302e313a373130303132372e302e302e313a3731303400000000
            010000006131ffffffffffff8e000000d4ffffff8e000000daffffff00000000
            0403020100000000009435770000000003000000000000000900000000000000"#]],
    );
    let raise = |section, epoch, to| Raise { section: SectionId(section), epoch: Epoch(epoch), to: Seq(to) };
    let raises = vec![raise(0, 3, 20_000), raise(1, 4, 30_000)];
    check_command(
        &Command::Raise(RaiseCeilings { node: NodeId(1), incarnation: Incarnation(2), raises }),
        expect![[r#"
            000000000100000003000000000000000400000000000000204e000000000000
            307500000000000003000000010000000200000000000000c8ffffff02000000
            c8ffffff02000000d0ffffff0200000000000000000000000000000000000000
            0000000000000000"#]],
    );
}

#[test]
fn commands_that_keep_and_change_owners() {
    let renew = Command::Renew(Renew {
        node: NodeId(1),
        incarnation: Incarnation(2),
        renew_seq: RenewSeq(3),
        released: vec![(SectionId(4), Epoch(5))],
        leaving: true,
        ..Renew::default()
    });
    check_command(
        &renew,
        expect![[r#"
            0400000000000000050000000000000002000000010000000200000000000000
            0300000000000000d8ffffff01000000d8ffffff010000000100000000000000
            00000000000000000000000000000000"#]],
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
            0100000001000000030000000000000003000000000000000100000000000000
            0600000000000000000000000000000000000000000000000200000002000000
            0500000000000000050000000000000004000000acffffff02000000acffffff
            02000000b4ffffff02000000ccffffff02000000ccffffff0200000000000000
            00000000000000000000000000000000"#]],
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
            0500000000000000010000000000000002000000000000000300000000000000
            0400000000000000050000000000000006000000000000000700000000000000"#]],
    );
    let terms = |millis| Terms { lease_wait: Duration::from_millis(millis) };
    check_command(
        &Command::SetTerms(SetTerms { replaces: Some(terms(3)), terms: terms(2) }),
        expect![[r#"
            08000000000000000100000000000000c0c62d000000000080841e0000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::Drain(Drain { name: "a1".into(), drained: true }),
        expect![[r#"
            060000006131ffffffffffff0100000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::ClaimStoreId(ClaimStoreId { id: 4 }),
        expect![[r#"
            0700000000000000040000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
}

#[test]
fn commands_between_sets() {
    let (id, to, lineage, section) = (MigrationId(0x77), SetId(0xe6), Lineage(1 << 32), SectionId(4));
    let runs = vec![run(2, 2), run(5, 1)];
    let start = StartMigration {
        id,
        to,
        lineage,
        layout_id: LayoutId(0xabc),
        runs,
        pace: PACE,
        fingerprint: Fingerprint(0xf1),
    };
    check_command(
        &Command::StartMigration(start),
        expect![[r#"
            0200000005000000020000000100000000000000000000007700000000000000
            e6000000000000000000000001000000bc0a000000000000c8ffffff02000000
            c8ffffff020000003200000000000000002d3101000000000100000000000000
            f1000000000000000000000000000000090000009cffffff0000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000"#]],
    );
    check_command(
        &Command::Pace(SetPace { id, pace: PACE }),
        expect![[r#"
            010000000000000077000000000000003200000000000000002d310100000000
            0100000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    let depart = Depart {
        section,
        epoch: Epoch(5),
        from: NodeId(6),
        incarnation: Incarnation(7),
        to: TO,
        handover_id: HandoverId(8),
        migration: id,
    };
    check_command(
        &Command::Depart(depart),
        expect![[r#"
            0200000004000000050000000000000006000000000000000700000000000000
            e600000000000000000000000100000002000000000000000300000000000000
            0800000000000000770000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    let (expected, liveness) = (Epoch(5), Some(Liveness(9)));
    let silent = DepartSilent { section, expected, liveness, to, lineage, migration: id };
    check_command(
        &Command::DepartSilent(vec![silent]),
        expect![[r#"
            0400000000000000050000000000000001000000000000000900000000000000
            e6000000000000000000000001000000770000000000000003000000c4ffffff
            01000000c4ffffff01000000c4ffffff01000000ccffffff01000000ccffffff
            01000000ccffffff010000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000090000009cffffff
            0000000000000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000"#]],
    );
}

#[test]
fn commands_of_arrivals() {
    let (id, to, lineage, section) = (MigrationId(0x77), SetId(0xe6), Lineage(1 << 32), SectionId(4));
    let arriving = Arriving {
        section,
        epoch: Epoch(6),
        max_seq: Seq(900),
        handover_id: HandoverId(8),
        node: Some(NodeId(2)),
        incarnation: Incarnation(3),
        migration: id,
    };
    let arrive = Arrive {
        from: SetId(0xd5),
        from_lineage: Lineage(2 << 32),
        to_lineage: lineage,
        layout_id: LayoutId(0xabc),
        sections: vec![arriving, Arriving { node: None, incarnation: Incarnation(0), ..arriving }],
    };
    check_command(
        &Command::Arrive(arrive),
        expect![[r#"
            0400000004000000060000000000000006000000000000008403000000000000
            8403000000000000080000000000000008000000000000000200000000000000
            0300000000000000000000000000000077000000000000007700000000000000
            0400000000000000d50000000000000000000000020000000000000001000000
            bc0a00000000000078ffffff0200000078ffffff0200000080ffffff02000000
            88ffffff0200000090ffffff0200000090ffffff0200000098ffffff02000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    let arrived = Arrived { at: to, lineage, sections: vec![(section, Epoch(6))], ended: vec![id] };
    check_command(
        &Command::Arrived(arrived),
        expect![[r#"
            0400000000000000060000000000000077000000000000000500000000000000
            e6000000000000000000000001000000d0ffffff01000000d0ffffff01000000
            d0ffffff01000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000090000009cffffff
            0000000000000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000"#]],
    );
}

#[test]
fn commands_that_end_and_learn_between_sets() {
    let (id, to, lineage) = (MigrationId(0x77), SetId(0xe6), Lineage(1 << 32));
    check_command(
        &Command::Rollback(Rollback { id }),
        expect![[r#"
            0600000000000000770000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::Complete(Complete { id, by: None }),
        expect![[r#"
            0700000000000000770000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    let back = StartReturn { of: id, to, id: MigrationId(0x78), pace: PACE, settled: true };
    check_command(
        &Command::StartReturn(back),
        expect![[r#"
            08000000000000007700000000000000e6000000000000007800000000000000
            3200000000000000002d31010000000001000000000000000100000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::Fence(Fence { set: to, lineage }),
        expect![[r#"
            0900000000000000e60000000000000000000000010000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    let learned = LearnDirectory { from: None, claims: vec![claim(0, 3, 7, 0xe6)], sets: vec![facts()] };
    check_command(
        &Command::LearnDirectory(learned),
        expect![[r#"
            00000000030000000700000000000000e6000000000000003132372e302e302e
            313a3732303000008e000000f0ffffff3132372e302e302e313a373130300000
            8e000000f0ffffffd5000000000000000000000002000000e600000000000000
            00000000010000000800000000000000696d2d62ffffffffb0ffffff01000000
            c0ffffff0100000001000000bcffffff01000000bcffffff0100000000000000
            0a0000005cffffff0100000058ffffff0100000054ffffff0100000054ffffff
            0100000094ffffff010000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::EndQuarantine(EndQuarantine { lineage }),
        expect![[r#"
            0b00000000000000000000000100000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            090000009cffffff000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
}

#[test]
fn commands_that_recover() {
    let response = FenceResponse {
        set: SetId(0xe6),
        lineage: Lineage(1 << 32),
        fenced: Lineage(7 << 32 | 4),
        first: SectionId(0),
        next: Some(SectionId(4)),
        records: vec![(SectionId(1), record_claim())],
        sets: vec![SetId(0xf7)],
        closing: true,
        wait: Duration::ZERO,
        inherited: Vec::new(),
    };
    check_command(
        &Command::BeginLineage(BeginLineage { lineage: Lineage(9 << 32) }),
        expect![[r#"
        0d00000000000000000000000900000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        090000009cffffff000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::LearnRecords(response),
        expect![[r#"
            01000000000000000c00000000000000e6000000000000000000000001000000
            20030000000000007700000000000000f700000000000000e600000000000000
            00000000010000000400000007000000000000000100000004000000a4ffffff
            01000000a4ffffff01000000a4ffffff01000000a4ffffff01000000a4ffffff
            01000000a4ffffff01000000a4ffffff01000000010000000c0000009cffffff
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000090000009cffffff
            0000000000000000000000000000000000000000000000000000000000000000
            000000000000000000000000000000000000000000000000"#]],
    );
    check_command(
        &Command::Close(Close),
        expect![[r#"
        0e00000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        090000009cffffff000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000"#]],
    );
}

/// Commands between sets with as many rows as they may have.
fn largest_between_sets() -> [Command; 5] {
    let (moves, runs) = (limits::MAX_MOVES, limits::MAX_RUNS);
    let (id, to, lineage, section) = (MigrationId(u64::MAX), SetId(u64::MAX), Lineage(u64::MAX), SectionId(u32::MAX));
    let silent = DepartSilent {
        section,
        expected: Epoch(u64::MAX),
        liveness: Some(Liveness(u64::MAX)),
        to,
        lineage,
        migration: id,
    };
    let arriving = Arriving {
        section,
        epoch: Epoch(u64::MAX),
        max_seq: Seq::MAX,
        handover_id: HandoverId(u64::MAX),
        node: Some(NodeId(u32::MAX)),
        incarnation: Incarnation(u64::MAX),
        migration: id,
    };
    let layout_id = LayoutId(u64::MAX);
    let sections = vec![arriving; moves];
    [
        Command::DepartSilent(vec![silent; moves]),
        Command::Arrive(Arrive { from: to, from_lineage: lineage, to_lineage: lineage, layout_id, sections }),
        Command::LearnDirectory(LearnDirectory {
            from: None,
            claims: vec![claim(7, 7, u64::MAX, u64::MAX); runs],
            sets: vec![],
        }),
        Command::StartMigration(StartMigration {
            id,
            to,
            lineage,
            layout_id,
            runs: vec![run(7, 7); runs],
            pace: PACE,
            fingerprint: Fingerprint(u64::MAX),
        }),
        Command::LearnRecords(FenceResponse {
            set: to,
            lineage,
            fenced: lineage,
            first: section,
            next: Some(section),
            records: vec![(section, record_claim()); moves],
            sets: vec![to; limits::MAX_SETS],
            closing: true,
            wait: Duration::ZERO,
            inherited: Vec::new(),
        }),
    ]
}

#[test]
fn the_largest_command_fits_an_entry_and_one_more_does_not() {
    let raise = Raise { section: SectionId(u32::MAX), epoch: Epoch(u64::MAX), to: Seq::MAX };
    let command = |raises| Command::Raise(RaiseCeilings { node: NodeId(1), incarnation: Incarnation(1), raises });
    let bytes = |command: &Command| encode_command(NEWEST, command).len();
    assert!(bytes(&command(vec![raise; seq_core::limits::MAX_RAISES])) <= MAX_COMMAND_BODY_BYTES);
    let change = Reassign {
        section: SectionId(u32::MAX),
        expected: Epoch(u64::MAX),
        liveness: Some(Liveness(u64::MAX)),
        to: NodeId(u32::MAX),
        incarnation: Incarnation(u64::MAX),
    };
    assert!(bytes(&Command::Reassign(vec![change; seq_core::arbiter::MAX_REASSIGNS])) <= MAX_COMMAND_BODY_BYTES);
    for command in largest_between_sets() {
        assert!(bytes(&command) <= MAX_COMMAND_BODY_BYTES, "{} bytes", bytes(&command));
    }
    assert!(bytes(&command(vec![raise; 2 * seq_core::limits::MAX_RAISES])) > MAX_COMMAND_BODY_BYTES);
}

#[test]
fn states() {
    let encoded = encode_state(OLDEST, &state());
    expect![[r#"
        0000000000000000b80b000000000000f4010000000000000400000004000000
        0200000000000000d500000000000000e6000000000000000000000001000000
        0100000000000000000000000000000003000000000000000000000000000000
        0100000000000000030000000000000000000000000000001027000000000000
        0000000000000000030000000000000000000000000000000600000000000000
        0000000000000000090000000000000000000000000000006131ffffffffffff
        3132372e302e302e313a3731303000008e000000f0ffffff3132372e302e302e
        313a3731303400008e000000f0ffffff0400000000000000edfe000000000000
        09000000000000001f0000000000000001000000000000001100000000000000
        0094357700000000010000000000000002000000000000000400000000000000
        02000000000000000500000000000000e6000000000000000000000001000000
        020000000000000003000000000000000800000000000000bc02000000000000
        7700000000000000010000000000000002000000000000000500000000000000
        010000000000000002000000000000005a000000000000007a00000000000000
        0200000000000000e600000000000000f7000000000000000000000000000000
        010000000400000001000000000000000c00000000000000e600000000000000
        0000000001000000200300000000000077000000000000000000000002000000
        0400000002000000020000000200000000000000000000000500000000000000
        0000000000000000d500000000000000e600000000000000d500000000000000
        0100000000000000020000000000000001000000000000003132372e302e302e
        313a3732303000008e000000f0ffffff3132372e302e302e313a373130300000
        8e000000f0ffffffd5000000000000000000000002000000e600000000000000
        0000000001000000000000000000000001000000000000000100000000000000
        e60000000000000000000000010000000800000000000000696d2d62ffffffff
        88ffffff0100000098ffffff010000000100000094ffffff0100000094ffffff
        01000000000000000200000000000000f7000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000020000000200000000000000010000007700000000000000
        e600000000000000e0ffffff01000000dcffffff010000000000000000000000
        00000000000000003200000000000000002d3101000000000100000000000000
        000000000000000046000000000000007800000000000000e600000000000000
        90ffffff0000000088ffffff0000000009000000000000000100000000000000
        3200000000000000002d31010000000001000000000000000100000000000000
        46000000000000007900000000000000e60000000000000038ffffff01000000
        34ffffff01000000000000000000000000000000000000003200000000000000
        002d310100000000010000000000000002010000000000004600000000000000
        0100000000000000646576ffffffffffd50000000000000028fbffff01000000
        28fbffff0100000028fbffff0100000024fbffff0200000024fbffff02000000
        28fbffff02000000030000000000000028fbffff0200000028fbffff02000000
        30fbffff0200000038fbffff0200000038fbffff0200000040fbffff02000000
        48fbffff0200000050fbffff0200000058fbffff0200000060fbffff01000000
        70fbffff0100000080fbffff0100000080fbffff0100000080fbffff01000000
        80fbffff0100000080fbffff0100000080fbffff0100000079fbffff01000000
        78fbffff0100000078fbffff0100000078fbffff030000000100000000000000
        00f90295000000004d0000000000000070fbffff01000000c0fbffff01000000
        0400000007000000010000000000000000f9029500000000d0fbffff02000000
        d8fbffff02000000e0fbffff01000000e0fbffff01000000e0fbffff01000000
        e0fbffff01000000e0fbffff01000000e0fbffff010000000200000000000000
        d8fbffff03000000dcfbffff03000000e0fbffff03000000f0fbffff03000000
        00fcffff0300000050fcffff0200000048fdffff030000000100000000000000"#]]
    .assert_eq(&hex(&encoded));
    assert_eq!(decode_state(OLDEST, &encoded).unwrap(), state());
}

#[test]
fn a_state_of_many_sections_is_read_back() {
    let layout = Layout::new(0..43_000, 1).unwrap();
    let mut sections = SectionRecords::new(43_000);
    for section in 0..43_000 {
        let (max_seq, epoch) = (Seq(section.into()), Epoch(u64::from(section) % 7));
        let record = SectionRecord::Resident(Residence { max_seq, epoch, ..Residence::default() });
        sections.put(SectionId(section), record);
    }
    let set = Some(SetDefinition::only("wide", layout));
    for format in OLDEST..=NEWEST {
        let rules = Rules::of_format(format);
        let state = State { set: set.clone(), sections: sections.clone(), rules, ..State::default() };
        assert_eq!(decode_state(format, &encode_state(format, &state)).unwrap(), state);
    }
}

/// The error of a state whose records are of a larger layout.
const LAYOUT: &str = "a section is not of the layout";

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let refused = |change: &dyn Fn(&mut State)| {
        let mut state = state();
        change(&mut state);
        decode_state(OLDEST, &encode_state(OLDEST, &state)).unwrap_err().to_string()
    };
    assert_eq!(refused(&|state| state.set.as_mut().unwrap().layout = Layout::new(0..3, 1).unwrap()), LAYOUT);
    assert_eq!(refused(&|state| state.nodes.clear()), "a section's owner is no node");
    let above = SectionRecord::Resident(Residence { max_seq: Seq(1 << 63), ..Residence::default() });
    assert_eq!(refused(&|state| state.sections.put(SectionId(0), above)), "a ceiling is above 2^63-1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in OLDEST..=NEWEST {
            let _ = decode_command(format, &bytes);
            let _ = decode_state(format, &bytes);
        }
    }

    #[test]
    fn a_body_with_a_changed_byte_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut body = encode_state(NEWEST, &state());
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode_state(NEWEST, &body);
    }
}
