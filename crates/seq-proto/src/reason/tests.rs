use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use expect_test::expect_file;

use super::*;

const HEAD: &str = "\
# Reasons

A refusal carries its reason in `google.rpc.ErrorInfo`, domain `seqsvr`; an item of a batch carries it in its `ItemError`,
and plain text over HTTP in the header `seq-reason`. Codes after the first are those of other services. Retry: the hint in
`google.rpc.RetryInfo`; `-` where the request, or what it is refused for, must change first. Outcome: whether the refused
request may have taken effect. Metadata: keys in the `ErrorInfo`.
";

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

#[test]
fn the_reference_lists_every_reason() {
    let mut text = HEAD.to_owned();
    let mut subject = "";
    for reason in Reason::ALL {
        if reason.subject() != subject {
            subject = reason.subject();
            write!(text, "\n## {subject}\n\n| reason | code | retry | outcome | metadata | meaning |\n").unwrap();
            text.push_str("|---|---|---|---|---|---|\n");
        }
        let codes = reason.codes().iter().map(|code| code_name(*code)).collect::<Vec<_>>().join(", ");
        let retry = or_dash(reason.retry().after().map(|after| format!("{after:?}")).unwrap_or_default());
        let outcome = format!("{:?}", reason.outcome()).to_lowercase();
        let keys = or_dash(reason.metadata().iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" "));
        writeln!(text, "| `{reason}` | {codes} | {retry} | {outcome} | {keys} | {} |", reason.doc()).unwrap();
    }
    text.push_str(
        "\n## Clients\n\nReported by clients and commands where no server of the service refused the request.\n\n",
    );
    text.push_str("| reason | retry | outcome | meaning |\n|---|---|---|---|\n");
    for reason in ClientReason::ALL {
        let retry = if reason.is_retryable() { "yes" } else { "-" };
        let outcome = format!("{:?}", reason.outcome()).to_lowercase();
        writeln!(text, "| `{reason}` | {retry} | {outcome} | {} |", reason.doc()).unwrap();
    }
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/reasons.md")].assert_eq(&text);
}

#[test]
fn names_are_unique_and_parsed() {
    let names: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        let name = reason.name();
        assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{name}");
        assert_eq!(Reason::parse(name), Some(*reason));
        assert!(*name == *reason && reason.codes()[0] == reason.code(), "{name}");
        assert!(reason.doc().ends_with('.'), "{name}: {}", reason.doc());
    }
    assert_eq!(Reason::parse("REASON_OF_A_LATER_VERSION"), None);
    assert_eq!(Reason::parse(""), None);
}

#[test]
fn reasons_of_clients_have_names_of_their_own() {
    for reason in ClientReason::ALL {
        assert_eq!(ClientReason::parse(reason.name()), Some(reason));
        assert_eq!(Reason::parse(reason.name()), None);
        assert!(reason.doc().ends_with('.'), "{reason}");
    }
    assert_eq!(ClientReason::parse(Reason::Unserved.name()), None);
}

#[test]
fn codes_have_the_names_of_grpc() {
    let names = [Code::Ok, Code::OutOfRange, Code::DeadlineExceeded].map(code_name);
    assert_eq!(names, ["OK", "OUT_OF_RANGE", "DEADLINE_EXCEEDED"]);
}

/// A code that promises that a retry can succeed has a retry hint, except where a peer retries by its own schedule.
#[test]
fn transient_codes_have_a_retry_hint() {
    let scheduled = [Reason::NotGranted, Reason::BodyTimedOut];
    for reason in Reason::ALL.iter().filter(|reason| !scheduled.contains(reason)) {
        let transient = matches!(reason.code(), Code::Unavailable | Code::DeadlineExceeded);
        assert!(!transient || reason.retry() != Retry::Never, "{reason}");
    }
}

/// Returns the string literals of a line of Python.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

/// The client's own test compares the reasons of unknown outcome with `seqsvr explain`.
#[test]
fn the_python_client_matches_on_these_reasons() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/src/seqsvr/_attempts.py");
    let client = fs::read_to_string(path).unwrap();
    let matched: BTreeSet<&str> = client
        .lines()
        .filter_map(|line| line.split_once(".reason in (").or_else(|| line.split_once("failure.reason == ")))
        .flat_map(|(_, rest)| literals(rest))
        .collect();
    for reason in [Reason::ShuttingDown, Reason::OwnerTimedOut] {
        assert!(matched.contains(reason.name()), "{reason}: {matched:?}");
    }
    assert!(matched.iter().all(|name| Reason::parse(name).is_some()), "{matched:?}");
}
