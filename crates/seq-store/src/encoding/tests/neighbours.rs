//! The bytes of format 8: the bytes of format 7, and behind them the facts that sets know of each other.

use seq_core::state::{Forget, Inherit, Inheritance, Loss, ReportLoss};

use super::*;

/// Pins the bytes of a command that format 7 lacks, or has with fewer fields.
fn check_new_command(command: &Command, expected: Expect) {
    let encoded = encode_command(NEIGHBOURS, command);
    expected.assert_eq(&hex(&encoded));
    assert_eq!(&decode_command(NEIGHBOURS, &encoded).unwrap(), command);
}

fn page() -> FenceResponse {
    FenceResponse {
        set: SetId(0xe6),
        lineage: Lineage(1 << 32),
        fenced: Lineage(7 << 32 | 4),
        first: SectionId(0),
        next: Some(SectionId(4)),
        records: vec![(SectionId(1), record_claim())],
        sets: vec![SetId(0xf7)],
        closing: true,
        wait: Duration::from_secs(12),
        inherited: vec![(SetId(0xa1), Lineage(2 << 32))],
    }
}

fn stated() -> SetFacts {
    SetFacts { quarantined: true, inherited: vec![(SetId(0xf7), Lineage(3 << 32))], ..facts() }
}

fn neighbouring() -> State {
    let mut state = state();
    state.rules = Rules::Eight;
    let recovery = state.recovery.as_mut().unwrap();
    recovery.closed = [SetId(0xa1)].into();
    recovery.inherited = [(SetId(0xa2), Lineage(2 << 32))].into();
    state.foreign_migrations = [(MigrationId(0x55), SetId(0xe6)), (MigrationId(0x56), SetId(0xf7))].into();
    let inherited = Some(Inheritance { lineage: Lineage(1 << 32), next: Some(SectionId(3)) });
    state.sets.insert(SetId(0xe6), PeerSet { facts: Some(stated()), inherited, ..state.sets[&SetId(0xe6)].clone() });
    state.forgotten = RouteVersion(2);
    state.fences = [(SetId(0xb3), Lineage(6 << 32))].into();
    state.loss = Some(Loss { node: "a2".into(), seen: Revision(90), noted: Revision(70) });
    state
}

