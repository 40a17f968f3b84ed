//! The command `unsafe recover`. It makes a backup of a set that has permanently lost the majority of its stores. The
//! backup is made from the remaining data directories, or from an older backup. Ceilings in it are raised to the
//! ceilings that running allocators report.
//!
//! The new backup is restored like any other backup: the restored set begins a new lineage, in quarantine, and skips
//! the usual margin of numbers.

use std::path::{Path, PathBuf};

use clap::Args;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits, grouped, note};
use seq_command::plan::confirm_set;
use seq_command::set_file::{self, SetFile};
use seq_command::survey;
use seq_command::target::load_set;
use seq_core::limits;
use seq_core::state::State;
use seq_load::outcome::Chain;
use seq_proto::v1::SectionCeiling;
use seq_store::SetState;
use seq_store::backup::{CeilingsRaised, RecoveredCopy, Survivor, survivor};
use serde::Serialize;

use crate::backup::{read, write};
use crate::restore_count::{self, Asked, Notes, Witness, decide};

#[derive(Debug, Args)]
#[command(after_help = "Examples, on the machine of the store that is left, with its process stopped:\n  \
                        seqsvr unsafe recover --set three-node.toml --data /var/lib/seqsvr/s2 --out im-a.recovered\n  \
                        seqsvr unsafe recover --set three-node.toml --data s2 --data s3 --out im-a.recovered --dry-run\n  \
                        seqsvr unsafe recover --set three-node.toml --from old.backup --out im-a.recovered --count 3\n\n\
                        Of several data directories, the command takes the directory with the most committed entries. Later \
                        entries of the lost stores are unknown: their changes of members, terms, drains and migrations are lost. \
                        Numbers are not allocated twice, because every ceiling rises by 2^40 when the backup is restored. The \
                        command writes only FILE; restore it on every store with `seqsvr restore`.\n\n\
                        Exit codes: 0 written, 1 refused (the set is alive, or an allocator reports impossible ceilings) or FILE \
                        cannot be written, 2 a directory, a backup or the set file is wrong, or there is no terminal to confirm \
                        on, 6 declined.")]
pub struct RecoverArgs {
    /// The set file, whose allocators are asked for the ceilings that they know.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    #[command(flatten)]
    source: Source,
    /// The backup to write, which must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// An allocator whose report is left out; repeat the flag for more.
    #[arg(long, value_name = "NODE")]
    without: Vec<String>,
    /// The count of the restore from FILE, above the count of every restore of any set of the cluster. Without the flag
    /// it is taken from the stores of other sets.
    #[arg(long, value_name = "N", required_if_eq("offline", "true"), value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Connects to no node.
    #[arg(long)]
    offline: bool,
    /// Writes nothing; shows the recovery and its cost.
    #[arg(long)]
    dry_run: bool,
    /// Confirms by the set's name, in scripts.
    #[arg(long, value_name = "SET")]
    confirm: Option<String>,
}

/// The data directories or the backup from which the set is recovered.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// The data directory of a store whose process is stopped; repeat the flag for more.
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    /// A backup of the set, if no data directory is left.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// The recovery and its cost, as the command prints them.
#[derive(Serialize)]
struct View<'a> {
    set: &'a str,
    cluster: String,
    sources: Vec<SourceView>,
    sections: u32,
    allocators: Vec<AllocView>,
    /// Lowest count of a restore with which the new backup may be restored (see `restore_count`).
    count: u32,
    /// Count of numbers that each section skips when the backup is restored, without the distances by which the reports
    /// of allocators raise ceilings.
    #[serde(serialize_with = "digits")]
    skipped_per_section: u64,
    dry_run: bool,
}

/// A data directory or a backup from which the set can be recovered.
#[derive(Serialize)]
struct SourceView {
    path: String,
    store: Option<u64>,
    #[serde(serialize_with = "digits")]
    committed: u64,
    /// Number of log entries after the last entry that is known to be committed. They may have been committed, but the
    /// recovery leaves them out.
    unknown: u64,
    taken: bool,
}

