//! The command `set forget`, which makes a set forget another set that does not exist any more.

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_core::plan::Fingerprint;
use seq_proto::reason::Reason;
use serde::Serialize;

use crate::cluster_client::Cluster;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr set forget im-x --in im-a --addr http://127.0.0.1:7301\n\n\
                        The command is for a set that does not exist, or of which wrong facts are known. Repeat it for each set in \
                        which `seqsvr set list` shows the set. A set that exists is learned again from its own store within \
                        seconds. The command is refused while a section is on its way to the set, or a migration to it is open.\n\n\
                        Exit codes: 0 forgotten, 1 refused, 2 a wrong file or address, or no terminal to confirm on, 3 \
                        the store has no set or no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 \
                        declined.")]
pub struct ForgetArgs {
    /// Name or id of the set to forget.
    #[arg(value_name = "SET")]
    name: String,
    /// The set that is to forget it.
    #[arg(long = "in", value_name = "SET")]
    within: String,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the command.
#[derive(Serialize)]
struct Forgotten<'a> {
    set: &'a str,
    forgotten: &'a str,
    id: String,
    plan: String,
}

pub(crate) async fn forget(args: &ForgetArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut set = Cluster::connect(&args.target, args.timeout.duration()).await?.into_set(&args.within).await?;
    let own = set.info().name.clone();
    let other = set.find(&args.name)?;
    let (id, other) = (other.id, other.name.clone());
    if other == own {
        let message = format!("set {own} cannot forget itself ({})", Reason::OwnSet);
        return Err(Failure::new(Exit::Failed, message).reason(Reason::OwnSet.name()).into());
    }
    let plan = Fingerprint(set.store.forget_set(&own, id, Mode::Show).await?.fingerprint);
    let what = format!("make set {own} forget set {other} with id {id}");
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
    set.store.forget_set(&own, id, Mode::Make(plan)).await?;
    if output.is_json() {
        output.json(&Forgotten { set: &own, forgotten: &other, id: id.to_string(), plan: plan.to_string() })?;
    } else {
        output.line(format_args!(
            "set {own} has forgotten set {other}; if the set exists, it is learned again from its own store"
        ))?;
    }
    Ok(Exit::Ok)
}
