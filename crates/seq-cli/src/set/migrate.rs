//! The commands `set split`, `set merge` and `set migrate`, each of which migrates sections of a source set into a
//! target set.
//!
//! The leader of the source set's store makes the plan, for which it requests facts from the store of the target set.
//! It starts the migration only if these facts and its own state are still the same.

use std::time::Duration;

use clap::{ArgGroup, Args};
use seq_command::exit::{Exit, Failure, report_error};
use seq_command::output::Output;
use seq_command::plan::ConfirmedPlanArgs;
use seq_command::selection::{Sections, Selection, sections_text, uid};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_command::survey;
use seq_core::plan::Fingerprint;
use seq_observe::migration::{self, MigrationView, Phase};
use seq_proto::reason::Reason;
use seq_proto::v1::{ListSectionsRequest, MigrationStatus, PlanMigrationRequest, SetInfo};

use super::close;
use super::plan::PlanView;
use crate::cluster_client::{Cluster, SetClient};
use crate::migration::watch;
use crate::migration::watch::WatchOptions;
use crate::migration::{PaceArgs, report};
use crate::section;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["at", "uids", "sections"]),
          after_help = "Examples:\n  seqsvr set split im-a --at 5_000_000 --into im-b --dry-run\n  \
                        seqsvr set split im-a --at 5_000_000 --into im-b --rate 50/s --wait\n  \
                        seqsvr set split im-a --uids 3_000_000..4_000_000 --into im-b --plan 9f3c0a77d1e25b48\n\n\
                        Define the other set first, with `seqsvr set create`. Requests are served throughout, and no \
                        number is skipped. After `seqsvr migration complete` the sections stay permanently in the other \
                        set; until then `seqsvr migration rollback` returns them. The series of the set stay in it; \
                        `seqsvr set migrate --series` migrates them.\n\n\
                        Exit codes: 0 started, with --wait all sections have arrived, 1 refused, or the plan has problems, 2 a \
                        wrong range, file or address, or no terminal to confirm on, 3 a store has no set or no \
                        majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 not \
                        done within --timeout, 130 interrupted.")]
pub struct SplitArgs {
    /// The first uid to migrate, with which a section must begin; the migration also takes the sections after it, up to
    /// the next section that the set does not have.
    #[arg(long, value_name = "UID", value_parser = uid, conflicts_with_all = ["uids", "sections"])]
    at: Option<u64>,
    #[command(flatten)]
    selection: Selection,
    /// Watches until all sections have arrived.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr set merge im-b --into im-a --dry-run\n  seqsvr set merge im-b --into im-a \
                        --yes\n\n\
                        The command watches the migration, completes it and closes the set. If it is interrupted, repeat it to \
                        continue.\n\n\
                        Exit codes: 0 the set is closed, with --keep-open all sections have arrived, 1 refused, or \
                        the plan has problems, 2 a wrong file or address, or no terminal to confirm on, 3 a store has \
                        no set or no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 \
                        declined, 7 not done within --timeout, 130 interrupted."
)]
pub struct MergeArgs {
    /// Keeps the set open, without sections; the migration can be rolled back.
    #[arg(long)]
    keep_open: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["all", "uids", "sections", "series"]),
          after_help = "Examples:\n  seqsvr set migrate im-a --sections 30..40 --into im-b --wait\n  \
                        seqsvr set migrate im-a --uids 0..1_000_000 --uids 5_000_000..6_000_000 --into im-b\n  \
                        seqsvr set migrate im-a --series tweets --into im-b\n  seqsvr set migrate im-a --all --into im-b\n\n\
                        `seqsvr series show` lists the sections of a series; --sections takes them as well.\n\n\
                        Exit codes, as for `seqsvr set split`: 0 started, with --wait all sections have arrived, 1 refused, or the \
                        plan has problems, 2 a wrong range, file or address, or no terminal to confirm on, 3 a store \
                        has no set or no majority, 4 no node responded, 5 the plan is stale and nothing was changed, \
                        6 declined, 7 not done within --timeout, 130 interrupted.")]
