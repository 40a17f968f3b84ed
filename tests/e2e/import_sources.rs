//! Realistic sources of imports: one redis-server, a replica of it, a cluster of three masters, keys that expire, TLS.
//! Each is read completely or refused, because an import of a part would report success.

use std::fs;
use std::path::Path;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, seqsvr_json};
use crate::dev;
use crate::import::{Redis, export, run};
use crate::redis::tool;

fn from<'a>(url: &'a str, addr: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [&["import", "--from", url, "--addr", addr, "--yes"], args].concat()
}

#[test]
fn a_server_that_cannot_prove_that_it_has_all_keys_is_refused() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let master = Redis::start(&program, &place);
    let replica = Redis::start_with(&program, &place, 6380, &["--replicaof", &place.host.to_string(), "6379"]);
    let (_server, addr) = dev::start(&place);
    let keys: Vec<String> = (1..=30).map(|uid| format!("seq:{uid}")).collect();
    master.set(keys.iter().map(|key| (&**key, 7)));
    eventually("the replica has the keys", || (replica.command("DBSIZE") == ":30").then_some(()));

    let (code, refused) = run(&from(&replica.url(), &addr, &[]));
    assert!(code == Some(2) && refused.contains(&format!("is a replica of {}:6379", place.host)), "{refused}");
    assert!(refused.contains(&format!("--from {}", master.url())), "{refused}");
    let (code, refused) = run(&from(&master.url(), &addr, &["--match", "nosuch:*"]));
    assert!(code == Some(2) && refused.contains("no key matches \"nosuch:*\""), "{refused}");
    assert!(refused.contains("the database has 30 keys"), "{refused}");
    assert!(export(&addr).is_empty(), "nothing was imported");

    // Every key that is no counter is listed, and left out if the flag requests it.
    master.set([("seq:alice", 1), ("seq:bob", 1)]);
    master.command("LPUSH seq:list x");
    let (code, refused) = run(&from(&master.url(), &addr, &[]));
    let all = ["seq:alice: uid", "seq:bob: uid", "seq:list: it is not a string", "--skip-invalid"];
    assert!(code == Some(2) && all.iter().all(|flaw| refused.contains(flaw)), "{refused}");
    let report = seqsvr_json(&from(&master.url(), &addr, &["--skip-invalid"]));
    assert_eq!(report["raised"], 30, "{report:#}");
    assert_eq!((&report["source"]["kind"], &report["source"]["skipped"]), (&"redis".into(), &3.into()), "{report:#}");
}

#[test]
fn keys_that_expire_meanwhile_are_counted_and_no_obstacle() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let redis = Redis::start(&program, &place);
    let (_server, addr) = dev::start(&place);
    let keys: Vec<String> = (0..40_000).map(|uid| format!("seq:{uid}")).collect();
    // The keys expire one after the other, from before the scan to after it.
    let lasting = |uid: usize| uid.is_multiple_of(100);
    redis.send(keys.iter().enumerate().map(|(uid, key)| match lasting(uid) {
        true => format!("SET {key} 1"),
        false => format!("SET {key} 1 PX {}", 200 + uid / 10),
    }));
    let report = seqsvr_json(&from(&redis.url(), &addr, &[]));
    let number = |name: &str| report["source"][name].as_u64().unwrap();
    let users = report["users"].as_u64().unwrap();
    assert!(users >= 400 && number("found") == users + number("gone"), "{report:#}");
    println!("{report}");
    let imported = export(&addr);
    let missing = (0..40_000).filter(|uid| lasting(*uid) && !imported.contains_key(&(*uid as u64)));
    assert_eq!(missing.count(), 0, "keys that stay are imported");
}

/// A progress file belongs to a source that is still in use: later changes of the source are imported.
#[test]
fn an_import_from_a_live_source_is_continued() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let redis = Redis::start(&program, &place);
    let (_server, addr) = dev::start(&place);
    let url = redis.url();
    let progress = place.path("progress.json").display().to_string();
    let import = || seqsvr_json(&from(&url, &addr, &["--progress", &progress]));
    redis.set([("seq:1", 5), ("seq:2", 5), ("seq:3", 5)]);
    assert_eq!(import()["raised"], 3);
    let again = import();
    assert_eq!((&again["resumed"], &again["raised"]), (&3.into(), &0.into()), "{again:#}");
    redis.set([("seq:1", 8), ("seq:4", 5)]);
    let moved_on = import();
    assert_eq!((&moved_on["resumed"], &moved_on["raised"]), (&0.into(), &2.into()), "{moved_on:#}");
    assert_eq!(export(&addr).into_iter().collect::<Vec<_>>(), [(1, 8), (2, 5), (3, 5), (4, 5)]);
    redis.set([("other:1", 5)]);
    let args = ["--progress", &*progress, "--match", "other:*"];
    let (code, refused) = run(&from(&url, &addr, &args));
    assert!(code == Some(2) && refused.contains("it is the progress of another source"), "{refused}");
}

