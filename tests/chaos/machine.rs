//! Capabilities of this machine, and calls of its tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    /// Control groups that limit memory.
    MemoryGroups,
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
            Need::MemoryGroups if !crate::memory_groups::is_possible() => {
                Some("control groups of memory, and /dev/shm")
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

/// Waits for the length of a fault; not to be used for a condition.
pub(crate) fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}
