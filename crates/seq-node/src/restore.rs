//! The command `restore`. It creates the data directory of one store from a backup, before this store is started. The
//! command shows its plan, and carries it out once the operator has confirmed it.

use std::path::PathBuf;

use clap::Args;
use seq_command::ended_migrations::{EndedMigration, ended_migrations};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits, grouped};
use seq_command::plan::ConfirmedPlanArgs;
use seq_command::set_file::{self, SetFile};
use seq_command::target::load_set;
use seq_command::{survey, utc};
use seq_core::{Lineage, limits};
use seq_kit::wall_clock;
use seq_load::outcome::Chain;
use seq_store::backup::{Backup, RestoreConfig, RestoreError, RestorePlan, Restored, check_clock, least_count};
use serde::Serialize;

use crate::backup::{lineage, read};
use crate::restore_count::{self, Asked, Note, Notes, Witness, decide};

#[derive(Debug, Args)]
#[command(after_help = "Example, with all stores of the set stopped and their old directories moved away:\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 1 --data /var/lib/seqsvr/s1 --count 1   (on host 1)\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 2 --data /var/lib/seqsvr/s2 --count 1   (and so on)\n  \
                        seqsvr store --set three-node.toml --id 1 --data /var/lib/seqsvr/s1                                   (then each)\n\n\
                        Restore every store of the set from the same file with the same count, once, before the first of \
                        them starts. Never start an old data directory again, and never restore one store alone while others \
                        run: `seqsvr store replace` is for that. A restore is refused while a store of the set sees a majority.\n\n\
                        Restores of all sets of a cluster count together. The numbers that were allocated since the backup are \
                        skipped by a margin of 2^40 for each user and each count since, so a count that was used before \
                        allocates numbers again, and a larger count is a larger margin. Without --count the count is taken from \
                        the stores of other sets, if any of them responds. Each restore is noted next to the backup, in \
                        CLUSTER.restores: keep that file with the backups.\n\n\
                        Exit codes: 0 restored, 1 the set is alive, the count was used, or the directory cannot be written, 2 the backup, the set \
                        file or the directory is wrong, or there is no terminal to confirm on, and nothing was written, 5 the \
                        plan has changed, 6 declined.")]
pub struct RestoreArgs {
    /// The backup to restore from.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The set file, whose stores are the members of the restored store.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    /// Id of the store to restore.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    id: u64,
    /// The store's data directory, which must be missing or empty.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The count of this restore, above the count of every restore of any set of the cluster. Without the flag it is
    /// taken from the stores of other sets.
    #[arg(long, value_name = "N", required_if_eq("offline", "true"), value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Connects to no node, so it checks neither whether the set is alive nor whether the count was used.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
}

/// A restore that is planned or carried out, as the command prints it.
#[derive(Serialize)]
struct View<'a> {
    set: &'a str,
    id: u64,
    data: String,
    created: String,
    age_s: u64,
    #[serde(serialize_with = "digits")]
    backup_lineage: u64,
    #[serde(serialize_with = "digits")]
    lineage: u64,
    /// The count of this restore, which is the number of restores in the new lineage
    /// ([`Lineage::restores`](seq_core::Lineage::restores)).
    count: u32,
    quarantined: u32,
    /// Migrations that were not complete when the backup was made. The restore ends them.
    migrations: Vec<EndedMigration>,
    #[serde(serialize_with = "digits")]
    margin: u64,
    /// Present time of this machine's clock. It is present only if the backup has series whose ids contain a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
    /// Average number of raises per second, from the start of the store that made the backup until the backup was made;
    /// `null` if it is unknown.
    raises_per_second: Option<f64>,
    /// Upper bound of the count of numbers that any single section has allocated since the backup, if the raises went
    /// on at the average rate and all of them were raises of this section.
    #[serde(serialize_with = "digits")]
    numbers_since: u64,
    /// Hash of the state with which the restored stores begin. It is the same for all stores of the set.
    content: String,
    /// Path of the file in which the count of this restore is recorded.
    notes: String,
    /// Names of the stores of the set that respond. They are not a majority.
    stores: Vec<String>,
    /// Nodes that respond and know of restores, each with the highest count of a restore that it knows.
    witnesses: Vec<Witness>,
    plan: String,
    dry_run: bool,
}

