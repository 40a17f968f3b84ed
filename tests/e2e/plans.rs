//! Plans of operators in a cluster of processes: two operators plan at the same time, and a plan is refused if the
//! other operator has changed its basis since.

use std::collections::BTreeMap;

use expect_test::expect;
use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};

/// Digits of a fingerprint.
const FINGERPRINT: usize = 16;

pub(crate) struct Cluster {
    pub(crate) set: String,
    /// The processes by name. They are dropped before the place, which has their logs.
    pub(crate) servers: BTreeMap<&'static str, Server>,
    pub(crate) place: Place,
}

impl Cluster {
    /// Starts three stores and three allocators, each of which owns sections.
    pub(crate) fn start() -> Cluster {
        Cluster::start_with_uids(10_000_000)
    }

    /// Works like [`Cluster::start`], with this number of uids.
    pub(crate) fn start_with_uids(uids: u64) -> Cluster {
        let place = Place::new();
        let set = place.set_file("three-node.toml").display().to_string();
        let third = format!(
            "\n[[alloc]]\nname = \"a3\"\naddr = \"{0}:7402\"\npeer = \"{0}:7406\"\nhttp = \"{0}:7482\"\n",
            place.host
        );
        let text = std::fs::read_to_string(&set).unwrap().replace("0..10_000_000", &format!("0..{uids}"));
        std::fs::write(&set, text + &third).unwrap();
        let config = place.path("seqsvr.toml").display().to_string();
        std::fs::write(&config, "[store]\nrebalance_after_ms = 300\n").unwrap();
        let mut servers = BTreeMap::new();
        for (name, id) in [("s1", "1"), ("s2", "2"), ("s3", "3")] {
            let data = place.path(name).display().to_string();
            let args = ["store", "--set", &set, "--id", id, "--data", &data, "--config", &config];
            servers.insert(name, place.server(name, &args));
        }
        let mut cluster = Cluster { set, servers, place };
        ["a1", "a2", "a3"].into_iter().for_each(|name| cluster.start_alloc(name));
        let (code, text) = cluster.run(&["health", "--wait-s", "60"]);
        assert_eq!(code, Some(0), "{text}");
        eventually("all allocators live", || {
            let output = seqsvr(&["node", "list", "--set", &cluster.set, "-o", "json"]);
            let list: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            let nodes = list["nodes"].as_array()?;
            (nodes.len() == 3 && nodes.iter().all(|node| node["state"] == "serves")).then_some(())
        });
        cluster
    }

    pub(crate) fn start_alloc(&mut self, name: &'static str) {
        let args = ["alloc", "--set", &self.set, "--name", name, "--cores", "1"];
        self.servers.insert(name, self.place.server(name, &args));
    }

    /// Runs a command; returns its exit code and all its output.
    pub(crate) fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = seqsvr(&[args, &["--set", &self.set]].concat());
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    fn drained(&self) -> Vec<String> {
        let list = seqsvr_json(&["node", "list", "--set", &self.set]);
        let nodes = list["nodes"].as_array().unwrap().iter().filter(|node| node["drained"] == true);
        nodes.map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// A transcript of commands and their output. Fingerprints, which differ in each run, are numbered in order of
/// occurrence, and counts of sections are replaced by N.
struct Transcript<'a> {
    cluster: &'a Cluster,
    text: String,
    seen: BTreeMap<String, usize>,
}

impl Transcript<'_> {
    /// Runs a command; returns the first fingerprint that it prints.
    fn run(&mut self, args: &[&str]) -> Option<String> {
        let (code, printed) = self.cluster.run(args);
        let mut first = None;
        let counted = |line: &str| match line.split_once(" sections of set") {
            Some((_, rest)) => format!("N sections of set{rest}"),
            None => line.to_owned(),
        };
        let printed: String = printed.split_inclusive('\n').map(counted).collect();
        let line = format!("$ seqsvr {}\n{printed}exit {}\n", args.join(" "), code.unwrap());
        for word in line.split_inclusive([' ', '\n', ':']) {
            let trimmed = word.trim_end_matches([' ', '\n', ':']);
            let is_hex = trimmed.bytes().all(|byte| byte.is_ascii_hexdigit());
            if trimmed.len() == FINGERPRINT && is_hex {
                let (next, place) = (self.seen.len() + 1, trimmed.to_owned());
                let number = *self.seen.entry(place).or_insert(next);
                first.get_or_insert_with(|| trimmed.to_owned());
                self.text += &word.replace(trimmed, &format!("<plan {number}>"));
            } else {
                self.text += word;
            }
        }
        first
    }
}

