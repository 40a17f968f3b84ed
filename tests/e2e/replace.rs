//! A killed store is replaced by a new store with the operators' commands, during a replay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, assert_clean, seqsvr, seqsvr_json};
use crate::kill::Replay;

/// Exit code of a member that was removed.
const REMOVED: i32 = 65;

/// Exit code of a server with a wrong configuration.
const CONFIG: i32 = 64;

struct Stores {
    place: Place,
    set: PathBuf,
}

impl Stores {
    fn server(&self, id: u64, set: &Path, more: &[&str]) -> Server {
        let (name, id) = (format!("s{id}"), id.to_string());
        let (set, data) = (set.display().to_string(), self.place.path(&name).display().to_string());
        let args = [&["store", "--set", &set, "--id", &id, "--data", &data], more].concat();
        self.place.server(&name, &args)
    }

    /// Writes the set file with store 4 instead of store 3.
    fn new_set(&self) -> PathBuf {
        let text = fs::read_to_string(&self.set).unwrap();
        let (old, new) = ("id = 3\nname = \"s3\"", "id = 4\nname = \"s4\"");
        assert!(text.contains(old), "{text}");
        let path = self.place.path("new.toml");
        let ports = [(7303, 7321), (7306, 7324), (7309, 7327), (7313, 7331)];
        let moved = |text: String, (old, new): (u16, u16)| text.replace(&format!(":{old}"), &format!(":{new}"));
        fs::write(&path, ports.into_iter().fold(text.replace(old, new), moved)).unwrap();
        path
    }

    /// Returns the voters in the events of the set, once there are two such events.
    fn noted_voters(&self, set: &str) -> Vec<Value> {
        eventually("the new voters are an event", || {
            let events = seqsvr_json(&["events", "list", "--kind", "members", "--set", set]);
            let voters: Vec<Value> = events["items"].as_array()?.iter().map(|event| event["voters"].clone()).collect();
            (voters.len() > 1).then_some(voters)
        })
    }

    fn members(&self, set: &str) -> Value {
        seqsvr_json(&["store", "members", "--set", set])
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_killed_store_is_replaced_while_a_trace_is_replayed() {
    let place = Place::new();
    let set = place.set_file("three-node.toml");
    let cluster = Stores { place, set };
    let old = cluster.set.display().to_string();
    let mut stores: Vec<Server> = (1..=3).map(|id| cluster.server(id, &cluster.set, &[])).collect();
    let alloc = |name| cluster.place.server(name, &["alloc", "--set", &old, "--name", name, "--cores", "1"]);
    let _allocs = ["a1", "a2"].map(alloc);
    let addr = format!("http://{}:7400", cluster.place.host);
    eventually("a number is allocated", || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(()));
    let replay = Replay::start(&cluster.place, &addr);

    stores[2].kill();
    let file = cluster.new_set();
    let new = file.display().to_string();
    // A member that starts without --join is refused with the name of the flag.
    let mut alone = cluster.server(4, &file, &[]);
    assert_eq!(alone.wait_exit(), Some(CONFIG), "{}", alone.log());
    assert!(alone.log().contains("--join"), "{}", alone.log());
    drop(alone);
    // The leader's refusal is passed on at once, and recorded once; without a terminal, the command needs --yes.
    let unready = seqsvr(&["store", "replace", "3", "4", "--set", &new, "--yes"]);
    assert_eq!(unready.status.code(), Some(3), "{}", stderr(&unready));
    assert!(stderr(&unready).contains("(MEMBER_NOT_REACHED)"), "{}", stderr(&unready));
    let refused = || {
        let events = seqsvr_json(&["audit", "list", "--set", &new]);
        events.to_string().matches("MEMBER_NOT_REACHED").count()
    };
    assert_eq!(refused(), 1, "{}", seqsvr_json(&["audit", "list", "--set", &new]));
    let _joined = cluster.server(4, &file, &["--join"]);

    let foreseen = seqsvr_json(&["store", "replace", "3", "4", "--set", &new, "--dry-run"]);
    assert_eq!((&foreseen["voters"], &foreseen["changed"]), (&serde_json::json!([1, 2, 4]), &Value::Bool(false)));
    assert_eq!(cluster.members(&old)["members"].as_array().unwrap().len(), 3, "a dry run adds no member");
    let unconfirmed = seqsvr(&["store", "replace", "3", "4", "--set", &new]);
    assert_eq!(unconfirmed.status.code(), Some(2), "{}", stderr(&unconfirmed));
    assert!(stderr(&unconfirmed).contains("remove store 3 from set"), "{}", stderr(&unconfirmed));
    let changed = seqsvr_json(&["store", "replace", "3", "4", "--set", &new, "--yes"]);
    assert_eq!((&changed["voters"], &changed["changed"]), (&serde_json::json!([1, 2, 4]), &Value::Bool(true)));
    assert_eq!(cluster.noted_voters(&new), [["1", "2", "3"], ["1", "2", "4"]].map(|ids| serde_json::json!(ids)));
    let again = seqsvr_json(&["store", "replace", "3", "4", "--set", &new, "--yes"]);
    assert_eq!((&again["voters"], &again["changed"]), (&serde_json::json!([1, 2, 4]), &Value::Bool(false)));

    // The old member restarts with its disk, and is notified of its removal.
    stores[2] = cluster.server(3, &cluster.set, &[]);
    assert_eq!(stores[2].wait_exit(), Some(REMOVED), "{}", stores[2].log());
    assert!(stores[2].log().contains("removed"), "{}", stores[2].log());
    let refused = seqsvr(&["store", "replace", "4", "3", "--set", &old, "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("USED_STORE_ID"), "{}", stderr(&refused));

    // The allocators use the old file, but a store that only the file lists does not count as missing. Their next
    // renewals return the new list.
    eventually("the cluster is well, with the new store and without the old one", || {
        let status = seqsvr(&["status", "--addr", &addr]);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        (status.status.success() && text.contains(":7321") && !text.contains(":7303")).then_some(())
    });

    // The members change before the files.
    let outdated = eventually("nothing is missing by the old file", || {
        let status = seqsvr(&["status", "--set", &old]);
        status.status.success().then(|| String::from_utf8_lossy(&status.stdout).into_owned())
    });
    assert!(outdated.lines().any(|line| line.starts_with("s3 ") && line.contains("  removed  ")), "{outdated}");

    let led = eventually("the new one may lead", || {
        let led = seqsvr(&["store", "lead", "--to", "4", "--set", &new, "-o", "json"]);
        led.status.success().then_some(led)
    });
    assert_eq!(serde_json::from_slice::<Value>(&led.stdout).unwrap()["leader"], 4);
    let members = cluster.members(&new);
    let ids: Vec<u64> = members["members"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
    assert_eq!((&members["leader"], ids), (&Value::from(4), vec![1, 2, 4]));

    // The new member is needed from here: with another member down, it completes the majority.
    stores[0].kill();
    assert_clean(&replay.finish());
    eventually("sections are raised still", || {
        seqsvr(&["next", "9000000", "--addr", &addr]).status.success().then_some(())
    });
}
