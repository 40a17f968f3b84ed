//! The command `backup`. It makes a backup of a set, shows and checks backups, and lists the backups in a directory.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use seq_command::ended_migrations::{EndedMigration, ended_migrations};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, digits, grouped, note};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_command::{utc, whole_file};
use seq_core::Lineage;
use seq_load::outcome::Chain;
use seq_proto::v1::BackupHeader;
use seq_store::backup::Backup;
use serde::Serialize;

mod dir;

/// The file name that stands for stdout.
const STDOUT: &str = "-";

/// The commands for backups.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Makes a backup of a set from its leader, while it serves.
    Create(CreateArgs),
    /// Shows the set and the state that a backup holds, and checks every byte of it.
    Show(ShowArgs),
    /// Checks every byte of backups.
    Verify(VerifyArgs),
    /// Lists the backups of a directory, with their ages, and checks every byte of them.
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr backup create --set sets/three-node.toml --out set-1.backup\n  \
                        seqsvr backup create --set sets/three-node.toml --out - | ssh vault 'cat > set-1.backup'\n  \
                        seqsvr backup create --set sets/three-node.toml --dir backups --keep 48    (every half hour, by a timer)\n\n\
                        A backup has the ceilings, owners and migrations of one set as of one entry of its log. Each set needs \
                        its own backups. Keep the file as private as a data directory.\n\n\
                        Exit codes: 0 written, 1 refused or damaged on the way, 2 a wrong file or address, 3 the store has no \
                        majority, 4 no node responded, 7 not done within --timeout.")]
pub struct CreateArgs {
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    place: Place,
    /// Number of backups of the set to keep in the directory; older backups are removed after the new backup is
    /// written.
    #[arg(long, value_name = "N", requires = "dir", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The destination of a backup.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// The file to write, which must not exist; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The directory to write to, under the name of the set and the time.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr backup verify backups/*.backup\n\n\
                        Exit codes: 0 all backups are intact, 2 a backup cannot be read, is damaged, or is of a newer format.")]
pub struct VerifyArgs {
    /// The backups.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr backup list /var/lib/seqsvr/backups\n\n\
                        Exit codes: 0 all backups are intact, 1 a backup is damaged, 2 the directory cannot be read.")]
pub struct ListArgs {
    /// The directory; files in it that end in .backup are listed.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr backup show set-1.backup -o json\n\n\
                        Exit codes: 0 the backup is intact, 2 it cannot be read, is damaged, or is of a newer format.")]
pub struct ShowArgs {
    /// The backup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl BackupCommand {
    /// Returns whether the backup itself is written to stdout.
    pub fn prints_backup(&self) -> bool {
        matches!(self, BackupCommand::Create(args) if args.place.is_stdout())
    }
}

impl Place {
    fn is_stdout(&self) -> bool {
        self.out.as_deref() == Some(Path::new(STDOUT))
    }
}

pub fn run(command: BackupCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        BackupCommand::Create(args) => seq_command::client_runtime()?.block_on(create(&args, output)),
        BackupCommand::Show(args) => {
            show(&args.file, &read(&args.file)?, output)?;
            Ok(Exit::Ok)
        }
        BackupCommand::Verify(args) => verify(&args.files, output),
        BackupCommand::List(args) => dir::list(&args.dir, output),
    }
}

async fn create(args: &CreateArgs, output: &Output) -> anyhow::Result<Exit> {
    if args.place.is_stdout() && io::stdout().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "a backup is binary data, and stdout is a terminal: redirect stdout, or name a file",
        )
        .into());
    }
    if let Some(out) = args.place.out.as_deref().filter(|out| !args.place.is_stdout() && out.exists()) {
        return Err(exists(out).into());
    }
    if let Some(dir) = args.place.dir.as_deref().filter(|dir| !dir.is_dir()) {
        let hint = format!("mkdir -p {}", dir.display());
        return Err(Failure::new(Exit::Usage, format!("{} is not a directory", dir.display())).hint(hint).into());
    }
    let timeout = args.timeout.duration();
    let mut client = args.target.client(timeout)?;
    let received = tokio::time::timeout(timeout, receive(&mut client, output)).await;
    let file = received.map_err(|_| late(timeout))??;
    // A backup that cannot be decoded here could not be restored either.
    let backup = Backup::decode(&file)
        .map_err(|error| Failure::new(Exit::Failed, format!("the backup {error}")).hint("make it again"))?;
    if args.place.is_stdout() {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&file)?;
        stdout.flush()?;
        note(format_args!("{} bytes of set {}, SHA-256 {}", file.len(), backup.header.set, backup.checksum_text()));
        return Ok(Exit::Ok);
    }
    let named =
        args.place.dir.as_deref().map(|dir| dir.join(dir::name(&backup.header.set, backup.header.created_unix_ms)));
    let out = args.place.out.clone().or(named).expect("one of both is required");
    write(&out, &file)?;
    show(&out, &backup, output)?;
    if let (Some(dir), Some(keep)) = (&args.place.dir, args.keep) {
        for removed in dir::prune(dir, &backup, keep as usize)? {
            note(format_args!("removed {}", removed.display()));
        }
    }
    Ok(Exit::Ok)
}

