//! An AllocSvr that is killed is replaced without the wait for its lease, because the parent of its process reports its
//! death to the store.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, json, seqsvr, seqsvr_json};
use crate::dev::get;

/// The third allocator of the set.
const A3: &str = "[[alloc]]\nname = \"a3\"\naddr = \"HOST:7402\"\npeer = \"HOST:7406\"\nhttp = \"HOST:7482\"\n";

/// Exit code of a guard whose server was killed, as a shell reports it.
const KILLED: i32 = 128 + 9;

/// Three stores and three allocators.
struct Cluster {
    set: String,
    _stores: Vec<Server>,
    allocs: Vec<Server>,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

impl Cluster {
    /// Starts the stores, and each allocator with `start`.
    fn start(start: impl Fn(&Place, &str, &str) -> Server) -> Cluster {
        let place = Place::new();
        let file = place.set_file("three-node.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}\n{}", A3.replace("HOST", &place.host.to_string()))).unwrap();
        let set = file.display().to_string();
        let store = |id: u64| {
            let data = place.path(&format!("s{id}")).display().to_string();
            place.server(&format!("s{id}"), &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
        };
        let stores = (1..=3).map(store).collect();
        let allocs = ["a1", "a2", "a3"].map(|name| start(&place, &set, name)).into();
        let cluster = Cluster { set, _stores: stores, allocs, place };
        eventually("all sections are served", || {
            seqsvr(&["health", "--set", &cluster.set]).status.success().then_some(())
        });
        cluster
    }

    /// Returns the events of a kind.
    fn events(&self, kind: &str) -> Vec<Value> {
        let listed = seqsvr_json(&["events", "list", "--set", &self.set, "--kind", kind]);
        listed["items"].as_array().unwrap().clone()
    }

    /// Returns how many deaths the members of the store have noted.
    fn noted(&self) -> u64 {
        let of_member = |port: u16| {
            let metrics = get(&format!("{}:{port}", self.place.host), "/metrics");
            let line =
                metrics.lines().find(|line| line.starts_with("seqsvr_deaths_reported_total{")).map(str::to_owned);
            line.map_or(0, |line| line.rsplit(' ').next().unwrap().trim().parse().unwrap())
        };
        (7311..=7313).map(of_member).sum()
    }

