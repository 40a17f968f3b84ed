//! The command `diagnose`, which writes the state of sets, of their nodes and of this host to an archive for analysis
//! on another machine.
//!
//! The command changes nothing in the sets. If a node does not respond, the command continues, and the summary in the
//! archive lists the missing files. The archive contains no secrets, because set files contain none and the command
//! leaves out the secrets in the settings.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped};
use seq_command::set_file::SetFile;
use seq_command::store_client::{Node, nodes_of};
use seq_command::target::load_set;
use seq_command::time_limit::time;
use seq_command::{security, utc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Maximum size of a file in the archive, in bytes. The metrics of a node take a tenth of it.
const MAX_BYTES: usize = 16 << 20;

/// Maximum number of log lines in the archive. A busy host logs fewer lines per hour.
const LOG_LINES: &str = "50000";

/// Commands of this program whose output shows the state of a set. The first element of each pair is the name of the
/// file with the output in the archive.
const OF_SETS: [(&str, &[&str]); 7] = [
    ("status.json", &["status", "-o", "json"]),
    ("status.txt", &["status", "-o", "wide"]),
    ("members.txt", &["store", "members", "-o", "wide"]),
    ("nodes.txt", &["node", "list"]),
    ("sections.json", &["section", "list", "-o", "json"]),
    ("migrations.json", &["migration", "list", "-o", "json"]),
    ("audit.json", &["audit", "list", "-o", "json"]),
];

/// Commands of this program whose output shows the state of this host. The first element of each pair is the name of
/// the file with the output in the archive.
const OF_HOST: [(&str, &[&str]); 2] =
    [("version.json", &["version", "-o", "json"]), ("settings.json", &["config", "show", "-o", "json"])];

/// Paths that are requested from the port for metrics of each node. The first element of each pair is the name of the
/// file with the response in the archive.
const OF_NODES: [(&str, &str); 3] = [("metrics.txt", "/metrics"), ("readyz.txt", "/readyz"), ("livez.txt", "/livez")];

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr diagnose --set /etc/seqsvr/set.toml --out diagnose.tar.gz\n  \
                        seqsvr diagnose --set im-a.toml --set im-b.toml --out diagnose.tar.gz\n\n\
                        The archive has the set files, the status, members, allocators, sections, migrations and audit log of each set, metrics and \
                        checks of each node, settings of this host without their secrets, and the log of its units of the last hour. \
                        summary.txt lists the files that could not be read. For the logs of all nodes, run the command on each host.\n\n\
                        Exit codes: 0 written, even if nodes do not respond, 2 a wrong set file, or the archive exists already.")]
pub struct DiagnoseArgs {
    /// A set file; repeat the flag for each set.
    #[arg(long = "set", value_name = "FILE", required = true)]
    sets: Vec<PathBuf>,
    /// The archive to write, which must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Time limit of each command and of each request to a node; all of them run at the same time.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    timeout: Duration,
}

/// A file of the archive. It has a name, and either its content or the reason why the content could not be read.
type Named = (String, Result<Vec<u8>, String>);

/// An archive while it is being written. For each file that could not be read, `summary` has a line.
struct Archive {
    tar: tar::Builder<GzEncoder<File>>,
    /// The directory in the archive.
    dir: String,
    made: SystemTime,
    summary: String,
    files: u64,
    missing: u64,
}

impl Archive {
    fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(content.len() as u64);
        header.set_mtime(self.made.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs());
        self.files += 1;
        self.tar.append_data(&mut header, format!("{}/{name}", self.dir), content)
    }

    /// Adds a file to the archive. If its content could not be read, adds a line with the reason to the summary
    /// instead.
    fn add_read(&mut self, name: &str, read: Result<Vec<u8>, String>) -> io::Result<()> {
        match read {
            Ok(content) => self.add(name, &content),
            Err(why) => {
                self.missing += 1;
                let _ = writeln!(self.summary, "missing {name}: {why}");
                Ok(())
            }
        }
    }

    fn finish(mut self) -> io::Result<()> {
        let summary = std::mem::take(&mut self.summary);
        self.add("summary.txt", summary.as_bytes())?;
        self.tar.into_inner()?.finish()?.sync_all()
    }
}

pub async fn run(args: DiagnoseArgs, output: &Output) -> anyhow::Result<Exit> {
    let cannot =
        |error: io::Error| Failure::new(Exit::Usage, format!("{}: cannot be written: {error}", args.out.display()));
    let sets: Vec<_> = args.sets.iter().map(|path| Ok((path, load_set(path)?))).collect::<anyhow::Result<_>>()?;
    let made = utc::now();
    // Only the owner may read the archive, because it names the machines of the sets and shows their activity.
    let file = File::options().write(true).create_new(true).mode(0o600).open(&args.out).map_err(cannot)?;
    let time = utc::text(made);
    let mut archive = Archive {
        tar: tar::Builder::new(GzEncoder::new(file, Compression::default())),
        dir: format!("seqsvr-diagnose-{}", time.replace(['-', ':'], "")),
        made,
        summary: format!("seqsvr diagnose of {time}\n"),
        files: 0,
        missing: 0,
    };
    let line = output.progress_line();
    line.set_message("reading from the nodes and this host");
    line.enable_steady_tick(Duration::from_millis(250));
    for (name, read) in join_all(reads(&sets, args.timeout)).await {
        archive.add_read(&name, read).map_err(cannot)?;
    }
    line.finish_and_clear();
    let (files, missing) = (archive.files, archive.missing);
    archive.finish().map_err(cannot)?;
    if output.is_json() {
        output.json(&serde_json::json!({ "file": args.out, "files": files, "missing": missing }))?;
    } else {
        let out = args.out.display();
        let missing = if missing > 0 {
            format!(", {missing} could not be read: see summary.txt in the archive")
        } else {
            String::new()
        };
        output.line(format_args!("{out}: {} files{missing}", grouped(files)))?;
    }
    Ok(Exit::Ok)
}