/// Checks every byte of backups. Prints one line for each backup, or one item with `-o json`.
fn verify(files: &[PathBuf], output: &Output) -> anyhow::Result<Exit> {
    let damage: Vec<Option<String>> =
        files.iter().map(|file| read(file).err().map(|error| error.to_string())).collect();
    if output.is_json() {
        let item = |(file, damage): (&PathBuf, &Option<String>)| serde_json::json!({ "file": file, "damage": damage });
        output.json_items(&files.iter().zip(&damage).map(item).collect::<Vec<_>>())?;
    } else {
        for (file, damage) in files.iter().zip(&damage) {
            match damage {
                None => output.line(format_args!("{}: intact", file.display()))?,
                Some(damage) => seq_command::exit::report_error(damage),
            }
        }
    }
    Ok(if damage.iter().all(Option::is_none) { Exit::Ok } else { Exit::Usage })
}

async fn receive(client: &mut seq_command::store_client::StoreClient, output: &Output) -> anyhow::Result<Vec<u8>> {
    let broken =
        |status: tonic::Status| Failure::new(Exit::Failed, format!("the backup ended early: {}", Chain(&status)));
    let mut parts = client.backup().await?;
    let progress = output.progress_bar(0, "{bytes} of {total_bytes}");
    let mut file = Vec::new();
    while let Some(part) = parts.message().await.map_err(broken)? {
        progress.set_length(part.file_bytes);
        file.extend_from_slice(&part.data);
        progress.set_position(file.len() as u64);
    }
    progress.finish_and_clear();
    Ok(file)
}

/// Writes a backup to a file, which must not exist yet.
pub(crate) fn write(out: &Path, file: &[u8]) -> Result<(), Failure> {
    whole_file::create(out, file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(out),
        _ => Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", out.display())),
    })
}

fn exists(out: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("{} exists, and a backup replaces no file", out.display()))
}

fn late(timeout: Duration) -> Failure {
    Failure::new(Exit::Deadline, format!("the backup has not arrived within {timeout:?}"))
        .hint("pass a longer --timeout")
}

/// Reads a backup and checks every byte of it.
pub(crate) fn read(path: &Path) -> anyhow::Result<Backup> {
    let wrong = |what: String| Failure::new(Exit::Usage, format!("{}: {what}", path.display()));
    let file = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    Ok(Backup::decode(&file).map_err(|error| wrong(error.to_string()))?)
}

#[derive(Serialize)]
struct View<'a> {
    file: String,
    format: u32,
    version: &'a str,
    created: String,
    cluster: &'a str,
    set: &'a str,
    #[serde(serialize_with = "digits")]
    set_id: u64,
    #[serde(serialize_with = "digits")]
    lineage: u64,
    #[serde(serialize_with = "digits")]
    revision: u64,
    #[serde(serialize_with = "digits")]
    log_index: u64,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    sections: u32,
    /// Migrations that were not complete when the backup was made. A restore from the backup ends them.
    open_migrations: Vec<EndedMigration>,
    state_bytes: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    recovered_from: &'a str,
    sha256: String,
}

fn show(path: &Path, backup: &Backup, output: &Output) -> anyhow::Result<()> {
    let BackupHeader { cluster, set, version, .. } = &backup.header;
    let header = &backup.header;
    let view = View {
        file: path.display().to_string(),
        format: backup.format,
        version,
        created: utc::text_of_ms(header.created_unix_ms),
        cluster,
        set,
        set_id: header.set_id,
        lineage: header.lineage,
        revision: header.revision,
        log_index: header.log_index,
        uid_start: header.uid_start,
        uid_end: header.uid_end,
        section_size: header.section_size,
        sections: header.resident,
        open_migrations: ended_migrations(&backup.state().0),
        state_bytes: header.state_bytes,
        recovered_from: &header.origin,
        sha256: backup.checksum_text(),
    };
    if output.is_json() {
        return Ok(output.json(&view)?);
    }
    let mut table = Table::new(&[]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("file", view.file);
    row("cluster", view.cluster.to_owned());
    row("set", format!("{} (id {})", view.set, view.set_id));
    row("created", view.created);
    row("lineage", lineage(view.lineage));
    row("revision", view.revision.to_string());
    row("log entry", view.log_index.to_string());
    row("uids", format!("{}..{} in sections of {}", view.uid_start, view.uid_end, view.section_size));
    row("sections", grouped(view.sections.into()));
    for migration in &view.open_migrations {
        row("migration", format!("open; by a restore {}", migration.text()));
    }
    row("state", format!("{} bytes, format {}", grouped(view.state_bytes), header.state_format));
    if !header.origin.is_empty() {
        row("recovered from", header.origin.clone());
    }
    row("file format", format!("{}, by version {}", view.format, view.version));
    row("SHA-256", format!("{}, intact", view.sha256));
    Ok(output.table(&table)?)
}

/// Returns a lineage as text, with the number of restores in its history.
pub(crate) fn lineage(lineage: u64) -> String {
    match lineage >> 32 {
        0 => format!("{lineage}, never restored"),
        restores => {
            let begun = if Lineage(lineage).is_of_set() { ", begun by the set itself" } else { "" };
            format!("{lineage}, counts {restores} restores{begun}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_exists_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("a");
        write(&out, b"first").unwrap();
        assert!(write(&out, b"second").unwrap_err().to_string().contains("exists"));
        assert_eq!(std::fs::read(&out).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
