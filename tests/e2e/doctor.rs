//! `seqsvr doctor` on a ready machine, on a machine with faults, and next to running nodes.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::cluster::{Place, seqsvr};

fn page(args: &[&str]) -> (Option<i32>, Value) {
    let output = seqsvr(&[&["doctor", "-o", "json", "--timeout", "5s"], args].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the findings of a check as levels and texts.
fn found<'a>(page: &'a Value, check: &str, of: &str) -> Vec<(&'a str, &'a str)> {
    let items = page["items"].as_array().unwrap().iter();
    let named = items.filter(|item| item["check"] == check && item["of"].as_str().unwrap().starts_with(of));
    named.map(|item| (item["level"].as_str().unwrap(), item["text"].as_str().unwrap())).collect()
}

#[test]
fn a_machine_is_looked_at_before_the_first_start() {
    let place = Place::new();
    let set = place.set_file("three-node.toml");
    let (file, data) = (set.display().to_string(), place.path("s1"));
    let dir = data.display().to_string();
    let ready = [&*file, "--data", &dir];
    let (code, ok) = page(&["--set", ready[0], ready[1], ready[2]]);
    assert_eq!((code, &ok["problems"]), (Some(0), &0.into()), "{ok:#}");
    assert!(found(&ok, "port", "s1").iter().all(|port| *port == ("ok", "free")), "{ok:#}");
    assert!(found(&ok, "port", "a1 callers").len() == 1 && !data.exists(), "{ok:#}");

    // Another process listens on a port; the directory is open to other users; a name has no address.
    let _other = TcpListener::bind((place.host, 7400)).unwrap();
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    let text = fs::read_to_string(&set).unwrap().replace(&format!("{}:7302", place.host), "no-such-host.invalid:7302");
    fs::write(&set, text.replacen("plaintext = true", "plaintext = true\nplaintext_on_network = true", 1)).unwrap();
    let (code, bad) = page(&["--set", ready[0], ready[1], ready[2]]);
    assert_eq!(code, Some(1), "{bad:#}");
    assert_eq!(found(&bad, "port", "a1 callers"), [("warning", "in use")], "{bad:#}");
    assert!(found(&bad, "disk", &dir)[0].1.contains("mode 0777"), "{bad:#}");
    assert!(found(&bad, "address", "s2")[0].1.contains("does not resolve"), "{bad:#}");
    assert_eq!(bad["items"][0]["level"], "problem", "the worst come first");
}
