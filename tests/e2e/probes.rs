//! Scrapes and probes of processes that start, stop, or are cut off: metrics are well-formed, the liveness probe
//! succeeds, and the readiness probe names the failing check.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr};

/// The metrics ports of store 1 and of the two allocators.
const STORE: u16 = 7311;
const ALLOCS: [u16; 2] = [7480, 7481];

/// Returns the response of a port for metrics and probes; empty if no process listens yet.
fn get(place: &Place, port: u16, path: &str) -> String {
    let mut response = String::new();
    let Ok(mut stream) = TcpStream::connect((place.host, port)) else { return response };
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut response).map(drop));
    response
}

/// Waits until a process is ready.
fn is_ready(place: &Place, port: u16) {
    eventually("the process is ready", || get(place, port, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
}

/// Waits until the readiness probe of a process names this check; asserts that the process is alive and can be scraped.
fn fails(place: &Place, port: u16, check: &str) {
    eventually(check, || {
        let ready = get(place, port, "/readyz");
        (ready.starts_with("HTTP/1.1 503") && ready.contains(check)).then_some(())
    });
    is_alive(place, port, check);
}

/// Asserts that a process is alive and can be scraped.
fn is_alive(place: &Place, port: u16, state: &str) {
    let alive = get(place, port, "/livez");
    assert!(alive.starts_with("HTTP/1.1 200"), "{state}: {alive}");
    let metrics = get(place, port, "/metrics");
    let (head, text) = metrics.split_once("\r\n\r\n").expect("a response");
    assert!(head.starts_with("HTTP/1.1 200") && text.contains("\nseqsvr_build_info{"), "{state}: {metrics}");
    lint(text);
}

/// Runs `promtool check metrics` if it is installed.
fn lint(text: &str) {
    let command = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = command else {
        assert!(std::env::var_os("CI").is_none(), "promtool, of the Debian package prometheus");
        return;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.is_empty(), "{printed}\n{text}");
}

#[test]
fn processes_that_are_not_ready_name_the_check_and_can_be_scraped() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let store = |id: &str| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data])
    };
    let alloc = |name: &str| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);

    // Starting: first an allocator without a store, then a store without its majority.
    let _a1 = alloc("a1");
    fails(&place, ALLOCS[0], "registered: ");
    let mut stores = vec![store("1")];
    fails(&place, STORE, "store-leader: ");
    stores.extend(["2", "3"].map(store));
    let mut a2 = alloc("a2");
    for port in [STORE, ALLOCS[0], ALLOCS[1]] {
        is_ready(&place, port);
    }

    // Drained: the allocator forwards, and stays ready.
    let drained = seqsvr(&["node", "drain", "a1", "--yes", "--set", &set]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    assert!(get(&place, ALLOCS[0], "/readyz").starts_with("HTTP/1.1 200"));
    is_alive(&place, ALLOCS[0], "drained");

    // Stopping: the port is closed, even while the sections cannot be handed over because no store responds.
    stores.iter().for_each(Server::freeze);
    rustix::process::kill_process(a2.pid(), rustix::process::Signal::TERM).unwrap();
    eventually("the port is closed", || get(&place, ALLOCS[1], "/readyz").is_empty().then_some(()));
    stores.iter().for_each(Server::thaw);
    assert_eq!(a2.wait_exit(), Some(0), "{}", a2.log());
    is_ready(&place, ALLOCS[0]);

    // Cut off: all stores of the allocator are killed.
    stores.iter_mut().for_each(Server::kill);
    fails(&place, ALLOCS[0], "lease: ");
}
