//! The command `migration`, which shows and changes migrations of sections between sets.
//!
//! Each command finds a migration from any node of the cluster. The user may shorten the id of a migration to its first
//! digits, if no other id begins with them. All changes are idempotent, so an interrupted command can be repeated to
//! complete the change.

use std::time::Duration;

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, grouped};
use seq_command::plan::ConfirmArgs;
use seq_command::selection::sections_text;
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_command::time_limit::time;
use seq_observe::migration::{MigrationView, Phase, done, line};
use seq_proto::v1::{MigrationPace, MigrationStatus, SetState};

use crate::cluster_client::{Cluster, Found, SetClient};

pub(crate) mod watch;

use watch::WatchOptions;

/// The commands for migrations.
#[derive(Debug, Subcommand)]
pub enum MigrationCommand {
    /// Lists the migrations of all sets of the cluster.
    #[command(after_help = "Example:\n  seqsvr migration list --set sets/two/a.toml\n\n\
                      Exit codes: 0 listed, 2 a wrong file or address, 3 a set does not respond, and the others are \
                      listed; or the store has no majority, 4 no node responded, 7 not done within --timeout.")]
    List(ListArgs),
    /// Shows the progress of a migration until all its sections have arrived, or returned.
    Watch(WatchArgs),
    /// Lets no more sections depart until the migration is resumed; departed sections still arrive.
    Pause(PauseArgs),
    /// Lets sections of a paused migration depart again, or changes its pace.
    Resume(ResumeArgs),
    /// Returns all sections of a migration to the set that they left.
    Rollback(EndArgs),
    /// Ends a migration whose sections have arrived; afterwards it cannot be rolled back.
    Complete(CompleteArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The migration that a command changes.
#[derive(Debug, Args)]
struct Named {
    /// Id of the migration, or its first digits.
    #[arg(value_name = "ID", value_parser = id_digits)]
    id: String,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr migration watch    (if one is in progress)\n  \
                        seqsvr migration watch 4711 --addr http://127.0.0.1:7301\n  \
                        seqsvr migration watch 4711 -o json | jq .phase    (an object a second)\n\n\
                        On a terminal the command draws a bar; elsewhere it prints a line every second. Changes of the \
                        store's leader, and members that do not respond, only delay it. Ctrl-C ends the command, not \
                        the migration.\n\n\
                        Exit codes: 0 all sections have arrived or returned, 1 there is no such migration, 2 a wrong \
                        file or address, 3 the store has no majority, 4 no node responded, 7 still under way after \
                        --timeout, 130 interrupted.")]
pub struct WatchArgs {
    /// Id of the migration, or its first digits; without an id, the only migration in progress.
    #[arg(value_name = "ID", value_parser = id_digits)]
    id: Option<String>,
    #[command(flatten)]
    target: SetAddress,
    /// Stops watching after this time.
    #[arg(long, value_name = "TIME", alias = "timeout-s", value_parser = time)]
    timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr migration pause 4711\n\n\
                        Exit codes: 0 paused, 1 refused, 2 a wrong file or address, 3 the store has no majority, 4 no \
                        node responded, 7 not done within --timeout.")]
pub struct PauseArgs {
    #[command(flatten)]
    migration: Named,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr migration resume 4711\n  seqsvr migration resume 4711 --rate 20\n\n\
                        Exit codes: 0 resumed, 1 refused, 2 a wrong file or address, 3 the store has no \
                        majority, 4 no node responded, 7 not done within --timeout.")]
pub struct ResumeArgs {
    #[command(flatten)]
    migration: Named,
    #[command(flatten)]
    pace: PaceArgs,
}

/// The pace of a migration.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PaceArgs {
    /// Sections per second; by default 200 for a new migration, and otherwise unchanged.
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<u32>,
    /// Accepted pause of a section in milliseconds; a longer pause halves the rate for a while. By default 100 for a
    /// new migration, and otherwise unchanged.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    max_pause_ms: Option<u32>,
}

impl PaceArgs {
    /// Returns the pace for a request to the store. A value that the user did not give is 0, so that the store leaves
    /// it unchanged or uses its default.
    pub(crate) fn pace(self, paused: bool) -> MigrationPace {
        MigrationPace { rate: self.rate.unwrap_or(0), max_pause_ms: self.max_pause_ms.unwrap_or(0), paused }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr migration rollback 4711 --wait\n\n\
                        Sections that have arrived return one after the other while requests are served; no number is \
                        skipped. A completed migration cannot be rolled back; migrate its sections back instead. \
                        A set that is closing takes no sections back: its migration ends with the departed sections, and \
                        the remaining sections can migrate to another set.\n\n\
                        Exit codes: 0 the sections return, with --wait they have returned, 1 refused, 2 a wrong file or address, \
                        or no terminal to confirm on, 3 the store has no majority, 4 no node responded, 6 declined, 7 \
                        not done within --timeout, 130 interrupted.")]
pub struct EndArgs {
    #[command(flatten)]
    migration: Named,
    #[command(flatten)]
    confirm: ConfirmArgs,
    /// Watches until all sections have returned.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr migration complete 4711\n\n\
                        Exit codes: 0 completed, 1 refused, 2 a wrong file or address, or no terminal to confirm on, \
                        3 the store has no majority, 4 no node responded, 6 declined, 7 not done within --timeout.")]
pub struct CompleteArgs {
    #[command(flatten)]
    migration: Named,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

fn id_digits(text: &str) -> Result<String, String> {
    let is_id = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| text.to_owned()).ok_or_else(|| "the id of a migration has decimal digits".to_owned())
}

/// Parses a rate such as "50" or "50/s".
fn rate(text: &str) -> Result<u32, String> {
    let rate = text.strip_suffix("/s").unwrap_or(text).parse().ok().filter(|rate| *rate > 0);
    rate.ok_or_else(|| "it must be a number of sections per second, 1 or more".to_owned())
}

pub fn run(command: MigrationCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            MigrationCommand::List(args) => list(&args, output).await,
            MigrationCommand::Watch(args) => watch(&args, output).await,
            MigrationCommand::Pause(args) => {
                set_pace(&args.migration, MigrationPace { paused: true, ..MigrationPace::default() }, output).await
            }
            MigrationCommand::Resume(args) => set_pace(&args.migration, args.pace.pace(false), output).await,
            MigrationCommand::Rollback(args) => rollback(&args, output).await,
            MigrationCommand::Complete(args) => complete(&args, output).await,
        }
    })
}

impl Named {
    async fn find(&self) -> anyhow::Result<(SetClient, MigrationStatus)> {
        Cluster::connect(&self.target, self.timeout.duration()).await?.into_migration(&self.id).await
    }
}

async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut cluster = Cluster::connect(&args.target, args.timeout.duration()).await?;
    let Found { migrations, silent } = cluster.migrations().await?;
    let exit = if silent == 0 { Exit::Ok } else { Exit::Unhealthy };
    if output.is_json() {
        output.json_items(&migrations.iter().map(MigrationView::new).collect::<Vec<_>>())?;
        return Ok(exit);
    }
    if migrations.is_empty() {
        output.line("no migrations")?;
    } else {
        output.table(&table(&migrations, output.is_wide()))?;
    }
    for migration in migrations.iter().filter(|migration| !migration.stuck.is_empty()) {
        output.line(format_args!("{} is stuck: {}", migration.id, migration.stuck))?;
    }
    Ok(exit)
}

fn table(migrations: &[MigrationStatus], wide: bool) -> Table {
    let heading = [
        "id",
        "from",
        "to",
        "phase",
        "stuck",
        "done",
        "sections",
        "per s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "started",
        "ended",
        "rate",
        "in flight",
    ];
    let columns = if wide { heading.len() } else { heading.len() - 2 };
    let right: Vec<usize> = (5..11).chain(13..columns).collect();
    let mut table = Table::new(&heading[..columns]).right(&right);
    let time = |ms| seq_command::utc::text_if_known(ms).unwrap_or_else(|| "-".to_owned());
    let millis = |us: u64| if us == 0 { "-".to_owned() } else { format!("{:.1}", us as f64 / 1_000.0) };
    for migration in migrations {
        let kind = if migration.is_return { " (return)" } else { "" };
        let more = [grouped(migration.pace.unwrap_or_default().rate.into()), grouped(migration.in_flight.into())];
        let cells = [
            migration.id.to_string(),
            migration.from.clone(),
            migration.to.clone(),
            format!("{}{kind}", Phase::of(migration).name()),
            if migration.stuck.is_empty() { "-" } else { "yes" }.to_owned(),
            grouped(done(migration).into()),
            grouped(migration.sections.into()),
            if Phase::of(migration).moves() { format!("{:.1}", migration.sections_per_second) } else { "-".to_owned() },
            millis(migration.pause_p50_us),
            millis(migration.pause_p99_us),
            millis(migration.pause_max_us),
            time(migration.started_unix_ms),
            time(migration.ended_unix_ms),
        ];
        table.row(cells.into_iter().chain(wide.then_some(more).into_iter().flatten()));
    }
    table
}

async fn watch(args: &WatchArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut cluster = Cluster::connect(&args.target, TimeoutArgs::DEFAULT).await?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => only_one(&mut cluster).await?,
    };
    let (mut set, migration) = cluster.into_migration(&id).await?;
    let options = WatchOptions { timeout: args.timeout, flags: args.target.flags() };
    let migration = watch::watch(&mut set.store, migration.id, &options, output).await?;
    report(&migration, &options.flags, output)
}

/// Returns the id of the migration that is in progress, if there is exactly one in the cluster.
///
/// # Errors
/// No migration or several migrations are in progress.
async fn only_one(cluster: &mut Cluster) -> anyhow::Result<String> {
    let found = cluster.migrations().await?;
    let moving: Vec<String> = (found.migrations.iter())
        .filter(|migration| Phase::of(migration).moves())
        .map(|migration| migration.id.to_string())
        .collect();
    match moving.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::new(Exit::Failed, "no migration is in progress")
            .hint("`seqsvr migration list` lists the migrations that are over")
            .into()),
        ids => Err(Failure::new(Exit::Usage, format!("{} migrations are in progress", ids.len()))
            .hint(format!("name one of {}", ids.join(", ")))
            .into()),
    }
}

