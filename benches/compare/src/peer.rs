//! The servers under measurement: started from the installed programs, on loopback, each in its own directory, and
//! ended by the handle of their process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Timeout until a server's port accepts connections.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of connection attempts to the port.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Clock ticks per second in `/proc/PID/stat`; constant on Linux.
const TICKS: f64 = 100.0;

/// The processes of one server. They are killed on drop.
#[derive(Debug)]
pub(crate) struct Peer {
    processes: Vec<Child>,
    /// Address of each, as `host:port`.
    pub(crate) addrs: Vec<String>,
    dir: PathBuf,
    /// A server it depends on, which is not measured.
    beside: Option<Box<Peer>>,
}

impl Peer {
    /// A server without processes; their files go into `dir`.
    pub(crate) fn new(dir: &Path) -> Peer {
        Peer { processes: Vec::new(), addrs: Vec::new(), dir: dir.to_owned(), beside: None }
    }

    /// Starts one more process and waits until `addr` accepts connections. Its output goes to a file named after the
    /// program.
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
        let until = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(addr).await.is_err() {
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() > until {
                let output = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("{name} does not accept connections at {addr} ({ended:?}):\n{output}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.processes.push(child);
        self.addrs.push(addr.to_owned());
        Ok(())
    }

    /// Keeps another server running as long as this one, without measuring it.
    pub(crate) fn beside(&mut self, other: Peer) {
        self.beside = Some(Box::new(other));
    }

    /// Process id of the first one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.processes.first()?.id()
    }

    /// CPU seconds used by one of the processes.
    pub(crate) fn cpu_of(&self, process: usize) -> f64 {
        self.processes.get(process).and_then(|child| tree_cpu(child.id()?)).unwrap_or_default()
    }

    /// CPU seconds used by the processes.
    pub(crate) fn cpu(&self) -> f64 {
        self.processes.iter().filter_map(|child| tree_cpu(child.id()?)).sum()
    }

    /// Kills the processes and waits for them.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let beside = self.beside.take().into_iter().flat_map(|mut peer| peer.processes.split_off(0));
        for mut child in self.processes.drain(..).chain(beside) {
            child.kill().await?;
        }
        Ok(())
    }
}

/// CPU seconds of a process and its descendants: a database has a process for each connection; ended ones count in
/// their parent.
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
    // After the name, which may contain anything: state, parent; the 12th to 15th are user, system and ended children's
    // time.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks })
}

/// Returns a port of 127.0.0.1 that is free at present, and that no call before returned: a port is free again as soon
/// as this function returns, and the kernel may give it to the next call.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if given.insert(port) {
            return Ok(port);
        }
    }
}

/// Finds a program in the usual directories, or in those where Debian installs servers.
pub(crate) fn find(name: &str) -> anyhow::Result<PathBuf> {
    let mut dirs: Vec<PathBuf> = vec!["/usr/bin".into(), "/usr/sbin".into(), "/usr/local/bin".into()];
    // PostgreSQL's programs are in a directory for each version.
    dirs.extend(
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|dir| dir.path().join("bin")),
    );
    let found = dirs.into_iter().map(|dir| dir.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is not installed"))
}
