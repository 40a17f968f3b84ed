//! Pages while a cluster changes: a takeover, a migration, a stream that is cut, and numbers above 2^53.

use seq_testkit::eventually;
use serde_json::{Value, json};

use super::{Console, Tools, now_ms};
use crate::cluster::{Server, digits, seqsvr, seqsvr_json};
use crate::plans::Cluster;
use crate::two_sets::TwoSets;

#[test]
fn a_takeover_is_on_each_page_that_it_concerns() {
    let Some(tools) = Tools::find() else { return };
    let mut cluster = Cluster::start();
    let sections = seqsvr_json(&["section", "list", "--owner", "a3", "--set", &cluster.set]);
    let section = sections["items"][0]["first_section"].as_u64().unwrap();
    let uid = section * 100_000 + 7;
    seqsvr_json(&["next", &uid.to_string(), "--set", &cluster.set]);
    let console = Console::start(&cluster.place, &["--set", &cluster.set]);
    let parameters = json!({ "node": "a3", "section": section, "uid": uid });
    let mut script = tools.script("takeover", &cluster.place, &console, &parameters);
    script.wait("ready");
    cluster.servers.get_mut("a3").unwrap().kill();
    script.go_on(&json!({ "killed": now_ms() }));
    script.end();
}

#[test]
fn a_migration_moves_on_its_page_and_is_gone_when_it_is_complete() {
    let Some(tools) = Tools::find() else { return };
    let sets = TwoSets::new(10_000_000);
    let _servers = sets.start();
    let addr = sets.addr(7400);
    let load = ["bench", "--addr", &addr, "--endpoint", "many", "--batch", "10", "--uids", "1000"];
    let load = [&load[..], &["--uid-stride", "10000", "--rate", "50", "--duration", "600s"]].concat();
    let _load = sets.place.server("bench", &load);
    let store = sets.addr(7301);
    let console = Console::start(&sets.place, &["--addr", &store]);
    let mut script = tools.script("migration", &sets.place, &console, &json!({}));
    script.wait("ready");
    let split =
        ["set", "split", "im-a", "--at", "8_000_000", "--into", "im-b", "--rate", "4", "--yes", "--addr", &store];
    let begun = eventually("the migration begins", || {
        let begun = now_ms();
        sets.place.seqsvr(&split).status.success().then_some(begun)
    });
    script.go_on(&json!({ "begun": begun }));
    let arrived = script.wait("arrived");
    let listed = sets.run(&["migration", "list"]);
    assert_eq!(arrived["id"], listed["items"][0]["id"], "{listed:#}");
    let complete = ["migration", "complete", arrived["id"].as_str().unwrap(), "--yes", "--addr", &store];
    eventually("the migration is complete", || sets.place.seqsvr(&complete).status.success().then_some(()));
    script.go_on(&json!({}));
    script.end();
}

#[test]
fn a_stream_that_was_cut_goes_on_and_ends_while_its_page_is_hidden() {
    let Some(tools) = Tools::find() else { return };
    let cluster = Cluster::start();
    let args = ["--set", &*cluster.set];
    let mut console = Console::start(&cluster.place, &args);
    let mut script = tools.script("stream", &cluster.place, &console, &json!({ "kind": "drained" }));
    script.wait("cut");
    eventually("a2 is drained", || (cluster.run(&["node", "drain", "a2", "--yes"]).0 == Some(0)).then_some(()));
    script.go_on(&json!({}));
    script.wait("restart");
    console.restart(&cluster.place, &args);
    script.go_on(&json!({}));
    script.end();
}

/// Restores a cluster so that the ceilings of its sections are at 2^60 and above.
fn restore_far(cluster: &mut Cluster) {
    let backup = cluster.place.path("set.backup").display().to_string();
    seqsvr_json(&["backup", "create", "--set", &cluster.set, "--out", &backup]);
    cluster.servers.values_mut().for_each(Server::kill);
    for (name, id) in [("s1", "1"), ("s2", "2"), ("s3", "3")] {
        let data = cluster.place.path(&format!("{name}-far")).display().to_string();
        let at = ["--set", &*cluster.set, "--id", id, "--data", &data];
        // A restore raises each ceiling by 2^40, times the count of restores.
        seqsvr_json(&[&["restore", "--from", &backup, "--count", "1048577", "--yes"], &at[..]].concat());
        cluster.servers.insert(name, cluster.place.server(name, &[&["store"], &at[..]].concat()));
    }
    ["a1", "a2", "a3"].into_iter().for_each(|name| cluster.start_alloc(name));
}

#[test]
fn numbers_above_two_to_the_53rd_have_all_their_digits() {
    let Some(tools) = Tools::find() else { return };
    let mut cluster = Cluster::start();
    let take = |cluster: &Cluster, count: &str| -> Option<u64> {
        let output = seqsvr(&["next", "7", "-n", count, "--set", &cluster.set, "-o", "json"]);
        let taken: Value = serde_json::from_slice(&output.stdout).ok()?;
        output.status.success().then(|| digits(&taken["items"][0]["value"]))
    };
    assert_eq!(take(&cluster, "1"), Some(1));
    restore_far(&mut cluster);
    let number = eventually("numbers are allocated", || take(&cluster, "1"));
    let console = Console::start(&cluster.place, &["--set", &cluster.set]);
    let parameters = json!({ "uid": 7, "section": 0, "number": number.to_string() });
    let mut script = tools.script("numbers", &cluster.place, &console, &parameters);
    for (step, count) in [("next", "1"), ("raise", "6000")] {
        script.wait(step);
        let number = eventually("numbers are allocated", || take(&cluster, count));
        script.go_on(&json!({ "number": number.to_string() }));
    }
    script.end();
}
