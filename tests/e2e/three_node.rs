//! Three stores and two allocators as separate processes, from the project's set file.

use std::path::PathBuf;

use seq_testkit::eventually;
use serde_json::Value;

use crate::activity::top_writes;
use crate::cluster::{Place, Server, assert_clean, digits, seqsvr, seqsvr_json, trace};
use crate::dev::get;

/// Settings with few entries between snapshots and few retained entries, so that a member that was down needs a
/// snapshot.
const SNAPSHOT_OFTEN: [&str; 2] = ["--config", "store.toml"];

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
        std::fs::write(
            place.path(SNAPSHOT_OFTEN[1]),
            "[store]\nsnapshot_interval_entries = 20\nlog_retained_entries = 5\n",
        )
        .unwrap();
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
        cluster.take("1");
        cluster
    }

    fn store(&self, id: u64) -> Server {
        let name = format!("s{id}");
        let (set, data) = (self.set.display().to_string(), self.place.path(&name).display().to_string());
        let config = self.place.path(SNAPSHOT_OFTEN[1]).display().to_string();
        let id = id.to_string();
        let args = ["store", "--set", &set, "--id", &id, "--data", &data, SNAPSHOT_OFTEN[0], &config];
        self.place.server(&name, &args)
    }

    fn addr(&self, port: u16) -> String {
        format!("http://{}:{port}", self.place.host)
    }

    /// Allocates a seq; retries until a node responds.
    fn take(&self, uid: &str) -> u64 {
        let (a1, a2) = (self.addr(7400), self.addr(7401));
        let next = || seqsvr(&["next", uid, "--addr", &a1, "--addr", &a2, "-o", "json"]);
        let output = eventually("a number is allocated", || Some(next()).filter(|output| output.status.success()));
        digits(&serde_json::from_slice::<Value>(&output.stdout).unwrap()["items"][0]["value"])
    }

    /// Returns the status of a store; `None` if it does not respond.
    fn status(&self, id: u64) -> Option<Value> {
        let addr = self.addr(7300 + u16::try_from(id).unwrap());
        let output = seqsvr(&["status", "--addr", &addr, "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        status["stores"].as_array()?.iter().find(|store| store["id"] == id).cloned()
    }
}

#[test]
fn processes_of_a_set_file_serve_a_real_trace() {
    let mut cluster = Cluster::start();
    let (a1, a2) = (cluster.addr(7400), cluster.addr(7401));
    let report = seqsvr_json(&["replay", &trace(), "--addr", &a1, "--addr", &a2]);
    assert_clean(&report);
    for server in cluster.allocs.iter_mut().chain(&mut cluster.stores) {
        assert_eq!(server.terminate(), Some(0), "{}", server.log());
    }
}

#[test]
fn drained_allocators_hand_over_all_sections_without_a_failed_call() {
    let mut cluster = Cluster::start();
    let (a1, a2) = (cluster.addr(7400), cluster.addr(7401));
    let set = cluster.set.display().to_string();
    let node = |args: &[&str]| seqsvr(&[&["node"], args, &["--set", &set]].concat());
    let refused = |args: &[&str], code: i32, text: &str| {
        let output = node(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && stderr.contains(text), "{args:?}: {stderr}");
    };
    refused(&["drain", "a9", "--yes"], 1, "no AllocSvr named \"a9\"");
    refused(&["drain", "a1"], 2, "no terminal to confirm it on");
    let owned = |name: &str| {
        let list = seqsvr_json(&["node", "list", "--set", &set]);
        let nodes = list["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name).unwrap()["sections"].as_u64().unwrap()
    };
    eventually("both serve", || (owned("a1") + owned("a2") == 100 && owned("a1") > 0 && owned("a2") > 0).then_some(()));

    // The bench is the only client of these uids, so every seq must follow the seq before it.
    let load =
        ["--seamless", "--uids", "10000000", "--concurrency", "16", "--duration-s", "4", "--deadline-ms", "20000"];
    let bench = std::thread::scope(|scope| {
        let bench = scope.spawn(|| seqsvr_json(&[&["bench", "--addr", &a1, "--addr", &a2], &load[..]].concat()));
        for name in ["a1", "a2"] {
            let share = owned(name);
            let plan = seqsvr_json(&["node", "drain", name, "--dry-run", "--set", &set]);
            assert_eq!((plan["sections"].as_u64(), plan["changed"].as_bool()), (Some(share), Some(false)));
            let drained = seqsvr_json(&["node", "drain", name, "--yes", "--set", &set]);
            assert_eq!((drained["sections"].as_u64(), drained["changed"].as_bool()), (Some(share), Some(true)));
            assert_eq!(owned(name), 0);
            let other = if name == "a1" { "a2" } else { "a1" };
            refused(&["drain", other, "--yes"], 1, "is the last node");
            assert!(node(&["undrain", name]).status.success());
        }
        bench.join().unwrap()
    });
    assert_eq!(bench["failed_items"], serde_json::json!({}), "{bench:#}");
    for fault in ["decreases", "duplicates", "chain_breaks", "gaps", "unserved"] {
        assert_eq!(bench["order"][fault], 0, "{bench:#}");
    }

    // A process that is terminated hands over, too.
    let before = cluster.take("5000000");
    let owner = if owned("a1") > 0 { 0 } else { 1 };
    assert_eq!(cluster.allocs[owner].terminate(), Some(0), "{}", cluster.allocs[owner].log());
    assert_eq!(cluster.take("5000000"), before + 1);
}

#[test]
fn a_store_that_was_down_catches_up_and_compacts_its_log() {
    let mut cluster = Cluster::start();
    let applied = |cluster: &Cluster, id| cluster.status(id)?["applied_index"].as_u64();
    let leader = eventually("a store leads", || {
        (1..=3).find(|id| cluster.status(*id).is_some_and(|status| status["leader"] == true))
    });
    let away = leader % 3 + 1;
    let seen = eventually("the follower responds", || applied(&cluster, away));
    cluster.stores[away as usize - 1].kill();

    // Renewals fill the log, and raises of many sections add entries.
    for section in 1..30 {
        cluster.take(&(section * 100_000).to_string());
    }
    let goal = eventually("the others make progress", || applied(&cluster, leader).filter(|index| *index > seen + 60));
    cluster.stores[away as usize - 1] = cluster.store(away);
    eventually("the follower catches up and has a newer snapshot", || {
        let status = cluster.status(away)?;
        let (applied, snapshot) = (status["applied_index"].as_u64(), status["snapshot_index"].as_u64());
        (applied >= Some(goal) && snapshot > Some(seen)).then_some(())
    });

    // The restarted member is needed from here: with another member down, it completes the majority.
    let other = 6 - leader - away;
    cluster.stores[other as usize - 1].kill();
    let before = cluster.take("5000000");
    assert_eq!(cluster.take("5000000"), before + 1);
}

#[test]
fn the_sections_with_the_most_writes_are_listed() {
    let cluster = Cluster::start();
    let set = cluster.set.display().to_string();
    let top = || seqsvr_json(&["section", "list", "--top", "writes", "--count", "3", "--set", &set]);
    // The load uses a hundred uids of section 30, so that its ceiling is raised often.
    let load = ["--first-uid", "3000000", "--uids", "100", "--batch", "100", "--duration-s", "60"];
    let addr = cluster.addr(7400);
    let args = [&["bench", "--endpoint", "many", "--addr", &addr], &load[..]].concat();
    let mut bench = cluster.place.server("bench", &args);
    // Until then section 0 may have the raise of the first number.
    let first = eventually("the ceiling of the section rises most", || {
        let first = top()["items"].as_array().unwrap().first()?.clone();
        (first["first_section"] == 30).then_some(first)
    });
    let (writes, raised) = (digits(&first["writes"]), digits(&first["raised"]));
    assert!(writes > 0 && raised >= 10_000 * writes, "{first:#}");
    let rate = |key: &str| first[key].as_f64().unwrap();
    assert!(rate("numbers_per_second") > 100.0 * rate("writes_per_second"), "{first:#}");
    let by_former_name = seqsvr_json(&["section", "list", "--top-writes", "1", "--set", &set]);
    assert_eq!(by_former_name["items"][0]["first_section"], 30);
    for port in [7301, 7302, 7303] {
        eventually("each store has the writes of the section", || {
            let first = *top_writes(cluster.addr(port)).first()?;
            (first.section == 30 && first.raised >= 10_000 * first.writes).then_some(())
        });
    }
    eventually("the leader names the section in its metrics", || {
        let stores = [7311, 7312, 7313].map(|port| get(&format!("{}:{port}", cluster.place.host), "/metrics"));
        let top = |line: &str| {
            line.starts_with("seqsvr_top_section{") && line.contains(r#"rank="1""#) && line.ends_with("} 30")
        };
        stores.iter().any(|metrics| metrics.lines().any(top)).then_some(())
    });
    bench.terminate();
}

#[test]
fn an_allocator_with_another_set_file_ends() {
    let mut cluster = Cluster::start();
    assert_eq!(cluster.allocs[1].terminate(), Some(0), "{}", cluster.allocs[1].log());
    let other = cluster.place.path("other.toml").display().to_string();
    let text = std::fs::read_to_string(&cluster.set).unwrap();
    std::fs::write(&other, text.replace("10_000_000", "20_000_000").replace("= 100_000", "= 200_000")).unwrap();
    let mut alloc = cluster.place.server("other", &["alloc", "--set", &other, "--name", "a2"]);
    assert_eq!(alloc.wait_exit(), Some(64), "{}", alloc.log());
    let what = "the store holds set im-a with uids 0..10000000 in sections of 100000, and the set file says otherwise";
    assert!(alloc.log().contains(what), "{}", alloc.log());
}

/// Drains a machine with a leading store and an allocator; another machine has the rest of the set.
#[test]
fn a_host_is_drained_under_load_and_undrained() {
    let place = Place::new();
    let path = place.set_file("three-node.toml");
    let set = path.display().to_string();
    let [first, second, third, fourth] = place.host.octets();
    let other = std::net::Ipv4Addr::new(first, second + 64, third, fourth).to_string();
    let text = std::fs::read_to_string(&path).unwrap();
    // The other machine has store 3 and a2, with all their ports.
    let moved = |block: &str| match ["\"s3\"", "\"a2\""].iter().any(|name| block.contains(name)) {
        true => block.replace(&place.host.to_string(), &other),
        false => block.to_owned(),
    };
    std::fs::write(&path, text.split("[[").map(moved).collect::<Vec<_>>().join("[[")).unwrap();
    let stores = (1..=3).map(|id: u32| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
    });
    let _stores: Vec<Server> = stores.collect();
    let _allocs =
        ["a1", "a2"].map(|name| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]));
    let lead = || seqsvr(&["store", "lead", "--to", "3", "--set", &set]).status.success().then_some(());
    eventually("store 3 leads", lead);
    let sections = |name: &str| {
        let list = seqsvr_json(&["node", "list", "--set", &set]);
        list["nodes"].as_array()?.iter().find(|node| node["name"] == name)?["sections"].as_u64()
    };
    eventually("a2 owns sections", || sections("a2").filter(|sections| *sections > 0));

    let host = |args: &[&str]| {
        let output = seqsvr(&[&["host"], args, &["--set", &set]].concat());
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let addr = format!("http://{}:7400", place.host);
    let load = ["bench", "-o", "json", "--addr", &addr, "--rate", "200", "--duration-s", "3600", "--warmup-s", "0"];
    let mut load =
        place.server("load", &[&load[..], &["--seamless", "--first-uid", "5000000", "--uids", "1000000"]].concat());
    let (code, refused) = host(&["drain", "10.9.9.9", "--yes"]);
    let known = format!("no node is on host \"10.9.9.9\"; the nodes are on {}, {other}", place.host);
    assert!(code == Some(2) && refused.contains(&known), "{refused}");
    let (code, refused) = host(&["drain", &place.host.to_string(), "--yes"]);
    assert!(code == Some(3) && refused.contains("1 of 3 voters") && refused.contains("NO_MAJORITY"), "{refused}");
    let (code, plan) = host(&["drain", &other, "--dry-run"]);
    assert!(code == Some(0) && plan.contains("sections of a2 move, store "), "{plan}");
    assert_ne!(sections("a2"), Some(0), "a dry run changes nothing");

    let (code, drained) = host(&["drain", &other, "--yes"]);
    assert!(code == Some(0) && drained.contains("its processes can stop"), "{drained}");
    assert_eq!(sections("a2"), Some(0), "{drained}");
    assert_ne!(seqsvr_json(&["store", "members", "--set", &set])["leader"], 3, "{drained}");
    let (code, again) = host(&["drain", &other, "--yes"]);
    assert_eq!((code, &*again), (Some(0), "im-a: nothing to do\n"));
    let (code, undrained) = host(&["undrain", &other]);
    assert_eq!((code, &*undrained), (Some(0), "a2 of set im-a may own sections again\n"));
    let undrained = seqsvr_json(&["host", "undrain", &other, "--set", &set]);
    assert_eq!(undrained["undrained"], serde_json::json!([]), "{undrained}");
    load.interrupt();
    let report = load.ready();
    assert_eq!((&report["failed"], &report["order"]["gaps"]), (&0.into(), &0.into()), "{report:#}");
    assert!(report["calls"].as_u64() > Some(0), "{report:#}");
}

/// Checks the metrics of each role with `promtool check metrics`. Prometheus also scrapes metrics that fail this check,
/// but their readers need it to pass.
#[test]
fn metrics_of_every_role_are_clean() {
    let cluster = Cluster::start();
    if crate::http::tool(&cluster.place, "promtool", &["--version"], &[]).is_none() {
        return;
    }
    let host = cluster.place.host;
    let [grpc, http, seeds] = [7600, 7680, 7400].map(|port| format!("{host}:{port}"));
    let args = ["proxy", "--plaintext", "--seeds", &seeds, "--listen", &grpc, "--http", &http];
    let _proxy = cluster.place.server("proxy", &args);
    let through = format!("http://{grpc}");
    eventually("the proxy serves", || seqsvr(&["next", "42", "--addr", &through]).status.success().then_some(()));
    for (role, port) in [("store", 7311), ("alloc", 7480), ("proxy", 7680)] {
        let check = format!("curl -sf http://{host}:{port}/metrics | promtool check metrics");
        let output = std::process::Command::new("bash").args(["-o", "pipefail", "-c", &check]).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(output.status.success() && printed.is_empty(), "{role}: {printed}");
    }
}
