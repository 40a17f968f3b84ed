//! The runner's side of the driver protocol: starts a driver, sends requests, and receives responses.
//!
//! **Invariant:** each request gets exactly one response, or one line for each call of a burst and then its end. Any
//! other line, an early exit and a missing response fail the row.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use seq_testkit::eventually;
use serde_json::{Value, json};

use crate::history::History;

mod client;
mod keys;

pub(crate) use client::{Burst, Client};
pub(crate) use keys::Key;

/// Time after the deadline of a call within which its response must be there. It is generous because the machine may
/// be busy; no driver waits for it.
const GRACE: Duration = Duration::from_secs(10);

/// Directory in which drivers run: the root of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Name of an SDK that only the command of its driver names.
pub(crate) const UNNAMED: &str = "driver";

/// An SDK under test.
#[derive(Debug)]
pub(crate) struct Sdk {
    /// Name of the SDK, e.g. `python-asyncio`.
    pub(crate) name: String,
    command: String,
    /// Settings with which the suite chooses this SDK, each followed by a space.
    pub(crate) settings: String,
    hello: OnceLock<Hello>,
}

/// The greeting of a driver.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) features: Vec<String>,
}

/// A running driver. It is killed if it is dropped without [`Driver::finish`].
#[derive(Debug)]
pub(crate) struct Driver {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    /// Numbers of requests and clients that were named.
    requests: AtomicU64,
    clients: AtomicU64,
    history: Arc<History>,
    log: PathBuf,
    _dir: tempfile::TempDir,
}

/// A line of the driver with the time at which it was read.
type Line = (u64, Value);

/// State that the thread that reads stdout shares.
#[derive(Debug, Default)]
struct Shared {
    /// Requests without a response.
    waiting: Mutex<HashMap<String, Sender<Line>>>,
    /// First violation of the protocol.
    fault: Mutex<Option<String>>,
}

/// A request without a response.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) id: String,
    pub(crate) start_ns: u64,
    lines: Receiver<Line>,
    limit: Duration,
    shared: Arc<Shared>,
    request: String,
}

impl Sdk {
    pub(crate) fn new(name: String, command: String, settings: String) -> Sdk {
        Sdk { name, command, settings, hello: OnceLock::new() }
    }

    /// Returns the SDK with a driver in a mount namespace of its own, which the command `mount` prepares.
    pub(crate) fn in_namespace(&self, mount: &str) -> Sdk {
        let command =
            format!("unshare --mount sh -c {} sh {}", quoted(&format!("{mount} && exec \"$@\"")), self.command);
        Sdk::new(self.name.clone(), command, self.settings.clone())
    }

    /// Returns whether the SDK belongs to this repository. A command names any other SDK.
    pub(crate) fn is_known(&self) -> bool {
        self.name != UNNAMED
    }

    /// Returns the greeting; starts a driver for it once.
    pub(crate) fn hello(&self) -> &Hello {
        self.hello.get_or_init(|| {
            let (driver, hello) = Driver::spawn(self);
            driver.finish();
            hello
        })
    }

    /// Returns the features of `needed` that the driver does not have.
    pub(crate) fn lacks(&self, needed: &[&str]) -> Vec<String> {
        let states = |feature: &str| self.hello().features.iter().any(|stated| stated == feature);
        let has = |feature: &str| states(feature) || feature == "coalesce" && states("stream");
        needed.iter().filter(|feature| !has(feature)).map(|feature| format!("the feature {feature}")).collect()
    }

    /// Returns whether the driver has a feature.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.lacks(&[feature]).is_empty()
    }
}

