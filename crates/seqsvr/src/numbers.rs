//! The commands `next` and `current`: one call each, and its answer.

use std::time::Duration;

use clap::Args;
use seq_client::{Allocation, CallError, Current};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};
use crate::target::{Chain, Target};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr next 42\n  seqsvr next 42 -n 100\n  seqsvr next 42 -o json")]
pub(crate) struct NextArgs {
    /// The user.
    uid: u64,
    /// How many numbers to take, 1 to 1,000,000; more than one print as first..=last.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    count: u32,
    #[command(flatten)]
    target: Target,
    /// Deadline of connecting and of the call, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr current 42\n  seqsvr current 42 43 44 -o json")]
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

#[derive(Serialize)]
struct NextJson {
    uid: u64,
    first: u64,
    value: u64,
    prev: u64,
    epoch: u64,
}

#[derive(Serialize)]
struct CurrentJson {
    uid: u64,
    value: u64,
    exactness: &'static str,
    epoch: u64,
}

pub(crate) async fn next(args: NextArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.target.connect(Duration::from_millis(args.deadline_ms)).await?;
    let answer = client.next_n(args.uid, args.count).await.map_err(|error| call_failure(&error))?;
    let Allocation { value, prev, epoch, .. } = answer;
    if output.is_json() {
        output.json(&NextJson { uid: args.uid, first: answer.first(), value, prev, epoch })?;
        return Ok(Exit::Ok);
    }
    let numbers = if args.count == 1 { value.to_string() } else { format!("{}..={value}", answer.first()) };
    if output.is_wide() {
        let mut table = Table::new(&["uid", "numbers", "prev", "epoch"]);
        table.row([args.uid.to_string(), numbers, prev.to_string(), epoch.to_string()]);
        output.table(&table)?;
    } else {
        output.line(numbers)?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn current(args: CurrentArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.target.connect(Duration::from_millis(args.deadline_ms)).await?;
    let answers = client.current_many(&args.uids).await.map_err(|error| call_failure(&error))?;
    let mut rows = Vec::with_capacity(answers.len());
    let mut failure = None;
    for (uid, answer) in args.uids.iter().zip(answers) {
        match answer {
            Ok(Current { value, exact, epoch }) => {
                let exactness = if exact { "exact" } else { "upper_bound" };
                rows.push(CurrentJson { uid: *uid, value, exactness, epoch });
            }
            // Those that were answered are printed; the first that was not decides the exit code.
            Err(error) => failure = failure.or(Some(call_failure(&error))),
        }
    }
    if output.is_json() {
        // One object for one uid, as for `next`; a list as soon as several were asked for.
        match rows.as_slice() {
            [row] if args.uids.len() == 1 => output.json(row)?,
            rows => output.json(&rows)?,
        }
    } else if !rows.is_empty() {
        let heading: &[&str] = if output.is_wide() { &["uid", "value", "exactness", "epoch"] } else { &[] };
        let mut table = Table::new(heading);
        for CurrentJson { uid, value, exactness, epoch } in rows {
            let epoch = output.is_wide().then(|| epoch.to_string());
            let uid = (args.uids.len() > 1 || output.is_wide()).then(|| uid.to_string());
            table.row(uid.into_iter().chain([value.to_string(), exactness.to_owned()]).chain(epoch));
        }
        output.table(&table)?;
    }
    failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into()))
}

fn call_failure(error: &CallError) -> Failure {
    let message = Chain(error).to_string();
    let failure = match error {
        CallError::UidOutside { .. } | CallError::CountOutOfRange { .. } => Failure::new(Exit::Usage, message),
        CallError::Unreachable(_) => Failure::new(Exit::CannotConnect, message),
        CallError::DeadlineExceeded { .. } => Failure::new(Exit::Deadline, message),
        CallError::Refused(refused) if refused.is_retryable() => Failure::new(Exit::Unhealthy, message),
        _ => Failure::new(Exit::Failed, message),
    };
    if error.may_have_applied() {
        failure.hint("numbers may have been consumed; calling again leaves a gap, never a duplicate")
    } else if matches!(error, CallError::UidOutside { .. }) {
        failure.hint("`seqsvr status` shows the uids of every set")
    } else {
        failure
    }
}
