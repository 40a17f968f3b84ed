//! Load on one node of three while the owner of a third of the uids is killed or restarted: every call comes in at a
//! node that forwards most calls, over every endpoint that shares streams.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, seqsvr};
use crate::two_sets::{ALLOCS, TwoSets};

/// Seconds of load: a failover in the middle, and some time after it.
const SECONDS: &str = "9";

/// Calls per second over each endpoint. This is little even for a build without optimization, because an owner that is
/// slow for 250 ms in a handover may leave a gap.
const RATE: &str = "200";

/// Seqs that a node forwards before a fault, and again after it.
const FORWARDED: f64 = 2_000.0;

/// Uids, in 60 sections.
const UIDS: &str = "60000";

/// Nodes, and the port of the first node's gRPC endpoint; the ports of the other nodes follow.
const NODES: [&str; 3] = ["a1", "a2", "a3"];
const PORT: u16 = 7_400;

struct Cluster {
    allocs: Vec<Server>,
    _store: Server,
    set: PathBuf,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

impl Cluster {
    fn start() -> Cluster {
        let place = Place::new();
        let host = place.host;
        let mut text = format!(
            "name = \"forwarding\"\nplaintext = true\nuids = \"0..{UIDS}\"\nsection_size = 1000\nstep = 10_000\n\
             [[store]]\nid = 1\nname = \"s1\"\naddr = \"{host}:7301\"\nraft = \"{host}:7307\"\nadmin = \"{host}:7304\"\nhttp = \"{host}:7311\"\n"
        );
        for (port, name) in (PORT..).zip(NODES) {
            text += &format!(
                "[[alloc]]\nname = \"{name}\"\naddr = \"{host}:{port}\"\npeer = \"{host}:{}\"\nhttp = \"{host}:{}\"\n\
                 redis = \"{host}:{}\"\n",
                port + 70,
                port + 80,
                port + 90
            );
        }
        let set = place.path("set.toml");
        std::fs::write(&set, text).unwrap();
        let data = place.path("s1").display().to_string();
        let store = ["store", "--set", &set.display().to_string(), "--id", "1", "--data", &data, "--form"];
        let store = place.server("s1", &store);
        let mut cluster = Cluster { allocs: Vec::new(), _store: store, set, place };
        for name in NODES {
            let node = cluster.alloc(name);
            cluster.allocs.push(node);
        }
        for node in 0..NODES.len() as u16 {
            cluster.until_it_owns(node);
        }
        cluster
    }

    fn alloc(&self, name: &str) -> Server {
        let set = self.set.display().to_string();
        self.place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"])
    }

    /// Returns the sum of a node's series with a name; 0 if the node does not respond.
    fn metric(&self, node: u16, name: &str) -> f64 {
        let Ok(mut stream) = TcpStream::connect((self.place.host, PORT + 80 + node)) else { return 0.0 };
        let mut metrics = String::new();
        let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        if asked.and_then(|()| stream.read_to_string(&mut metrics)).is_err() {
            return 0.0;
        }
        let values = metrics.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' '));
        values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
    }

    fn until_it_owns(&self, node: u16) {
        eventually("the node owns sections", || (self.metric(node, "seqsvr_sections{") > 0.0).then_some(()));
    }

    /// Waits until the first node has forwarded [`FORWARDED`] more seqs.
    fn until_more_is_forwarded(&self) {
        let before = self.metric(0, "seqsvr_forwarded_total");
        let forwarded = || (self.metric(0, "seqsvr_forwarded_total") > before + FORWARDED).then_some(());
        eventually("calls are forwarded", forwarded);
    }

    /// Starts a load on the first node over each endpoint. Replies of Redis have no `prev`, so missing seqs are not
    /// found in its load, only the order is checked.
    fn load(&self, check: &str) -> Vec<Load> {
        let (addr, redis) =
            (format!("http://{}:{PORT}", self.place.host), format!("{}:{}", self.place.host, PORT + 90));
        let endpoints: [&[&str]; 4] = [
            &["--endpoint", "resp", "--redis", &redis, "--concurrency", "8", "--pipeline", "16"],
            &["--endpoint", "grpc", "--concurrency", "32"],
            &["--endpoint", "many", "--batch", "20", "--concurrency", "4"],
            &["--endpoint", "stream", "--batch", "5", "--concurrency", "4"],
        ];
        // Each load has its own uids, in sections of all nodes.
        (0..)
            .zip(endpoints)
            .map(|(part, endpoint)| {
                let first = (part * 15_000).to_string();
                let check = if endpoint.contains(&"resp") { "--check" } else { check };
                let bench =
                    ["bench", "--addr", &addr, "--first-uid", &first, "--uids", "15000", "--duration-s", SECONDS];
                Load::start(&[&bench[..], &["--rate", RATE, "--warmup-s", "0", "-o", "json", check], endpoint].concat())
            })
            .collect()
    }
}

