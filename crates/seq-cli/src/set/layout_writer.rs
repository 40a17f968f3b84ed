//! The command `set layout-writer`, which makes another set the layout writer of the cluster.
//!
//! The store of the present layout writer makes the change. The next layout writer learns of the change at the next
//! exchange of messages between the sets, and then reports that it creates series.

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_core::plan::Fingerprint;
use seq_proto::v1::{LayoutWriter, SetLayoutWriterResponse};
use serde::Serialize;

use crate::cluster_client::{Cluster, SetClient, undefined};

/// Interval between the command's requests until the next layout writer reports that it creates series.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum time for which the command waits until the next layout writer reports that it creates series. It suffices
/// because the sets exchange messages every two seconds.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr set layout-writer im-b --dry-run\n  seqsvr set layout-writer im-b\n  \
                        seqsvr set layout-writer im-b --yes -o json    (in scripts)\n\n\
                        One set creates and retires the series of a cluster: at first the set with which the cluster \
                        began. `seqsvr set list -o wide` shows the set. Hand this to another set before the set is merged \
                        away. No series moves, and no id is interrupted; the other set hands it back with the same \
                        command.\n\n\
                        Exit codes: 0 handed over, 1 refused (SET_OUTDATED, UNKNOWN_SET, SET_CLOSING, QUARANTINED), 2 a wrong \
                        file or address, or no terminal to confirm on, 3 the store has no set or no majority, 4 no \
                        node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not done within \
                        --timeout, or not yet stated by the other set; repeat the command.")]
pub struct LayoutWriterArgs {
    /// Name or id of the set that is to create series.
    #[arg(value_name = "SET")]
    to: String,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the command.
#[derive(Serialize)]
struct Outcome<'a> {
    /// Name of the set that created series before.
    from: &'a str,
    /// Name of the set that creates series now.
    set: &'a str,
    /// Number of times that the role of the layout writer was handed to another set in this cluster, including this
    /// time.
    term: u64,
    /// Whether this command made the hand-over.
    changed: bool,
    /// Fingerprint of the plan of this change. It is absent if there was nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(crate) async fn layout_writer(args: &LayoutWriterArgs, output: &Output) -> anyhow::Result<Exit> {
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let to = cluster.find(&args.to)?.clone();
    let Some(writer) = cluster.sets().iter().find(|set| set.writes_series).cloned() else {
        let own = &cluster.sets()[0].name;
        let message = format!("set {own} does not know which set creates series");
        let hint = "repeat the command in a few seconds, or name a node of another set with --addr";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    };
    let dry_run = args.confirm.plan.dry_run;
    if writer.id == to.id {
        // An earlier hand-over to the set may not have reached it yet.
        if !dry_run {
            let set = cluster.into_set(&to.id.to_string()).await?;
            until_stated(set, &args.target.flags(), output).await?;
        }
        return unchanged(&to.name, output);
    }
    let mut set = cluster.into_set(&writer.id.to_string()).await?;
    let id = to.id.to_string();
    let foreseen = set.store.set_layout_writer(&id, Mode::Show).await?;
    let (term, plan) = (term(&foreseen)?, Fingerprint(foreseen.fingerprint));
    let what = format!("have set {} create the series of the cluster, and set {} no more", to.name, writer.name);
    if dry_run || !output.is_json() {
        plan::print_dry_run(&what, Some(plan), output)?;
    }
    args.confirm.plan.check(plan)?;
    if dry_run {
        return Ok(Exit::Ok);
    }
    if !args.confirm.confirmed(&what)? {
        return Ok(Exit::Declined);
    }
    set.store.restart_time();
    let made = set.store.set_layout_writer(&id, Mode::Make(plan)).await?;
    until_taken(&mut set, (&to.name, &id), made.writer, &args.target.flags(), output).await?;
    if output.is_json() {
        let plan = plan::digits(plan);
        output.json(&Outcome { from: &writer.name, set: &to.name, term, changed: made.changed, plan })?;
    } else {
        output.line(format_args!("set {} creates the series of the cluster", to.name))?;
    }
    Ok(Exit::Ok)
}

fn unchanged(name: &str, output: &Output) -> anyhow::Result<Exit> {
    #[derive(Serialize)]
    struct Unchanged<'a> {
        set: &'a str,
        changed: bool,
    }
    if output.is_json() {
        output.json(&Unchanged { set: name, changed: false })?;
    } else {
        output.line(format_args!("nothing to do: set {name} creates the series of the cluster"))?;
    }
    Ok(Exit::Ok)
}

/// Waits until a set reports that it creates series.
async fn until_stated(mut set: SetClient, flags: &str, output: &Output) -> anyhow::Result<()> {
    let mut wait = Wait::new(set.info().name.clone(), flags, output);
    while !set.info().writes_series {
        wait.pause().await?;
        set.store.restart_time();
        set.sets = set.store.sets().await?.ok_or_else(undefined)?;
    }
    wait.line.finish_and_clear();
    Ok(())
}

/// Waits until the former layout writer knows that the set `to` creates series. Until it knows, the former layout
/// writer cannot be closed.
async fn until_taken(
    set: &mut SetClient,
    to: (&str, &str),
    mut writer: Option<LayoutWriter>,
    flags: &str,
    output: &Output,
) -> anyhow::Result<()> {
    let mut wait = Wait::new(to.0.to_owned(), flags, output);
    while !writer.is_some_and(|writer| writer.taken) {
        wait.pause().await?;
        set.store.restart_time();
        writer = set.store.set_layout_writer(to.1, Mode::Show).await?.writer;
    }
    wait.line.finish_and_clear();
    Ok(())
}

/// A wait until a set reports that it creates series.
struct Wait<'a> {
    set: String,
    flags: &'a str,
    since: Instant,
    line: ProgressBar,
}

impl Wait<'_> {
    fn new<'a>(set: String, flags: &'a str, output: &Output) -> Wait<'a> {
        Wait { set, flags, since: Instant::now(), line: output.progress_line() }
    }

    /// Pauses until the next request to the set is due.
    ///
    /// # Errors
    /// [`Exit::Deadline`] if the wait has lasted longer than [`TAKEN_TIMEOUT`].
    async fn pause(&mut self) -> Result<(), Failure> {
        let Wait { set, flags, since, line } = self;
        if since.elapsed() > TAKEN_TIMEOUT {
            line.finish_and_clear();
            let message = format!("the series are handed to set {set}, which has not stated yet that it creates them");
            let hint = format!(
                "it does within seconds while its store serves; `seqsvr set layout-writer {set}{flags}` waits again"
            );
            return Err(Failure::new(Exit::Deadline, message).hint(hint));
        }
        line.set_message(format!("waiting until set {set} states that it creates series"));
        line.tick();
        tokio::time::sleep(POLL_INTERVAL).await;
        Ok(())
    }
}

fn term(response: &SetLayoutWriterResponse) -> anyhow::Result<u64> {
    let lacks = || Failure::new(Exit::Failed, "the response of the store has no writer");
    Ok(response.writer.as_ref().ok_or_else(lacks)?.term)
}
