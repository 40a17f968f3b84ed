//! The servers that are measured: started from what is installed, on loopback, in a directory of their own, and ended by the
//! id they were started with.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How long a server may take until its port answers.
const START: Duration = Duration::from_secs(60);

/// How often the port is tried.
const LOOK: Duration = Duration::from_millis(20);

/// Clock ticks in a second in `/proc/PID/stat`; Linux tells programs no other value.
const TICKS: f64 = 100.0;

/// Processes that serve together. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    processes: Vec<Child>,
    /// Where each answers, as `host:port`.
    pub(crate) addrs: Vec<String>,
    dir: PathBuf,
    /// What it needs to run, which is not measured.
    beside: Option<Box<Peer>>,
}

impl Peer {
    /// No process yet; whatever they write goes into `dir`.
    pub(crate) fn new(dir: &Path) -> Peer {
        Peer { processes: Vec::new(), addrs: Vec::new(), dir: dir.to_owned(), beside: None }
    }

    /// Starts one more process and waits until `addr` answers. Its output goes to a file named after the program.
    pub(crate) async fn start(&mut self, program: &Path, args: &[&str], addr: &str) -> anyhow::Result<()> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let log = self.dir.join(format!("{name}-{}.log", self.processes.len()));
        let file = std::fs::File::create(&log)?;
        let mut child = Command::new(program)
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let until = Instant::now() + START;
        while TcpStream::connect(addr).await.is_err() {
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() > until {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("{name} does not answer at {addr} ({ended:?}):\n{said}");
            }
            tokio::time::sleep(LOOK).await;
        }
        self.processes.push(child);
        self.addrs.push(addr.to_owned());
        Ok(())
    }

    /// Keeps another server running as long as this one, without measuring it.
    pub(crate) fn beside(&mut self, other: Peer) {
        self.beside = Some(Box::new(other));
    }

    /// Processor seconds that the processes have used.
    pub(crate) fn cpu(&self) -> f64 {
        self.processes.iter().filter_map(|child| tree_cpu(child.id()?)).sum()
    }

    /// Ends the processes and waits for them.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let beside = self.beside.take().into_iter().flat_map(|mut peer| peer.processes.split_off(0));
        for mut child in self.processes.drain(..).chain(beside) {
            child.kill().await?;
        }
        Ok(())
    }
}

/// Processor seconds of a process and of all that it started: a database has a process for each connection, and those that
/// ended count in their parent.
fn tree_cpu(root: u32) -> Option<f64> {
    let mut total = 0.0;
    let mut left = vec![root];
    let all = std::fs::read_dir("/proc").ok()?;
    let stats: Vec<(u32, Stat)> = all
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect();
    while let Some(pid) = left.pop() {
        let Some((_, stat)) = stats.iter().find(|(id, _)| *id == pid) else { continue };
        total += stat.ticks / TICKS;
        left.extend(stats.iter().filter(|(_, stat)| stat.parent == pid).map(|(id, _)| *id));
    }
    Some(total)
}

struct Stat {
    parent: u32,
    ticks: f64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything: state, parent, then the 12th to 15th are user, system and ended children's.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks })
}

/// A port that is free now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Finds a program in the path, or in one of the directories where Debian keeps servers.
pub(crate) fn find(name: &str) -> anyhow::Result<PathBuf> {
    let mut dirs: Vec<PathBuf> = vec!["/usr/bin".into(), "/usr/sbin".into(), "/usr/local/bin".into()];
    // PostgreSQL's server lies beside its version.
    dirs.extend(
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|dir| dir.path().join("bin")),
    );
    let found = dirs.into_iter().map(|dir| dir.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is not installed"))
}