pub struct MigrateArgs {
    /// All sections that are in the set.
    #[arg(long, conflicts_with_all = ["uids", "sections", "series"])]
    all: bool,
    #[command(flatten)]
    selection: Selection,
    /// All sections of a series that are in the set. Repeat the flag for more series.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    series: Vec<String>,
    /// Watches until all sections have arrived.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// The arguments of every migration.
#[derive(Debug, Args)]
struct CommonArgs {
    /// Name or id of the set that the sections leave.
    #[arg(value_name = "SET")]
    from: String,
    /// Name or id of the set to which the sections go.
    #[arg(long, value_name = "SET")]
    into: String,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The sections that a command migrates.
enum What {
    /// The section that begins at this uid, and the sections after it up to the next section that the source set does
    /// not have.
    From(u64),
    /// The selected sections, and the sections of the named series that are in the source set.
    Selected(Selection, Vec<String>),
    All,
}

/// Behaviour of the command after it has started a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The command returns, and the migration continues at the stores.
    Return,
    /// The command watches the migration.
    Watch,
    /// The command watches the migration, completes it and closes the set.
    Close,
}

impl Then {
    fn text(self, from: &str) -> Option<String> {
        (self == Then::Close).then(|| format!("completes the migration and closes set {from}, both permanently"))
    }
}

pub(crate) async fn split(args: SplitArgs, output: &Output) -> anyhow::Result<Exit> {
    let what = args.at.map_or(What::Selected(args.selection, Vec::new()), What::From);
    run("split", &args.common, what, if args.wait { Then::Watch } else { Then::Return }, output).await
}

pub(crate) async fn migrate(args: MigrateArgs, output: &Output) -> anyhow::Result<Exit> {
    let what = if args.all { What::All } else { What::Selected(args.selection, args.series) };
    run("migrate", &args.common, what, if args.wait { Then::Watch } else { Then::Return }, output).await
}

pub(crate) async fn merge(args: MergeArgs, output: &Output) -> anyhow::Result<Exit> {
    let common = &args.common;
    let then = if args.keep_open { Then::Watch } else { Then::Close };
    let mut set = common.connect().await?;
    if then == Then::Close && set.info().writes_series {
        return Err(common.writes_series(set.info()).into());
    }
    if common.confirm.plan.dry_run {
        return run("merge", common, What::All, then, output).await;
    }
    // If an earlier merge was interrupted, its migration is in progress or must be completed, or the empty set must be
    // closed.
    let to = set.find(&common.into)?.id;
    let migrations = set.store.migrations(None).await?;
    let begun = migrations.iter().find(|migration| {
        migration.to_set_id == to
            && !migration.is_return
            && matches!(Phase::of(migration), Phase::Open | Phase::Paused | Phase::Arrived)
    });
    match begun {
        Some(begun) if begun.sections.saturating_sub(begun.departed) == set.info().sections => {
            if !output.is_json() {
                output.line(format_args!("migration {} has already begun: {}", begun.id, migration::line(begun)))?;
            }
            end(set, begun.id, common, then, output).await
        }
        None if set.info().sections == 0 && then == Then::Close => {
            close::drained(set, Fingerprint::NONE, &common.flags(), output).await
        }
        _ => run("merge", common, What::All, then, output).await,
    }
}

impl CommonArgs {
    async fn connect(&self) -> anyhow::Result<SetClient> {
        Cluster::connect(&self.target, self.timeout.duration()).await?.into_set(&self.from).await
    }

    fn flags(&self) -> String {
        self.target.flags()
    }

