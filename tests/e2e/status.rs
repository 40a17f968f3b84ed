//! The commands `status`, `health` and `node drain` as operators see a cluster change.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use seq_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::{Place, seqsvr, seqsvr_json};
use crate::dev;

/// Runs a command; returns its exit code, stdout and stderr.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = seqsvr(args);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns the cell of a node's row in a table.
fn cell(text: &str, column: &str, node: &str) -> String {
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let row = rows.iter().position(|row| row[0] == node).unwrap_or_else(|| panic!("no row of {node} in {text}"));
    let heading = rows[..row].iter().rfind(|row| row.contains(&column)).unwrap();
    let filled = |row: &[&str]| row.iter().filter(|cell| !cell.is_empty()).map(ToString::to_string).collect::<Vec<_>>();
    let index = filled(heading).iter().position(|name| name == column).unwrap();
    filled(&rows[row])[index].clone()
}

#[test]
fn a_drained_allocator_is_shown_and_drained_once() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let status = || run(&["status", "--addr", &addr]);
    let (code, text, _) = status();
    assert_eq!(
        (code, cell(&text, "state", "a2").as_str(), cell(&text, "set", "a2").as_str()),
        (Some(0), "serves", "dev")
    );
    assert_eq!(cell(&text, "version", "a2"), env!("CARGO_PKG_VERSION"));
    assert!(cell(&text, "lease", "a2").ends_with(" s"), "{text}");
    let drain = |args: &[&str]| run(&[&["node", "drain", "a2", "--addr", &addr], args].concat());
    assert_eq!(drain(&["--yes"]).0, Some(0));
    let (code, text, _) = status();
    assert_eq!((code, cell(&text, "state", "a2").as_str()), (Some(0), "drained"), "{text}");
    // The nodes are in order of their names.
    assert_eq!(seqsvr_json(&["status", "--addr", &addr])["allocs"][1]["state"], "drained");
    for args in [&[][..], &["--dry-run"], &["--yes"]] {
        let (code, stdout, stderr) = drain(args);
        assert_eq!((code, stdout.as_str()), (Some(0), "nothing to do: a2 is drained\n"), "{stderr}");
    }
    assert_eq!(drain(&["-o", "json"]).0, Some(0));
    let nodes = seqsvr_json(&["node", "list", "--addr", &addr]);
    for node in nodes["nodes"].as_array().unwrap() {
        assert_eq!(node["state"], if node["name"] == "a2" { "drained" } else { "serves" }, "{nodes:#}");
    }
}

#[test]
fn a_drained_allocator_that_stopped_is_no_fault_and_a_lost_store_is_named() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let store = |id: u64| {
        let (name, id) = (format!("s{id}"), id.to_string());
        let data = place.path(&name).display().to_string();
        place.server(&name, &["store", "--set", &set, "--id", &id, "--data", &data])
    };
    let mut stores: Vec<_> = (1..=3).map(store).collect();
    let alloc = |name: &str| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
    let (_a1, mut a2) = (alloc("a1"), alloc("a2"));
    let (code, stdout, stderr) = run(&["health", "--set", &set, "--wait-s", "60"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().count(), 6, "a head and five nodes: {stdout}");
    eventually("all is served", || seqsvr(&["status", "--set", &set]).status.success().then_some(()));
    assert_eq!(run(&["node", "drain", "a2", "--yes", "--set", &set]).0, Some(0));
    assert_eq!(a2.terminate(), Some(0), "{}", a2.log());
    let (code, text, _) = run(&["status", "--set", &set]);
    assert_eq!((code, cell(&text, "state", "a2").as_str()), (Some(0), "stopped"), "{text}");
    let (code, stdout, _) = run(&["health", "--set", &set, "-o", "json"]);
    let health: Value = serde_json::from_str(&stdout).unwrap();
    let of = |node: &str| health["items"].as_array().unwrap().iter().find(|item| item["node"] == node).unwrap().clone();
    assert_eq!((code, &of("a2")["health"], &of("a1")["health"]), (Some(3), &json!("unreachable"), &json!("serving")));

    stores[2].kill();
    let (text, silent) = eventually("the leader misses store 3", || {
        let (code, text, _) = run(&["status", "--set", &set]);
        let silent = cell(&text, "for", "s3");
        (code == Some(3) && silent.ends_with(" s")).then_some((text, silent))
    });
    assert_eq!(
        (cell(&text, "set", "s3").as_str(), cell(&text, "state", "s3").as_str()),
        ("im-a", "silent"),
        "{silent}"
    );
    assert!(cell(&text, "why", "s3").contains("Connection refused") && !text.contains("os error"), "{text}");
    assert!(text.contains("im-a: DEGRADED"), "{text}");
    assert_eq!(run(&["status", "--set", &set, "--fail-on", "unserved"]).0, Some(0));
}

#[test]
fn a_watched_status_has_rates() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
        .args(["status", "--watch", "1", "-o", "json", "--addr", &addr])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut sample = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["sets"][0].clone();
    assert!(sample().get("numbers_per_second").is_none(), "a rate needs two samples");
    assert!(seqsvr(&["next", "42", "-n", "1000", "--addr", &addr]).status.success());
    let rate = (0..3).map(|_| sample()["numbers_per_second"].as_f64().unwrap()).fold(0.0, f64::max);
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(rate > 0.0, "a thousand numbers are in one of the samples");
}

#[test]
fn health_is_about_the_named_nodes() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let (code, stdout, _) = run(&["health", "--addr", &addr]);
    assert_eq!(code, Some(0));
    assert_eq!(cell(&stdout, "health", "-"), "serving");
    // The system has just assigned this UDP port, so a TCP port of the same number is probably closed.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = socket.local_addr().unwrap().to_string();
    assert_eq!(run(&["health", "--addr", &closed]).0, Some(4));
    let (code, stdout, _) = run(&["health", "--addr", &closed, "--addr", &addr, "-o", "json"]);
    let health: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &health["items"][0]["health"]), (Some(3), &json!("unreachable")));
    assert!(health["items"][0]["why"].as_str().unwrap().ends_with("Connection refused"), "{health:#}");
    assert_eq!(health["items"][1]["health"], "serving");
    // The listener accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let (code, _, _) = run(&["health", "--addr", &silent, "--timeout-ms", "100", "--wait-s", "1"]);
    assert_eq!(code, Some(7));
}