#[test]
fn a_drain_that_was_planned_before_another_one_changes_nothing() {
    let cluster = Cluster::start();
    let mut transcript = Transcript { cluster: &cluster, text: String::new(), seen: BTreeMap::new() };
    let of_a1 = transcript.run(&["node", "drain", "a1", "--dry-run"]).unwrap();
    assert!(cluster.drained().is_empty());
    // The second operator drains a2.
    let of_a2 = seqsvr_json(&["node", "drain", "a2", "--dry-run", "--set", &cluster.set]);
    let of_a2 = of_a2["plan"].as_str().unwrap().to_owned();
    let made = seqsvr_json(&["node", "drain", "a2", "--plan", &of_a2, "--set", &cluster.set]);
    assert_eq!((&made["changed"], &made["plan"]), (&true.into(), &of_a2.as_str().into()), "{made:#}");

    transcript.run(&["node", "drain", "a1", "--plan", &of_a1]);
    assert_eq!(cluster.drained(), ["a2"]);
    transcript.run(&["node", "drain", "a2", "--plan", &of_a2]);
    transcript.run(&["node", "undrain", "a2", "--plan", &of_a2]);
    assert_eq!(cluster.drained(), ["a2"]);
    transcript.run(&["node", "undrain", "a2", "--dry-run"]);
    transcript.run(&["node", "undrain", "a2"]);
    transcript.run(&["node", "drain", "a1", "--plan", "9f3c"]);
    assert!(cluster.drained().is_empty());
    expect![[r#"
        $ seqsvr node drain a1 --dry-run
        N sections of set im-a would be moved away from a1
        plan: <plan 1>
        exit 0
        $ seqsvr node drain a1 --plan <plan 1>
        N sections of set im-a would be moved away from a1
        plan: <plan 2>
        error: the plan <plan 1> is stale, or of another change: the plan of this change is <plan 2> now (STALE_PLAN)
        hint: nothing was changed: --dry-run shows the present plan
        exit 5
        $ seqsvr node drain a2 --plan <plan 3>
        nothing to do: a2 is drained
        exit 0
        $ seqsvr node undrain a2 --plan <plan 3>
        error: the plan <plan 3> is stale, or of another change: the plan of this change is <plan 4> now (STALE_PLAN)
        hint: nothing was changed: --dry-run shows the present plan
        exit 5
        $ seqsvr node undrain a2 --dry-run
        a2 would own sections again
        plan: <plan 4>
        exit 0
        $ seqsvr node undrain a2
        a2 may own sections again; it gets its share by planned handovers
        exit 0
        $ seqsvr node drain a1 --plan 9f3c
        error: invalid value '9f3c' for '--plan <FINGERPRINT>': it is not 16 hexadecimal digits, as --dry-run prints them

        For more information, try '--help'.
        exit 2
    "#]].assert_eq(&transcript.text);
}

#[test]
fn every_change_is_shown_with_its_plan_and_refuses_another_one() {
    let cluster = Cluster::start();
    let members = || seqsvr_json(&["store", "members", "--set", &cluster.set]);
    let leader = members()["leader"].as_u64().unwrap();
    let to = (leader % 3 + 1).to_string();
    let host = cluster.place.host.to_string();
    let other = "9f3c0a77d1e25b48";
    for change in [
        &["node", "drain", "a3"][..],
        &["store", "lead", "--to", &to],
        &["store", "terms", "--lease-wait-ms", "4000"],
        &["store", "remove", &to, "--allow-even", "--below-three"],
    ] {
        let shown = seqsvr_json(&[change, &["--dry-run", "--set", &cluster.set]].concat());
        let plan = shown["plan"].as_str().unwrap_or_else(|| panic!("{change:?}: {shown:#}"));
        let (code, text) = cluster.run(&[change, &["--dry-run"]].concat());
        assert!(code == Some(0) && text.ends_with(&format!("\nplan: {plan}\n")), "{change:?}: {text}");
        let (code, text) = cluster.run(&[change, &["--plan", other]].concat());
        assert!(code == Some(5) && text.contains("STALE_PLAN"), "{change:?}: {text}");
    }
    assert_eq!((members()["leader"].as_u64(), cluster.drained().len()), (Some(leader), 0));
    // All nodes of the set run on this host.
    let (code, text) = cluster.run(&["host", "drain", &host, "--plan", other]);
    assert!(code == Some(3) && text.contains("NO_MAJORITY"), "{text}");
    // A change that is already made needs no plan.
    let leads = leader.to_string();
    let (code, text) = cluster.run(&["store", "lead", "--to", &leads, "--plan", other]);
    assert_eq!((code, text.as_str()), (Some(0), format!("store {leads} leads set im-a\n").as_str()));
    let shown = seqsvr_json(&["store", "terms", "--lease-wait-ms", "4000", "--dry-run", "--set", &cluster.set]);
    let plan = shown["plan"].as_str().unwrap();
    let (code, text) = cluster.run(&["store", "terms", "--lease-wait-ms", "4000", "--plan", plan]);
    assert_eq!((code, text.as_str()), (Some(0), "lease_wait of set im-a is now 4,000 ms\n"));
}