#[test]
fn a_cluster_is_imported_from_all_its_masters_or_not_at_all() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let nodes = start_cluster(&program, &place);
    // The keys of one tag are all at one master, and the other keys at all masters.
    for uid in 1..=300 {
        for key in [format!("{{seq}}:{uid}"), format!("seq:{uid}")] {
            assert!(nodes.iter().any(|node| node.command(&format!("SET {key} {uid}")) == "+OK"), "{key}");
        }
    }
    // Any node of the cluster can be named.
    for (node, pattern) in nodes.iter().zip(["{seq}:*", "seq:*", "{seq}:*"]) {
        let report = seqsvr_json(&from(&node.url(), &addr, &["--match", pattern]));
        assert_eq!((&report["users"], &report["source"]["kind"]), (&300.into(), &"redis_cluster".into()), "{report:#}");
        assert_eq!(report["source"]["servers"].as_array().map(Vec::len), Some(3), "{report:#}");
    }
    assert_eq!(export(&addr), (1..=300).map(|uid| (uid, uid)).collect());
    let (code, refused) = run(&from(&nodes[1].url(), &addr, &["--match", "nosuch:*"]));
    assert!(code == Some(2) && refused.contains("no key matches"), "{refused}");

    // One slot is migrating to another node, and another slot has no node.
    let id = nodes[1].lines("CLUSTER MYID");
    let id = id.lines().last().unwrap().trim();
    assert_eq!(nodes[0].command(&format!("CLUSTER SETSLOT 93 MIGRATING {id}")), "+OK");
    for node in &nodes {
        let (code, refused) = run(&from(&node.url(), &addr, &[]));
        assert!(code == Some(3) && refused.contains("slot 93 of"), "{refused}");
    }
    assert_eq!(nodes[0].command("CLUSTER SETSLOT 93 STABLE"), "+OK");
    assert_eq!(nodes[2].command("CLUSTER DELSLOTS 16383"), "+OK");
    let (code, refused) = run(&from(&nodes[2].url(), &addr, &[]));
    assert!(code == Some(3) && refused.contains("1 of 16384 slots have no master"), "{refused}");
}

/// Starts a Redis Cluster of three masters, and waits until it is whole.
pub(crate) fn start_cluster(program: &Path, place: &Place) -> Vec<Redis> {
    let nodes: Vec<Redis> = (7001..7004).map(|port| cluster_node(program, place, port)).collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        assert_eq!(node.command(&format!("CLUSTER ADDSLOTSRANGE {slots}")), "+OK");
        assert_eq!(nodes[0].command(&format!("CLUSTER MEET {} {}", place.host, node.port)), "+OK");
    }
    let whole = || {
        let is_ok = |node: &Redis| {
            let info = node.lines("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        nodes.iter().all(is_ok).then_some(())
    };
    eventually("the cluster is whole", whole);
    nodes
}

fn cluster_node(program: &Path, place: &Place, port: u16) -> Redis {
    let args = ["--cluster-enabled", "yes", "--cluster-announce-ip", &place.host.to_string()];
    Redis::start_with(program, place, port, &args)
}

#[test]
fn a_server_with_tls_is_read_over_tls() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let own = rcgen::generate_simple_self_signed([place.host.to_string()]).unwrap();
    let (cert, key) = (place.path("redis.crt").display().to_string(), place.path("redis.key").display().to_string());
    fs::write(&cert, own.cert.pem()).unwrap();
    fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let tls = ["--tls-port", "6390", "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &cert];
    let redis = Redis::start_with(&program, &place, 6379, &tls);
    let (_server, addr) = dev::start(&place);
    redis.set([("seq:5", 50)]);
    let url = format!("rediss://{}:6390", place.host);
    let (code, refused) = run(&from(&url, &addr, &[]));
    assert!(code == Some(4) && refused.contains(&url), "no authority of this machine signed it: {refused}");
    // By default redis-server asks for a certificate, too.
    let report = seqsvr_json(&from(&url, &addr, &["--from-ca", &cert, "--from-cert", &cert, "--from-key", &key]));
    assert_eq!((&report["raised"], &report["source"]["kind"]), (&1.into(), &Value::from("redis")), "{report:#}");
    let (code, refused) = run(&from(&redis.url(), &addr, &["--from-ca", &cert]));
    assert!(code == Some(2) && refused.contains("redis:// has no TLS"), "{refused}");
}
