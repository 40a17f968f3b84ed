//! The command `alloc died`, with which the supervisor of an AllocSvr process reports that the process has ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use seq_alloc::{DeathReportError, report_death};
use seq_auth::Role;
use seq_channel::{Dial, tls};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, digits};
use seq_command::{client_runtime, security, set_file, time_limit};
use seq_core::Incarnation;
use seq_proto::Reason;
use serde::Serialize;

use super::process_number;

#[derive(Debug, Args)]
#[command(
    after_help = "It is for the supervisor that has reaped the process, such as ExecStopPost= of a systemd unit. A report of a \
                        process that still runs breaks the order of numbers: docs/safety.md.\n\n\
                        Example:\n  seqsvr alloc died --set /etc/seqsvr/set.toml --name a1\n\n\
                        Exit codes: 0 the store has the report, 1 refused, 2 wrong flags, or no number in the file, 7 no leader of \
                        the store responded in time."
)]
pub(super) struct DiedArgs {
    /// The set file.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    /// Name of the allocator in the set file.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// File with the number that the process drew when it started [default: process in $RUNTIME_DIRECTORY]
    #[arg(long, value_name = "FILE")]
    process_file: Option<PathBuf>,
    /// Gives up after this time, so that the next start of the process is not delayed.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_limit::time)]
    timeout: Duration,
}

/// The result of the command as JSON.
#[derive(Serialize)]
struct DiedView<'a> {
    node: &'a str,
    /// The incarnation that died; 0 if the report changed nothing.
    #[serde(serialize_with = "digits")]
    incarnation: u64,
}

pub(super) fn run(args: &DiedArgs, output: &Output) -> anyhow::Result<Exit> {
    let DiedArgs { set, name, process_file, timeout } = args;
    let file = process_file
        .clone()
        .or_else(process_number::file)
        .ok_or_else(|| Failure::new(Exit::Usage, "name --process-file, as RUNTIME_DIRECTORY is not set".to_owned()))?;
    let number = process_number::read(&file)?;
    let incarnation = client_runtime()?.block_on(report((set, name), number, *timeout))?;
    if output.is_json() {
        output.json(&DiedView { node: name, incarnation: incarnation.map_or(0, |incarnation| incarnation.0) })?;
    } else {
        output.text(&format!("{}\n", text(name, incarnation)))?;
    }
    Ok(Exit::Ok)
}

/// Reports to the store of a set that the process `number` of its AllocSvr `name` has ended.
///
/// # Errors
/// The set file or the credentials cannot be read, the store refused the report, or no leader of the store responded
/// within `timeout`.
pub(super) async fn report(
    (set, name): (&Path, &str),
    number: u64,
    timeout: Duration,
) -> anyhow::Result<Option<Incarnation>> {
    let set = set_file::load_for_server(set).map_err(|failure| failure.ending(Exit::Usage))?;
    let credentials = security::of_node(&set, Role::Alloc, name).map_err(|failure| failure.ending(Exit::Usage))?;
    let dial = credentials.map_or_else(Dial::tcp, tls::dial);
    match tokio::time::timeout(timeout, report_death(&set.spec, &dial, name, number)).await {
        Ok(outcome) => Ok(outcome.map_err(refused)?),
        Err(_) => {
            let text = format!("no leader of the store responded within {timeout:?}: the sections wait for the lease");
            Err(Failure::new(Exit::Deadline, text).into())
        }
    }
}

fn refused(error: DeathReportError) -> Failure {
    let failure = Failure::new(Exit::Failed, error.to_string());
    match error {
        DeathReportError::Refused { reason, .. } if reason == Reason::OldFormat.name() => {
            failure.reason(reason).hint("`seqsvr store upgrade` raises the format of the store")
        }
        DeathReportError::Refused { reason, .. } => failure.reason(reason),
        DeathReportError::Unknown => failure,
    }
}

/// Returns the result of a report in one sentence.
pub(super) fn text(name: &str, incarnation: Option<Incarnation>) -> String {
    match incarnation {
        Some(incarnation) => format!("the store has noted that incarnation {incarnation} of {name} died"),
        None => format!("nothing changed: the newest incarnation of {name} is of another process, or known as dead"),
    }
}