/// Summary of the ceilings that an allocator reported, or the reason for which it reported none.
#[derive(Serialize)]
struct AllocView {
    node: String,
    /// Reason why the allocator reports no ceilings; `null` if it reports them.
    error: Option<String>,
    /// Number of sections whose ceiling the allocator knows.
    known: u32,
    /// Number of sections whose ceiling is raised because of the allocator's report.
    raised: u32,
    /// Sum of the distances by which the allocator's report raises ceilings.
    #[serde(serialize_with = "digits")]
    numbers: u64,
}

pub(crate) fn run(args: &RecoverArgs, output: &Output) -> anyhow::Result<Exit> {
    let set = if args.offline { set_file::read(&args.set)? } else { load_set(&args.set)? };
    if args.out.exists() {
        let message = format!("{} exists, and a backup replaces no file", args.out.display());
        return Err(Failure::new(Exit::Usage, message).into());
    }
    if let Some(unknown) = args.without.iter().find(|name| !set.spec.allocs.iter().any(|alloc| alloc.name == **name)) {
        let message = format!("the set file has no allocator {unknown:?}");
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let (mut copy, sources) = args.source.copy()?;
    check_set(&copy, &set)?;
    let (reports, witnesses) = match args.offline {
        true => (Vec::new(), Vec::new()),
        false => seq_command::client_runtime()?.block_on(ask(&set, copy.state()))?,
    };
    let notes = Notes::beside(&args.out, &set.cluster())?;
    // This command restores no store, so it never continues a restore that is recorded in the notes. Therefore `Asked`
    // names neither a store nor a backup.
    let position = (copy.state().lineage, copy.state().revision.0);
    let asked = Asked { set: &set.spec.name, store: 0, backup: "", least: copy.least_count(), position };
    let count = decide(args.count, &asked, &notes, &witnesses)?;
    copy.check_count(count).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let counts = count - copy.state().lineage.restores();
    let mut allocators = Vec::new();
    for report in reports.into_iter().filter(|report| !args.without.contains(&report.name)) {
        allocators.push(raise(&mut copy, report)?);
    }
    let view = View {
        set: &set.spec.name,
        cluster: set.cluster(),
        sources,
        sections: copy.sections(),
        allocators,
        count,
        skipped_per_section: limits::RESTORE_MARGIN.saturating_mul(counts.into()),
        dry_run: args.dry_run,
    };
    if output.is_json() {
        output.json(&view)?;
    } else {
        view.render(output)?;
    }
    if args.dry_run {
        return Ok(Exit::Ok);
    }
    let what = "recover it without the majority of its stores";
    if !confirm_set(&set.spec.name, args.confirm.as_deref(), what)? {
        return Ok(Exit::Declined);
    }
    write(&args.out, &copy.encode(count))?;
    if !output.is_json() {
        let (out, set) = (args.out.display(), args.set.display());
        output.line(format_args!(
            "written; on each store: seqsvr restore --from {out} --set {set} --id N --data DIR --count {count}"
        ))?;
    }
    Ok(Exit::Ok)
}

/// Requests the ceilings from the allocators of a set, and the counts of earlier restores from all nodes that may know
/// such counts. Returns the ceilings, and the nodes that know of restores.
///
/// # Errors
/// A majority of the set's stores responds, so the set is alive.
async fn ask(set: &SetFile, state: &State) -> Result<(Vec<survey::Ceilings>, Vec<Witness>), Failure> {
    survey::refuse_alive(set, &survey::stores(set).await)?;
    Ok(restore_count::ask(set, state).await)
}

/// Raises the ceilings in the copy to the ceilings that an allocator reported.
fn raise(copy: &mut RecoveredCopy, report: survey::Ceilings) -> Result<AllocView, Failure> {
    let survey::Ceilings { name: node, outcome } = report;
    let reported: Vec<SectionCeiling> = match outcome {
        Ok(reported) => reported,
        Err(error) => return Ok(AllocView { node, error: Some(error), known: 0, raised: 0, numbers: 0 }),
    };
    let raised = copy.raise(&node, &reported).map_err(|error| {
        Failure::new(Exit::Failed, error.to_string()).hint(format!("--without {node} leaves its report out"))
    })?;
    let CeilingsRaised { sections: raised, numbers, elsewhere: _ } = raised;
    Ok(AllocView { node, error: None, known: reported.len() as u32, raised, numbers })
}

impl Source {
    fn copy(&self) -> anyhow::Result<(RecoveredCopy, Vec<SourceView>)> {
        if let Some(from) = &self.from {
            let backup = read(from)?;
            let copy = RecoveredCopy::of_backup(&backup).map_err(|error| unusable(from, &error))?;
            let (store, committed) = (None, backup.header.log_index);
            let source = SourceView { path: from.display().to_string(), store, committed, unknown: 0, taken: true };
            return Ok((copy, vec![source]));
        }
        let survivors = self.data.iter().map(|dir| survivor(dir).map_err(|error| unusable(dir, &Chain(&error)).into()));
        let survivors = survivors.collect::<anyhow::Result<Vec<Survivor<SetState>>>>()?;
        let position = |survivor: &Survivor<SetState>| (survivor.state.0.lineage, survivor.committed, survivor.last);
        let best = survivors.iter().enumerate().max_by_key(|(_, survivor)| position(survivor));
        let (best, taken) = best.expect("clap requires one");
        if let Some(other) = survivors.iter().position(|one| set_id(one) != set_id(taken)) {
            let message =
                format!("{} and {} are of different sets", self.data[other].display(), self.data[best].display());
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let copy = RecoveredCopy::of_survivor(taken).map_err(|error| unusable(&self.data[best], &error))?;
        let view = |(index, (dir, survivor)): (usize, (&PathBuf, &Survivor<SetState>))| SourceView {
            path: dir.display().to_string(),
            store: Some(survivor.id),
            committed: survivor.committed,
            unknown: survivor.last.saturating_sub(survivor.committed),
            taken: index == best,
        };
        Ok((copy, self.data.iter().zip(&survivors).enumerate().map(view).collect()))
    }
}

fn set_id(survivor: &Survivor<SetState>) -> Option<seq_core::SetId> {
    survivor.state.0.set.as_ref().map(|set| set.id)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {error}", path.display()))
}

/// Checks that the recovered copy belongs to the set and the cluster that the set file names.
fn check_set(copy: &RecoveredCopy, set: &SetFile) -> Result<(), Failure> {
    let (found, expected) = ((copy.cluster(), copy.set()), (set.cluster(), set.spec.name.as_str()));
    if found == (expected.0.as_str(), expected.1) {
        return Ok(());
    }
    let message = format!(
        "the data belongs to set {:?} of cluster {:?}, and the set file describes set {:?} of cluster {:?}",
        found.1, found.0, expected.1, expected.0
    );
    Err(Failure::new(Exit::Usage, message))
}

impl View<'_> {
    fn render(&self, output: &Output) -> anyhow::Result<()> {
        let mut table = Table::new(&["source", "store", "committed", "unknown", ""]).right(&[2, 3]);
        for source in &self.sources {
            let store = source.store.map_or_else(|| "-".to_owned(), |id| id.to_string());
            let taken = if source.taken { "taken" } else { "" }.to_owned();
            let [committed, unknown] = [source.committed, source.unknown].map(grouped);
            table.row([source.path.clone(), store, committed, unknown, taken]);
        }
        output.table(&table)?;
        let mut table = Table::new(&["allocator", "sections", "higher", "numbers"]).right(&[1, 2, 3]);
        for alloc in &self.allocators {
            match &alloc.error {
                None => {
                    let [known, raised, numbers] =
                        [alloc.known.into(), alloc.raised.into(), alloc.numbers].map(grouped);
                    table.row([alloc.node.clone(), known, raised, numbers]);
                }
                Some(error) => note(format_args!("{} does not respond: {error}", alloc.node)),
            }
        }
        if self.allocators.iter().any(|alloc| alloc.error.is_none()) {
            output.table(&table)?;
        }
        output.line(format_args!(
            "cost: {} sections of set {} skip {} numbers each, one part in {} of all",
            grouped(self.sections.into()),
            self.set,
            grouped(self.skipped_per_section),
            grouped((1 << 63) / self.skipped_per_section)
        ))?;
        output.line(
            "lost: entries that the lost stores committed after the source, such as changes of members, terms, drains and \
             migrations; numbers that they allocated are not allocated again",
        )?;
        Ok(())
    }
}
