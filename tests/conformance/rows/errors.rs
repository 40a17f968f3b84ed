//! Errors of calls: kinds, retries and outcomes.

use std::time::Duration;

use seq_client::fake::{Corruption, FakeServer};
use seq_core::{Refusal, Uid};
use seq_proto::Reason;
use seq_proto::reason::Outcome;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::call::CallError;
use crate::driver::{Client, Driver, Sdk};
use crate::rust_sdk::code_name;

/// Subjects whose reasons a caller may get for a request for numbers.
const SUBJECTS: [&str; 4] = ["Allocation", "Endpoints", "Roles", "Tenants"];

/// Deadline of a call that is refused. No attempt fits after the usual hint of a refusal, so the call ends at once.
const DEADLINE_MS: u64 = 100;

/// The first uid outside of the fake set.
const OUTSIDE: u64 = 1_000_000;

pub(super) fn errors(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    for coalesce in [true, false] {
        let client = driver.open_with(&[server.url()], json!({"coalesce": coalesce}));
        unsent(&client, sdk.has("advance"));
        refused(&client, &server);
        items(&client, &server);
        client.command(json!({"op": "close"})).unwrap();
        let closed = client.next(7).unwrap_err();
        assert_eq!((&*closed.kind, closed.may_have_applied), ("closed", false), "{closed:?}");
    }
    driver.end();
}

/// Errors of calls that send no request.
fn unsent(client: &Client<'_>, advance: bool) {
    let check = |error: &CallError, kind: &str| {
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(!error.retryable && !error.may_have_applied && !error.message.is_empty(), "{error:?}");
    };
    for count in [0, 1_000_001] {
        check(&client.next_n(7, count).unwrap_err(), "count");
        check(&client.next_many(&[7, 8], &[1, count]).unwrap_err(), "count");
    }
    check(&client.next(OUTSIDE).unwrap_err(), "uid_outside");
    check(&client.current(OUTSIDE).unwrap_err(), "uid_outside");
    if advance {
        check(&client.advance(OUTSIDE, 5).unwrap_err(), "uid_outside");
    }
    let given = client.next_many(&[7, OUTSIDE, 8], &[]).unwrap();
    assert!(given[0].is_ok() && given[2].is_ok(), "{given:?}");
    check(given[1].as_ref().unwrap_err(), "uid_outside");
}

/// Refusals of whole requests with every reason, with a reason of a later release, and without a reason.
fn refused(client: &Client<'_>, server: &FakeServer) {
    client.next(7).unwrap();
    for reason in Reason::ALL.iter().filter(|reason| SUBJECTS.contains(&reason.subject())) {
        for code in reason.codes() {
            // After a short hint, the call may reach its deadline in a later attempt.
            let is_short = reason.retry().after().is_some_and(|hint| hint < Duration::from_millis(DEADLINE_MS));
            let error = refusal(client, server, reason.status_as(*code, "planted"), if is_short { 1 } else { BUSY });
            if is_short && error.kind == "deadline" {
                continue;
            }
            let kind = if *reason == Reason::SetUnavailable { "set_unavailable" } else { "refused" };
            assert_eq!((&*error.kind, &*error.reason), (kind, reason.name()), "{error:?}");
            let expected = (reason.retry().after(), *code, reason.outcome() == Outcome::Unknown);
            check(&error, expected);
        }
    }
    let later = |code, after| {
        let mut details =
            ErrorDetails::with_error_info("OF_A_LATER_RELEASE", "seqsvr", [("key".into(), "value".into())]);
        details.set_retry_info(after);
        Status::with_error_details(code, "planted", details)
    };
    let hint = Some(Duration::from_millis(100));
    for (code, after) in [(Code::Unavailable, hint), (Code::ResourceExhausted, hint), (Code::FailedPrecondition, None)]
    {
        let error = refusal(client, server, later(code, after), BUSY);
        assert_eq!((&*error.kind, &*error.reason), ("refused", "OF_A_LATER_RELEASE"), "{error:?}");
        check(&error, (after, code, false));
    }
    let error = refusal(client, server, Status::internal("planted"), BUSY);
    check(&error, (None, Code::Internal, true));
    client.next(7).unwrap();
}

