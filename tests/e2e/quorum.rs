//! Probes, status and commands while the store has no majority, with real processes that are killed and paused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};

/// Exit code if a node responded and is unhealthy.
const UNHEALTHY: i32 = 3;

/// Longest time of a command that cannot succeed: an election, the timeout of a paused member, and a busy machine.
const AT_ONCE: Duration = Duration::from_secs(9);

struct Cluster {
    set: PathBuf,
    stores: Vec<Server>,
    allocs: Vec<Server>,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

impl Cluster {
    fn start() -> Cluster {
        let place = Place::new();
        let set = place.set_file("three-node.toml");
        let mut cluster = Cluster { place, set, stores: Vec::new(), allocs: Vec::new() };
        for id in 1..=3 {
            let store = cluster.store(id);
            cluster.stores.push(store);
        }
        for name in ["a1", "a2"] {
            let set = cluster.set.display().to_string();
            let alloc = cluster.place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
            cluster.allocs.push(alloc);
        }
        eventually("all is well", || (cluster.status()["state"] == "ok").then_some(()));
        cluster
    }

    fn store(&self, id: usize) -> Server {
        let name = format!("s{id}");
        let (set, data) = (self.set.display().to_string(), self.place.path(&name).display().to_string());
        self.place.server(&name, &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
    }

    /// Returns the set in the output of `status` through an allocator, with its stores.
    fn status(&self) -> Value {
        let addr = format!("http://{}:7400", self.place.host);
        let output = seqsvr(&["status", "--addr", &addr, "--timeout-ms", "1000", "-o", "json"]);
        let Ok(status) = serde_json::from_slice::<Value>(&output.stdout) else { return Value::Null };
        let mut set = status["sets"][0].clone();
        set["nodes"] = status["stores"].clone();
        set["exit"] = output.status.code().into();
        set
    }

    fn leader(&self) -> usize {
        eventually("a store leads", || {
            let nodes = self.status()["nodes"].as_array()?.clone();
            let leads = |store: &&Value| store["leader"] == true && store["quorum"] == true;
            Some(nodes.iter().find(leads)?["id"].as_u64()? as usize)
        })
    }

    /// Runs an operator's command with the set file; returns its output and duration.
    fn command(&self, args: &[&str]) -> (Output, Duration) {
        let set = self.set.display().to_string();
        let since = Instant::now();
        let output = seqsvr(&[args, &["--set", &set]].concat());
        (output, since.elapsed())
    }

    /// Returns the response of a store's port for probes.
    fn get(&self, id: usize, path: &str) -> String {
        let mut stream = TcpStream::connect((self.place.host, 7310 + id as u16)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(log: &str, needle: &str) -> usize {
    log.lines().filter(|line| line.contains(needle)).count()
}

/// The commands that need a majority.
const COMMANDS: [&[&str]; 7] = [
    &["store", "remove", "2", "3", "--dry-run"],
    &["store", "remove", "2", "3", "--yes", "--below-three"],
    &["store", "add", "3"],
    &["node", "list"],
    &["node", "drain", "a2", "--dry-run"],
    &["node", "drain", "a2", "--yes"],
    &["node", "undrain", "a2"],
];

#[test]
fn a_lost_quorum_is_reported_by_probes_status_and_every_command_at_once() {
    let mut cluster = Cluster::start();
    let leader = cluster.leader();
    let others: Vec<usize> = (1..=3).filter(|id| *id != leader).collect();
    for id in &others {
        cluster.stores[id - 1].kill();
    }
    let lost =
        eventually("the leases have expired", || Some(cluster.status()).filter(|set| set["sections_served"] == 0));
    let verdict = lost["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("NO QUORUM: 1 of 3 voters responds"), "{verdict}");
    for part in
        ["nothing can be committed", "leases ended", &format!("next: start s{}, s{} again", others[0], others[1])]
    {
        assert!(verdict.contains(part), "{part}: {verdict}");
    }
    assert_eq!((&lost["state"], &lost["exit"]), (&"no_quorum".into(), &UNHEALTHY.into()), "{lost:#}");

    let ready = cluster.get(leader, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("store-leader: no quorum since"), "{ready}");
    let quorum = format!("_raft_quorum{{set=\"im-a\",node=\"s{leader}\"}} 0");
    eventually("the metric reports it", || cluster.get(leader, "/metrics").contains(&quorum).then_some(()));

    for args in COMMANDS {
        let (output, took) = cluster.command(args);
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(UNHEALTHY) && stderr.contains("NO_MAJORITY"), "{args:?}: {stderr}");
        assert!(took < AT_ONCE, "{args:?} took {took:?}");
    }
    let (members, _) = cluster.command(&["store", "members"]);
    assert_eq!(members.status.code(), Some(UNHEALTHY));
    assert!(text(&members.stdout).contains("NO QUORUM since"), "{}", text(&members.stdout));

    // The log has one line per fault, independent of its duration.
    let log = cluster.stores[leader - 1].log();
    assert_eq!(lines(&log, "a member of the store does not respond"), 2, "{log}");
    assert_eq!((lines(&log, "quorum lost"), lines(&log, "this member leads")), (1, 1), "{log}");
    assert!(lines(&log, " WARN ") <= 12, "{log}");
    // The lost lease is found at the next failed renewal.
    eventually("the lost lease is logged", || (lines(&cluster.allocs[0].log(), "lease lost") > 0).then_some(()));
    let log = cluster.allocs[0].log();
    assert_eq!((lines(&log, "cannot renew"), lines(&log, "lease lost")), (1, 1), "{log}");

    for id in others {
        cluster.stores[id - 1] = cluster.store(id);
    }
    eventually("all is well again", || (cluster.status()["state"] == "ok").then_some(()));
    let log = cluster.allocs[0].log();
    assert_eq!(lines(&log, "renewed again"), 1, "{log}");
    let first = log.lines().next().unwrap();
    for field in ["seqsvr starts", "version=", "revision=", "role=\"alloc\"", "set=\"im-a\"", "pid="] {
        assert!(first.contains(field), "{field}: {first}");
    }
}

#[test]
fn commands_keep_their_deadline_while_stores_are_paused() {
    let cluster = Cluster::start();
    let leader = cluster.leader();
    let paused = [leader, leader % 3 + 1];
    for id in paused {
        cluster.stores[id - 1].freeze();
    }
    for args in [
        &["node", "drain", "a2", "--yes", "--timeout-s", "1"][..],
        &["node", "undrain", "a2", "--timeout-s", "2"],
        &["store", "remove", "3", "--yes", "--allow-even", "--below-three", "--timeout-s", "2"],
        &["node", "list"],
        &["node", "undrain", "a2"],
    ] {
        let (output, took) = cluster.command(args);
        assert!(!output.status.success(), "{args:?}: {}", text(&output.stdout));
        assert!(took < AT_ONCE, "{args:?} took {took:?}: {}", text(&output.stderr));
    }
    for id in paused {
        cluster.stores[id - 1].thaw();
    }
    eventually("all is well again", || (cluster.status()["state"] == "ok").then_some(()));

    // Only the leader is paused: another member takes over, and commands find it.
    let leader = cluster.leader();
    cluster.stores[leader - 1].freeze();
    let (list, took) = cluster.command(&["node", "list"]);
    assert!(list.status.success() && took < AT_ONCE, "{took:?}: {}", text(&list.stderr));
    cluster.stores[leader - 1].thaw();
}

#[test]
fn members_are_removed_only_with_confirmation() {
    let cluster = Cluster::start();
    let refused = |args: &[&str], code: i32, part: &str| {
        let (output, _) = cluster.command(args);
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(code) && stderr.contains(part), "{args:?}: {stderr}");
    };
    refused(&["store", "remove", "1", "2", "--yes"], 1, "BELOW_THREE");
    refused(&["store", "remove", "1", "2", "--dry-run"], 1, "BELOW_THREE");
    refused(&["store", "remove", "1", "2", "--below-three"], 2, "no terminal to confirm it on");
    let set = cluster.set.display().to_string();
    let members = seqsvr_json(&["store", "members", "--set", &set]);
    assert_eq!(members["members"].as_array().unwrap().len(), 3, "nothing was changed: {members:#}");
    let foreseen = seqsvr_json(&["store", "remove", "1", "2", "--below-three", "--dry-run", "--set", &set]);
    assert_eq!(foreseen["voters"], serde_json::json!([3]));
}
