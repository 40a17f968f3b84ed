//! The commands `set init`, `set create` and `set apply`, which define sets of a cluster in their stores.
//!
//! A set whose file contains `genesis = "init"` or `"create"` is defined only by one of these commands, never when its
//! processes start. Otherwise two sets of a cluster could both begin with the same sections, and would allocate the
//! same numbers.

use std::path::PathBuf;

use clap::Args;
use seq_command::exit::{Exit, Failure, report_error};
use seq_command::output::{Output, grouped};
use seq_command::plan::ConfirmArgs;
use seq_command::security;
use seq_command::selection::sections_text;
use seq_command::set_file::{self, SetFile};
use seq_command::store_client::{StoreClient, TimeoutArgs};
use seq_command::target::load_set;
use seq_command::target::{host_port, node_url};
use seq_core::set_spec::Genesis;
use seq_proto::Reason;
use seq_proto::v1::SetInfo;
use serde::Serialize;

use super::list::{SetView, state};
use super::settle;

#[derive(Debug, Args)]
#[command(
    after_help = "Example, once the stores of the file are running:\n  seqsvr set init --set sets/two/a.toml\n\n\
                        The file has `genesis = \"init\"`. A cluster has one such set; all other sets are created.\n\n\
                        Exit codes: 0 defined, 1 refused, as for a set that is defined (SET_EXISTS), 2 a wrong file, or no \
                        terminal to confirm on, 3 the store has no majority, 4 no node responded, 6 declined, 7 not \
                        done within --timeout."
)]
pub struct InitArgs {
    /// The set file.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("cluster").required(true).args(["join", "join_set"]),
          after_help = "Examples, once the stores of the file are running:\n  \
                        seqsvr set create --set sets/two/b.toml --join-set sets/two/a.toml\n  \
                        seqsvr set create --set sets/two/b.toml --join 127.0.0.1:7601\n\n\
                        The file has `genesis = \"create\"` and the uids and the section size of the cluster. The set \
                        begins without sections; `seqsvr set split` migrates some into it.\n\n\
                        Exit codes: 0 defined, 1 refused, as for a set that is defined (SET_EXISTS) or a name that is \
                        taken, 2 a wrong file, or no terminal to confirm on, 3 a store has no set or no majority, 4 \
                        no node responded, 6 declined, 7 not done within --timeout.")]
pub struct CreateArgs {
    /// The set file.
    #[arg(long, value_name = "FILE")]
    set: PathBuf,
    /// Address of a store of the cluster to join, as host:port; repeat the flag for more.
    #[arg(long, value_name = "ADDR", value_parser = node_url)]
    join: Vec<String>,
    /// Set file of a set of the cluster to join.
    #[arg(long, value_name = "FILE", conflicts_with = "join")]
    join_set: Option<PathBuf>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr set apply sets/two/ --dry-run\n  seqsvr set apply sets/two/ --yes\n\n\
                        Sets are defined by the `genesis` of their files: sets with \"init\" first, and all other sets in \
                        the cluster of the first set of the files. A defined set is never changed; its differences from \
                        its file are listed.\n\n\
                        Exit codes: 0 all sets are as in their files, 1 refused, 2 a wrong file, or a set that \
                        differs from its file, or no terminal to confirm on, 3 a store has no majority, 4 no node \
                        responded, 6 declined, 7 not done within --timeout.")]
