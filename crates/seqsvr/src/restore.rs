//! Forms the data directory of one store from a backup, before the store starts.

use std::path::PathBuf;

use clap::Args;
use seq_core::limits;
use seq_store::backup::{self, RestoreConfig, Restored};
use serde::Serialize;

use crate::backup::{lineage, read};
use crate::exit::{Exit, Failure};
use crate::output::{Output, digits, grouped};
use crate::store_client::read_set;
use crate::target::Chain;
use crate::{set_file, utc};

#[derive(Debug, Args)]
#[command(after_help = "Example, with all stores of the set stopped and their old directories moved away:\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 1 --data /var/lib/seqsvr/s1   (on host 1)\n  \
                        seqsvr restore --from set-1.backup --set three-node.toml --id 2 --data /var/lib/seqsvr/s2   (and so on)\n  \
                        seqsvr store --set three-node.toml --id 1 --data /var/lib/seqsvr/s1                         (then each)\n\n\
                        Restore every store of the set from the same file with the same --nth, once, before the first of \
                        them starts. Never start a data directory of before again, and never restore one store alone while \
                        others run: `seqsvr store replace` is for that.\n\n\
                        The numbers that were allocated since the backup are skipped by a margin of 2^40 for each user, and \
                        the margin counts restores. A second restore of the same backup needs --nth 2, a third --nth 3: \
                        under the same number it allocates the numbers of the restore before again. A backup that was made \
                        after a restore counts that restore already.\n\n\
                        Exit codes: 0 restored, 1 the directory cannot be written, 2 the backup, the set file or the \
                        directory is not as it must be, and nothing was written.")]
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
}

#[derive(Serialize)]
struct View<'a> {
    set: &'a str,
    id: u64,
    data: String,
    created: String,
    #[serde(serialize_with = "digits")]
    backup_lineage: u64,
    #[serde(serialize_with = "digits")]
    lineage: u64,
    nth: u32,
    quarantined: u32,
    #[serde(serialize_with = "digits")]
    margin: u64,
}

pub(crate) fn run(args: &RestoreArgs, output: &Output) -> anyhow::Result<Exit> {
    let set = read_set(&args.set)?;
    let backup = read(&args.from)?;
    let config = RestoreConfig {
        cluster: set_file::SetFile::cluster(&set),
        spec: set.spec,
        id: args.id,
        dir: args.data.clone(),
        nth: args.nth,
    };
    let restored = backup::restore(&backup, &config).map_err(|error| {
        let exit = if error.may_have_written() { Exit::Failed } else { Exit::Usage };
        Failure::new(exit, format!("store {} of set {} is not restored: {}", args.id, config.spec.name, Chain(&error)))
    })?;
    let Restored { lineage: now, backup: before, quarantined } = restored;
    let view = View {
        set: &config.spec.name,
        id: args.id,
        data: args.data.display().to_string(),
        created: utc::text_of_ms(backup.header.created_unix_ms),
        backup_lineage: before.0,
        lineage: now.0,
        nth: args.nth,
        quarantined,
        margin: limits::RESTORE_MARGIN.saturating_mul(args.nth.into()),
    };
    if output.is_json() {
        output.json(&view)?;
        return Ok(Exit::Ok);
    }
    let View { set, id, data, created, margin, .. } = view;
    output.line(format_args!("store {id} of set {set} is restored in {data} from the backup of {created}"))?;
    output.line(format_args!("lineage: {}, after {}", lineage(now.0), before.0))?;
    output.line(format_args!(
        "quarantine: {} sections serve nothing until every other set of the cluster has fenced the older lineages",
        grouped(quarantined.into())
    ))?;
    output.line(format_args!(
        "margin: every ceiling rises by {} numbers or more; no user may have got as many since the backup",
        grouped(margin)
    ))?;
    output.line("next: restore the other stores from the same file with the same --nth, then start all of them")?;
    Ok(Exit::Ok)
}
