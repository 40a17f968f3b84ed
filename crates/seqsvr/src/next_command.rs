//! The commands `next` and `current`: one request each, and its response.
//!
//! As JSON both print one object with `items`, one for each uid in the order of the command line, whether it succeeded
//! or was refused.

use std::time::Duration;

use clap::Args;
use seq_client::{Allocation, CallError, Client, Current};
use seq_load::outcome;
use serde::Serialize;

use crate::exit::{Exit, Failure, report_error};
use crate::output::{Output, Table, digits};
use crate::target::{Chain, Target};

/// Limit on the refusals of one call in plain output; JSON has all of them.
const REFUSALS_SHOWN: usize = 10;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr next 42\n  seqsvr next 42 -n 100\n  \
                        seqsvr next 42 -o json | jq -r '.items[].value'")]
pub(crate) struct NextArgs {
    /// The user.
    uid: u64,
    /// How many numbers, 1 to 1,000,000; more than one are printed as first..=last.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    count: u32,
    #[command(flatten)]
    target: Target,
    /// Deadline of connecting and of the call, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr current 42\n  seqsvr current 42 43 44 -o json | jq -r '.items[] | .uid, .value'\n\n\
                        Where some of the users are refused and others are not, the exit code is 5."
)]
pub(crate) struct CurrentArgs {
    /// The users.
    #[arg(required = true, value_name = "UID")]
    uids: Vec<u64>,
    #[command(flatten)]
    target: Target,
    /// Deadline of connecting and of the call, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
}

/// The result of one uid.
#[derive(Serialize)]
struct Item<T> {
    #[serde(serialize_with = "digits")]
    uid: u64,
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
    /// In capitals: of the SDK, such as `UID_OUTSIDE`, or of the server.
    reason: String,
    message: String,
    /// Whether the same request can succeed later.
    retryable: bool,
    /// Whether numbers may have been consumed, which leaves a gap.
    may_have_applied: bool,
}

#[derive(Serialize)]
struct Taken {
    #[serde(serialize_with = "digits")]
    first: u64,
    #[serde(serialize_with = "digits")]
    value: u64,
    #[serde(serialize_with = "digits")]
    prev: u64,
    count: u32,
    #[serde(serialize_with = "digits")]
    epoch: u64,
}

#[derive(Serialize)]
struct Read {
    #[serde(serialize_with = "digits")]
    value: u64,
    exactness: &'static str,
    #[serde(serialize_with = "digits")]
    epoch: u64,
}

pub(crate) async fn next(args: NextArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.target.connect(Duration::from_millis(args.deadline_ms)).await?;
    let result = client.next_n(args.uid, args.count).await.map(Taken::from);
    let items = items(&[args.uid], vec![result], &client, output)?;
    for (uid, Taken { first, value, prev, epoch, .. }) in items.replies {
        let numbers = if args.count == 1 { value.to_string() } else { format!("{first}..={value}") };
        if output.is_wide() {
            let mut table = Table::new(&["uid", "numbers", "prev", "epoch"]);
            table.row([uid.to_string(), numbers, prev.to_string(), epoch.to_string()]);
            output.table(&table)?;
        } else {
            output.line(numbers)?;
        }
    }
    items.failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into()))
}

pub(crate) async fn current(args: CurrentArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.target.connect(Duration::from_millis(args.deadline_ms)).await?;
    let results = match client.current_many(&args.uids).await {
        Ok(results) => results.into_iter().map(|result| result.map(Read::from)).collect(),
        Err(error) => args.uids.iter().map(|_| Err(error.clone())).collect(),
    };
    let items = items(&args.uids, results, &client, output)?;
    if !items.replies.is_empty() {
        let heading: &[&str] = if output.is_wide() { &["uid", "value", "exactness", "epoch"] } else { &[] };
        let mut table = Table::new(heading);
        for (uid, Read { value, exactness, epoch }) in items.replies {
            let epoch = output.is_wide().then(|| epoch.to_string());
            let uid = (args.uids.len() > 1 || output.is_wide()).then(|| uid.to_string());
            table.row(uid.into_iter().chain([value.to_string(), exactness.to_owned()]).chain(epoch));
        }
        output.table(&table)?;
    }
    items.failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into()))
}

impl From<Allocation> for Taken {
    fn from(taken: Allocation) -> Taken {
        let Allocation { value, prev, epoch, count, .. } = taken;
        Taken { first: taken.first(), value, prev, count, epoch }
    }
}

impl From<Current> for Read {
    fn from(Current { value, exact, epoch }: Current) -> Read {
        Read { value, exactness: if exact { "exact" } else { "upper_bound" }, epoch }
    }
}

/// The items still to print in plain output, and the failure of the command.
struct Printable<T> {
    replies: Vec<(u64, T)>,
    failure: Option<Failure>,
}

/// Prints all items as JSON if requested, and determines the failure of the command.
fn items<T: Serialize>(
    uids: &[u64],
    results: Vec<Result<T, CallError>>,
    client: &Client,
    output: &Output,
) -> anyhow::Result<Printable<T>> {
    let refused: Vec<CallError> = results.iter().filter_map(|result| result.as_ref().err().cloned()).collect();
    let failure = failure_of(&refused, results.len(), client);
    let pairs = uids.iter().copied().zip(results);
    if output.is_json() {
        let item = |(uid, result)| Item { uid, outcome: outcome(result) };
        output.json_items(&pairs.map(item).collect::<Vec<_>>())?;
        return Ok(Printable { replies: Vec::new(), failure });
    }
    let replies = pairs.filter_map(|(uid, result)| Some((uid, result.ok()?))).collect();
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

/// The failure of a call for `items` uids: the refusal if all items were refused, partly done if some were, none
/// otherwise.
fn failure_of(refused: &[CallError], items: usize, client: &Client) -> Option<Failure> {
    let exit = if refused.len() < items { Exit::Partial } else { exit_of(refused.first()?) };
    let shown = &refused[..refused.len().min(REFUSALS_SHOWN)];
    // One line each; the last one has a hint.
    let (last, others) = shown.split_last()?;
    for error in others {
        report_error(&Chain(error));
    }
    let failure = call_failure(last, client).ending(exit);
    let unseen = refused.len() - shown.len();
    Some(if unseen > 0 { failure.hint(format!("{unseen} more were refused; `-o json` lists all")) } else { failure })
}

fn exit_of(error: &CallError) -> Exit {
    match error {
        CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } => Exit::Usage,
        CallError::Unreachable(_) => Exit::CannotConnect,
        CallError::DeadlineExceeded { .. } => Exit::Deadline,
        CallError::Refused(refused) if refused.is_retryable() => Exit::Unhealthy,
        _ => Exit::Failed,
    }
}

fn call_failure(error: &CallError, client: &Client) -> Failure {
    let failure = Failure::new(exit_of(error), Chain(error).to_string());
    if error.may_have_applied() {
        failure.hint("numbers may have been consumed; calling again leaves a gap, never a duplicate")
    } else if matches!(error, CallError::UidOutside { .. }) {
        let known: Vec<String> =
            client.known_uids().iter().map(|uids| format!("{}..{}", uids.start, uids.end)).collect();
        failure.hint(format!("the sets of this cluster have the uids {}, their ends excluded", known.join(", ")))
    } else {
        failure
    }
}