/// Prints the outcome of a migration that the command has watched to its end. Prints nothing if the command prints
/// JSON, because the watch has printed the migration's last status already.
pub(crate) fn report(migration: &MigrationStatus, flags: &str, output: &Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        return Ok(Exit::Ok);
    }
    let MigrationStatus { id, from, to, .. } = migration;
    let sections = sections_text(migration.sections);
    output.line(match Phase::of(migration) {
        Phase::RolledBack => format!("migration {id} is rolled back: all sections are in set {from} again"),
        Phase::Completed => format!("migration {id} is completed: {sections} stay in set {to} permanently"),
        _ => format!(
            "migration {id} has arrived: {sections} in set {to}{}\n  \
             `seqsvr migration complete {id}{flags}` keeps them there\n  \
             `seqsvr migration rollback {id}{flags}` returns them",
            watch_details(migration)
        ),
    })?;
    Ok(Exit::Ok)
}

fn watch_details(migration: &MigrationStatus) -> String {
    let details = seq_observe::migration::details(migration);
    if details.is_empty() { details } else { format!(";{}", &details[1..]) }
}

async fn set_pace(named: &Named, pace: MigrationPace, output: &Output) -> anyhow::Result<Exit> {
    let (mut set, migration) = named.find().await?;
    let migration = set.store.set_pace(migration.id, pace).await?;
    show(&migration, output)
}

