//! `seqsvr dev`: the development cluster allocates numbers, keeps them across a restart, and names invalid input in its
//! errors.

use seq_testkit::eventually;

use crate::cluster::{Place, Server, assert_clean, digits, seqsvr, seqsvr_json, trace};

/// Starts a development cluster with persistent data; returns its gRPC address once it is ready.
pub(crate) fn start(place: &Place) -> (Server, String) {
    let (data, grpc) = (place.path("data"), format!("{}:7100", place.host));
    let (http, redis) = (format!("{}:7180", place.host), redis(place));
    let ports = ["--ports", "random", "--grpc", &grpc, "--http", &http, "--redis", &redis];
    let args = [&["dev", "-o", "json"], &ports[..], &["--data"]].concat();
    let args: Vec<&std::ffi::OsStr> = args.into_iter().map(std::ffi::OsStr::new).chain([data.as_os_str()]).collect();
    let mut server = place.server("dev", &args);
    let ready = server.ready();
    assert_eq!(ready["ready"], true, "{ready:#}");
    (server, format!("http://{grpc}"))
}

/// Returns the address of the Redis port of a development cluster.
pub(crate) fn redis(place: &Place) -> String {
    format!("{}:7179", place.host)
}

fn value(addr: &str, uid: &str) -> u64 {
    digits(&seqsvr_json(&["next", uid, "--addr", addr])["items"][0]["value"])
}

#[test]
fn numbers_start_at_one_and_continue_after_a_restart_and_after_a_crash() {
    let place = Place::new();
    let (mut server, addr) = start(&place);
    assert_eq!(value(&addr, "42"), 1);
    assert_eq!(value(&addr, "42"), 2);
    let hundred = &seqsvr_json(&["next", "42", "-n", "100", "--addr", &addr])["items"][0];
    assert_eq!((digits(&hundred["first"]), digits(&hundred["value"]), digits(&hundred["prev"])), (3, 102, 2));
    let current = &seqsvr_json(&["current", "42", "--addr", &addr])["items"][0];
    assert_eq!((digits(&current["value"]), current["exactness"].as_str()), (102, Some("exact")));
    let quiet = &seqsvr_json(&["current", "999999", "--addr", &addr])["items"][0];
    assert_eq!((digits(&quiet["value"]), quiet["exactness"].as_str()), (0, Some("exact")));

    assert_eq!(server.terminate(), Some(0));
    let (mut server, addr) = start(&place);
    let current = &seqsvr_json(&["current", "42", "--addr", &addr])["items"][0];
    assert_eq!((digits(&current["value"]), current["exactness"].as_str()), (102, Some("exact")));
    let quiet = &seqsvr_json(&["current", "999999", "--addr", &addr])["items"][0];
    assert_eq!((digits(&quiet["value"]), quiet["exactness"].as_str()), (0, Some("exact")));
    let after_restart = value(&addr, "42");
    assert_eq!(after_restart, 103, "an orderly stop skips no number");

    server.kill();
    let (_server, addr) = start(&place);
    assert!(value(&addr, "42") > after_restart);
}

#[test]
fn a_cluster_that_is_killed_in_its_first_start_gets_its_series_in_the_next() {
    let place = Place::new();
    let data = place.path("data");
    let args = ["dev", "--ports", "random", "-o", "json", "--data"].map(std::ffi::OsStr::new);
    let mut server = place.server("first", &[&args[..], &[data.as_os_str()]].concat());
    eventually("the first start writes data", || data.join("without-series").exists().then_some(()));
    server.kill();
    assert!(data.join("without-series").exists(), "it was killed before the series were created");
    let (_server, addr) = start(&place);
    let list = seqsvr_json(&["series", "list", "--addr", &addr]);
    let names: Vec<&str> = list["items"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["tweets", "media", "orders"]);
    assert!(!data.join("without-series").exists());
}

#[test]
fn a_signal_and_a_closed_terminal_end_it_and_its_temporary_data() {
    for signal in [Server::hang_up, Server::interrupt] {
        let place = Place::new();
        let http = format!("{}:7180", place.host);
        let args = ["dev", "--ports", "random", "-o", "json", "--http", &http];
        let mut server = place.server_that_may_be_hung_up("dev", &args);
        let data = server.ready()["data"].as_str().unwrap().to_owned();
        assert!(std::path::Path::new(&data).exists(), "{data}");
        signal(&server);
        // A closing terminal sends SIGHUP twice: through its shell, and when the shell ends.
        server.hang_up();
        assert_eq!(server.wait_exit(), Some(0), "{}", server.log());
        assert!(!std::path::Path::new(&data).exists(), "{data}");
    }
}

