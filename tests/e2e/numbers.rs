//! The commands `next` for several users and `advance`, against a real cluster.

use serde_json::{Value, json};

use crate::cluster::{Place, seqsvr, seqsvr_json};
use crate::dev;

/// Runs a command against the cluster; returns its exit code, stdout and stderr.
fn run(addr: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let output = seqsvr(&[args, &["--addr", addr]].concat());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn numbers_are_columns_and_each_user_is_a_line() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let next = |args: &[&str]| {
        let (code, stdout, stderr) = run(&addr, &[&["next"], args].concat());
        assert_eq!(code, Some(0), "{stderr}");
        stdout
    };
    assert_eq!(next(&["42"]), "1\n");
    assert_eq!(next(&["42", "-n", "10"]), "2  11\n");
    assert_eq!(next(&["42", "900000", "7"]), "42      12\n900000  1\n7       1\n");
    assert_eq!(next(&["7", "42", "-n", "3"]), "7   2   4\n42  13  15\n");
    assert_eq!(next(&["7", "7"]), "7  5\n7  6\n", "a user that is named twice gets two numbers");
    let wide = next(&["42", "-o", "wide"]);
    let words: Vec<Vec<&str>> = wide.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["uid", "first", "last", "prev", "epoch"]);
    assert_eq!(words[1][..4], ["42", "16", "16", "15"]);
    let items = &seqsvr_json(&["next", "42", "43", "-n", "2", "--addr", &addr])["items"];
    let part = |index: usize| {
        let item = &items[index];
        json!([item["uid"], item["first"], item["value"], item["prev"], item["count"]])
    };
    assert_eq!([part(0), part(1)], [json!(["42", "17", "18", "16", 2]), json!(["43", "1", "2", "0", 2])]);
}

#[test]
fn some_users_may_be_refused() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let (code, stdout, stderr) = run(&addr, &["next", "42", "1000000", "43"]);
    assert_eq!((code, stdout.as_str()), (Some(8), "42  1\n43  1\n"), "{stderr}");
    assert!(stderr.contains("uid 1000000") && stderr.contains("0..1000000"), "{stderr}");
    let (code, stdout, _) = run(&addr, &["next", "1000000", "2000000", "-o", "json"]);
    let items: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &items["items"][1]["error"]["reason"]), (Some(2), &json!("UID_OUTSIDE")));
}

#[test]
fn an_advance_raises_a_user_and_never_lowers_one() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let advance = |args: &[&str]| run(&addr, &[&["advance"], args].concat());
    assert_eq!(advance(&["42", "1000", "--dry-run"]).1, "uid 42 would be raised from 0 to 1000\n");
    let (code, stdout, stderr) = advance(&["42", "1000"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "without a terminal it must be confirmed by a flag");
    assert!(stderr.contains("raise uid 42 from 0 to 1000, permanently") && stderr.contains("pass --yes"), "{stderr}");
    assert_eq!(run(&addr, &["current", "42"]).1, "0  exact\n", "nothing was changed");
    let (code, stdout, stderr) = advance(&["42", "1000", "--yes"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "uid 42 is at 1000, or above it because of other calls\n"),
        "{stderr}"
    );
    assert_eq!(advance(&["42", "1000"]).1, "nothing to do: uid 42 is at 1000\n");
    assert_eq!(run(&addr, &["next", "42"]).1, "1001\n");
    for args in [&["42", "1000", "--yes"][..], &["42", "1000", "--dry-run"]] {
        let (code, stdout, stderr) = advance(args);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert!(stderr.contains("uid 42 is at 1001, past 1000 (ALREADY_PAST)"), "{stderr}");
    }
    let (code, stdout, _) = advance(&["42", "4000000000000000000", "--yes", "-o", "json"]);
    let refused: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &refused["items"][0]["error"]["reason"]), (Some(1), &json!("ADVANCE_TOO_FAR")));
    let (code, stdout, _) = advance(&["42", "2000", "--yes", "-o", "json"]);
    let raised: Value = serde_json::from_str(&stdout).unwrap();
    let expected = json!({"uid": "42", "from": "1001", "exactness": "exact", "to": "2000", "dry_run": false});
    assert_eq!((code, &raised["items"][0]), (Some(0), &expected));
    assert_eq!(advance(&["1000000", "5", "--yes"]).0, Some(2), "the user is in no set");
}
