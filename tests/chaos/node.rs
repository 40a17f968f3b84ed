//! One server process in a host's namespace, and the faults of processes.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seq_testkit::eventually;

use crate::machine::tool;
use crate::memory_groups::MemoryGroup;
use crate::net::Host;

pub(crate) mod parent;

use parent::Parent;

/// A server; killed when dropped. A failed test prints the end of its log.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: Host,
    /// Address of its gRPC port.
    pub(crate) addr: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    /// What reports the death of the process; `None` for nothing.
    parent: Option<Parent>,
    /// The runtime directory of a supervisor's process.
    runtime: Option<PathBuf>,
    /// The memory that the process, its children and its neighbours may take.
    memory: Option<MemoryGroup>,
    child: Option<Child>,
}

impl Node {
    /// Creates a node without a process; `dir` is the directory of its log.
    pub(crate) fn new(name: &str, host: Host, port: u16, args: Vec<String>, dir: &std::path::Path) -> Node {
        let addr = format!("{}:{port}", host.ip);
        let log = dir.join(format!("{name}.log"));
        let (parent, runtime, memory) = (None, None, None);
        Node { name: name.to_owned(), host, addr, args, env: Vec::new(), log, parent, runtime, memory, child: None }
    }

    /// Sets an environment variable from the next start on.
    pub(crate) fn env(&mut self, key: &str, value: impl Into<String>) {
        self.env.push((key.to_owned(), value.into()));
    }

    /// Starts the process in a control group from the next start on.
    pub(crate) fn set_memory(&mut self, memory: MemoryGroup) {
        self.memory = Some(memory);
    }

    /// Returns the control group of the process.
    pub(crate) fn memory(&self) -> &MemoryGroup {
        self.memory.as_ref().unwrap_or_else(|| panic!("{} has a control group", self.name))
    }

    /// Replaces the settings file from the next start on.
    pub(crate) fn set_config(&mut self, file: &std::path::Path) {
        let at = self.args.iter().position(|arg| arg == "--config").expect("every node has a settings file");
        self.args[at + 1] = file.display().to_string();
    }

    /// Starts the process.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        self.renew_runtime();
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = match &self.memory {
            Some(memory) => memory.command("ip"),
            None => Command::new("ip"),
        };
        // `ip` executes the server in its place, so the child's id, and with it each signal, is the server's.
        command.args(["netns", "exec", &self.host.namespace]).args(["env"]);
        // Only the server gets the variables, so `ip` itself runs with the real clock.
        command.args(self.env.iter().map(|(key, value)| format!("{key}={value}")));
        command.arg(env!("CARGO_BIN_EXE_seqsvr")).args(&self.args).stdin(Stdio::null());
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Returns whether the process was started and has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Kills the process, like a crash.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills the process and starts it again.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start();
    }

    /// Starts the process if it does not run.
    pub(crate) fn ensure_runs(&mut self) {
        if !self.is_running() {
            self.restart();
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap_or_else(|| panic!("{} runs", self.name));
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Stops the process (SIGSTOP); requests accumulate in its sockets.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a stopped process.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until the process has ended by itself.
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        let name = self.name.clone();
        let child = self.child.as_mut().unwrap_or_else(|| panic!("{name} runs"));
        let status = eventually(&format!("{name} ends"), || child.try_wait().unwrap());
        self.child = None;
        status
    }

    /// Makes syncs of files fail or hang in all threads of the process, until the tracer is dropped.
    pub(crate) fn trouble_syncs(&self, fault: &str) -> Tracer {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let output = self.log.with_extension("strace");
        let stderr = File::create(&output).unwrap();
        let inject = format!("inject=fdatasync,fsync:{fault}");
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &pid, "-e", "trace=fdatasync,fsync", "-e", &inject, "-o", "/dev/null"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        eventually("strace is attached", || fs::read_to_string(&output).unwrap().contains("attached").then_some(()));
        Tracer { child }
    }

    /// Returns whether the process has loaded a library.
    pub(crate) fn has_loaded(&self, library: &str) -> bool {
        let pid = self.child.as_ref().unwrap().id();
        fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains(library)
    }

    /// Returns the log of the process.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            eprintln!("== the last lines of the log of {}\n{}", self.name, lines[last..].join("\n"));
        }
    }
}

/// A tracer of the system calls of a process; detached when dropped.
pub(crate) struct Tracer {
    child: Child,
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mounted file system of a few megabytes, which can be filled.
pub(crate) struct SmallDisk {
    pub(crate) path: PathBuf,
    ballast: PathBuf,
}

impl SmallDisk {
    /// Creates a file system of this size in a file, and mounts it.
    pub(crate) fn new(dir: &std::path::Path, name: &str, megabytes: u64) -> SmallDisk {
        let (image, path) = (dir.join(format!("{name}.img")), dir.join(name));
        File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        fs::create_dir(&path).unwrap();
        tool("mkfs.ext4", &["-q", "-F", "-m", "0", &image.display().to_string()]);
        tool("mount", &["-o", "loop", &image.display().to_string(), &path.display().to_string()]);
        let ballast = path.join("ballast");
        SmallDisk { path, ballast }
    }

    /// Fills the free space.
    pub(crate) fn fill(&self) {
        let mut file = File::create(&self.ballast).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while io_write(&mut file, size).is_ok() {}
        }
        let _ = file.sync_all();
    }

    /// Frees the filled space.
    pub(crate) fn free(&self) {
        fs::remove_file(&self.ballast).unwrap();
        tool("sync", &["-f", &self.path.display().to_string()]);
    }
}

fn io_write(file: &mut File, size: usize) -> std::io::Result<()> {
    use std::io::Write;
    file.write_all(&vec![7; size])
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = crate::machine::try_run("umount", &["-l", &self.path.display().to_string()]);
    }
}
