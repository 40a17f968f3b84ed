//! `seqsvr bench` and `check perf` against a real cluster: every endpoint keeps the order, and a missed threshold is an
//! error.

use crate::cluster::{Place, seqsvr, seqsvr_json};
use crate::{dev, redis};

/// A short run, warm-up included.
const SHORT: [&str; 6] = ["--warmup-s", "0.2", "--duration-s", "0.5", "--uids", "5000"];

#[test]
fn every_endpoint_keeps_the_order() {
    let place = Place::new();
    let (_server, nodes) = redis::start(&place);
    let (addr, redis) = (&nodes[0].grpc, format!("{}:{}", nodes[0].host, nodes[0].port));
    let endpoints: [&[&str]; 8] = [
        &["--endpoint", "sdk", "--concurrency", "64"],
        &["--endpoint", "sdk", "--concurrency", "64", "--no-coalescing"],
        &["--endpoint", "resp", "--redis", &redis, "--concurrency", "8", "--pipeline", "16"],
        &["--endpoint", "json", "--batch", "5"],
        &["--endpoint", "sdk", "--batch", "20", "--distribution", "zipf"],
        &["--endpoint", "grpc", "--distribution", "single"],
        &["--endpoint", "many", "--batch", "50", "--concurrency", "8"],
        &[
            "--endpoint",
            "stream",
            "--batch",
            "10",
            "--pipeline",
            "32",
            "--concurrency",
            "4",
            "--distribution",
            "sequential",
        ],
    ];
    for endpoint in endpoints {
        let report = seqsvr_json(&[&["bench", "--addr", addr, "--check"], &SHORT[..], endpoint].concat());
        assert_eq!(report["failed"], 0, "{report:#}");
        for fault in ["decreases", "duplicates"] {
            assert_eq!(report["order"][fault], 0, "{report:#}");
        }
        assert!(
            report["numbers"].as_u64().unwrap() > 0 && report["cpu_us_per_number"].as_f64().unwrap() > 0.0,
            "{report:#}"
        );
    }
}

#[test]
fn an_open_loop_sends_at_the_rate_and_checks_its_thresholds() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let csv = place.path("run.csv");
    let csv = csv.to_str().unwrap();
    let run = ["bench", "--addr", &addr, "--rate", "500", "--csv", csv, "--expect", "failed<=0", "-o", "json"];
    let bound = |bound| seqsvr(&[&run[..], &SHORT, &["--expect", bound]].concat());
    let passed = bound("calls_per_second<=600");
    let report: serde_json::Value = serde_json::from_slice(&passed.stdout).unwrap();
    assert_eq!(passed.status.code(), Some(0), "{report:#}");
    assert_eq!(report["rate"], 500.0);
    let rows = std::fs::read_to_string(csv).unwrap();
    assert!(rows.starts_with("second,calls,numbers,failed,") && rows.lines().count() >= 2, "{rows}");
    let missed = bound("numbers_per_second>=1_000_000_000");
    assert_eq!(missed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missed.stdout).contains("\"pass\":false"), "{missed:?}");
}

#[test]
fn a_small_load_passes_or_the_check_names_the_missed_threshold() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let check = seqsvr(&["check", "perf", "--addr", &addr, "--duration-s", "1", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    let bounds = report["expected"].as_array().unwrap();
    assert_eq!(bounds.len(), 4, "{report:#}");
    // The speed of this machine is not tested, only that the verdict follows from the figures.
    let met = bounds.iter().all(|bound| bound["pass"] == true);
    assert_eq!(check.status.code(), Some(i32::from(!met)), "{report:#}");
    assert_eq!(report["order"]["decreases"], 0, "{report:#}");
}