/// Prints the state of a migration after a change.
fn show(migration: &MigrationStatus, output: &Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        output.json(&MigrationView::new(migration))?;
    } else {
        output.line(format_args!("migration {}: {}", migration.id, line(migration)))?;
    }
    Ok(Exit::Ok)
}

async fn rollback(args: &EndArgs, output: &Output) -> anyhow::Result<Exit> {
    let (mut set, migration) = args.migration.find().await?;
    let MigrationStatus { id, from, to, .. } = &migration;
    let (id, returned) = (*id, Phase::of(&migration));
    let departed = sections_text(migration.departed);
    let what = match set.info().state() {
        SetState::Closing => {
            format!(
                "end migration {id} with {departed} permanently in set {to}, because set {from} is closing and takes none back"
            )
        }
        _ => format!("return {departed} of migration {id} from set {to} to set {from}"),
    };
    // A migration that is already being rolled back, or was rolled back, needs no confirmation. The store decides
    // whether any other migration can be rolled back.
    if !matches!(returned, Phase::RollingBack | Phase::RolledBack)
        && let Err(exit) = args.confirm.proceeds(&what, output)?
    {
        return Ok(exit);
    }
    set.store.restart_time();
    let migration = set.store.rollback(id).await?;
    if !args.wait {
        return show(&migration, output);
    }
    let options = WatchOptions { timeout: None, flags: args.migration.target.flags() };
    let migration = watch::watch(&mut set.store, id, &options, output).await?;
    report(&migration, &options.flags, output)
}

async fn complete(args: &CompleteArgs, output: &Output) -> anyhow::Result<Exit> {
    let (mut set, migration) = args.migration.find().await?;
    let (id, sections) = (migration.id, sections_text(migration.sections));
    let what = format!("keep {sections} of migration {id} permanently in set {}", migration.to);
    if Phase::of(&migration) != Phase::Completed
        && let Err(exit) = args.confirm.proceeds(&what, output)?
    {
        return Ok(exit);
    }
    set.store.restart_time();
    let migration = set.store.complete(id).await?;
    show(&migration, output)
}