/// Calls in a row that may end by their deadline although the server refuses them, because the machine is busy.
const BUSY: usize = 20;

/// Returns the error of a call whose every attempt is refused with `status`. A late call is repeated, up to `tries`
/// calls.
fn refusal(client: &Client<'_>, server: &FakeServer, status: Status, tries: usize) -> CallError {
    server.refuse_one_in(1, Some(status));
    let mut error = None;
    for _ in 0..tries {
        let late = client.next_with(7, json!({"deadline_ms": DEADLINE_MS})).unwrap_err();
        if error.insert(late).kind != "deadline" {
            break;
        }
    }
    server.refuse_one_in(1, None);
    error.expect("a call was made")
}

fn check(error: &CallError, (hint, code, is_unknown): (Option<Duration>, Code, bool)) {
    let is_transient = matches!(code, Code::Unavailable | Code::DeadlineExceeded);
    assert_eq!(error.retryable, hint.is_some() || is_transient, "{error:?}");
    assert_eq!(error.may_have_applied, is_unknown, "{error:?}");
    assert!(error.attempts > 0, "{error:?}");
    if error.kind == "refused" {
        assert!(error.message.contains("planted"), "{error:?}");
        assert_eq!(u128::from(error.retry_after_ms), hint.map_or(0, |hint| hint.as_millis()), "{error:?}");
        assert_eq!(error.code, code_name(code), "{error:?}");
    }
}

/// A refusal of one item of a batch.
fn items(client: &Client<'_>, server: &FakeServer) {
    server.refuse_uid(8, [Refusal::Exhausted { uid: Uid(8), count: 1 }]);
    let given = client.next_many(&[7, 8, 9], &[]).unwrap();
    assert!(given[0].is_ok() && given[2].is_ok(), "{given:?}");
    let refused = given[1].as_ref().unwrap_err();
    assert_eq!((&*refused.kind, &*refused.reason), ("refused", "EXHAUSTED"), "{refused:?}");
    assert!(!refused.retryable && !refused.may_have_applied, "{refused:?}");
    // An item that may succeed later is retried by itself.
    server.refuse_uid(8, [Refusal::CeilingStalled { section: seq_core::SectionId(0) }]);
    let given = client.next_many(&[7, 8, 9], &[]).unwrap();
    assert!(given.iter().all(Result::is_ok), "{given:?}");
}

pub(super) fn bad_server(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    let check = |error: &CallError| {
        assert_eq!((&*error.kind, error.retryable, error.may_have_applied), ("bad_answer", false, true), "{error:?}");
        assert!(!error.message.is_empty(), "{error:?}");
    };
    for coalesce in [true, false] {
        let client = driver.open_with(&[server.url()], json!({"coalesce": coalesce}));
        client.next(7).unwrap();
        server.corrupt_next(Corruption::Numbers);
        check(&client.next(7).unwrap_err());
        server.corrupt_next(Corruption::Numbers);
        // Either the item or the whole response is refused.
        match client.next_many(&[7, 8], &[]) {
            Ok(items) => check(items[0].as_ref().unwrap_err()),
            Err(error) => check(&error),
        }
        server.corrupt_next(Corruption::Lists);
        check(&client.next_many(&[7, 8], &[]).unwrap_err());
        if coalesce && sdk.has("stream") {
            server.corrupt_next(Corruption::Lists);
            check(&client.next(7).unwrap_err());
            // The call cannot get its response any more: it is lost, and retried.
            server.corrupt_next(Corruption::Tag);
            let result = client.next(7);
            assert!(result.as_ref().map_or_else(|error| error.may_have_applied, |given| given.lost > 0), "{result:?}");
        }
        client.next_many(&[7, 8], &[]).unwrap();
    }
    driver.end();
}