#[test]
fn a_real_trace_is_served_without_a_violation() {
    let place = Place::new();
    let (_server, addr) = start(&place);
    let report = seqsvr_json(&["replay", &trace(), "--addr", &addr, "--exclusive"]);
    assert_clean(&report);
    let raises = report["ceiling_raises"].as_u64().unwrap();
    let (numbers, sections) = (report["allocations"].as_u64().unwrap(), 10);
    assert!(raises >= 1 && raises <= numbers / 10_000 + sections, "{report:#}");
}

#[test]
fn invalid_input_is_named_in_the_error_and_changes_nothing() {
    let place = Place::new();
    let (_server, addr) = start(&place);
    assert_eq!(value(&addr, "7"), 1);
    let refused = |args: &[&str], words: &[&str]| {
        let output = seqsvr(&[args, &["--addr", &addr]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} succeeded");
        assert!(words.iter().all(|word| stderr.contains(word)), "{args:?} printed {stderr:?}, not {words:?}");
    };
    refused(&["next", "1000000"], &["1000000", "outside"]);
    refused(&["next", "7", "-n", "0"], &["--count", "from 1 to 1,000,000"]);
    refused(&["next", "7", "-n", "1000001"], &["1000001", "from 1 to 1,000,000"]);
    refused(&["next", "-1"], &["-1"]);
    refused(&["replay", "/nonexistent.csv"], &["/nonexistent.csv"]);
    assert_eq!(value(&addr, "7"), 2);
}

#[test]
fn probes_metrics_status_and_services_show_all_nodes() {
    let place = Place::new();
    let (_server, addr) = start(&place);
    value(&addr, "1");
    let status = seqsvr_json(&["status", "--addr", &addr]).to_string();
    for node in ["s1", "s2", "s3", "a1", "a2"] {
        assert!(status.contains(node), "{node} is missing in {status}");
    }
    let services = seqsvr(&["services", "--addr", &addr]);
    let services = String::from_utf8_lossy(&services.stdout).into_owned();
    for service in ["seqsvr.v1.SequenceService", "seqsvr.v1.StatusService", "grpc.health.v1.Health"] {
        assert!(services.contains(service), "{service} is missing in {services}");
    }
    let http = format!("{}:7180", place.host);
    assert!(get(&http, "/livez").starts_with("HTTP/1.1 200"));
    eventually("the cluster is ready", || get(&http, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
    for metric in ["seqsvr_ceiling_raises_total", "seqsvr_allocations_total", "seqsvr_build_info"] {
        eventually(metric, || get(&http, "/metrics").contains(&format!("\n{metric}{{")).then_some(()));
    }
}

/// Sends a plain HTTP request; returns the whole response as text.
pub(crate) fn get(addr: &str, path: &str) -> String {
    try_get(addr, path).unwrap()
}

/// Works like [`get`], but returns an error if no process responds.
pub(crate) fn try_get(addr: &str, path: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(addr)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

#[test]
fn data_of_another_cluster_is_refused() {
    let place = Place::new();
    let (mut server, _) = start(&place);
    assert_eq!(server.terminate(), Some(0));
    let set = place.set_file("three-node.toml");
    let data = place.path("data").join("s1");
    let (set, data) = (set.display().to_string(), data.display().to_string());
    let mut other = place.server("other", &["store", "--set", &set, "--id", "1", "--data", &data]);
    assert_ne!(other.wait_exit(), Some(0));
    let log = other.log();
    assert!(log.contains("dev") && log.contains("three-node"), "the refusal names both clusters: {log}");
    let (_server, addr) = start(&place);
    assert_eq!(value(&addr, "1"), 1, "the data is untouched");
}

#[test]
fn a_signal_while_it_starts_is_no_error() {
    let place = Place::new();
    let mut server = place.server("dev", &["dev", "--ports", "random"]);
    // The line is printed before the first node starts.
    assert!(server.first_line().contains("development cluster"));
    let stopped = server.terminate();
    assert_eq!(stopped, Some(0), "{}", server.log());
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}
