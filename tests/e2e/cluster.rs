//! Starts servers, runs client commands against them, and waits for conditions.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use seq_testkit::eventually;
use serde_json::Value;

/// The environment of one test: a directory for data and logs, and a loopback address.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) host: Ipv4Addr,
}

impl Place {
    pub(crate) fn new() -> Place {
        static PLACES: AtomicU8 = AtomicU8::new(1);
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, 100 | (high & 0x1f), low, PLACES.fetch_add(1, Ordering::Relaxed));
        Place { dir: tempfile::tempdir().unwrap(), host }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Copies one of the project's set files, changed to this test's address and without TLS.
    pub(crate) fn set_file(&self, name: &str) -> PathBuf {
        self.copied_set_file(name, "plaintext = true\n")
    }

    /// Works like [`Place::set_file`], with TLS and certificates in the directory `certs`.
    pub(crate) fn secure_set_file(&self, name: &str) -> PathBuf {
        let path = self.copied_set_file(name, "");
        let issued = self.seqsvr(&["cert", "issue", "--set", &path.display().to_string(), "client/backend"]);
        assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
        path
    }

    /// Works like [`seqsvr`], with this place's certificates.
    pub(crate) fn seqsvr(&self, args: &[&str]) -> Output {
        self.seqsvr_as("operator/admin", args)
    }

    /// Works like [`Place::seqsvr`], with the certificate of another holder.
    pub(crate) fn seqsvr_as(&self, holder: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.env("SEQSVR_CERTS", self.path("certs")).env("SEQSVR_IDENTITY", holder);
        command.args(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Works like [`seqsvr_json`], with this place's certificates.
    pub(crate) fn seqsvr_json(&self, args: &[&str]) -> Value {
        let args = [args, &["-o", "json"]].concat();
        json(&args, &self.seqsvr(&args))
    }

    fn copied_set_file(&self, name: &str, security: &str) -> PathBuf {
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sets").join(name);
        let text = fs::read_to_string(&original).unwrap().replace("127.0.0.1", &self.host.to_string());
        let text = format!("{security}{}", text.replace("plaintext = true\n", ""));
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts a server; its log goes to a file that a failed test prints.
    pub(crate) fn server<S: AsRef<OsStr>>(&self, name: &str, args: &[S]) -> Server {
        self.start(name, Command::new(env!("CARGO_BIN_EXE_seqsvr")), args)
    }

    /// Starts another program as a server.
    pub(crate) fn server_of(&self, program: &Path, name: &str, args: &[&str]) -> Server {
        self.start(name, Command::new(program), args)
    }

    /// Starts a server with these variables in its environment.
    pub(crate) fn server_with_environment(
        &self,
        name: &str,
        args: &[&str],
        environment: [(&str, String); 2],
    ) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.envs(environment);
        self.start(name, command, args)
    }

    /// Starts a server with a limit of open files.
    pub(crate) fn server_with_files(&self, name: &str, args: &[&str], files: usize) -> Server {
        let mut shell = Command::new("sh");
        // The shell replaces itself, so the child's id is that of the server.
        shell.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_seqsvr")]);
        // Only root sees the open files of a process that may not dump its core.
        shell.env("SEQSVR_LIMITS_CORE_DUMPS", "true");
        self.start(name, shell, args)
    }

    /// Starts a server with the default action of SIGHUP, which tests under `nohup` ignore.
    pub(crate) fn server_that_may_be_hung_up(&self, name: &str, args: &[&str]) -> Server {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_seqsvr")]);
        self.start(name, command, args)
    }

    /// Starts a server whose threads all run on one CPU.
    pub(crate) fn server_on_cpu(&self, name: &str, args: &[&str], cpu: &str) -> Server {
        // `taskset` replaces itself, so the child's id is that of the server.
        let mut command = Command::new("taskset");
        command.args(["-c", cpu, env!("CARGO_BIN_EXE_seqsvr")]);
        self.start(name, command, args)
    }

    fn start<S: AsRef<OsStr>>(&self, name: &str, mut command: Command, args: &[S]) -> Server {
        let log = self.path(&format!("{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        command.env("SEQSVR_CERTS", self.path("certs"));
        let child = command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        Server { child, log, name: name.to_owned() }
    }
}

/// A server process; killed when dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    name: String,
}

impl Server {
    /// Returns the first line on stdout as JSON, which is printed once the server is ready.
    pub(crate) fn ready(&mut self) -> Value {
        let line = self.first_line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?} is not a ready line: {error}"))
    }

    /// Returns the first line on stdout.
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Kills the process, like a crash.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Terminates the process; returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.wait_exit()
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Returns the CPU time of the process, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid().as_raw_nonzero())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split(' ').collect();
        // The fields are user and system time, in ticks of 10 ms.
        (fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap()) / 100.0
    }

    /// Pauses the process; its sockets stay open.
    pub(crate) fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Resumes the process.
    pub(crate) fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Interrupts the process, like a user at a terminal.
    pub(crate) fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// Requests that the process reads its settings again.
    pub(crate) fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the process exits.
    pub(crate) fn wait_exit(&mut self) -> Option<i32> {
        eventually("the process ends", || self.child.try_wait().unwrap()).code()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("== log of {}\n{}", self.name, self.log());
        }
    }
}

/// Runs a client command to its end.
pub(crate) fn seqsvr(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seqsvr")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs a client command that must succeed; returns its JSON output.
pub(crate) fn seqsvr_json(args: &[&str]) -> Value {
    let args = [args, &["-o", "json"]].concat();
    json(&args, &seqsvr(&args))
}

pub(crate) fn json(args: &[&str], output: &Output) -> Value {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "seqsvr {args:?}: {}\n{stdout}\n{stderr}", output.status);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("seqsvr {args:?} printed {stdout:?}: {error}"))
}

/// Returns a 64-bit number of `-o json`, which is a string of digits.
pub(crate) fn digits(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is no string of digits"))
}

/// Returns the path of the trace for replay tests: a slice of a real trace, or `E2E_TRACE`.
pub(crate) fn trace() -> String {
    let slice = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/irc_messages_slice.csv");
    std::env::var("E2E_TRACE").unwrap_or_else(|_| slice.to_owned())
}

/// Asserts the conditions that every replay's report must meet.
pub(crate) fn assert_clean(report: &Value) {
    for fault in ["decreases", "duplicates", "chain_breaks", "malformed"] {
        assert_eq!(report[fault], 0, "{report:#}");
    }
    assert!(report["pass"].as_bool().unwrap() && report["allocations"].as_u64().unwrap() > 0, "{report:#}");
}
