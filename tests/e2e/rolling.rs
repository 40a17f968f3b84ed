//! Rolling upgrades: three stores and three allocators change between the previous release and the tested release,
//! under load of numbers, and of ids once the set can have series.
//!
//! `tests/rolling/run` builds the previous release and runs this test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seq_testkit::eventually;
use seq_testkit::ids::{Clocks, IdLoad, SERIES};
use serde_json::Value;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};

/// Nodes, in the order of an upgrade: stores first.
const NODES: [&str; 6] = ["s1", "s2", "s3", "a1", "a2", "a3"];

/// Formats of the two releases.
const FORMATS: [u64; 2] = [7, 11];

/// Calls per second, for uids that no other client uses.
const LOAD: [&str; 10] = [
    "--seamless",
    "--first-uid",
    "1000000",
    "--uids",
    "1000000",
    "--rate",
    "500",
    "--duration-s",
    "3600",
    "--deadline-ms",
];

struct Set {
    set: String,
    nodes: Vec<Server>,
    /// The programs of the previous release and of the tested release.
    releases: [PathBuf; 2],
    place: Place,
}

impl Set {
    fn start(before: &Path) -> Set {
        let place = Place::new();
        let set = place.set_file("three-node.toml").display().to_string();
        let third = format!(
            "\n[[alloc]]\nname = \"a3\"\naddr = \"{0}:7402\"\npeer = \"{0}:7406\"\nhttp = \"{0}:7482\"\n",
            place.host
        );
        std::fs::write(&set, std::fs::read_to_string(&set).unwrap() + &third).unwrap();
        let releases = [before.to_owned(), env!("CARGO_BIN_EXE_seqsvr").into()];
        let mut started = Set { set, nodes: Vec::new(), releases, place };
        for name in NODES {
            let node = started.node(name, 0);
            started.nodes.push(node);
        }
        for name in NODES {
            started.is_ready(name);
        }
        started
    }

    fn node(&self, name: &str, release: usize) -> Server {
        let (role, id) = name.split_at(1);
        let data = self.place.path(name).display().to_string();
        let args = match role {
            "s" => vec!["store", "--set", &self.set, "--id", id, "--data", &data],
            _ => vec!["alloc", "--set", &self.set, "--name", name, "--cores", "1"],
        };
        self.place.server_of(&self.releases[release], name, &args)
    }

    fn addr(&self, name: &str) -> String {
        let (role, number) = name.split_at(1);
        let number: u16 = number.parse().unwrap();
        let port = if role == "s" { 7300 + number } else { 7399 + number };
        format!("http://{}:{port}", self.place.host)
    }

    fn is_ready(&self, name: &str) {
        let addr = self.addr(name);
        eventually("the node is ready", || seqsvr(&["health", "--addr", &addr]).status.success().then_some(()));
    }

    /// Restarts each node with another release, once the node before it is ready; returns the longest time that a node
    /// took.
    fn roll(&mut self, release: usize) -> Duration {
        let mut longest = Duration::ZERO;
        for (place, name) in NODES.iter().enumerate() {
            let since = Instant::now();
            assert_eq!(self.nodes[place].terminate(), Some(0), "{}", self.nodes[place].log());
            self.nodes[place] = self.node(name, release);
            self.is_ready(name);
            longest = longest.max(since.elapsed());
        }
        longest
    }

    /// Restarts an allocator with another release; returns once it is ready.
    fn change(&mut self, place: usize, release: usize) {
        assert_eq!(self.nodes[place].terminate(), Some(0), "{}", self.nodes[place].log());
        self.nodes[place] = self.node(NODES[place], release);
        self.is_ready(NODES[place]);
    }

    /// Creates the series of [`IdLoad`]; returns the reason of the first refusal.
    fn create_series(&self) -> Result<(), String> {
        let mut refusal = Ok(());
        for series in SERIES {
            series.create(&[], |args| {
                let output = seqsvr(&[args, &["--set", &self.set]].concat());
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                let is_refused = text.contains("OLD_FORMAT");
                if is_refused {
                    refusal = Err(text);
                }
                output.status.success() || is_refused
            });
        }
        refusal
    }

    /// Returns the owners of the sections with lanes of series. The third allocator knows series whenever it is asked.
    fn lane_owners(&self) -> BTreeSet<String> {
        let addr = self.addr("a3");
        let shown = SERIES.map(|series| seqsvr_json(&["series", "show", series.name, "--addr", &addr]));
        let runs = shown.iter().flat_map(|series| series["runs"].as_array().unwrap());
        runs.map(|run| run["owner"].as_str().unwrap_or("none").to_owned()).collect()
    }