/// A running load.
struct Load {
    child: Child,
}

impl Load {
    fn start(args: &[&str]) -> Load {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        Load { child: command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap() }
    }

    /// Waits for the end of the load; returns its report.
    fn report(mut self) -> Value {
        let mut text = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        self.child.wait().unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text:?} is no report: {error}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn assert_in_order(report: &Value) {
    for fault in ["decreases", "duplicates"] {
        assert_eq!(report["order"][fault], 0, "{report:#}");
    }
    assert!(report["numbers"].as_u64().unwrap() > 0, "{report:#}");
}

#[test]
fn a_killed_owner_repeats_no_number_and_turns_none_around() {
    let mut cluster = Cluster::start();
    let loads = cluster.load("--check");
    cluster.until_more_is_forwarded();
    cluster.allocs[1].kill();
    cluster.until_more_is_forwarded();
    cluster.allocs[1] = cluster.alloc(NODES[1]);
    for load in loads {
        assert_in_order(&load.report());
    }
    // Every section of the killed node has an owner again.
    let addr = format!("http://{}:{PORT}", cluster.place.host);
    for section in 0..60 {
        let uid = (section * 1_000).to_string();
        eventually("every section is served", || {
            seqsvr(&["next", &uid, "--addr", &addr]).status.success().then_some(())
        });
    }
}

#[test]
fn a_planned_restart_of_an_owner_fails_no_call_and_skips_no_number() {
    let mut cluster = Cluster::start();
    let loads = cluster.load("--seamless");
    cluster.until_more_is_forwarded();
    assert_eq!(cluster.allocs[1].terminate(), Some(0));
    cluster.until_more_is_forwarded();
    cluster.allocs[1] = cluster.alloc(NODES[1]);
    cluster.until_it_owns(1);
    for load in loads {
        let report = load.report();
        assert_in_order(&report);
        assert_eq!((&report["failed"], &report["order"]["pass"]), (&0.into(), &true.into()), "{report:#}");
    }
}

/// The callers only have the addresses of the other set's allocators, and no SDK that repeats calls.
#[test]
fn a_rolling_restart_of_a_set_fails_no_call_at_another_set() {
    let sets = TwoSets::new(10_000_000);
    let [_a, mut b] = sets.start();
    sets.split_for_good("5_000_000");
    let addrs = [7400, 7401].map(|port| sets.addr(port));
    let load = |endpoint| {
        let bench =
            ["bench", "--endpoint", endpoint, "--addr", &addrs[0], "--addr", &addrs[1], "--first-uid", "5000000"];
        let more =
            ["--uids", "50000", "--rate", RATE, "--duration-s", SECONDS, "--warmup-s", "0", "-o", "json", "--check"];
        Load::start(&[&bench[..], &more[..]].concat())
    };
    let (loads, began) = (["grpc", "json"].map(load), Instant::now());
    for ((alloc, name), port) in [0, 1, 0, 1].map(|at| ((at, ALLOCS[at]), [7420, 7421][at])) {
        let alloc = &mut b.allocs[alloc];
        assert_eq!(alloc.terminate(), Some(0));
        *alloc = sets.alloc("b", name);
        let serves = || seqsvr(&["health", "--addr", &sets.addr(port)]).status.success().then_some(());
        eventually("the allocator serves again", serves);
    }
    println!("both have been restarted in {:.1?}", began.elapsed());
    for load in loads {
        let report = load.report();
        assert_in_order(&report);
        assert_eq!(report["failed"], 0, "{report:#}");
    }
}