    fn status(&self) -> String {
        String::from_utf8(seqsvr(&["status", "--set", &self.set]).stdout).unwrap()
    }
}

/// Callers of all nodes that never give up a call; ended on drop.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Load {
    fn start(cluster: &Cluster) -> Load {
        let addr = |port: u16| format!("http://{}:{port}", cluster.place.host);
        let addrs = [7400, 7401, 7402].map(addr);
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.args(["bench", "--check", "--rate", "400", "--uids", "10000000", "--warmup-s", "0", "-o", "json"]);
        command.args(["--duration", "10m", "--timeout", "20s"]).args(addrs.iter().flat_map(|addr| ["--addr", addr]));
        let load = Load(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        eventually("all allocators allocate", || {
            let allocated = allocated(cluster);
            (allocated.len() == 3 && allocated.iter().all(|numbers| *numbers > 100)).then_some(())
        });
        load
    }

    /// Waits until the allocators that respond have allocated this many more numbers.
    fn wait_for_calls(&self, cluster: &Cluster, calls: u64) {
        let before: u64 = allocated(cluster).iter().sum();
        eventually("the load goes on", || (allocated(cluster).iter().sum::<u64>() > before + calls).then_some(()));
    }

    /// Ends the load; returns its report.
    fn end(mut self) -> Value {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }
}

/// Returns how many numbers each allocator that responds has allocated.
fn allocated(cluster: &Cluster) -> Vec<u64> {
    // The exit code is not 0 while an allocator is missing.
    let output = seqsvr(&["status", "--set", &cluster.set, "-o", "json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["allocs"].as_array().unwrap().iter().map(|alloc| alloc["allocations"].as_u64().unwrap()).collect()
}

/// Returns the only child of a process.
fn child_of(parent: &Server) -> Pid {
    let parent = parent.pid().as_raw_nonzero();
    let children = format!("/proc/{parent}/task/{parent}/children");
    let child = std::fs::read_to_string(&children).unwrap();
    Pid::from_raw(child.trim().parse().unwrap_or_else(|_| panic!("{children}: {child:?}"))).unwrap()
}

fn guarded(place: &Place, set: &str, name: &str) -> Server {
    place.server(name, &["alloc", "--guard", "--set", set, "--name", name, "--cores", "1"])
}

#[test]
fn crash_failover() {
    let mut cluster = Cluster::start(guarded);
    let load = Load::start(&cluster);
    kill_process(child_of(&cluster.allocs[2]), Signal::KILL).unwrap();
    assert_eq!(cluster.allocs[2].wait_exit(), Some(KILLED), "the guard exits as its server did");
    let log = cluster.allocs[2].log();
    assert!(log.contains("guard: the store has noted that incarnation 1 of a3 died"), "{log}");
    let takeover = eventually("the sections are taken over", || cluster.events("takeover").pop());
    load.wait_for_calls(&cluster, 400);
    let report = load.end();
    println!("{} calls, with times from their schedule to the response of {}", report["calls"], report["latency"]);
    assert_eq!(report["failed"], 0, "{report:#}");
    assert!(report["calls"].as_u64().unwrap() > 300, "{report:#}");
    for fault in ["decreases", "duplicates"] {
        assert_eq!(report["order"][fault], 0, "{report:#}");
    }

    // The takeover did not wait: the store has not waited for renewals of a3.
    assert_eq!(takeover["node"], "a3", "{takeover:#}");
    assert!(takeover.get("lasted_ms").is_none(), "{takeover:#}");
    assert_eq!(cluster.events("silent"), Vec::<Value>::new());
    let died = cluster.events("died");
    let [died] = &died[..] else { panic!("{died:#?}") };
    assert_eq!((&died["node"], &died["severity"]), (&Value::from("a3"), &Value::from("attention")), "{died:#}");
    assert_eq!(died["owned"], takeover["sections"]["count"], "{died:#} {takeover:#}");
    assert_eq!(cluster.noted(), 1);
    let status = cluster.status();
    assert!(status.contains("ago (reported)"), "{status}");

    // An orderly stop is reported as well, and concerns no section.
    assert_eq!(cluster.allocs[1].terminate(), Some(0), "{}", cluster.allocs[1].log());
    let stopped =
        eventually("the stop is reported", || cluster.events("died").into_iter().find(|one| one["node"] == "a2"));
    assert_eq!(stopped["severity"], "info", "{stopped:#}");
    assert_eq!(cluster.events("takeover").len(), 1, "a1 took the sections of a3 and got those of a2 by handovers");
}

/// The server of a guard does not outlive the guard, so no other process can be started while it still serves.
#[test]
fn a_server_ends_with_its_guard() {
    let mut cluster = Cluster::start(guarded);
    let server = child_of(&cluster.allocs[0]);
    cluster.allocs[0].kill();
    let stat = format!("/proc/{}/stat", server.as_raw_nonzero());
    // A process that has ended is absent, or waits for its parent in the state Z.
    eventually("the server has ended", || {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        let state = text.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, None | Some('Z' | 'X')).then_some(())
    });
    assert_eq!(cluster.noted(), 0, "nobody has reaped the server for a report");
}

/// The runtime directory that a supervisor makes for an allocator.
fn runtime_dir(place: &Place, name: &str) -> PathBuf {
    let dir = place.path(&format!("run-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn supervised(place: &Place, set: &str, name: &str) -> Server {
    let dir = runtime_dir(place, name).display().to_string();
    let environment = [("RUNTIME_DIRECTORY", dir), ("SEQSVR_LOG_FORMAT", "plain".to_owned())];
    place.server_with_environment(name, &["alloc", "--set", set, "--name", name, "--cores", "1"], environment)
}

fn died(cluster: &Cluster, name: &str, file: &Path) -> Output {
    let file = file.display().to_string();
    seqsvr(&["alloc", "died", "--set", &cluster.set, "--name", name, "--process-file", &file, "--timeout-ms", "20000"])
}

#[test]
fn a_supervisor_reports_the_process_that_it_reaped_and_no_other() {
    let mut cluster = Cluster::start(supervised);
    let file = runtime_dir(&cluster.place, "a3").join("process");
    let number = std::fs::read_to_string(&file).unwrap();
    cluster.allocs[2].kill();
    let args = ["alloc", "died"];
    let output = died(&cluster, "a3", &file);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the store has noted that incarnation 1 of a3 died\n");
    eventually("the sections are taken over", || cluster.events("takeover").pop());
    assert_eq!(cluster.events("silent"), Vec::<Value>::new());
    let again = died(&cluster, "a3", &file);
    assert!(String::from_utf8_lossy(&again.stdout).starts_with("nothing changed: "), "{again:?}");

    // The next process has another number, so a late report of the first process changes nothing.
    let late = cluster.place.path("late");
    std::fs::copy(&file, &late).unwrap();
    cluster.allocs[2] = supervised(&cluster.place, &cluster.set, "a3");
    eventually("a3 serves again", || seqsvr(&["health", "--set", &cluster.set]).status.success().then_some(()));
    assert_ne!(std::fs::read_to_string(&file).unwrap(), number);
    let late = [&args[..], &["--set", &cluster.set, "--name", "a3", "--process-file", late.to_str().unwrap()]].concat();
    let view = json(&late, &seqsvr(&[&late[..], &["-o", "json"]].concat()));
    assert_eq!((&view["node"], digits(&view["incarnation"])), (&Value::from("a3"), 0));
    assert_eq!(cluster.noted(), 1);

    // Bad input: nothing is sent, and the error names the file.
    let absent = died(&cluster, "a3", &cluster.place.path("absent"));
    assert_eq!(absent.status.code(), Some(2), "{absent:?}");
    assert!(String::from_utf8_lossy(&absent.stderr).contains("absent: "), "{absent:?}");
    let other = died(&cluster, "a9", &file);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    assert!(String::from_utf8_lossy(&other.stderr).contains("UNKNOWN_NODE"), "{other:?}");
}

/// A process that runs although it was reported dead serves nothing more, and ends.
#[test]
fn a_process_that_was_reported_dead_ends() {
    let mut cluster = Cluster::start(supervised);
    let file = runtime_dir(&cluster.place, "a2").join("process");
    let output = died(&cluster, "a2", &file);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cluster.allocs[1].wait_exit(), Some(1));
    let log = cluster.allocs[1].log();
    assert!(log.contains("this process was reported dead"), "{log}");
}
