//! Forms the data directory of one store from a backup, before the store starts: shows the plan, and carries it out
//! once it is confirmed.

use std::path::PathBuf;

use clap::Args;
use seq_command::ended_migrations::{EndedMigration, ended_migrations};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits, grouped};
use seq_command::plan::ConfirmedPlanArgs;
use seq_command::set_file::{self, SetFile};
use seq_command::target::load_set;
use seq_command::{survey, utc};
use seq_core::Lineage;
use seq_load::outcome::Chain;
use seq_store::backup::{Backup, RestoreConfig, RestoreError, RestorePlan, Restored, least_count};
use serde::Serialize;

use crate::backup::{lineage, read};
use crate::restore_count::{self, Asked, Note, Notes, Witness, decide};

#[derive(Debug, Args)]
#[command(after_help = "Example, with all stores of the set stopped and their old directories moved away:\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 1 --data /var/lib/seqsvr/s1 --count 1   (on host 1)\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 2 --data /var/lib/seqsvr/s2 --count 1   (and so on)\n  \
                        seqsvr store --set three-node.toml --id 1 --data /var/lib/seqsvr/s1                                   (then each)\n\n\
                        Restore every store of the set from the same file with the same count, once, before the first of \
                        them starts. Never start a data directory of before again, and never restore one store alone while \
                        others run: `seqsvr store replace` is for that. A set of which a store sees a majority is refused.\n\n\
                        Restores of all sets of a cluster count together. The numbers that were allocated since the backup are \
                        skipped by a margin of 2^40 for each user and each count since, so a count that was used before \
                        allocates numbers again, and a larger one is a larger margin. Without --count it is taken from the \
                        stores of other sets, where one responds. Each restore is noted beside the backup, in \
                        CLUSTER.restores: keep that file with the backups.\n\n\
                        Exit codes: 0 restored, 1 the set is alive, the count was used, or the directory cannot be written, 2 the backup, the set \
                        file or the directory is not as it must be, or no terminal to confirm on, and nothing was written, 5 the \
                        plan is another one, 6 declined.")]
pub struct RestoreArgs {
    /// The backup.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The set file: its stores are the members of the restored store.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    /// Which of the set's stores to restore.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    id: u64,
    /// The store's data directory; missing or empty.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The count of this restore: above that of every restore of any set of the cluster. Taken from the stores of other
    /// sets where it is missing.
    #[arg(long, value_name = "N", required_if_eq("offline", "true"), value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Connects to no node: whether the set is alive, and whether the count was used, is not checked.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
}

/// What a restore does, or did.
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
    /// As [`Lineage::restores`](seq_core::Lineage::restores).
    count: u32,
    quarantined: u32,
    /// Migrations that were open in the backup, which the restore ends.
    migrations: Vec<EndedMigration>,
    #[serde(serialize_with = "digits")]
    margin: u64,
    /// Raises a second when the backup was made, over the time that its store had run; `null` where that is not known.
    raises_per_second: Option<f64>,
    /// Numbers of those raises since the backup, if all were of one section.
    #[serde(serialize_with = "digits")]
    numbers_since: u64,
    /// Hash of all that the group begins with: the same for all its stores.
    content: String,
    /// Where the count is noted.
    notes: String,
    /// Stores of the set that respond, without a majority.
    stores: Vec<String>,
    /// Nodes that respond and know of restores, and the highest count of each.
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
    // Before the directory: a count under which anything was written is never used again.
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
    output
        .line(format_args!("this restore counts {count}: noted in {}, which belongs beside the backups", view.notes))?;
    output.line(format_args!(
        "next: restore the other stores from the same file with --count {count}, where `content` is the same, then start all of \
         them"
    ))?;
    Ok(Exit::Ok)
}

/// Asks the nodes that may know of the set: its stores, which are not to be alive, and those that know of restores.
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
            let later = "those begun since the backup are forgotten: what arrived in another set stays there";
            row("migrations", later.to_owned());
        }
        row("margin", format!("every ceiling rises by {} numbers or more", grouped(self.margin)));
        let since = match self.raises_per_second {
            Some(rate) => format!(
                "about {rate:.1} raises a second then: up to {} numbers since, {} times less than the margin",
                grouped(self.numbers_since),
                grouped(self.margin / self.numbers_since.max(1))
            ),
            None => "the rate of raises is not known; no user may have got as many numbers as the margin".to_owned(),
        };
        row("since then", since);
        if !self.stores.is_empty() {
            row("still running", format!("stores {}: stop them, they see no majority", self.stores.join(", ")));
        }
        for Witness { name, count, .. } in &self.witnesses {
            row("known", format!("{name} knows of restores up to {count}"));
        }
        row("plan", self.plan.clone());
        output.table(&table)
    }
}
