//! Forms the data directory of one store from a backup, before the store starts: shows the plan, and carries it out once it is
//! confirmed.

use std::path::PathBuf;

use clap::Args;
use seq_core::{Epoch, limits};
use seq_store::backup::{Backup, RestoreConfig, RestoreError, RestorePlan, Restored};
use serde::Serialize;

use crate::backup::{lineage, read};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table, digits, grouped};
use crate::plan::ConfirmedPlanArgs;
use crate::set_file::SetFile;
use crate::store_client::{load, read_set};
use crate::survey;
use crate::target::Chain;
use crate::unsafe_command::confirm_set;
use crate::utc;

#[derive(Debug, Args)]
#[command(after_help = "Example, with all stores of the set stopped and their old directories moved away:\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 1 --data /var/lib/seqsvr/s1   (on host 1)\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 2 --data /var/lib/seqsvr/s2   (and so on)\n  \
                        seqsvr store --set three-node.toml --id 1 --data /var/lib/seqsvr/s1                         (then each)\n\n\
                        Restore every store of the set from the same file with the same --nth, once, before the first of \
                        them starts. Never start a data directory of before again, and never restore one store alone while \
                        others run: `seqsvr store replace` is for that. A set of which a store sees a majority is refused.\n\n\
                        The numbers that were allocated since the backup are skipped by a margin of 2^40 for each user, and \
                        the margin counts restores. A second restore of the same backup needs --nth 2, a third --nth 3: \
                        under the same number it allocates the numbers of the restore before again. A backup that was made \
                        after a restore counts that restore already.\n\n\
                        Exit codes: 0 restored, 1 the set is alive, or the directory cannot be written, 2 the backup, the set \
                        file or the directory is not as it must be, or no terminal to confirm on, and nothing was written, 5 the \
                        plan is another one, 6 declined.")]
pub(crate) struct RestoreArgs {
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
    /// Which restore since the backup was made this is, also counting those of older backups.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    nth: u32,
    /// By how many numbers each restore raises the ceilings: auto is 2^40; a smaller number only by `seqsvr unsafe restore`.
    #[arg(long, value_name = "N", default_value = "auto", value_parser = bump)]
    bump: Bump,
    /// Connects to no node: whether the set is alive is not checked.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
}

/// The margin of a restore; `None`: the default.
#[derive(Clone, Copy, Debug)]
struct Bump(Option<u64>);

fn bump(text: &str) -> Result<Bump, String> {
    match text.replace('_', "").parse() {
        _ if text == "auto" => Ok(Bump(None)),
        Ok(0) => Err("0 would allocate the numbers since the backup again".to_owned()),
        Ok(margin) => Ok(Bump(Some(margin))),
        Err(_) => Err("neither \"auto\" nor a number of numbers".to_owned()),
    }
}

/// How a restore is confirmed.
pub(crate) enum Confirm<'a> {
    /// By yes or no; a margin below the default is refused.
    Plan,
    /// By the name of the set, which may be given.
    Set(Option<&'a str>),
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
    nth: u32,
    quarantined: u32,
    #[serde(serialize_with = "digits")]
    margin: u64,
    /// Raises a second when the backup was made, over the time that its store had run; `null` where that is not known.
    raises_per_second: Option<f64>,
    /// Numbers of those raises since the backup, if all were of one section.
    #[serde(serialize_with = "digits")]
    numbers_since: u64,
    /// Stores of the set that respond, without a majority.
    stores: Vec<String>,
    /// Allocators that respond and know ceilings.
    allocators: Vec<String>,
    plan: String,
    dry_run: bool,
}

