//! A day of operations over TLS: the replicated audit log and the file of each member have each operation once, with
//! its principal and its result. A changed byte of a file is found and named.

use std::fs;
use std::path::{Path, PathBuf};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server};

struct Day {
    place: Place,
    file: String,
    /// Operations that must be in the log: principal, operation, result.
    expected: Vec<(String, String, String)>,
}

impl Day {
    fn store(&self, id: u32) -> Server {
        let data = self.data(id).display().to_string();
        let args = ["store", "--set", &self.file, "--id", &id.to_string(), "--data", &data];
        self.place.server(&format!("s{id}"), &args)
    }

    fn data(&self, id: u32) -> PathBuf {
        self.place.path(&format!("data-{id}"))
    }

    /// Runs a command as an operator, and notes the operations that it records.
    fn run(&mut self, principal: &str, args: &[&str], records: &[&str]) {
        let output = self.place.seqsvr_as(principal, &[args, &["--set", &self.file]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        self.expected.extend(records.iter().map(|operation| (principal.into(), (*operation).into(), "done".into())));
    }

    /// Runs a command that its dry run refuses, so that no change is requested.
    fn is_refused_before(&self, principal: &str, args: &[&str]) {
        let output = self.place.seqsvr_as(principal, &[args, &["--set", &self.file]].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the log as `audit list` shows it.
    fn listed(&self) -> Vec<(String, String, String)> {
        let list = self.place.seqsvr_json(&["audit", "list", "--set", &self.file]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| (text(&item["principal"]), text(&item["operation"]), text(&item["result"]))).collect()
    }

    fn verify(&self, files: &[PathBuf]) -> (Option<i32>, String) {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let args: Vec<&str> = ["audit", "verify"].into_iter().chain(files.iter().map(String::as_str)).collect();
        let output = self.place.seqsvr(&args);
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }
}

fn lines(file: &Path) -> usize {
    fs::read(file).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn every_operation_of_a_day_is_recorded_once() {
    let place = Place::new();
    let file = place.secure_set_file("three-node.toml").display().to_string();
    for holder in ["operator/alice", "operator/bob"] {
        assert!(place.seqsvr(&["cert", "issue", "--set", &file, holder]).status.success());
    }
    let mut day = Day { place, file, expected: Vec::new() };
    let mut stores = [1, 2, 3].map(|id| day.store(id));
    let alloc = |name: &str| day.place.server(name, &["alloc", "--set", &day.file, "--name", name, "--cores", "1"]);
    let _allocs = ["a1", "a2"].map(alloc);
    let serves = |day: &Day| day.place.seqsvr(&["status", "--set", &day.file]).status.success().then_some(());
    eventually("the set serves", || serves(&day));

    let (alice, bob) = ("operator/alice", "operator/bob");
    day.run(alice, &["node", "drain", "a1", "--dry-run"], &[]);
    day.run(alice, &["node", "drain", "a1", "--yes"], &["node drain a1"]);
    day.is_refused_before(bob, &["node", "drain", "a9", "--yes"]);
    day.run(bob, &["node", "undrain", "a1"], &["node undrain a1"]);
    day.run(bob, &["store", "terms", "--lease-wait-ms", "3000"], &["store terms --lease-wait-ms 3000"]);
    let backup = day.place.path("set.backup").display().to_string();
    day.run(alice, &["backup", "create", "--out", &backup], &["backup create"]);
    let members = day.place.seqsvr_json(&["store", "members", "--set", &day.file]);
    let leader = members["leader"].as_u64().unwrap();
    let next = leader % 3 + 1;
    let lead = format!("store lead --to {next}");
    day.run(alice, &["store", "lead", "--to", &next.to_string()], &[&lead]);
    day.run(alice, &["store", "upgrade", "--yes"], &[]);
    day.is_refused_before(bob, &["store", "remove", "1", "2", "3", "--yes"]);
    // The role of a caller's certificate is denied first, so the log has no operation of it.
    let denied = day.place.seqsvr_as("client/backend", &["node", "drain", "a2", "--yes", "--set", &day.file]);
    assert!(!denied.status.success());

    // The member that carried the operations out is killed, and another member leads.
    stores[next as usize - 1].kill();
    eventually("another member leads", || {
        let members = day.place.seqsvr(&["store", "members", "--set", &day.file]);
        members.status.success().then_some(())
    });
    day.run(alice, &["node", "drain", "a2", "--yes"], &["node drain a2"]);
    day.run(alice, &["node", "undrain", "a2"], &["node undrain a2"]);
    stores[next as usize - 1] = day.store(next as u32);
    eventually("the set serves", || serves(&day));
    assert_eq!(day.listed(), day.expected);

    let files = [1, 2, 3].map(|id| day.data(id).join("audit.jsonl"));
    let events = 2 * day.expected.len();
    eventually("each member has written every event", || files.iter().all(|file| lines(file) == events).then_some(()));
    let (code, text) = day.verify(&files);
    assert_eq!((code, text.matches(&format!("intact, events 1 to {events}")).count()), (Some(0), 3), "{text}");
    let to_store = day.place.seqsvr(&["audit", "verify", &files[0].display().to_string(), "--set", &day.file]);
    assert!(to_store.status.success(), "{}", String::from_utf8_lossy(&to_store.stderr));
    is_found_when_edited(&day, &files[0]);
}

/// Verifies a copy of a file with this content; returns the finding.
fn verify_text(day: &Day, copy: &PathBuf, bytes: &[u8]) -> String {
    fs::write(copy, bytes).unwrap();
    let (code, text) = day.verify(std::slice::from_ref(copy));
    assert_eq!(code, Some(2), "{text}");
    text
}

/// Changes bytes at many places of a copy, removes lines and cuts the end off.
fn is_found_when_edited(day: &Day, file: &Path) {
    let (whole, copy) = (fs::read(file).unwrap(), day.place.path("copy.jsonl"));
    let verify = |bytes: &[u8]| {
        let text = verify_text(day, &copy, bytes);
        assert!(text.contains("copy.jsonl: line "), "{text}");
        text
    };
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let line = whole[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let text = verify(&changed);
        assert!([line, line + 1].iter().any(|line| text.contains(&format!("line {line}: "))), "byte {at}: {text}");
    }
    verify(&whole[..whole.len() - 1]);
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let second = whole[first..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(verify_text(day, &copy, &whole[first..]).contains("begins with event 2"), "the first line is removed");
    let removed = verify(&[&whole[..first], &whole[first + second..]].concat());
    assert!(removed.contains("line 2: event 3 follows event 1"), "{removed}");

    // An end that was cut off at a line is found by the comparison with the store.
    let cut = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&copy, &whole[..cut]).unwrap();
    assert_eq!(day.verify(std::slice::from_ref(&copy)).0, Some(0), "the cut file alone is a valid chain");
    let compared = day.place.seqsvr(&["audit", "verify", &copy.display().to_string(), "--set", &day.file]);
    let text = String::from_utf8_lossy(&compared.stderr).into_owned();
    assert!(compared.status.code() == Some(2) && text.contains("and the store has"), "{text}");
}
