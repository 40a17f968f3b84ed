//! The command `explain`, which prints the meaning of a reason. It reads the same table of reasons as the servers, the
//! clients and `docs/reference/reasons.md`.

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table};
use seq_proto::reason::{ClientReason, Outcome, Reason, Retry, code_name};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr explain UNSERVED\n  seqsvr explain already-past no_majority\n  \
                        seqsvr explain -o json | jq -r '.items[] | select(.retry_after_ms) | .reason'\n\n\
                        Exit codes: 0 explained, 2 there is no such reason; the error names the nearest reason.")]
pub struct ExplainArgs {
    /// A reason in an error or a report; case does not matter. Without any, all reasons are explained.
    #[arg(value_name = "REASON")]
    reasons: Vec<String>,
}

/// A reason with its properties.
#[derive(Debug, Serialize)]
struct Entry {
    reason: &'static str,
    /// Kind of the requests that a server refuses with this reason, or `Clients` if only clients report it.
    subject: &'static str,
    /// gRPC codes with which servers send this reason. It is empty if no server sends the reason.
    codes: Vec<String>,
    retryable: bool,
    /// Milliseconds after which the request may succeed if it is repeated. It is absent if the server suggests no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// `unchanged`, or `unknown` if the request may have taken effect.
    outcome: &'static str,
    /// Keys of the metadata in an error with this reason.
    metadata: &'static [&'static str],
    meaning: &'static str,
    #[serde(skip)]
    retry: &'static str,
}

pub fn run(args: &ExplainArgs, output: &Output) -> anyhow::Result<Exit> {
    let lists_all = args.reasons.is_empty();
    let entries = if lists_all {
        all().collect()
    } else {
        args.reasons.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?
    };
    if output.is_json() {
        output.json_items(&entries)?;
    } else if lists_all {
        output.table(&list(&entries))?;
    } else {
        let pages: Vec<String> = entries.iter().map(Entry::page).collect();
        output.text(&pages.join("\n"))?;
    }
    Ok(Exit::Ok)
}

fn all() -> impl Iterator<Item = Entry> {
    Reason::ALL.iter().map(|reason| Entry::of_server(*reason)).chain(ClientReason::ALL.map(Entry::of_client))
}

/// Returns the reason with the given name, in which case does not matter and `-` may stand for `_`.
fn find(given: &str) -> Result<Entry, Failure> {
    let name = given.to_ascii_uppercase().replace('-', "_");
    if let Some(reason) = Reason::parse(&name) {
        return Ok(Entry::of_server(reason));
    }
    if let Some(reason) = ClientReason::parse(&name) {
        return Ok(Entry::of_client(reason));
    }
    let near = |entry: &Entry| strsim::normalized_levenshtein(entry.reason, &name);
    let nearest = all().max_by(|one, other| near(one).total_cmp(&near(other))).expect("there are reasons");
    let message = format!("{given} is not a reason; the nearest is {}", nearest.reason);
    Err(Failure::new(Exit::Usage, message).hint("`seqsvr explain` lists all reasons"))
}

impl Entry {
    fn of_server(reason: Reason) -> Entry {
        let after = reason.retry().after();
        Entry {
            reason: reason.name(),
            subject: reason.subject(),
            codes: reason.codes().iter().map(|code| code_name(*code)).collect(),
            retryable: after.is_some(),
            retry_after_ms: after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            outcome: outcome(reason.outcome()),
            metadata: reason.metadata(),
            meaning: reason.doc(),
            retry: advice(reason.retry()),
        }
    }

    fn of_client(reason: ClientReason) -> Entry {
        Entry {
            reason: reason.name(),
            subject: "Clients",
            codes: Vec::new(),
            retryable: reason.is_retryable(),
            retry_after_ms: None,
            outcome: outcome(reason.outcome()),
            metadata: &[],
            meaning: reason.doc(),
            retry: if reason.is_retryable() { "the client has retried until its deadline" } else { NEVER },
        }
    }

