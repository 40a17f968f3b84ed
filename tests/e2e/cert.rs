//! Certificates: an authority, its certificates for a set file, their rotation and revocation. OpenSSL, if this machine
//! has it, accepts the files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::cluster::{Place, seqsvr, seqsvr_json};

/// Runs `cert` with a directory; returns its exit code and the text on stderr.
fn cert(dir: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = seqsvr(&[&["cert", args[0], "--certs", dir], &args[1..]].concat());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the state and serial of each holder.
fn shown(dir: &str) -> BTreeMap<String, (String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let output = seqsvr(&["cert", "show", "--certs", dir, "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = shown["items"].as_array().unwrap().iter();
    items.map(|item| (text(&item["holder"]), (text(&item["state"]), text(&item["serial"])))).collect()
}

#[test]
fn one_command_makes_an_authority_and_the_certificates_of_a_set() {
    let place = Place::new();
    let (set, dir) = (place.set_file("three-node.toml").display().to_string(), place.path("certs"));
    let dir_text = dir.display().to_string();
    assert_eq!(cert(&dir_text, &["issue", "--set", &set]).0, Some(0));
    let holders: Vec<String> = shown(&dir_text).into_keys().collect();
    let nodes = ["alloc/im-a/a1", "alloc/im-a/a2", "operator/admin", "store/im-a/s1", "store/im-a/s2", "store/im-a/s3"];
    assert_eq!(holders, nodes);
    let shown_json = seqsvr_json(&["cert", "show", "--certs", &dir_text]);
    assert_eq!(shown_json["items"][0]["hosts"], serde_json::json!([place.host]));
    assert_eq!(shown_json["items"][0]["days_left"], 89);
    for entry in fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        let expected = if entry.file_name() == "ca.crt" { 0o644 } else { 0o600 };
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, expected, "{:?}", entry.file_name());
    }
    // A second run makes the missing certificates and keeps the others.
    let before = shown(&dir_text);
    fs::remove_file(dir.join("store.im-a.s2.pem")).unwrap();
    assert_eq!(cert(&dir_text, &["issue", "--set", &set, "client/backend"]).0, Some(0));
    let after = shown(&dir_text);
    let renewed: Vec<&String> = after.keys().filter(|holder| before.get(*holder) != after.get(*holder)).collect();
    assert_eq!(renewed, ["client/backend", "store/im-a/s2"]);
    let (bundle, node) = (dir.join("ca.crt"), dir.join("alloc.im-a.a1.pem"));
    if let Ok(verified) = Command::new("openssl").arg("verify").arg("-CAfile").args([bundle, node]).output() {
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    }
}

#[test]
fn certificates_are_rotated_and_revoked() {
    let place = Place::new();
    let dir = place.path("certs").display().to_string();
    assert_eq!(cert(&dir, &["ca", "--cluster", "im"]).0, Some(0));
    assert_eq!(cert(&dir, &["issue", "client/a", "client/b", "--days", "20"]).0, Some(0));
    let first = shown(&dir);
    assert_eq!(cert(&dir, &["rotate", "--within", "10"]), (Some(0), "no certificate is due\n".to_owned()));
    assert_eq!(shown(&dir), first);
    // After the rotation of the authority, certificates of both authorities are trusted.
    assert_eq!(cert(&dir, &["rotate", "--ca"]).0, Some(0));
    assert_eq!(fs::read_to_string(place.path("certs/ca.crt")).unwrap().matches("BEGIN CERTIFICATE").count(), 2);
    assert_eq!(cert(&dir, &["rotate", "--within", "30"]).0, Some(0));
    let second = shown(&dir);
    assert!(second.iter().all(|(holder, state)| first[holder] != *state), "each holder has a new key");
    // A renamed file is renewed under its new name.
    fs::rename(place.path("certs/client.b.pem"), place.path("certs/backend.pem")).unwrap();
    assert_eq!(cert(&dir, &["rotate"]).0, Some(0));
    assert!(!place.path("certs/client.b.pem").exists());
    assert_ne!(shown(&dir)["client/b"], second["client/b"]);
    // A certificate is revoked by its holder or its serial.
    assert_eq!(cert(&dir, &["revoke", "client/a"]).0, Some(0));
    assert_eq!(cert(&dir, &["revoke", &first["client/b"].1]).0, Some(0));
    let output = seqsvr(&["cert", "show", "--certs", &dir]);
    assert_eq!(output.status.code(), Some(3), "a certificate is revoked");
    let third = shown(&dir);
    assert_eq!((&*third["client/a"].0, &*third["client/b"].0), ("revoked", "valid"));
}

#[test]
fn wrong_input_is_named_and_changes_nothing() {
    let place = Place::new();
    let dir = place.path("certs").display().to_string();
    let refused = |args: &[&str], what: &str| {
        let (code, text) = cert(&dir, args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains(what), "{args:?}: {text}");
    };
    refused(&["issue", "client/a"], "has no certificate authority");
    refused(&["show"], "cannot be read");
    refused(&["ca", "--cluster", "IM"], "no name of a cluster");
    refused(&["ca", "--cluster", "im", "--days", "0"], "from 1 to 18,250");
    assert_eq!(cert(&dir, &["ca", "--cluster", "im"]).0, Some(0));
    refused(&["ca", "--cluster", "im"], "has an authority");
    refused(&["issue", "root/a"], "\"root\" is no role");
    refused(&["issue", "client/*"], "no name of a holder");
    refused(&["issue", "store/s1"], "write store/SET/NODE");
    refused(&["issue", "proxy/p1", "--host", "*.example.org"], "wildcards are not allowed");
    refused(&["issue", "client/a", "--days", "18000"], "longer than the authority");
    refused(&["issue", "--set", &place.set_file("three-node.toml").display().to_string()], "not of cluster");
    refused(&["revoke", "client/a"], "neither the holder nor the serial of a certificate in");
    assert_eq!(fs::read_dir(place.path("certs")).unwrap().count(), 2, "the authority, and its bundle");
    fs::write(place.path("certs/ca.key"), "damaged").unwrap();
    refused(&["issue", "client/a"], "no certificate in PEM");
}