pub struct ApplyArgs {
    /// Set files of one cluster, or directories of them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome for one set.
#[derive(Serialize)]
struct Outcome {
    set: String,
    file: String,
    /// Whether the command defined the set or joined it to its cluster. With `--dry-run`, whether it would do so.
    changed: bool,
    dry_run: bool,
    /// The set as its store reports it. It is absent if no set is defined in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<SetView>,
    /// Differences between the set in the store and its file.
    differences: Vec<String>,
}

pub(crate) async fn init(args: &InitArgs, output: &Output) -> anyhow::Result<Exit> {
    let file = load_set(&args.set)?;
    check_genesis(&file, Genesis::Init)?;
    define(&file, Vec::new(), args.confirm, args.timeout, output).await
}

pub(crate) async fn create(args: &CreateArgs, output: &Output) -> anyhow::Result<Exit> {
    let file = load_set(&args.set)?;
    check_genesis(&file, Genesis::Create)?;
    let join = match &args.join_set {
        Some(path) => addrs_of(&load_set(path)?),
        None => args.join.iter().map(|addr| host_port(addr).to_owned()).collect(),
    };
    define(&file, join, args.confirm, args.timeout, output).await
}

/// Defines the set of a file. If the store has a set already, the store refuses the request.
async fn define(
    file: &SetFile,
    join: Vec<String>,
    confirm: ConfirmArgs,
    timeout: TimeoutArgs,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mut store = client(file, timeout);
    let stored = store.sets().await?;
    // If the set is already defined, the request is sent without a prompt, and the store refuses it. The error is then
    // the same as if another command had defined the set at the same time.
    if stored.is_none() {
        if !join.is_empty() {
            check_cluster(file, &join, timeout).await?;
        }
        if let Err(exit) = confirm.proceeds(&plan_text(file, &join), output)? {
            return Ok(exit);
        }
    }
    store.restart_time();
    let cluster = (!join.is_empty())
        .then(|| (format!("the store at {}", join.join(", ")), StoreClient::at("", &join, timeout.duration())));
    let set = store.create_set(&file.spec.name, join).await?;
    let name = [file.spec.name.clone()];
    settle::until_all_know(cluster.into_iter().collect(), &name, timeout.duration(), output).await?;
    if output.is_json() {
        output.json(&Outcome::new(file, true, false, Some(&set)))?;
    } else {
        output.line(defined_text(&set))?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn apply(args: &ApplyArgs, output: &Output) -> anyhow::Result<Exit> {
    let (mut files, problems) = set_file::load_all(&args.paths);
    if !problems.is_empty() {
        return Err(set_file::failure(Exit::Usage, &problems).into());
    }
    files.iter().try_for_each(|file| security::use_tls(file.is_secure()))?;
    files.sort_by_key(|file| file.spec.genesis == Genesis::Create);
    let cluster = files[0].cluster();
    if let Some(other) = files.iter().find(|file| file.cluster() != cluster) {
        let (one, two) = (files[0].path.display(), other.path.display());
        let message = format!("{one} is of cluster {cluster:?} and {two} of {:?}", other.cluster());
        return Err(Failure::new(Exit::Usage, message).hint("apply the files of one cluster at a time").into());
    }
    let mut outcomes = Vec::new();
    for file in &files {
        let mut store = client(file, args.timeout);
        match store.sets().await? {
            Some(sets) => {
                // If an earlier creation was interrupted after the set was defined, the set knows no other set yet. It
                // is then joined to its cluster now.
                let is_alone = file.spec.genesis == Genesis::Create && sets.len() == 1;
                let join = if is_alone { join_of(file, &files).unwrap_or_default() } else { Vec::new() };
                let outcome = Outcome::new(file, !join.is_empty(), args.confirm.dry_run, Some(&sets[0]));
                outcomes.push((outcome, join));
            }
            None if file.spec.genesis == Genesis::Start => return Err(not_started(file).into()),
            None => {
                let join = join_of(file, &files)?;
                outcomes.push((Outcome::new(file, true, args.confirm.dry_run, None), join));
            }
        }
    }
    show(&files, &outcomes, output)?;
    let differs = outcomes.iter().any(|(outcome, _)| !outcome.differences.is_empty());
    let missing = outcomes.iter().filter(|(outcome, _)| outcome.changed).count();
    if !differs && missing > 0 && !args.confirm.dry_run {
        let names = outcomes.iter().filter(|(outcome, _)| outcome.changed).map(|(outcome, _)| outcome.set.as_str());
        let what = format!("define set {}", names.collect::<Vec<_>>().join(", "));
        if let Err(exit) = args.confirm.proceeds(&what, output)? {
            return Ok(exit);
        }
        for (file, (outcome, join)) in files.iter().zip(&mut outcomes).filter(|(_, (outcome, _))| outcome.changed) {
            let set = client(file, args.timeout).create_set(&file.spec.name, std::mem::take(join)).await?;
            if !output.is_json() {
                output.line(defined_text(&set))?;
            }
            outcome.stored = Some(SetView::new(&set));
        }
        let defined = outcomes.iter().map(|(outcome, _)| outcome);
        let is_open = |outcome: &&Outcome| outcome.stored.as_ref().is_some_and(|set| set.is_open());
        let names: Vec<String> = defined.filter(is_open).map(|outcome| outcome.set.clone()).collect();
        let open: Vec<&SetFile> = files.iter().filter(|file| names.contains(&file.spec.name)).collect();
        settle::until_known(&open, &names, args.timeout.duration(), output).await?;
    }
    if output.is_json() {
        output.json_items(&outcomes.iter().map(|(outcome, _)| outcome).collect::<Vec<_>>())?;
    }
    if differs {
        // This error is only printed on stderr, because the JSON output already contains the differences.
        report_error(&"a defined set differs from its file; nothing was changed");
        return Ok(Exit::Usage);
    }
    Ok(Exit::Ok)
}

/// Prints for each set whether it is defined or would be defined, and how it differs from its file. Prints nothing if
/// the command prints JSON, because the JSON is printed at the end of the command.
fn show(files: &[SetFile], outcomes: &[(Outcome, Vec<String>)], output: &Output) -> std::io::Result<()> {
    if output.is_json() {
        return Ok(());
    }
    for (file, (outcome, join)) in files.iter().zip(outcomes) {
        match &outcome.stored {
            None => {
                output.line(format_args!("set {}: not defined; this would {}", outcome.set, plan_text(file, join)))?
            }
            Some(_) if outcome.changed && outcome.differences.is_empty() => output.line(format_args!(
                "set {}: defined, and knows no other set; this would join it to the cluster of {}",
                outcome.set,
                join.join(", ")
            ))?,
            Some(_) if outcome.differences.is_empty() => {
                output.line(format_args!("set {}: as in {}", outcome.set, outcome.file))?;
            }
            Some(_) => {
                for difference in &outcome.differences {
                    output.line(format_args!("set {}: {}: {difference}", outcome.set, outcome.file))?;
                }
            }
        }
    }
    Ok(())
}

fn client(file: &SetFile, timeout: TimeoutArgs) -> StoreClient {
    StoreClient::of_file(file, timeout.duration())
}

fn addrs_of(file: &SetFile) -> Vec<String> {
    file.spec.stores.iter().map(|store| store.addr.clone()).collect()
}

/// Returns the addresses of the stores to which a set sends its request to join the cluster. They are the stores in the
/// file of the cluster's first set. Returns none if `file` is itself the file of the first set.
fn join_of(file: &SetFile, files: &[SetFile]) -> anyhow::Result<Vec<String>> {
    if file.spec.genesis != Genesis::Create {
        return Ok(Vec::new());
    }
    let first = files.iter().find(|other| other.spec.genesis != Genesis::Create);
    let first = first.ok_or_else(|| {
        let message =
            format!("set {} joins a cluster, but none of the files is of the first set of the cluster", file.spec.name);
        Failure::new(Exit::Usage, message)
            .hint("name the file with genesis = \"init\" too, or run `seqsvr set create --join`")
    })?;
    Ok(addrs_of(first))
}

/// Returns the failure for a set that is not defined yet and that no command may define, because the first leader of
/// its store defines it.
fn not_started(file: &SetFile) -> Failure {
    let message = format!("set {} is not defined yet: the first leader of its store defines it", file.spec.name);
    Failure::new(Exit::Unhealthy, message).hint("start its stores")
}

fn check_genesis(file: &SetFile, needed: Genesis) -> anyhow::Result<()> {
    let genesis = file.spec.genesis;
    if genesis == needed {
        return Ok(());
    }
    let message = format!(
        "{}: set {} has genesis = {:?}, and this command needs {:?}",
        file.path.display(),
        file.spec.name,
        genesis.name(),
        needed.name()
    );
    let hint = match genesis {
        Genesis::Start => "the store's first leader defines such a set by itself",
        Genesis::Init => "`seqsvr set init` defines it",
        Genesis::Create => "`seqsvr set create` defines it",
    };
    Err(Failure::new(Exit::Usage, message).hint(hint).into())
}

/// Checks that the set in a file has the same layout as the cluster that it joins, and that no set of the cluster has
/// the same name.
async fn check_cluster(file: &SetFile, join: &[String], timeout: TimeoutArgs) -> anyhow::Result<()> {
    let Some(sets) = StoreClient::at("", join, timeout.duration()).sets().await? else {
        let message = format!("the store of the cluster to join, {}, has no set yet", join.join(", "));
        return Err(Failure::new(Exit::Unhealthy, message).hint("define its set first: `seqsvr set init`").into());
    };
    let differences = layout_differences(file, &sets[0]);
    if let Some(difference) = differences.first() {
        let message = format!("{}: {difference}", file.path.display());
        return Err(Failure::new(Exit::Usage, message).hint("all sets of a cluster have the same layout").into());
    }
    if let Some(taken) = sets.iter().find(|set| set.name == file.spec.name) {
        let reason = Reason::SetNameTaken;
        let message = format!("set {} already exists in the cluster, {} ({reason})", taken.name, state(taken));
        return Err(Failure::new(Exit::Failed, message).reason(reason.name()).hint("choose another name").into());
    }
    Ok(())
}

/// Returns texts about the differences between the layout in a set file and the layout of the set `set` in its store.
fn layout_differences(file: &SetFile, set: &SetInfo) -> Vec<String> {
    let mut differences = Vec::new();
    let (uids, stored) = (&file.spec.uids, set.uid_start..set.uid_end);
    if *uids != stored {
        differences.push(format!(
            "uids {}..{} are {}..{} in set {}",
            uids.start, uids.end, stored.start, stored.end, set.name
        ));
    }
    if file.spec.section_size != set.section_size {
        let (size, stored) = (file.spec.section_size, set.section_size);
        differences.push(format!("section_size {size} is {stored} in set {}", set.name));
    }
    differences
}

/// Returns texts about the differences between a set file and the set `set` in its store.
fn differences(file: &SetFile, set: &SetInfo) -> Vec<String> {
    let mut differences = Vec::new();
    if file.spec.name != set.name {
        differences.push(format!("name {:?} is {:?} at the store", file.spec.name, set.name));
    }
    differences.extend(layout_differences(file, set));
    for store in file.spec.stores.iter().filter(|store| !set.stores.contains(&store.addr)) {
        differences.push(format!("store {} at {} is not a member; `seqsvr store add` adds it", store.id, store.addr));
    }
    for addr in set.stores.iter().filter(|addr| !file.spec.stores.iter().any(|store| store.addr == **addr)) {
        differences.push(format!("the member at {addr} is not in the file; `seqsvr store remove` removes it"));
    }
    differences
}

impl Outcome {
    fn new(file: &SetFile, changed: bool, dry_run: bool, stored: Option<&SetInfo>) -> Outcome {
        Outcome {
            set: file.spec.name.clone(),
            file: file.path.display().to_string(),
            changed,
            dry_run,
            differences: stored.map(|set| differences(file, set)).unwrap_or_default(),
            stored: stored.map(SetView::new),
        }
    }
}

/// Returns a text that describes the definition of a set. The prompt for confirmation contains it.
fn plan_text(file: &SetFile, join: &[String]) -> String {
    let spec = &file.spec;
    let sections = spec.validate().expect("the set was validated when it was read").sections();
    let uids = format!(
        "uids {}..{} in {} sections of {}",
        grouped(spec.uids.start),
        grouped(spec.uids.end),
        grouped(sections.into()),
        grouped(spec.section_size.into())
    );
    match join {
        [] => format!("define set {} as the first set of cluster {:?}, with all {uids}", spec.name, file.cluster()),
        join => {
            format!("define set {} without sections, in the cluster of {}, with {uids}", spec.name, join.join(", "))
        }
    }
}

fn defined_text(set: &SetInfo) -> String {
    format!("set {} is defined (id {}): it has {}", set.name, set.id, sections_text(set.sections))
}
