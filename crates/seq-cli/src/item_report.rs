//! The results of one call for several uids or keys, and the failure of the command that made the call. As JSON, the
//! report has one item for each uid or key, in the order of the command line. An item is a result or a refusal.

use std::fmt;

use seq_client::{CallError, Client};
use seq_command::exit::{Exit, Failure, report_error};
use seq_command::output::{Output, digits};
use seq_load::outcome;
use seq_load::outcome::Chain;
use serde::Serialize;

/// Maximum number of refusals of one call that plain output shows. JSON contains all refusals.
const REFUSALS_SHOWN: usize = 10;

/// The uid or key of an item.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Subject {
    Uid {
        #[serde(serialize_with = "digits")]
        uid: u64,
    },
    Key {
        key: String,
    },
}

impl Subject {
    pub(crate) fn uid(uid: u64) -> Subject {
        Subject::Uid { uid }
    }

    pub(crate) fn key(key: &str) -> Subject {
        Subject::Key { key: key.to_owned() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Uid { uid } => uid.fmt(f),
            Subject::Key { key } => f.write_str(key),
        }
    }
}

/// The result of one uid or key.
#[derive(Serialize)]
struct Item<T> {
    #[serde(flatten)]
    subject: Subject,
    #[serde(flatten)]
    outcome: Outcome<T>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<T> {
    Ok(T),
    Refused { error: Refusal },
}

/// The refusal of an item, as the SDK reports it.
#[derive(Serialize)]
struct Refusal {
    /// Reason of the refusal in capitals. It comes from the SDK, e.g. `UID_OUTSIDE`, or from the server.
    reason: String,
    message: String,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// Whether the server may have allocated numbers although the call failed. If it has, these numbers are skipped.
    may_have_applied: bool,
}

/// Results that the command must print as plain output, and the failure that it must return after that, if any.
pub(crate) struct Printable<T> {
    replies: Vec<(Subject, T)>,
    failure: Option<Failure>,
}

impl<T> Printable<T> {
    /// Returns the results to print, and the outcome that the command must return after it has printed them.
    pub(crate) fn split(self) -> (Vec<(Subject, T)>, anyhow::Result<Exit>) {
        (self.replies, self.failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into())))
    }
}

/// Separates results from refusals, and determines the failure of the command. If the command prints JSON, the function
/// prints all items, and the returned value contains no results.
pub(crate) fn items<T: Serialize>(
    subjects: Vec<Subject>,
    results: Vec<Result<T, CallError>>,
    client: &Client,
    output: &Output,
) -> anyhow::Result<Printable<T>> {
    let refused: Vec<CallError> = results.iter().filter_map(|result| result.as_ref().err().cloned()).collect();
    let failure = failure_of(&refused, results.len(), client);
    let pairs = subjects.into_iter().zip(results);
    if output.is_json() {
        let item = |(subject, result)| Item { subject, outcome: outcome(result) };
        output.json_items(&pairs.map(item).collect::<Vec<_>>())?;
        return Ok(Printable { replies: Vec::new(), failure: failure.map(Failure::in_result) });
    }
    let replies = pairs.filter_map(|(subject, result)| Some((subject, result.ok()?))).collect();
    Ok(Printable { replies, failure })
}

fn outcome<T>(result: Result<T, CallError>) -> Outcome<T> {
    match result {
        Ok(reply) => Outcome::Ok(reply),
        Err(error) => {
            let failure = outcome::failure(&error);
            Outcome::Refused {
                error: Refusal {
                    reason: failure.reason,
                    message: failure.message,
                    retryable: failure.retryable,
                    may_have_applied: error.may_have_applied(),
                },
            }
        }
    }
}

/// Returns the failure of a command whose call had `items` items, of which `refused` were refused. Returns `None` if
/// none was refused. Prints up to [`REFUSALS_SHOWN`] refusals except the last of them, which is the text of the
/// failure. The exit code is that of the first refusal if all items were refused, and otherwise [`Exit::Partial`].
fn failure_of(refused: &[CallError], items: usize, client: &Client) -> Option<Failure> {
    let exit = if refused.len() < items { Exit::Partial } else { exit_of(refused.first()?) };
    let shown = &refused[..refused.len().min(REFUSALS_SHOWN)];
    // Each refusal is printed on one line. The last refusal is returned with a hint.
    let (last, others) = shown.split_last()?;
    for error in others {
        report_error(&Chain(error));
    }
    let failure = call_failure(last, client).ending(exit);
    let unseen = refused.len() - shown.len();
    Some(if unseen > 0 {
        failure.hint(format!("{unseen} more were refused; `-o json` lists all refusals"))
    } else {
        failure
    })
}

fn exit_of(error: &CallError) -> Exit {
    match error {
        CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } => Exit::Usage,
        CallError::SetUnavailable(_) => Exit::Unhealthy,
        CallError::Unreachable(_) => Exit::CannotConnect,
        CallError::DeadlineExceeded { .. } => Exit::Deadline,
        CallError::Refused(refused) if refused.is_retryable() => Exit::Unhealthy,
        _ => Exit::Failed,
    }
}

/// Returns the failure of a command whose call failed.
pub(crate) fn call_failure(error: &CallError, client: &Client) -> Failure {
    let reason = match error {
        CallError::Refused(refused) if !refused.reason.is_empty() => format!(" ({})", refused.reason),
        _ => String::new(),
    };
    let failure = Failure::new(exit_of(error), format!("{}{reason}", Chain(error)));
    match error {
        _ if error.may_have_applied() => {
            failure.hint("numbers may have been consumed; another call leaves a gap, never a duplicate")
        }
        CallError::UidOutside { .. } => {
            let known: Vec<String> =
                client.known_uids().iter().map(|uids| format!("{}..{}", uids.start, uids.end)).collect();
            failure.hint(format!("the sets of this cluster have the uids {}, their ends excluded", known.join(", ")))
        }
        CallError::Refused(refused) if !refused.reason.is_empty() => {
            failure.hint(format!("`seqsvr explain {}` explains the reason", refused.reason))
        }
        _ => failure,
    }
}
