//! JSON and plain text against a real cluster: with curl, with requests generated from the API description, and under
//! overload.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use seq_testkit::eventually;

use crate::cluster::{Place, seqsvr, seqsvr_json};
use crate::dev;

/// Runs a tool to its end; returns whether it succeeded and its output. `None` if it is not installed; fails in CI.
pub(crate) fn tool(place: &Place, program: &str, args: &[&str], env: &[(&str, &str)]) -> Option<(bool, String)> {
    // Some tools write files to their working directory.
    let run = Command::new(program)
        .current_dir(place.dir.path())
        .args(args)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output();
    match run {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{program}: {error}");
            eprintln!("skipped: {program}: {error}");
            None
        }
    }
}

#[test]
fn curl_takes_numbers() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    if tool(&place, "curl", &["--version"], &[]).is_none() {
        return;
    }
    let curl = |path: &str, args: &[&str]| {
        let url = format!("{addr}{path}");
        tool(&place, "curl", &[&["-s", &url], args].concat(), &[]).expect("curl is here").1
    };
    let take = ["-X", "POST"];
    assert_eq!(curl("/api/seq/next/42", &take), "1\n");
    assert_eq!(curl("/api/seq/next/42?n=10", &take), "11\n");
    assert!(curl("/api/seq/next/42", &["-i"]).starts_with("HTTP/1.1 405"), "a GET takes nothing");
    assert!(curl("/api/seq/current/42", &["-i"]).contains("\r\nseq-exactness: exact\r\n"));
    let json = ["-H", "content-type: application/json", "-d"];
    let next = "/seqsvr.v1.SequenceService/Next";
    let post = |path: &str, body: &str, more: &[&str]| curl(path, &[&json[..], &[body], more].concat());
    assert_eq!(post(next, r#"{"uid":"42","count":1}"#, &[]), r#"{"value":"12","prev":"11","epoch":"1"}"#);
    assert!(post(next, r#"{"uid":42,"count":1}"#, &["--http2-prior-knowledge"]).starts_with(r#"{"value":"13""#));
    // A uid of every section, so some are forwarded.
    let uids: Vec<_> = (0..10).map(|section| section * 100_000).collect();
    let many = post("/seqsvr.v1.SequenceService/NextMany", &format!(r#"{{"uids":{uids:?}}}"#), &[]);
    assert!(many.starts_with(&format!(r#"{{"values":[{}]"#, [r#""1""#; 10].join(","))), "{many}");
    let refused = curl("/api/seq/next/1000000", &["-X", "POST", "-w", "%{http_code}"]);
    assert!(refused.starts_with("UID_OUT_OF_RANGE: ") && refused.ends_with("\n400"), "{refused}");
    let metrics = curl("", &["--url", &format!("http://{}:7180/metrics", place.host)]);
    assert!(metrics.contains("via=\"json\""), "{metrics}");
}

#[test]
fn curl_takes_numbers_of_keys() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    if tool(&place, "curl", &["--version"], &[]).is_none() {
        return;
    }
    let curl = |path: &str, args: &[&str]| {
        let url = format!("{addr}{path}");
        tool(&place, "curl", &[&["-s", &url], args].concat(), &[]).expect("curl is here").1
    };
    let take = ["-X", "POST"];
    let unknown = curl("/api/key/next/main/conv:42", &["-X", "POST", "-w", "%{http_code}"]);
    assert!(unknown.starts_with("UNKNOWN_KEYSPACE: ") && unknown.ends_with("\n404"), "{unknown}");
    create_keyspace(&addr);
    assert_eq!(curl("/api/key/next/main/conv:42", &take), "1\n");
    assert_eq!(curl("/api/key/next/main/conv%3A42?n=10", &take), "11\n");
    assert_eq!(curl("/api/key/next/main/a%2Fb%00", &take), "1\n");
    let read = curl("/api/key/current/main/conv:42", &["-i"]);
    assert!(read.contains("\r\nseq-exactness: exact\r\n") && read.ends_with("\r\n\r\n11\n"), "{read}");
    // Keys of both nodes, so some are forwarded.
    let keys: Vec<_> = (0..20).map(|key| format!("conv:{key}")).collect();
    let body = format!(r#"{{"keyspace":"main","keys":{keys:?}}}"#);
    let many = curl("/seqsvr.v1.KeyService/NextMany", &["-H", "content-type: application/json", "-d", &body]);
    assert!(many.starts_with(&format!(r#"{{"values":[{}]"#, [r#""1""#; 20].join(","))), "{many}");
    let status = seqsvr_json(&["status", "--addr", &addr]);
    let forwarded = status["allocs"].as_array().unwrap().iter().filter_map(|alloc| alloc["forwarded"].as_u64());
    assert!(forwarded.sum::<u64>() > 0, "{status:#}");
}

/// Creates the keyspace `main`, and waits until each of its buckets is served.
fn create_keyspace(addr: &str) {
    seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", addr]);
    eventually("keys are served", || {
        let read = seqsvr(&["current", "--key", "a", "--key", "b", "--key", "c", "--addr", addr]);
        read.status.success().then_some(())
    });
}

/// Path to which `.ci/run` installs Schemathesis; see CONTRIBUTING.md.
const SCHEMATHESIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/schemathesis/bin/schemathesis");

#[test]
fn the_http_api_matches_its_description() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    create_keyspace(&addr);
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e");
    let env = [
        ("SCHEMATHESIS_HOOKS", "schemathesis_hooks"),
        ("PYTHONPATH", hooks.to_str().unwrap()),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let api = format!("{addr}/api/openapi.json");
    // The schema does not have the uid range of the set, so valid data may be refused.
    let limits = ["--max-examples", "20", "--exclude-checks", "positive_data_acceptance", "--seed", "1"];
    let quiet = ["--generation-database", "none", "--no-color"];
    let run = tool(&place, SCHEMATHESIS, &[&["run", &api], &limits[..], &quiet[..]].concat(), &env);
    let Some((passed, text)) = run else { return };
    assert!(passed, "{text}");
}

/// Prefix of the allocators' samples.
const VERSIONS: &str = "seqsvr_route_version{node=\"a";

#[test]
fn no_lease_is_lost_to_load() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let metrics = || dev::get(&format!("{}:7180", place.host), "/metrics");
    // Returns the values of all samples with a prefix.
    let values = |sample: &str| -> Vec<f64> {
        let metrics = metrics();
        let lines = metrics.lines().filter(|line| line.starts_with(sample));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
    };
    // Both nodes export the same route version.
    let before = eventually("both nodes are routed", || match values(VERSIONS)[..] {
        [one, two] if one == two && one > 0.0 => Some(vec![one, two]),
        _ => None,
    });
    // All calls go to one node, so half of them are forwarded.
    let run = ["bench", "--endpoint", "grpc", "--addr", &addr, "--uids", "1000000", "--warmup-s", "0.2"];
    let capacity = seqsvr_json(&[&run[..], &["--duration-s", "1", "--concurrency", "256"]].concat());
    let rate = format!("{:.0}", capacity["calls_per_second"].as_f64().unwrap().max(100.0) * 3.0);
    let overload = [&run[..], &["--duration-s", "4", "--concurrency", "1024", "--rate", &rate]].concat();
    let least = thread::scope(|scope| {
        let load = scope.spawn(|| seqsvr(&overload));
        let mut least = f64::MAX;
        while !load.is_finished() {
            least = values("seqsvr_lease_remaining_seconds{").into_iter().fold(least, f64::min);
        }
        load.join().unwrap();
        least
    });
    assert!(least > 0.0, "a node was without its lease");
    assert_eq!(values(VERSIONS), before, "an owner was replaced");
    assert!(values("seqsvr_forwarded_total{").iter().sum::<f64>() > 0.0, "something was forwarded");
}