    fn page(&self) -> String {
        let effect = match self.outcome {
            UNCHANGED => "the request changed nothing",
            _ => "the request may have taken effect: repeating an allocation leaves a gap, never a duplicate",
        };
        let retry = match self.retry_after_ms {
            Some(after) => format!("after {after} ms: {}", self.retry),
            None => self.retry.to_owned(),
        };
        let mut rows = vec![("subject", self.subject.to_owned()), ("retry", retry), ("outcome", effect.to_owned())];
        if !self.codes.is_empty() {
            rows.insert(1, ("code", self.codes.join(", ")));
        }
        if !self.metadata.is_empty() {
            rows.push(("metadata", self.metadata.join(", ")));
        }
        let rows: String = rows.into_iter().map(|(name, text)| format!("  {name:<9} {text}\n")).collect();
        format!("{}\n  {}\n\n{rows}", self.reason, self.meaning)
    }
}

fn list(entries: &[Entry]) -> Table {
    let mut table = Table::new(&["reason", "subject", "retry", "outcome", "meaning"]);
    for entry in entries {
        let retry = match (entry.retry_after_ms, entry.retryable) {
            (Some(after), _) => format!("{after} ms"),
            (None, true) => "yes".to_owned(),
            (None, false) => "-".to_owned(),
        };
        let cells = [entry.reason, entry.subject, &retry, entry.outcome, entry.meaning];
        table.row(cells.map(str::to_owned));
    }
    table
}

const UNCHANGED: &str = "unchanged";

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unchanged => UNCHANGED,
        Outcome::Unknown => "unknown",
    }
}

const NEVER: &str = "no: the request, or the state that refuses it, must change first";

/// Describes the event that must occur before a retry can succeed.
fn advice(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => NEVER,
        Retry::Unary => "repeat it as a unary request",
        Retry::Sync => "the store has room for another proposal after a few syncs of its log",
        Retry::Owner => "another node may own the section soon; a caller's own backoff doubles from here",
        Retry::Start => "a process starts; a store also defines its set, if it is new",
        Retry::Ceiling => "the ceiling is raised",
        Retry::Quota => "the quota or the clock of a lane allows more, responses are read, or connections end",
        Retry::Leader => "the store elects a leader",
        Retry::Silence => "a silent node is replaced after its timeout",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_reason_is_a_page() {
        expect![[r#"
            ADVANCE_TOO_FAR
              The advance leads further above the section's ceiling than `alloc.max_advance`, or further above the last number than the tenant's `max_advance`.

              subject   Allocation
              code      INVALID_ARGUMENT
              retry     no: the request, or the state that refuses it, must change first
              outcome   the request changed nothing
              metadata  bound
        "#]]
        .assert_eq(&find("advance-too-far").unwrap().page());
        expect![[r#"
            OWNER_TIMED_OUT
              The owner did not respond in time; numbers may have been consumed.

              subject   Allocation
              code      DEADLINE_EXCEEDED
              retry     after 20 ms: another node may own the section soon; a caller's own backoff doubles from here
              outcome   the request may have taken effect: repeating an allocation leaves a gap, never a duplicate
        "#]]
        .assert_eq(&find("OWNER_TIMED_OUT").unwrap().page());
        expect![[r#"
            UID_OUTSIDE
              The uid is in no set that the given nodes know; nothing was sent.

              subject   Clients
              retry     no: the request, or the state that refuses it, must change first
              outcome   the request changed nothing
        "#]]
        .assert_eq(&find("uid_outside").unwrap().page());
    }

    #[test]
    fn an_unknown_reason_suggests_the_nearest() {
        let error = find("UNSERVD").unwrap_err();
        assert_eq!(error.to_string(), "UNSERVD is not a reason; the nearest is UNSERVED");
    }

    #[test]
    fn every_reason_is_found_and_listed() {
        let entries: Vec<Entry> = all().collect();
        assert_eq!(entries.len(), Reason::ALL.len() + ClientReason::ALL.len());
        for entry in &entries {
            assert_eq!(find(&entry.reason.to_lowercase()).unwrap().reason, entry.reason);
        }
        assert_eq!(list(&entries).render().lines().count(), entries.len() + 1);
    }
}
