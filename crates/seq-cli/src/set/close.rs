//! The command `set close`, which closes a set that has no sections. From then on, the set never takes sections again.
//!
//! The store closes the set once every other set has recorded that the set is closing. Until then, another set could
//! still start a migration of sections into it.

use std::time::{Duration, Instant};

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::selection::sections_text;
use seq_command::signals::Interrupts;
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_core::plan::Fingerprint;
use seq_proto::reason::Reason;
use seq_proto::v1::{CloseSetResponse, SetState};
use serde::Serialize;

use super::settle;
use crate::cluster_client::{Cluster, SetClient};

/// Interval between requests for the state of the set, while other sets have not recorded yet that the set is closing.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum time for which the command waits until the set is closed. It suffices because the sets exchange messages
/// every two seconds.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr set close im-b --addr http://127.0.0.1:7301\n\n\
                        A set that has sections cannot be closed: `seqsvr set merge` moves them first. When the set is \
                        closed, stop its processes; its data may be deleted.\n\n\
                        Exit codes: 0 closed, 1 refused, 2 a wrong file or address, or no terminal to confirm on, 3 \
                        the store has no set or no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not all sets have \
                        recorded it; repeat the command, 130 interrupted.")]
pub struct CloseArgs {
    /// Name of the set.
    #[arg(value_name = "SET")]
    name: String,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

pub(crate) async fn close(args: &CloseArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut set = Cluster::connect(&args.target, args.timeout.duration()).await?.into_set(&args.name).await?;
    let info = set.info();
    if info.sections > 0 {
        let message = format!("set {} has {} ({})", info.name, sections_text(info.sections), Reason::SetNotEmpty);
        return Err(Failure::new(Exit::Failed, message)
            .reason(Reason::SetNotEmpty.name())
            .hint("`seqsvr set merge` moves them into another set and closes it")
            .into());
    }
    let name = info.name.clone();
    let mut plan = Fingerprint::NONE;
    if info.state() == SetState::Open {
        if set.store.can_show(args.confirm.plan).await? {
            plan = Fingerprint(set.store.close_set(&name, Mode::Show).await?.fingerprint);
        }
        let what = format!("close set {name} permanently");
        let dry_run = args.confirm.plan.dry_run;
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
    }
    drained(set, plan, &args.target.flags(), output).await
}

/// The outcome of closing a set.
#[derive(Serialize)]
struct Closed<'a> {
    set: &'a str,
    state: &'static str,
    /// Fingerprint of the plan of this change. It is absent if the set was closing before.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

/// Closes a set that has no sections, if `plan` is still its plan. Waits until all other sets have recorded that it is
/// closing.
pub(super) async fn drained(
    mut set: SetClient,
    plan: Fingerprint,
    flags: &str,
    output: &Output,
) -> anyhow::Result<Exit> {
    let name = set.info().name.clone();
    let since = Instant::now();
    let line = output.progress_line();
    let mut interrupts = Interrupts::new()?;
    loop {
        set.store.restart_time();
        let response = set.store.close_set(&name, Mode::Make(plan)).await?;
        if response.state() == SetState::Closed {
            line.finish_and_clear();
            settle::until_closed(&set.sets[1..], &name, output).await;
            if output.is_json() {
                output.json(&Closed { set: &name, state: "closed", plan: plan::digits(plan) })?;
            } else {
                output.line(format_args!("set {name} is closed: its processes can be stopped"))?;
            }
            return Ok(Exit::Ok);
        }
        let text = waiting(&response);
        line.set_message(text.clone());
        line.tick();
        let hint = format!("set {name} takes no more sections; `seqsvr set close {name}{flags}` waits again");
        if since.elapsed() > CLOSE_TIMEOUT {
            line.finish_and_clear();
            return Err(Failure::new(Exit::Deadline, format!("not closed within {CLOSE_TIMEOUT:?}: {text}"))
                .hint(hint)
                .into());
        }
        tokio::select! {
            _ = interrupts.next() => {
                line.finish_and_clear();
                return Err(Failure::new(Exit::Interrupted, format!("interrupted: {text}")).hint(hint).into());
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

fn waiting(response: &CloseSetResponse) -> String {
    match response.waiting_for.as_slice() {
        [] => "the set is closing".to_owned(),
        sets => format!("the set is closing; not recorded yet by {}", sets.join(", ")),
    }
}
