//! `seqsvr dev --sets 2` behind a proxy: a part of the users is split off, and every endpoint of every node serves all
//! users, each seq following the previous seq.

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, digits, seqsvr, seqsvr_json};

/// Users of a section that stays and of a section that migrates.
const UIDS: [&str; 2] = ["7", "999999"];

/// The first uid that migrates.
const SPLIT_AT: &str = "500000";

fn urls(nodes: &Value) -> Vec<String> {
    nodes.as_array().unwrap().iter().map(|node| node["grpc"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_development_sets_serve_all_users_at_every_node() {
    let place = Place::new();
    let mut server = place.server("dev", &["dev", "--sets", "2", "--ports", "random", "-o", "json"]);
    let ready = server.ready();
    let (store, other) = (urls(&ready["stores"])[0].clone(), &ready["further_sets"][0]);
    let (from, to) = (ready["set"].as_str().unwrap(), other["set"].as_str().unwrap());
    let allocs = [urls(&ready["allocs"]), urls(&other["allocs"])].concat();
    assert_eq!(allocs.len(), 4, "{ready:#}");
    eventually("the sets know each other", || {
        let output = seqsvr(&["set", "list", "--addr", &store, "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).ok()?;
        let known =
            list["items"].as_array()?.iter().filter(|set| set["allocs"].as_array().is_some_and(|a| a.len() == 2));
        (known.count() == 2).then_some(())
    });
    let (grpc, http) = (format!("{}:7600", place.host), format!("{}:7680", place.host));
    let seed = allocs[0].trim_start_matches("http://");
    // The address is written as the command prints it.
    let seed = &format!("http://{}", seed.trim_start_matches("http://"));
    let proxy = ["proxy", "--seeds", seed, "--listen", &grpc, "--http", &http];
    let _proxy = place.server("proxy", &proxy);
    let nodes = [allocs, vec![format!("http://{grpc}")]].concat();
    eventually("the proxy serves", || {
        seqsvr(&["current", UIDS[0], "--addr", &nodes[4]]).status.success().then_some(())
    });

    let mut last = [0, 0];
    let mut all_serve = || {
        for node in &nodes {
            for (uid, last) in UIDS.iter().zip(&mut last) {
                let next = &seqsvr_json(&["next", uid, "--addr", node])["items"][0];
                assert_eq!((digits(&next["value"]), digits(&next["prev"])), (*last + 1, *last), "uid {uid} at {node}");
                *last += 1;
            }
        }
    };
    all_serve();
    let split = ["set", "split", from, "--at", SPLIT_AT, "--into", to, "--yes", "--wait", "--addr", &store];
    let output = seqsvr(&split);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    all_serve();
    for endpoint in ["grpc", "many", "stream", "json", "sdk"] {
        for node in &nodes {
            let args = ["bench", "--seamless", "--endpoint", endpoint, "--uids", "1000", "--uid-stride", "1000"];
            let report = seqsvr_json(&[&args[..], &["--first-uid", "5", "--calls", "50", "--addr", node]].concat());
            assert_eq!(report["failed"], 0, "{endpoint} at {node}: {report:#}");
        }
    }
    assert_eq!(server.terminate(), Some(0));
}
