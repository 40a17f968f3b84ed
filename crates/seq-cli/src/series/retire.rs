//! The command `series retire`, which ends a series permanently.

use clap::Args;
use seq_command::exit::Exit;
use seq_command::output::Output;
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_core::plan::Fingerprint;
use serde::Serialize;

use super::view::{SeriesView, State};
use crate::cluster_client::Cluster;
use crate::settle::{self, Wanted};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr series retire tweets --dry-run\n  seqsvr series retire tweets\n  \
                        seqsvr series retire tweets --yes -o json    (in scripts)\n\n\
                        Ids that were given out stay unique, and `seqsvr id decode` still reads them. The series stays in the \
                        list, because a second use of its name could repeat ids.\n\n\
                        Exit codes: 0 retired, 1 refused (UNKNOWN_SERIES, OLD_FORMAT), 2 a wrong file or address, or no \
                        terminal to confirm on, 3 the store has no set or no majority, 4 no node responded, 5 the plan is \
                        stale and nothing was changed, 6 declined, 7 not done within --timeout.")]
pub struct RetireArgs {
    /// Name of the series.
    #[arg(value_name = "SERIES")]
    name: String,
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
    set: &'a str,
    series: &'a SeriesView,
    dry_run: bool,
    /// Addresses of the AllocSvrs that have not adopted the change yet.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pending: &'a [String],
    /// Whether the series was retired by this command.
    changed: bool,
    /// Fingerprint of the plan of this change. It is absent if the series was retired before.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(super) async fn run(args: &RetireArgs, output: &Output) -> anyhow::Result<Exit> {
    let name = args.name.as_str();
    let cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let dry_run = async |store: &mut StoreClient| store.retire_series(name, Mode::Show).await;
    let (mut set, foreseen) = cluster.into_series_writer(dry_run).await?;
    let view = SeriesView::stated(foreseen.series.as_ref())?;
    let was_retired = view.state == State::Retired;
    let (own, plan) = (set.info().name.clone(), Fingerprint(foreseen.fingerprint));
    let dry_run = args.confirm.plan.dry_run;
    let outcome = |view, changed, pending| Outcome {
        set: &own,
        series: view,
        dry_run,
        changed,
        pending,
        plan: plan::digits(plan).filter(|_| !was_retired),
    };
    if !output.is_json() {
        view.lines().into_iter().try_for_each(|line| output.line(line))?;
        if was_retired {
            output.line(format_args!("nothing to do: series {name} is retired"))?;
        } else if dry_run {
            output
                .line(format_args!("series {name} would give out no more ids, and its name would not be used again"))?;
            plan::print(plan, output)?;
        } else {
            plan::print(plan, output)?;
        }
    }
    if !was_retired {
        args.confirm.plan.check(plan)?;
    }
    if was_retired || dry_run {
        if output.is_json() {
            output.json(&outcome(&view, false, &[]))?;
        }
        return Ok(Exit::Ok);
    }
    if !args.confirm.typed("series", name, &format!("retire series {name} permanently"))? {
        return Ok(Exit::Declined);
    }
    set.store.restart_time();
    let made = set.store.retire_series(name, Mode::Make(plan)).await?;
    let pending = settle::until_known(&set.sets, Wanted::Series(name, true), output).await;
    if output.is_json() {
        output.json(&outcome(&SeriesView::stated(made.series.as_ref())?, made.retired, &pending))?;
    } else {
        settle::note_pending(&pending);
        output.line(format_args!("series {name} is retired: it gives out no more ids"))?;
    }
    Ok(Exit::Ok)
}