    /// Restarts two allocators with the previous release, and all nodes with the tested release, under a load of ids:
    /// allocators that do not know series own no lanes.
    fn rolls_with_ids(&mut self) {
        self.create_series().expect("the format has series");
        let allocs = ["a1", "a2", "a3"];
        let ids = IdLoad::start(&allocs.map(|name| self.addr(name).trim_start_matches("http://").to_owned()));
        let mut others = BTreeSet::from(allocs.map(str::to_owned));
        for name in ["a1", "a2"] {
            self.change(NODES.iter().position(|node| *node == name).unwrap(), 0);
            others.remove(name);
            let owners = || Some(self.lane_owners()).filter(|owners| owners.is_subset(&others));
            let owners = eventually("the lanes have other owners", owners);
            println!("{name} has the previous release; the lanes are of {owners:?}");
            ids.wait_served();
        }
        self.roll(1);
        let owners = || Some(self.lane_owners()).filter(|owners| owners.len() == allocs.len());
        eventually("all allocators own lanes", owners);
        ids.wait_served();
        for (at, series) in SERIES.iter().enumerate() {
            let figures = ids.figures(at);
            assert_eq!(figures.failed, 0, "{}: {figures:?}", series.name);
        }
        ids.end("rolling", Clocks::RIGHT);
    }

    fn members(&self) -> Value {
        seqsvr_json(&["store", "members", "--set", &self.set])
    }

    /// Runs `seqsvr store upgrade`; returns its exit code and all its output.
    fn upgrade(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = seqsvr(&[&["store", "upgrade", "--set", &self.set], args].concat());
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
    }
}

#[test]
#[ignore = "needs the release before: tests/rolling/run"]
fn rolling_upgrades_and_downgrades_under_load() {
    let before = PathBuf::from(std::env::var("SEQSVR_BEFORE").expect("SEQSVR_BEFORE is the release before"));
    let rolls: u32 = std::env::var("ROLLS").map_or(10, |rolls| rolls.parse().expect("ROLLS is a number"));
    let mut set = Set::start(&before);
    let addrs = ["a1", "a2", "a3"].map(|name| set.addr(name));
    let mut load = vec!["bench", "-o", "json"];
    load.extend(LOAD);
    load.push("20000");
    load.extend(addrs.iter().flat_map(|addr| ["--addr", addr]));
    let mut bench = set.place.server("bench", &load);

    for roll in 1..=rolls {
        let up = set.roll(1);
        if roll == 1 {
            let members = set.members();
            assert_eq!(members["format"], FORMATS[0], "{members:#}");
            let refusal = set.create_series().expect_err("the format has no series");
            print!("a series before the upgrade: {refusal}");
        }
        let down = set.roll(0);
        println!("roll {roll} of {rolls}: up, {up:.1?} for the slowest node; down, {down:.1?}");
    }

    // In the middle of the last upgrade, the leader names the member of the other release.
    for place in [0, 1] {
        set.change(place, 1);
    }
    let lead = || seqsvr(&["store", "lead", "--to", "1", "--set", &set.set]).status.success().then_some(());
    eventually("store 1 leads", lead);
    let (code, printed) = set.upgrade(&["--yes"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("store 3 runs a release that reads formats up to 7"), "{printed}");
    set.roll(1);

    let members = set.members();
    println!("format before: {}; the members read {}", members["format"], members["members"][0]["newest_format"]);
    assert_eq!(members["format"], FORMATS[0], "{members:#}");
    let (code, printed) = set.upgrade(&["--dry-run"]);
    assert!(code == Some(0) && printed.contains("would write format 11 in place of 7"), "{printed}");
    let (code, printed) = set.upgrade(&["--yes"]);
    assert!(code == Some(0) && printed.contains("writes format 11 in place of 7"), "{printed}");
    print!("{printed}");
    let members = set.members();
    println!("format after: {}", members["format"]);
    assert_eq!(members["format"], FORMATS[1], "{members:#}");

    // The previous release refuses a data directory that it cannot read, and names the format.
    assert_eq!(set.nodes[2].terminate(), Some(0));
    let mut returned = set.node("s3", 0);
    assert_eq!(returned.wait_exit(), Some(64), "{}", returned.log());
    let refusal = returned.log();
    let refusal = refusal.lines().last().unwrap_or_default();
    println!("the release before: {refusal}");
    assert!(refusal.contains("format"), "{refusal}");
    set.nodes[2] = set.node("s3", 1);
    set.is_ready("s3");
    set.rolls_with_ids();

    bench.interrupt();
    let report = bench.ready();
    let figures = ["calls", "failed", "longest_unanswered_ms"].map(|figure| format!("{figure} {}", report[figure]));
    println!("{}, order {}", figures.join(", "), report["order"]);
    assert_eq!(report["failed_items"], serde_json::json!({}), "{report:#}");
    assert_eq!(report["failed"], 0, "{report:#}");
    for fault in ["decreases", "duplicates", "chain_breaks", "gaps"] {
        assert_eq!(report["order"][fault], 0, "{report:#}");
    }
    assert!(report["calls"].as_u64() > Some(1_000), "{report:#}");
}
