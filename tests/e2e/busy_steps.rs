//! The step of a busy section grows up to the limit of the settings: fewer writes, and a crash skips more of that
//! section's numbers, but not of others.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits};

/// Step of the set, and the limit on the step of a busy section.
const STEP: u64 = 100;
const STEP_MAX: u64 = 12_800;

/// Commands that are sent before their replies are read, each for [`COUNT`] numbers.
const PIPELINE: usize = 100;
const COUNT: u64 = 20;

struct Cluster {
    set: String,
    allocs: Vec<Server>,
    _stores: Vec<Server>,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

impl Cluster {
    fn start() -> Cluster {
        let place = Place::new();
        let set = place.set_file("three-node.toml");
        let text = std::fs::read_to_string(&set).unwrap();
        std::fs::write(&set, text.replace("step = 10_000", &format!("step = {STEP}"))).unwrap();
        let set = set.display().to_string();
        let stores = (1..=3).map(|id| {
            let (name, id) = (format!("s{id}"), id.to_string());
            let data = place.path(&name).display().to_string();
            place.server(&name, &["store", "--set", &set, "--id", &id, "--data", &data])
        });
        let stores = stores.collect();
        let config = place.path("alloc.toml").display().to_string();
        std::fs::write(&config, format!("[alloc]\nstep_max = {STEP_MAX}\n")).unwrap();
        let alloc = |name: &str| place.server(name, &["alloc", "--set", &set, "--name", name, "--config", &config]);
        let allocs = ["a1", "a2"].map(alloc).into();
        Cluster { set, allocs, _stores: stores, place }
    }

    /// Returns the description of a section by its owner.
    fn section(&self, section: u32) -> Value {
        self.place.seqsvr_json(&["section", "show", &section.to_string(), "--set", &self.set])
    }

    /// Returns the step in force of a section: a raise is due with half a step left.
    fn step(&self, section: u32) -> u64 {
        2 * digits(&self.section(section)["activity"]["raise_due_at"])
    }

    /// Takes [`COUNT`] numbers of a uid with each of [`PIPELINE`] commands at a node. Returns the last number; `None`
    /// if the node does not respond.
    fn burst(&self, node: usize, uid: u64) -> Option<u64> {
        let mut stream = TcpStream::connect((self.place.host, [7479, 7478][node])).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(format!("INCRBY seq:{uid} {COUNT}\r\n").repeat(PIPELINE).as_bytes()).ok()?;
        let mut replies = BufReader::new(stream).lines();
        let mut next = || replies.next()?.ok()?.strip_prefix(':')?.parse().ok();
        (0..PIPELINE).try_fold(0, |last, _| next().filter(|number| *number > last))
    }

    fn raises(&self) -> f64 {
        [7480, 7481].iter().map(|port| raises(&format!("{}:{port}", self.place.host))).sum()
    }
}

fn raises(addr: &str) -> f64 {
    let metrics = crate::dev::get(addr, "/metrics");
    let of_raises =
        |line: &&str| line.starts_with("seqsvr_ceiling_raises_total{") && line.contains(r#"outcome="raised""#);
    metrics.lines().filter(of_raises).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn a_busy_section_is_raised_seldom_and_its_next_owner_begins_anew() {
    const BUSY: u64 = 7;
    const QUIET: u64 = 100_007;
    let mut cluster = Cluster::start();
    eventually("both sections are served", || {
        [0, 1]
            .iter()
            .all(|node| cluster.burst(*node, QUIET).is_some() && cluster.burst(*node, BUSY).is_some())
            .then_some(())
    });
    eventually("the step is at its limit", || {
        cluster.burst(0, BUSY)?;
        (cluster.step(0) == STEP_MAX).then_some(())
    });
    let (before, mut last) = (cluster.raises(), 0);
    const BURSTS: u64 = 50;
    for _ in 0..BURSTS {
        last = cluster.burst(0, BUSY).unwrap();
    }
    let (raised, numbers) = (cluster.raises() - before, BURSTS * PIPELINE as u64 * COUNT);
    // The machine may be so slow that the step halves meanwhile.
    let most = (numbers / (STEP_MAX / 4)) as f64;
    assert!(raised <= most, "{raised} raises for {numbers} numbers, of {} with the step of the set", numbers / STEP);
    let quiet = cluster.burst(1, QUIET).unwrap();

    let owner = cluster.section(0)["owner"].as_str().unwrap().to_owned();
    let (killed, other) = if owner == "a1" { (0, 1) } else { (1, 0) };
    cluster.allocs[killed].kill();
    let first = eventually("the other node serves the section", || cluster.burst(other, BUSY));
    let of_burst = PIPELINE as u64 * COUNT;
    let skipped = first - of_burst - last;
    assert!(skipped <= STEP_MAX + STEP_MAX / 2, "{skipped} numbers are skipped");
    let skipped = cluster.burst(other, QUIET).unwrap() - of_burst - quiet;
    assert!(skipped <= STEP_MAX + STEP_MAX / 2, "{skipped} numbers are skipped");
    assert!(cluster.step(0) < STEP_MAX, "an ownership begins with the step of the set");
}
