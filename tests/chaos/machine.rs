//! What this machine can do, and how its tools are called.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything that should become true. Generous: the machine may be building beside the tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Pause between two looks at something that should become true.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a fault needs of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root, and network namespaces with pairs of interfaces.
    Namespaces,
    /// Packets that get lost.
    Iptables,
    /// System calls that fail or hang.
    Strace,
    /// Clocks that lie.
    Faketime,
    /// A small disk of one's own.
    Disk,
    /// Links that are slow.
    Python,
}

/// What is missing here, for people.
pub(crate) fn lacks(needs: &[Need]) -> Vec<&'static str> {
    let mut lacks: Vec<&'static str> = needs.iter().filter_map(|need| need.lack()).collect();
    lacks.dedup();
    lacks
}

impl Need {
    fn lack(self) -> Option<&'static str> {
        if !rustix::process::geteuid().is_root() {
            return Some("root");
        }
        match self {
            Need::Namespaces if !has("ip") => Some("ip (iproute2)"),
            Need::Namespaces if !can_make_namespaces() => Some("network namespaces"),
            Need::Iptables if !has("iptables") => Some("iptables"),
            Need::Strace if !has("strace") => Some("strace"),
            Need::Faketime if faketime().is_none() => Some("libfaketime (faketime)"),
            Need::Python if !has("python3") => Some("python3"),
            Need::Disk if !has("mkfs.ext4") || !Path::new("/dev/loop-control").exists() => {
                Some("mkfs.ext4 and loop devices")
            }
            _ => None,
        }
    }
}

fn can_make_namespaces() -> bool {
    let name = format!("sq{:x}xtry", std::process::id());
    let made = try_run("ip", &["netns", "add", &name]).is_ok();
    made && try_run("ip", &["netns", "del", &name]).is_ok()
}

fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
    std::env::split_paths(&path).chain(system).any(|dir| dir.join(tool).is_file())
}

/// The library that makes clocks lie to a process with threads.
pub(crate) fn faketime() -> Option<PathBuf> {
    let libs = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let candidates = libs.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    candidates.chain([PathBuf::from("/usr/lib/faketime/libfaketimeMT.so.1")]).find(|path| path.is_file())
}

/// Runs a tool; answers what it printed, or what it complained about.
pub(crate) fn try_run(tool: &str, args: &[&str]) -> Result<String, String> {
    let output =
        Command::new(tool).args(args).stdin(Stdio::null()).output().map_err(|error| format!("{tool}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{tool} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Runs a tool that must succeed.
pub(crate) fn tool(tool: &str, args: &[&str]) -> String {
    try_run(tool, args).unwrap_or_else(|complaint| panic!("{complaint}"))
}

/// Runs tools from a line of words.
pub(crate) fn sh(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    tool(words[0], &words[1..])
}

/// Looks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        pause(LOOK_EVERY);
    }
}

/// Lets time pass; the length of a fault, never a wait for something.
pub(crate) fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}
