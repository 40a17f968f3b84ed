//! The bytes of format 7: the bytes of formats 5 and 6, followed by the audit log.

use seq_core::state::{Answer, BeginOperation, EndOperation, RestoreMargin};

use super::*;

fn begin() -> Command {
    Command::BeginOperation(BeginOperation {
        at_unix_ms: 0x0102_0304,
        principal: "operator/alice".into(),
        node: "s1".into(),
        operation: "node drain a1".into(),
        plan: 9,
    })
}

fn end(refusal: Option<&str>) -> Command {
    Command::EndOperation(EndOperation { at_unix_ms: 5, operation: 1, refusal: refusal.map(Into::into) })
}

/// Pins the bytes of a command that earlier formats do not have.
fn check_new_command(command: &Command, expected: Expect) {
    let encoded = encode_command(AUDIT, command);
    expected.assert_eq(&hex(&encoded));
    assert_eq!(&decode_command(AUDIT, &encoded).unwrap(), command);
}

fn audited() -> State {
    let mut state = state();
    state.restore_margin = RestoreMargin(1 << 30);
    for command in [begin(), end(Some("LAST_NODE")), begin()] {
        assert!(matches!(state.apply(&command), Answer::OperationBegun(Ok(_)) | Answer::OperationEnded(Ok(()))));
    }
    state
}

#[test]
fn commands_of_the_audit_log() {
    check_new_command(
        &begin(),
        expect![[r#"
        6f70657261746f722f616c6963656e6f646520647261696e2061310000000000
        000000000000000004030201000000008e000000d0ffffff7331ffffffffffff
        8d000000ceffffff090000000000000001"#]],
    );
    check_new_command(
        &end(None),
        expect![[r#"
        0100000000000000050000000000000001000000000000000000000000000000
        0000000000000000000000000000000001"#]],
    );
    check_new_command(
        &end(Some("NO_MAJORITY")),
        expect![[r#"
        4e4f5f4d414a4f52495459000000000001000000000000000500000000000000
        0100000000000000010000008b000000d4ffffff000000000000000000000000
        01"#]],
    );
}

#[test]
fn a_state_with_an_audit_log() {
    let state = audited();
    let encoded = encode_state(AUDIT, &state);
    let earlier = encode_state(OLDEST, &state);
    assert_eq!(encoded[..earlier.len()], earlier);
    expect![[r#"
        6f70657261746f722f616c6963656e6f646520647261696e2061314c4153545f
        4e4f44456f70657261746f722f616c6963656e6f646520647261696e20613100
        000000000000000004030201000000008e000000b0ffffff7331ffffffffffff
        8d000000aeffffff090000000000000001000000000000000500000000000000
        010000000000000001000000890000008fffffff000000000000000000000000
        000000000000000004030201000000008e00000074ffffff7331ffffffffffff
        8d00000072ffffff090000000000000083e84f7b6b862b93188444195beddc54
        541b5bab810b8147bfa6000459306cff9ff9e13287e7abef11c202031fda3e06
        5c52bafcb00f01ceb7ab375dd145fddb3f20f8efae62c35f6ba61d66841db046
        f318b3c8124b2e8155308818f5094cc700000040000000000000000000000000
        0000000000000000000000000000000000000000000000000000000000000000
        e0feffff0300000068ffffff0300000070010000"#]]
    .assert_eq(&hex(&encoded[earlier.len()..]));
    assert_eq!(decode_state(AUDIT, &encoded).unwrap(), state);
}

#[test]
fn earlier_formats_have_the_default_of_what_they_lack() {
    let state = decode_state(OLDEST, &encode_state(OLDEST, &audited())).unwrap();
    assert_eq!((state.audit.last().0, state.restore_margin.0), (0, limits::RESTORE_MARGIN));
}

#[test]
#[should_panic(expected = "BeginOperation is of format 7, and the group's is 6")]
fn an_operation_is_no_command_of_an_earlier_format() {
    encode_command(AUDIT - 1, &begin());
}

#[test]
fn what_contradicts_itself_is_refused() {
    let whole = encode_state(AUDIT, &audited());
    let earlier = encode_state(OLDEST, &audited()).len();
    let mut chain = 0;
    for at in earlier..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let Err(Malformed(text)) = decode_state(AUDIT, &changed) else { continue };
        chain += usize::from(text == "the chain of the audit log is broken");
    }
    assert!(chain > 200, "{chain} changed bytes break the chain");
    for length in [0, 3, earlier, whole.len() - 1] {
        assert!(decode_state(AUDIT, &whole[..length]).is_err(), "{length} bytes");
    }
    assert!(decode_command(AUDIT, &[]).is_err() && decode_command(AUDIT, &[2]).is_err());
}