/// Returns a text as one word for a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl Hello {
    fn read(line: &str) -> Hello {
        let hello: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?} is no greeting: {error}"));
        assert_eq!(hello["hello"], 1, "{hello} is no greeting of protocol 1");
        let features = hello["features"].as_array().unwrap_or_else(|| panic!("{hello} has no features"));
        assert!(hello["sdk"].is_string() && hello["version"].is_string(), "{hello} has no SDK and no version");
        Hello { features: features.iter().filter_map(Value::as_str).map(str::to_owned).collect() }
    }
}

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Driver {
    /// Starts a driver.
    pub(crate) fn start(sdk: &Sdk) -> Driver {
        Driver::spawn(sdk).0
    }

    fn spawn(sdk: &Sdk) -> (Driver, Hello) {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("driver.log");
        let stderr = File::create(&log).unwrap();
        let mut shell = Command::new("sh");
        // The shell replaces itself, so the child's id is that of the driver.
        shell.args(["-c", &format!("exec {}", sdk.command)]).current_dir(ROOT);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("stdout is a pipe"));
        let shared = Arc::new(Shared::default());
        let (greeting, first) = mpsc::channel();
        let reads = shared.clone();
        let reader = std::thread::spawn(move || reads.read(stdout, &greeting));
        let driver = Driver {
            child,
            stdin: Mutex::new(stdin),
            shared,
            reader: Some(reader),
            requests: AtomicU64::new(0),
            clients: AtomicU64::new(0),
            history: Arc::default(),
            log,
            _dir: dir,
        };
        let line = first.recv_timeout(seq_testkit::TIMEOUT);
        let hello =
            Hello::read(&line.unwrap_or_else(|_| panic!("no greeting of `{}`:\n{}", sdk.command, driver.log())));
        (driver, hello)
    }

    /// Returns the history of all calls of the driver.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Returns the log of the driver.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request. `limit` is the deadline within which it must end.
    pub(crate) fn send(&self, mut request: Value, limit: Duration) -> Pending {
        let id = self.requests.fetch_add(1, Ordering::Relaxed).to_string();
        request["id"] = json!(id);
        let (sender, lines) = mpsc::channel();
        self.shared.waiting.lock().insert(id.clone(), sender);
        let request = request.to_string();
        let start_ns = now_ns();
        let mut stdin = self.stdin.lock();
        let stdin = stdin.as_mut().expect("the driver has not been finished");
        if let Err(error) = stdin.write_all(format!("{request}\n").as_bytes()).and_then(|()| stdin.flush()) {
            panic!("the driver reads no more: {error}; {:?}\n{}", self.shared.fault.lock(), self.log());
        }
        Pending { id, start_ns, lines, limit, shared: self.shared.clone(), request }
    }

    /// Ends the driver, which must exit with code 0, and checks the protocol.
    pub(crate) fn finish(mut self) {
        drop(self.stdin.lock().take());
        let status = eventually("the driver exits", || self.child.try_wait().unwrap());
        self.reader.take().expect("the driver is finished once").join().expect("the reader does not panic");
        assert!(status.success(), "the driver exits with {status}:\n{}", self.log());
        assert_eq!(*self.shared.fault.lock(), None);
    }

    /// Checks the order of all numbers, then does the same as [`Driver::finish`].
    pub(crate) fn end(self) {
        self.history.check(false);
        self.finish();
    }

    /// Works like [`Driver::end`]. No item may have failed, and no number may be missing.
    pub(crate) fn end_seamless(self) {
        self.history.check(true);
        self.finish();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("== log of the driver\n{}", self.log());
        }
    }
}

impl Shared {
    /// Reads stdout to its end.
    fn read(&self, stdout: ChildStdout, greeting: &Sender<String>) {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        match lines.next() {
            // The receiver is gone if the greeting took too long.
            Some(line) => drop(greeting.send(line)),
            None => return,
        }
        for line in lines {
            let now = now_ns();
            if let Err(fault) = self.receive(now, &line) {
                self.fault.lock().get_or_insert(fault);
            }
        }
        // Requests without a response now see that the driver has ended.
        let mut waiting = self.waiting.lock();
        if !waiting.is_empty() {
            let ids: Vec<&String> = waiting.keys().collect();
            self.fault.lock().get_or_insert(format!("the driver ended without a response to {ids:?}"));
        }
        waiting.clear();
    }

    fn receive(&self, now: u64, line: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("{line:?} is not JSON: {error}"))?;
        let id = value["id"].as_str().ok_or_else(|| format!("{line:?} has no id"))?.to_owned();
        let mut waiting = self.waiting.lock();
        let unknown = || format!("{line:?} has the id of no request without a response");
        let sender = waiting.get(&id).ok_or_else(unknown)?;
        // A row may have dropped the request.
        let is_last = value.get("call").is_none();
        let _ = sender.send((now, value));
        if is_last {
            waiting.remove(&id);
        }
        Ok(())
    }
}

impl Pending {
    /// Waits for the next line.
    fn next_line(&self) -> Line {
        let received = self.lines.recv_timeout(self.limit + GRACE);
        if let Some(fault) = &*self.shared.fault.lock() {
            panic!("the driver violates the protocol: {fault}");
        }
        match received {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no response to {} within {:?}", self.request, self.limit + GRACE),
            Err(RecvTimeoutError::Disconnected) => panic!("the driver ended before its response to {}", self.request),
        }
    }

    /// Returns the next line, if it is there.
    fn try_next_line(&self) -> Option<Line> {
        self.lines.try_recv().ok()
    }

    /// Waits for the response; returns the time of its arrival and the response.
    pub(crate) fn wait(self) -> Line {
        self.next_line()
    }

    /// Returns whether there is no response yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.shared.waiting.lock().contains_key(&self.id)
    }
}