pub(crate) fn run(args: &RestoreArgs, confirm: &Confirm<'_>, output: &Output) -> anyhow::Result<Exit> {
    if let (Confirm::Plan, Bump(Some(margin))) = (confirm, args.bump)
        && margin < limits::RESTORE_MARGIN
    {
        let message = format!("--bump {margin} is below {}, the margin that is safe", limits::RESTORE_MARGIN);
        let hint =
            "`seqsvr unsafe restore` takes it, where you know that no section was raised by as much since the backup";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    let set = if args.offline { read_set(&args.set)? } else { load(&args.set)? };
    let backup = read(&args.from)?;
    let config = RestoreConfig {
        cluster: set.cluster(),
        spec: set.spec.clone(),
        id: args.id,
        dir: args.data.clone(),
        nth: args.nth,
        margin: args.bump.0,
    };
    let failed = |error: RestoreError| {
        let exit = if error.may_have_written() { Exit::Failed } else { Exit::Usage };
        Failure::new(exit, format!("store {} of set {} is not restored: {}", args.id, config.spec.name, Chain(&error)))
    };
    let plan = RestorePlan::new(&backup, &config).map_err(failed)?;
    let mut view = View::new(args, &set, &backup, &plan);
    if !args.offline {
        crate::client_runtime()?.block_on(view.ask(&set))?;
    }
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
    let is_confirmed = match confirm {
        Confirm::Plan => args.confirm.confirmed(&what)?,
        Confirm::Set(given) => confirm_set(&config.spec.name, *given, &what)?,
    };
    if !is_confirmed {
        return Ok(Exit::Declined);
    }
    plan.carry_out().map_err(failed)?;
    if output.is_json() {
        output.json(&view)?;
        return Ok(Exit::Ok);
    }
    output.line(format_args!("store {} of set {} is restored in {}", view.id, view.set, view.data))?;
    output.line("next: restore the other stores from the same file with the same --nth, then start all of them")?;
    Ok(Exit::Ok)
}

impl<'a> View<'a> {
    fn new(args: &RestoreArgs, set: &'a SetFile, backup: &Backup, plan: &RestorePlan<'_>) -> View<'a> {
        let Restored { lineage, backup: before, quarantined, margin } = plan.restored();
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
            nth: args.nth,
            quarantined,
            margin,
            raises_per_second,
            numbers_since: (raises_since.ceil() as u64).saturating_mul(set.spec.step),
            stores: Vec::new(),
            allocators: Vec::new(),
            plan: plan.fingerprint().to_string(),
            dry_run: args.confirm.plan.dry_run,
        }
    }

    /// Takes in the nodes that respond, and refuses a set that is alive.
    async fn ask(&mut self, set: &SetFile) -> Result<(), Failure> {
        let stores = survey::stores(set).await;
        survey::refuse_alive(set, &stores)?;
        self.stores = stores.into_iter().map(|store| store.name).collect();
        for survey::Ceilings { name, outcome } in survey::ceilings(set).await {
            let restores = outcome.iter().flatten().map(|known| Epoch(known.epoch).restores()).max();
            let Some(restores) = restores else { continue };
            self.refuse_used(&name, restores)?;
            self.allocators.push(name);
        }
        Ok(())
    }

    /// Refuses the number of a restore that an allocator has served after: the same numbers would be allocated again.
    fn refuse_used(&self, allocator: &str, restores: u32) -> Result<(), Failure> {
        let planned = self.lineage >> 32;
        if u64::from(restores) < planned {
            return Ok(());
        }
        let message = format!(
            "{allocator} has sections that count {restores} restores, and --nth {} would count {planned}: that was used before",
            self.nth
        );
        let least = u64::from(self.nth) + u64::from(restores) - planned + 1;
        Err(Failure::new(Exit::Failed, message).hint(format!("nothing was changed: pass --nth {least}")))
    }

    fn render(&self, output: &Output) -> std::io::Result<()> {
        let mut table = Table::new(&[]);
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row("store", format!("{} of set {}, in {}", self.id, self.set, self.data));
        row("backup", format!("of {}, {} old", self.created, utc::age(self.age_s)));
        row("lineage", format!("{}, after {}", lineage(self.lineage), self.backup_lineage));
        row(
            "quarantine",
            format!(
                "{} sections serve nothing until every other set of the cluster has fenced the older lineages",
                grouped(self.quarantined.into())
            ),
        );
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
        if !self.allocators.is_empty() {
            let names = self.allocators.join(", ");
            row("known", format!("{names} know ceilings: `seqsvr unsafe recover --from` makes a backup that has them"));
        }
        row("plan", self.plan.clone());
        output.table(&table)
    }
}
