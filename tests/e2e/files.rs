//! Callers that open as many connections as possible to processes that may open few files.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr};

/// Limit of open files of the processes: little more than the minimum.
const FILES: usize = 640;

/// Connections that are tried at each port: more than one address may hold under this limit.
const CALLERS: usize = 500;

/// Settings with a snapshot every few entries, because each snapshot needs files.
const SETTINGS: &str = "[store]\nsnapshot_interval_entries = 20\nlog_retained_entries = 5\n";

#[test]
fn callers_that_take_every_connection_leave_the_node_its_files() {
    let place = Place::new();
    let (set, config) = (place.set_file("three-node.toml").display().to_string(), place.path("store.toml"));
    fs::write(&config, SETTINGS).unwrap();
    let config = config.display().to_string();
    let mut servers = Vec::new();
    for id in ["1", "2", "3"] {
        let data = place.path(&format!("s{id}")).display().to_string();
        let args = ["store", "--set", &set, "--id", id, "--data", &data, "--config", &config];
        servers.push(place.server_with_files(&format!("s{id}"), &args, FILES));
    }
    let alloc = ["alloc", "--set", &set, "--name", "a1", "--cores", "1"];
    servers.push(place.server_with_files("a1", &alloc, FILES));
    let addr = format!("http://{}:7400", place.host);
    eventually("a number is given out", || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(()));

    // This process needs as many files.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let before = snapshots(&place);
    let mut callers = Vec::new();
    // On the ports for callers, each connection sends a request and stays open.
    let requests = ["", "", "", "GET /livez HTTP/1.1\r\nhost: test\r\n\r\n", "PING\r\n"];
    for (port, request) in [7301, 7302, 7303, 7400, 7479].into_iter().zip(requests) {
        for _ in 0..CALLERS {
            let mut caller = TcpStream::connect((place.host, port)).unwrap();
            // A connection above the limit may be closed by now.
            let _ = caller.write_all(request.as_bytes());
            callers.push(caller);
        }
    }
    let [silent, refused] = ["seqsvr_handshakes_refused_total", "seqsvr_connections_refused_total"];
    let counted = [("s1", 7311, silent), ("s2", 7312, silent), ("s3", 7313, silent), ("a1", 7480, refused)];
    for (name, http, counter) in counted {
        let refused = eventually("connections are refused", || {
            metric(&get(&place, http, "/metrics"), counter).filter(|refused| *refused > 0)
        });
        assert!(refused > 0);
        assert!(get(&place, http, "/livez").starts_with("HTTP/1.1 200"), "{name} answers probes");
    }
    for server in &servers {
        let open = fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap().count();
        assert!(open < FILES - 100, "{open} files of {FILES} are open");
    }
    // Snapshots are written and the allocator renews its lease although the callers hold all connections that they can
    // get.
    eventually("snapshots are written", || (snapshots(&place) > before).then_some(()));
    drop(callers);
    let next = || seqsvr(&["next", "1", "--addr", &addr]);
    eventually("a number is given out", || next().status.success().then_some(()));
    for server in &servers {
        let log = server.log();
        assert!(!log.contains("Too many open files") && !log.contains("os error 24"), "{log}");
    }
    servers.iter_mut().rev().for_each(|server| assert_eq!(server.terminate(), Some(0)));
}

#[test]
fn a_process_that_may_open_too_few_files_for_its_set_names_the_limit() {
    let place = Place::new();
    let set = place.set_file("three-node.toml");
    // Each thread may open two connections to each of 200 nodes.
    let mut text = fs::read_to_string(&set).unwrap();
    for number in 3..=202 {
        let [addr, http, peer] = [10_000, 20_000, 30_000].map(|port| format!("{}:{}", place.host, port + number));
        text += &format!("[[alloc]]\nname = \"a{number}\"\naddr = \"{addr}\"\npeer = \"{peer}\"\nhttp = \"{http}\"\n");
    }
    fs::write(&set, text).unwrap();
    let set = set.display().to_string();
    let args = ["alloc", "--set", &set, "--name", "a1", "--cores", "1"];
    let mut few: Server = place.server_with_files("a1", &args, FILES);
    assert_eq!(few.wait_exit(), Some(64));
    let log = few.log();
    assert!(log.contains("the process may open 640 files, and a1 needs") && log.contains("LimitNOFILE"), "{log}");
}

/// Returns the sum of the indices that the stores' snapshots cover.
fn snapshots(place: &Place) -> u64 {
    let index = |http| metric(&get(place, http, "/metrics"), "seqsvr_raft_snapshot_index").unwrap_or(0);
    [7311, 7312, 7313].into_iter().map(index).sum()
}

fn metric(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn get(place: &Place, port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect((place.host, port)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
