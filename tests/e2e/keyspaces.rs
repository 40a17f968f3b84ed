//! The keyspaces of a cluster: operators create them, and callers get numbers of keys, across a restart and a crash.

use seq_testkit::eventually;

use crate::cluster::{Place, digits, seqsvr, seqsvr_json};
use crate::dev;

/// Runs a command and returns its output and its exit code.
fn shown(addr: &str, args: &[&str]) -> (String, i32) {
    let output = seqsvr(&[args, &["--addr", addr]].concat());
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (text, output.status.code().unwrap())
}

/// Allocates a number of each key.
fn next(addr: &str, keys: &[&str]) -> Vec<u64> {
    let keys: Vec<&str> = keys.iter().flat_map(|key| ["--key", key]).collect();
    let taken = seqsvr_json(&[&["next", "--addr", addr], &keys[..]].concat());
    taken["items"].as_array().unwrap().iter().map(|item| digits(&item["value"])).collect()
}

/// Reads the last number of a key, and whether it is exact.
fn current(addr: &str, key: &str) -> (u64, bool) {
    let read = &seqsvr_json(&["current", "--key", key, "--addr", addr])["items"][0];
    assert_eq!(read["key"].as_str(), Some(key), "{read:#}");
    (digits(&read["value"]), read["exactness"] == "exact")
}

#[test]
fn a_keyspace_is_made_once_and_shown() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    assert_eq!(
        shown(&addr, &["keyspace", "list"]),
        ("no keyspace; `seqsvr keyspace create` makes one\n".to_owned(), 0)
    );
    let (text, code) = shown(&addr, &["keyspace", "slot", "conv:42"]);
    assert!(text.contains("the cluster has no keyspace (UNKNOWN_KEYSPACE)") && code == 1, "{text}");
    let plan = seqsvr_json(&["keyspace", "create", "main", "--dry-run", "--addr", &addr]);
    assert_eq!((plan["changed"].as_bool(), plan["keyspace"]["buckets"].as_u64()), (Some(false), Some(16_384)));
    let made = seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    assert_eq!((made["changed"].as_bool(), made["set"].as_str()), (Some(true), Some("dev")), "{made:#}");
    assert_eq!(made["keyspace"]["first_section"], plan["keyspace"]["first_section"]);
    let again = seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    assert_eq!((again["changed"].as_bool(), &again["keyspace"]), (Some(false), &made["keyspace"]));
    for (args, reason) in [
        (&["keyspace", "create", "tweets", "--yes"][..], "SERIES_EXISTS"),
        (&["series", "create", "main", "--counter", "--yes"], "SERIES_EXISTS"),
        (&["series", "retire", "main", "--yes"], "UNKNOWN_SERIES"),
        (&["keyspace", "create", "no name", "--yes"], "BAD_NAME"),
    ] {
        let (text, code) = shown(&addr, args);
        assert!(text.contains(reason) && code != 0, "{args:?}: {text}");
    }
    let list = seqsvr_json(&["keyspace", "list", "--addr", &addr]);
    assert_eq!(list["items"].as_array().unwrap().as_slice(), [made["keyspace"].clone()]);
    let series = seqsvr_json(&["series", "list", "--addr", &addr]);
    assert!(series["items"].as_array().unwrap().iter().all(|series| series["name"] != "main"), "{series:#}");
    eventually("each bucket has an owner", || {
        let shown = seqsvr_json(&["keyspace", "show", "main", "--addr", &addr]);
        let runs = shown["runs"].as_array().unwrap();
        let owned = runs.iter().filter(|run| run["owner"].is_string());
        (owned.map(|run| run["buckets"].as_u64().unwrap()).sum::<u64>() == 16_384).then_some(())
    });
    let slot = seqsvr_json(&["keyspace", "slot", "123456789", "--addr", &addr]);
    assert_eq!((slot["bucket"].as_u64(), slot["keyspace"].as_str()), (Some(12_739), Some("main")));
    let tagged = seqsvr_json(&["keyspace", "slot", "{123456789}:seen", "--keyspace", "main", "--addr", &addr]);
    assert_eq!((&tagged["bucket"], &tagged["owner"]), (&slot["bucket"], &slot["owner"]));
    let events = seqsvr_json(&["events", "list", "--addr", &addr]);
    let created = |event: &&serde_json::Value| event["kind"] == "keyspace_created" && event["series"] == "main";
    assert_eq!(events["items"].as_array().unwrap().iter().filter(created).count(), 1);
    let (audit, _) = shown(&addr, &["audit", "list"]);
    assert!(audit.contains("keyspace create main"), "{audit}");
}

#[test]
fn keys_continue_after_a_restart_and_after_a_crash() {
    let place = Place::new();
    let (mut server, addr) = dev::start(&place);
    seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    assert_eq!(next(&addr, &["conv:1", "conv:1", "conv:2", "conv:1"]), [1, 2, 1, 3]);
    assert_eq!(current(&addr, "conv:1"), (3, true));
    assert_eq!(current(&addr, "conv:3"), (0, true));

    assert_eq!(server.terminate(), Some(0));
    let (mut server, addr) = dev::start(&place);
    let restarted = current(&addr, "conv:1");
    assert_eq!(restarted, (3, true), "an orderly stop keeps the numbers of keys");
    assert_eq!(next(&addr, &["conv:1", "conv:2", "conv:3"]), [4, 2, 1]);

    server.kill();
    let (_server, addr) = dev::start(&place);
    let (bound, exact) = current(&addr, "conv:1");
    assert!(bound >= 4 && !exact, "{bound}");
    assert_eq!(next(&addr, &["conv:1", "conv:1"]), [bound + 1, bound + 2]);
    let (text, _) = shown(&addr, &["next", "--key", "conv:1", "--keyspace", "main", "-n", "2", "-o", "wide"]);
    assert!(text.contains(&format!("conv:1  {}", bound + 3)) && text.contains(&(bound + 4).to_string()), "{text}");
    let (text, code) = shown(&addr, &["next", "--key", ""]);
    assert!(text.contains("the key has 0 bytes") && code == 1, "{text}");
    let taken = digits(&seqsvr_json(&["next", "42", "--addr", &addr])["items"][0]["value"]);
    assert!(taken > 0, "uids are served beside keys");
}