#[test]
fn commands_between_sets_that_speak_for_themselves() {
    check_new_command(
        &Command::LearnRecords(page()),
        expect![[r#"
            01000000000000000c00000000000000e6000000000000000000000001000000
            20030000000000007700000000000000f700000000000000a100000000000000
            00000000020000000000000000000000e6000000000000000000000001000000
            04000000070000000000000001000000040000008cffffff010000008cffffff
            010000008cffffff010000008cffffff010000008cffffff010000008cffffff
            010000008cffffff0100000001000000007841cb0200000080ffffff01000000
            80ffffff0100000002"#]],
    );
    check_new_command(
        &Command::Inherit(Inherit(page())),
        expect![[r#"
            01000000000000000c00000000000000e6000000000000000000000001000000
            20030000000000007700000000000000f700000000000000a100000000000000
            00000000020000000300000000000000e6000000000000000000000001000000
            04000000070000000000000001000000040000008cffffff010000008cffffff
            010000008cffffff010000008cffffff010000008cffffff010000008cffffff
            010000008cffffff0100000001000000007841cb0200000080ffffff01000000
            80ffffff0100000002"#]],
    );
    let (id, by) = (MigrationId(0x77), Some(SetId(0xe6)));
    check_new_command(
        &Command::Complete(Complete { id, by }),
        expect![[r#"
            020000000000000077000000000000000100000000000000e600000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            02"#]],
    );
    check_new_command(
        &Command::Complete(Complete { id, by: None }),
        expect![[r#"
            0200000000000000770000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            02"#]],
    );
    check_new_command(
        &Command::Forget(Forget { set: SetId(0xf7) }),
        expect![[r#"
            0400000000000000f70000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            02"#]],
    );
}

#[test]
fn a_report_of_a_loss() {
    let (incarnation, seen) = (Incarnation(4), Revision(90));
    let report = ReportLoss { node: "a2".into(), incarnation, seen, certain: true };
    check_new_command(
        &Command::ReportLoss(report),
        expect![[r#"
        050000006132ffffffffffff0000000004000000000000005a00000000000000
        0100000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        02"#]],
    );
}

#[test]
fn facts_of_a_set_that_it_states_itself() {
    let learned = LearnDirectory { from: Some(SetId(0xe6)), claims: vec![claim(0, 3, 7, 0xe6)], sets: vec![stated()] };
    check_new_command(
        &Command::LearnDirectory(learned),
        expect![[r#"
            00000000030000000700000000000000e6000000000000003132372e302e302e
            313a3732303000008e000000f0ffffff3132372e302e302e313a373130300000
            8e000000f0ffffffd5000000000000000000000002000000f700000000000000
            0000000003000000e60000000000000000000000010000000800000000000000
            696d2d62ffffffffa0ffffff01000000b0ffffff0100000001000000acffffff
            01000000acffffff010000000000000001000000a4ffffff01000000a4ffffff
            010000000000000001000000000000000100000000000000e600000000000000
            20ffffff010000001cffffff0100000018ffffff0100000018ffffff01000000
            68ffffff01000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            000000000000000002"#]],
    );
}

#[test]
fn a_state_of_a_set_with_neighbours() {
    let state = neighbouring();
    let encoded = encode_state(NEIGHBOURS, &state);
    let earlier = encode_state(AUDIT, &state);
    assert_eq!(encoded[..earlier.len()], earlier);
    expect![[r#"
        a100000000000000a20000000000000000000000020000005500000000000000
        5600000000000000e600000000000000f7000000000000000100000000000000
        0000000001000000010000000300000000000000000000000000000000000000
        0000000000000000f700000000000000000000000300000001000000ecffffff
        01000000ecffffff0100000000000000e8ffffff00000000e0ffffff00000000
        b300000000000000000000000600000050ffffff0100000050ffffff01000000
        50ffffff0100000050ffffff0200000058ffffff0200000060ffffff02000000
        98ffffff0200000001000000000000006132ffffffffffff5a00000000000000
        4600000000000000020000000000000090ffffff0100000090ffffff01000000
        20010000"#]]
    .assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_state(NEIGHBOURS, &encoded).unwrap(), state);
}

#[test]
fn earlier_formats_have_the_earlier_rules_and_lack_what_is_known_of_neighbours() {
    let state = decode_state(AUDIT, &encode_state(AUDIT, &neighbouring())).unwrap();
    assert_eq!((state.rules, state.loss), (Rules::Seven, None));
    assert!(
        state.foreign_migrations.is_empty() && state.fences.is_empty() && state.recovery.unwrap().closed.is_empty()
    );
    let peer = &state.sets[&SetId(0xe6)];
    assert_eq!((peer.inherited, peer.facts.as_ref()), (None, Some(&facts())));
}

#[test]
fn columns_of_other_lengths_are_refused() {
    let (mut fewer, whole) = (neighbouring(), neighbouring());
    fewer.sets.remove(&SetId(0xf7));
    let rest = |state: &State| {
        let encoded = encode_state(NEIGHBOURS, state);
        encoded[encode_state(AUDIT, state).len()..].to_vec()
    };
    let mixed = [encode_state(AUDIT, &fewer), rest(&whole)].concat();
    let error = decode_state(NEIGHBOURS, &mixed).unwrap_err();
    assert_eq!(error.to_string(), "the columns of other sets differ in length");
    assert!(decode_command(NEIGHBOURS, &[]).is_err() && decode_command(NEIGHBOURS, &[2]).is_err());
    assert!(decode_command(NEIGHBOURS, &[3]).is_err());
}