pub fn run(args: &RestoreArgs, output: &Output) -> anyhow::Result<Exit> {
    let set = if args.offline { set_file::read(&args.set)? } else { load_set(&args.set)? };
    let backup = read(&args.from)?;
    let notes = Notes::beside(&args.from, &set.cluster())?;
    let (stores, witnesses) = match args.offline {
        true => (Vec::new(), Vec::new()),
        false => seq_command::client_runtime()?.block_on(ask(&set, &backup))?,
    };
    let checksum = backup.checksum_text();
    let (lineage, revision) = (backup.header.lineage, backup.header.revision);
    let position = (Lineage(lineage), revision);
    let asked = Asked { set: &set.spec.name, store: args.id, backup: &checksum, least: least_count(&backup), position };
    let count = decide(args.count, &asked, &notes, &witnesses)?;
    let config =
        RestoreConfig { cluster: set.cluster(), spec: set.spec.clone(), id: args.id, dir: args.data.clone(), count };
    let failed = |error: RestoreError| {
        let exit = if error.may_have_written() { Exit::Failed } else { Exit::Usage };
        Failure::new(exit, format!("store {} of set {} is not restored: {}", args.id, config.spec.name, Chain(&error)))
    };
    check_clock(&backup, wall_clock::now_ms()).map_err(failed)?;
    let plan = RestorePlan::new(&backup, &config).map_err(failed)?;
    let nodes = (stores, witnesses, notes.path.display().to_string());
    let view = View::new(args, &set, &backup, &plan, nodes);
    args.confirm.plan.check(plan.fingerprint())?;
    if !output.is_json() {
        view.render(output)?;
    }
    if args.confirm.plan.dry_run {
        if output.is_json() {
            output.json(&view)?;
        }
        return Ok(Exit::Ok);
    }
    let what = format!("restore store {} of set {} in {}", args.id, config.spec.name, view.data);
    if !args.confirm.confirmed(&what)? {
        return Ok(Exit::Declined);
    }
    // The count is recorded before the directory is written, because a count under which any data were written must
    // never be used again.
    let (set, at) = (view.set.to_owned(), utc::text(utc::now()));
    let note = Note { count, set, store: args.id, backup: checksum, lineage, revision, at };
    notes.add(&note)?;
    if let Err(error) = plan.carry_out() {
        if !error.may_have_written() {
            notes.take_back()?;
        }
        return Err(failed(error).into());
    }
    if output.is_json() {
        output.json(&view)?;
        return Ok(Exit::Ok);
    }
    output.line(format_args!("store {} of set {} is restored in {}", view.id, view.set, view.data))?;
    output.line(format_args!(
        "the count of this restore is {count}, noted in {}; keep that file next to the backups",
        view.notes
    ))?;
    output.line(format_args!(
        "next: restore the other stores from the same file with --count {count}, check that `content` is the same, then start \
         all of them"
    ))?;
    Ok(Exit::Ok)
}

/// Requests the state of the set's stores, to check that the set is not alive, and the counts of earlier restores from
/// all nodes that may know such counts. Returns the names of the stores that respond, and the nodes that know of
/// restores.
///
/// # Errors
/// A majority of the set's stores responds, so the set is alive.
async fn ask(set: &SetFile, backup: &Backup) -> Result<(Vec<String>, Vec<Witness>), Failure> {
    let stores = survey::stores(set).await;
    survey::refuse_alive(set, &stores)?;
    let stores = stores.into_iter().map(|store| store.name).collect();
    let (_, witnesses) = restore_count::ask(set, &backup.state().0).await;
    Ok((stores, witnesses))
}

impl<'a> View<'a> {
    fn new(
        args: &RestoreArgs,
        set: &'a SetFile,
        backup: &Backup,
        plan: &RestorePlan<'_>,
        (stores, witnesses, notes): (Vec<String>, Vec<Witness>, String),
    ) -> View<'a> {
        let Restored { lineage, backup: before, quarantined, margin, content } = plan.restored();
        let header = &backup.header;
        let now = utc::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let age_s = now.as_secs().saturating_sub(header.created_unix_ms / 1_000);
        let raises_per_second =
            (header.raises_ms > 0).then(|| header.raises as f64 * 1_000.0 / header.raises_ms as f64);
        let raises_since = raises_per_second.unwrap_or_default() * age_s as f64;
        View {
            set: &set.spec.name,
            id: args.id,
            data: args.data.display().to_string(),
            created: utc::text_of_ms(header.created_unix_ms),
            age_s,
            backup_lineage: before.0,
            lineage: lineage.0,
            count: lineage.restores(),
            quarantined,
            migrations: ended_migrations(&backup.state().0),
            margin,
            clock: backup.state().0.follows_clock().then(|| utc::text(utc::now())),
            raises_per_second,
            numbers_since: (raises_since.ceil() as u64).saturating_mul(set.spec.step),
            content: content[..8].iter().map(|byte| format!("{byte:02x}")).collect(),
            notes,
            stores,
            witnesses,
            plan: plan.fingerprint().to_string(),
            dry_run: args.confirm.plan.dry_run,
        }
    }

    fn render(&self, output: &Output) -> std::io::Result<()> {
        let mut table = Table::new(&[]);
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row("store", format!("{} of set {}, in {}", self.id, self.set, self.data));
        row("backup", format!("of {}, {} old", self.created, utc::age(self.age_s)));
        row("lineage", format!("{}, after {}", lineage(self.lineage), self.backup_lineage));
        row("count", format!("{}, noted in {}", self.count, self.notes));
        row("content", format!("{}, the same for all stores of the set", self.content));
        row(
            "quarantine",
            format!(
                "{} sections serve nothing until every other set of the cluster has fenced the older lineages",
                grouped(self.quarantined.into())
            ),
        );
        for migration in &self.migrations {
            row("migration", migration.text());
        }
        if self.quarantined > 0 {
            let later =
                "migrations begun since the backup are forgotten; sections that arrived in another set stay there";
            row("migrations", later.to_owned());
        }
        row("margin", format!("every ceiling rises by {} numbers or more", grouped(self.margin)));
        let since = match self.raises_per_second {
            Some(rate) => format!(
                "up to {} numbers at about {rate:.1} raises a second, {} times less than the margin",
                grouped(self.numbers_since),
                grouped(self.margin / self.numbers_since.max(1))
            ),
            None => "the rate of raises is unknown; no user may have got as many numbers as the margin".to_owned(),
        };
        row("since then", since);
        if let Some(clock) = &self.clock {
            let text = format!(
                "{clock}: ids with a time begin above the clock of the stores; it may not be more than {} s behind any \
                 clock that the set's stores had before",
                limits::MAX_CLOCK_SPREAD_MS / 1_000
            );
            row("clock", text);
        }
        if !self.stores.is_empty() {
            row("still running", format!("stores {}, which see no majority: stop them", self.stores.join(", ")));
        }
        for Witness { name, count, .. } in &self.witnesses {
            row("known", format!("{name} knows of restores up to {count}"));
        }
        row("plan", self.plan.clone());
        output.table(&table)
    }
}
