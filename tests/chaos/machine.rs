//! Capabilities of this machine, and calls of its tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Timeout of every wait for a condition. It is generous because the machine may be building at the same time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// Interval between evaluations of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A capability that a fault needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root, and network namespaces with pairs of interfaces.
    Namespaces,
    /// A firewall that drops packets.
    Iptables,
    /// A tracer that makes system calls fail or hang.
    Strace,
    /// A library that gives a process a wrong clock.
    Faketime,
    /// Mounts of small file systems.
    Disk,
    /// Python, for the script that delays links.
    Python,
}

/// Returns the missing capabilities as readable texts.
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

/// Returns the path of the library that gives a process with threads a wrong clock.
pub(crate) fn faketime() -> Option<PathBuf> {
    let libs = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let candidates = libs.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    candidates.chain([PathBuf::from("/usr/lib/faketime/libfaketimeMT.so.1")]).find(|path| path.is_file())
}

/// Runs a tool; returns its output, or its error.
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
    try_run(tool, args).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a tool that must succeed, from a command line split at spaces.
pub(crate) fn sh(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    tool(words[0], &words[1..])
}

/// Evaluates a condition until it holds, and returns its value.
pub(crate) fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, condition)
}

/// The same as [`eventually`], with another time limit.
pub(crate) fn eventually_within<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        pause(POLL_INTERVAL);
    }
}

/// Returns the time of this machine's clock, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "ids with a time are compared with it")]
pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Waits for the length of a fault; not to be used for a condition.
pub(crate) fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}
