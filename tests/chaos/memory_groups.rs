//! Control groups that limit the memory of processes, of either version of the kernel's interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;
use seq_testkit::eventually;

use crate::net::name_of_part;

/// Bytes that the group may take beyond what it has when the limit is set.
const SPARE: u64 = 8 << 20;

/// Part of the group's bytes that a neighbour of its processes takes beyond [`SPARE`], in a file in memory. A server
/// has more memory than that, so the limit is not reached again once the server has ended.
const TAKEN_SHARE: u64 = 4;

/// Scores with which the kernel first ends the server, then the neighbour, and then a guard. The kernel may look for a
/// second process before it has counted the memory of the server as free.
const SERVER: &str = "1000";
const NEIGHBOUR: &str = "500";

/// Directory of files in memory.
const MEMORY_FILES: &str = "/dev/shm";

/// The files of one version of the interface.
struct Interface {
    root: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// Has the number of processes that the kernel killed.
    kills: &'static str,
    unlimited: &'static str,
    /// Files and values with which the group keeps no file in its memory, and nothing goes to swap.
    reclaim: &'static [(&'static str, &'static str)],
}

const VERSION_1: Interface = Interface {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    kills: "memory.oom_control",
    unlimited: "-1",
    reclaim: &[("memory.swappiness", "0"), ("memory.force_empty", "0")],
};

const VERSION_2: Interface = Interface {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    kills: "memory.events",
    unlimited: "max",
    reclaim: &[("memory.swap.max", "0"), ("memory.reclaim", "1G")],
};

/// A control group; removed when dropped, after its processes have ended.
pub(crate) struct MemoryGroup {
    dir: PathBuf,
    interface: &'static Interface,
    ballast: PathBuf,
}

/// Returns whether this machine lets the test create such groups.
pub(crate) fn is_possible() -> bool {
    Path::new(MEMORY_FILES).is_dir() && MemoryGroup::create("try").is_some()
}

/// Removes the groups and their files in memory whose names are of killed processes.
pub(crate) fn sweep(is_dead: impl Fn(&str) -> bool) {
    for root in [VERSION_1.root, VERSION_2.root, MEMORY_FILES] {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(&is_dead) {
                let _ = fs::remove_dir(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
    }
}

impl MemoryGroup {
    /// Creates a group without a limit.
    pub(crate) fn new(name: &str) -> MemoryGroup {
        MemoryGroup::create(name).expect("the row needs it")
    }

    fn create(name: &str) -> Option<MemoryGroup> {
        let name = name_of_part(name);
        [&VERSION_1, &VERSION_2].into_iter().find_map(|interface| {
            if !Path::new(interface.root).join("cgroup.procs").exists() {
                return None;
            }
            if interface.limit == VERSION_2.limit {
                let _ = fs::write(Path::new(interface.root).join("cgroup.subtree_control"), "+memory");
            }
            let dir = Path::new(interface.root).join(&name);
            fs::create_dir(&dir).ok()?;
            let group = MemoryGroup { dir, interface, ballast: Path::new(MEMORY_FILES).join(&name) };
            group.dir.join(interface.limit).exists().then_some(group)
        })
    }

    /// Returns the command of a program that runs in the group.
    pub(crate) fn command(&self, program: &str) -> Command {
        // The shell enters the group, then replaces itself, so all memory of the program is counted.
        let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", self.dir.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", program]);
        command
    }

    /// Limits the group to little more than it has, and starts a neighbour that takes more. So the kernel ends
    /// `server`, which is a process of the group.
    pub(crate) fn exhaust(&self, server: Pid) -> Neighbour {
        fs::write(format!("/proc/{}/oom_score_adj", server.as_raw_nonzero()), SERVER).unwrap();
        for (file, value) in self.interface.reclaim {
            // The file of version 2 states by an error that there was less to reclaim.
            let _ = fs::write(self.dir.join(file), value);
        }
        let used: u64 = self.read(self.interface.usage).trim().parse().unwrap();
        fs::write(self.dir.join(self.interface.limit), (used + SPARE).to_string()).unwrap();
        let taken_kb = (SPARE + used / TAKEN_SHARE) >> 10;
        let (file, count) = (format!("of={}", self.ballast.display()), format!("count={taken_kb}"));
        let mut command = self.command("choom");
        command.args(["-n", NEIGHBOUR, "--", "dd", "if=/dev/zero", &file, "bs=1K", &count]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Neighbour { child: command.spawn().unwrap(), ballast: self.ballast.clone() }
    }

    /// Removes the limit.
    pub(crate) fn relax(&self) {
        fs::write(self.dir.join(self.interface.limit), self.interface.unlimited).unwrap();
    }

    /// Returns the number of processes that the kernel killed at the limit.
    pub(crate) fn kills(&self) -> u64 {
        let text = self.read(self.interface.kills);
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.unwrap_or_else(|| panic!("kills of the group: {text:?}")).trim().parse().unwrap()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = fs::remove_dir(&self.dir);
            return;
        }
        eventually("the group is empty", || fs::remove_dir(&self.dir).ok());
    }
}

/// A process that takes memory of a group; its memory is free when it is dropped.
pub(crate) struct Neighbour {
    child: Child,
    ballast: PathBuf,
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.ballast);
    }
}