    /// Returns the failure of a merge that would close the layout writer. The layout writer cannot be closed.
    fn writes_series(&self, set: &SetInfo) -> Failure {
        let (name, into) = (&set.name, &self.into);
        let message =
            format!("set {name} creates the series of the cluster, so it cannot be closed ({})", Reason::LayoutWriter);
        let hint = format!("`seqsvr set layout-writer {into}{}` hands that to set {into} first", self.flags());
        Failure::new(Exit::Failed, message).reason(Reason::LayoutWriter.name()).hint(hint)
    }
}

/// Requests the plan of a migration and shows it. Prompts for confirmation, and then starts the migration.
async fn run(
    operation: &'static str,
    args: &CommonArgs,
    what: What,
    then: Then,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mut set = args.connect().await?;
    let target = set.find(&args.into)?.clone();
    let to = target.id.to_string();
    let pace = args.pace.pace(false);
    let request = PlanMigrationRequest { to, pace: Some(pace), ..selected(&mut set, what).await? };
    let response = set.store.plan(request).await?;
    let Some(plan) = response.plan.clone() else {
        return Err(Failure::new(Exit::Failed, "the response of the store has no plan").into());
    };
    let mut view = PlanView::new(operation, args.confirm.plan.dry_run, set.info(), &response, &pace)?;
    if response.problems.is_empty() {
        view.count_leased(survey::leased(&target.name, &target.allocs).await);
    }
    let is_shown = !output.is_json();
    if is_shown {
        output.text(&view.render(output.is_wide(), then.text(&args.from).as_deref()))?;
    }
    if !view.problems().is_empty() {
        if output.is_json() {
            output.json(&view)?;
        }
        report_error(&format_args!("this migration is not possible: {}", view.problems().join("; ")));
        return Ok(Exit::Failed);
    }
    args.confirm.plan.check(Fingerprint(plan.fingerprint))?;
    if args.confirm.plan.dry_run {
        if output.is_json() {
            output.json(&view)?;
        }
        return Ok(Exit::Ok);
    }
    if !args.confirm.confirmed(&view.effect())? {
        return Ok(Exit::Declined);
    }
    set.store.restart_time();
    let migration = set.store.start_migration(plan, pace).await?;
    if output.is_json() {
        view.migration = Some(MigrationView::new(&migration));
        output.json(&view)?;
    } else {
        started(&migration, then, &args.flags(), output)?;
    }
    if then == Then::Return { Ok(Exit::Ok) } else { end(set, migration.id, args, then, output).await }
}

/// Returns a request for the plan of a migration of the sections `what`. The caller sets the target set and the pace.
async fn selected(set: &mut SetClient, what: What) -> anyhow::Result<PlanMigrationRequest> {
    let layout = Sections::of(set.info())?;
    let mut request = PlanMigrationRequest::default();
    match what {
        What::All => request.all = true,
        What::Selected(selection, series) => (request.runs, request.series) = (layout.runs(&selection)?, series),
        What::From(uid) => {
            let summary = ListSectionsRequest { summarize: true, ..ListSectionsRequest::default() };
            let records = section::fetch(&mut set.store, summary, None).await?;
            request.runs = layout.run_from(uid, &set.info().name, &records)?;
        }
    }
    Ok(request)
}

fn started(migration: &MigrationStatus, then: Then, flags: &str, output: &Output) -> std::io::Result<()> {
    let MigrationStatus { id, from, to, sections, .. } = migration;
    output
        .line(format_args!("migration {id} has started: {} from set {from} to set {to}", sections_text(*sections)))?;
    if then == Then::Return { output.line(format_args!("  watch it: {}", watch::command(*id, flags))) } else { Ok(()) }
}

/// Watches a migration until all sections have arrived. If `then` is [`Then::Close`], also completes the migration and
/// closes the source set.
async fn end(mut set: SetClient, id: u64, args: &CommonArgs, then: Then, output: &Output) -> anyhow::Result<Exit> {
    let options = WatchOptions { timeout: None::<Duration>, flags: args.flags() };
    let migration = watch::watch(&mut set.store, id, &options, output).await?;
    if Phase::of(&migration) == Phase::RolledBack {
        let message = format!("migration {id} was rolled back: its sections are in set {} again", migration.from);
        return Err(Failure::new(Exit::Failed, message).into());
    }
    if then == Then::Watch {
        return report(&migration, &options.flags, output);
    }
    set.store.restart_time();
    let migration = set.store.complete(id).await?;
    if !output.is_json() {
        let sections = sections_text(migration.sections);
        output
            .line(format_args!("migration {id} is completed: {sections} stay in set {} permanently", migration.to))?;
    }
    close::drained(set, Fingerprint::NONE, &options.flags, output).await
}