/// Returns a future for each file of the archive, in the order of the files. The caller runs all futures at the same
/// time, so that it waits for only one timeout, even if several nodes do not respond.
fn reads<'a>(sets: &'a [(&'a PathBuf, SetFile)], timeout: Duration) -> Vec<BoxFuture<'a, Named>> {
    let mut reads: Vec<BoxFuture<'a, Named>> = Vec::new();
    for (name, command) in OF_HOST {
        reads.push(async move { (name.to_owned(), command_output(command, None, timeout).await) }.boxed());
    }
    for (path, set) in sets {
        let dir = format!("sets/{}", set.spec.name);
        let name = format!("{dir}/set.toml");
        reads.push(async move { (name, read(path)) }.boxed());
        for (name, command) in OF_SETS {
            let name = format!("{dir}/{name}");
            reads.push(async move { (name, command_output(command, Some(path), timeout).await) }.boxed());
        }
        for Node { name, http, .. } in nodes_of(set) {
            let (name, http) = (name.unwrap_or_default(), http.unwrap_or_default());
            for (file, path) in OF_NODES {
                let (name, http) = (format!("{dir}/{name}/{file}"), http.clone());
                reads.push(async move { (name, get(&http, path, timeout).await) }.boxed());
            }
        }
    }
    reads.push(async move { ("log.txt".to_owned(), logs(timeout).await) }.boxed());
    reads
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Runs a command of this program as a separate process, and returns its output on stdout. Also returns the output of a
/// command that fails, because it may show the state of the set, as the output of `status` does.
///
/// # Errors
/// The command printed nothing or only an error, or did not end within `timeout`.
async fn command_output(args: &[&str], set: Option<&Path>, timeout: Duration) -> Result<Vec<u8>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command
        .args(args)
        .args(set.map(|_| "--set"))
        .args(set)
        .envs(security::variables())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(timeout, command.output()).await;
    let output = output.map_err(|_| format!("no response within {timeout:?}"))?.map_err(|error| error.to_string())?;
    let error = String::from_utf8_lossy(&output.stderr);
    match output.stdout.is_empty() || is_error(&output.stdout) {
        true => Err(format!("{}: {}", output.status, error.trim())),
        false => Ok(output.stdout),
    }
}

/// Returns whether the output of a command in JSON contains nothing but an error.
fn is_error(printed: &[u8]) -> bool {
    let page = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(printed);
    page.is_ok_and(|page| page.len() == 1 && page.contains_key("error"))
}

/// Requests `path` from the port for metrics at `addr`, and returns the body of the response. The status of the
/// response does not matter.
async fn get(addr: &str, path: &str, timeout: Duration) -> Result<Vec<u8>, String> {
    let exchange = async {
        let mut stream = security::access()
            .map_err(|error| error.to_string())?
            .connect(addr, None)
            .await
            .map_err(|error| error.to_string())?;
        // HTTP/1.0 is used because the body of its response ends where the connection ends.
        let request = format!("GET {path} HTTP/1.0\r\nhost: {addr}\r\n\r\n");
        let io = |error: io::Error| error.to_string();
        stream.write_all(request.as_bytes()).await.map_err(io)?;
        stream.flush().await.map_err(io)?;
        let mut response = Vec::new();
        stream.take(MAX_BYTES as u64).read_to_end(&mut response).await.map_err(io)?;
        let body = response.windows(4).position(|end| end == b"\r\n\r\n").ok_or("the response is not HTTP")?;
        Ok(response.split_off(body + 4))
    };
    tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| Err(format!("no response within {timeout:?}")))
}

/// Returns the last hour of the log of this host's units.
async fn logs(timeout: Duration) -> Result<Vec<u8>, String> {
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--output=short-iso-precise", "--since=-1h", "--lines", LOG_LINES, "--unit=seqsvr-*"]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(timeout, command.output()).await;
    let output = output.map_err(|_| format!("no output within {timeout:?}"))?;
    let mut log = output.map_err(|error| format!("journalctl: {error}"))?.stdout;
    // The beginning is removed, because the newest lines are at the end.
    log.drain(..log.len().saturating_sub(MAX_BYTES));
    if log.is_empty() { Err("no unit of seqsvr has logged on this host".to_owned()) } else { Ok(log) }
}
