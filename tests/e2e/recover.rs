//! Two of three stores are lost permanently while seqs are allocated. The set is recovered from the remaining data
//! directory and from the allocators' state, and one checker sees all seqs: no seq is allocated twice, and none is
//! lower than an earlier seq.

use std::fs;
use std::path::Path;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, assert_clean, digits, seqsvr, seqsvr_json};
use crate::kill::Replay;

/// The margin of a restore.
const MARGIN: u64 = 1 << 40;

/// A set of three stores and two allocators.
pub(crate) struct Set {
    pub(crate) place: Place,
    pub(crate) file: String,
}

impl Set {
    pub(crate) fn store(&self, id: u32, data: &str) -> Server {
        self.place.server(data, &["store", "--set", &self.file, "--id", &id.to_string(), "--data", &self.path(data)])
    }

    pub(crate) fn alloc(&self, name: &str) -> Server {
        self.place.server(name, &["alloc", "--set", &self.file, "--name", name, "--cores", "1"])
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.place.path(name).display().to_string()
    }

    pub(crate) fn addr(&self) -> String {
        format!("http://{}:7400", self.place.host)
    }

    fn recover(&self, args: &[&str]) -> (Option<i32>, Value, String) {
        let args = [&["unsafe", "recover", "--set", &self.file, "--count", "1", "-o", "json"], args].concat();
        let output = seqsvr(&args);
        let view = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), view, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() { copy(&entry.path(), &to) } else { drop(fs::copy(entry.path(), to)) }
    }
}

#[test]
fn a_set_that_lost_its_majority_is_recovered_without_a_number_twice() {
    let place = Place::new();
    let file = place.set_file("three-node.toml").display().to_string();
    let set = Set { place, file };
    let mut stores = [1, 2, 3].map(|id| set.store(id, &format!("s{id}")));
    let _allocs = ["a1", "a2"].map(|name| set.alloc(name));
    let serves = || seqsvr(&["status", "--set", &set.file]).status.success().then_some(());
    eventually("the set serves", serves);

    // `old` is a copy that is older than the remaining directory.
    let (left, old, out) = (set.path("s3"), set.path("s3-old"), set.path("recovered.backup"));
    stores[2].kill();
    copy(Path::new(&left), Path::new(&old));
    let (code, _, text) = set.recover(&["--data", &left, "--out", &out, "--confirm", "im-a"]);
    assert!(code == Some(1) && text.contains("set im-a is alive"), "{text}");
    stores[2] = set.store(3, "s3");
    assert_clean(&Replay::start(&set.place, &set.addr()).finish());
    let before = digits(&seqsvr_json(&["next", "7", "--addr", &set.addr()])["items"][0]["value"]);
    let (code, _, text) = set.recover(&["--data", &left, "--out", &out, "--offline", "--confirm", "im-a"]);
    assert!(code == Some(2) && text.contains("in use by another process"), "{text}");

    // The replay retries through the loss, and its floors carry the order from before the loss over.
    let replay = Replay::start(&set.place, &set.addr());
    for (store, data) in stores.iter_mut().zip(["s1", "s2", "s3"]) {
        store.kill();
        if data != "s3" {
            fs::remove_dir_all(set.place.path(data)).unwrap();
        }
    }
    refuses_bad_input(&set, &left, &out);
    let (code, view, text) = set.recover(&["--data", &old, "--data", &left, "--out", &out, "--dry-run"]);
    assert!(code == Some(0) && !Path::new(&out).exists(), "{text}");
    let taken: Vec<_> = view["sources"].as_array().unwrap().iter().map(|source| source["taken"].as_bool()).collect();
    assert_eq!(taken, [Some(false), Some(true)], "{view:#}");
    assert_eq!(digits(&view["skipped_per_section"]), MARGIN);
    for alloc in view["allocators"].as_array().unwrap() {
        assert!(alloc["error"].is_null() && alloc["known"].as_u64() > Some(0), "{view:#}");
    }
    // The allocators know raises that the older directory lacks.
    let (code, of_old, text) = set.recover(&["--data", &old, "--out", &out, "--dry-run"]);
    let raised = of_old["allocators"].as_array().unwrap().iter().any(|alloc| alloc["raised"].as_u64() > Some(0));
    assert!(code == Some(0) && raised, "{text}{of_old:#}");

    let (code, _, text) = set.recover(&["--data", &left, "--out", &out, "--confirm", "im-a"]);
    assert_eq!(code, Some(0), "{text}");
    let shown = seqsvr_json(&["backup", "show", &out]);
    assert_eq!(shown["recovered_from"], "the data directory of store 3");
    let _stores = [1, 2, 3].map(|id| {
        let (id, data) = (id.to_string(), set.path(&format!("new-{id}")));
        let restore = ["restore", "--from", &out, "--set", &set.file, "--id", &id, "--data", &data];
        let first = [&restore[..], &["--count", "1"]].concat();
        let plan = seqsvr_json(&[&first[..], &["--dry-run"]].concat());
        assert_eq!((digits(&plan["margin"]), Path::new(&data).exists()), (MARGIN, false), "{plan:#}");
        let stale = seqsvr(&[&restore[..], &["--count", "2", "--plan", plan["plan"].as_str().unwrap()]].concat());
        assert_eq!(stale.status.code(), Some(5), "{}", String::from_utf8_lossy(&stale.stderr));
        seqsvr_json(&[&first[..], &["--plan", plan["plan"].as_str().unwrap()]].concat())
    });
    let _stores = [1, 2, 3].map(|id| set.store(id, &format!("new-{id}")));
    // The old allocators may serve to the end of their leases, which end before the quarantine.
    let during = replay.finish();
    eventually("the recovered set is healthy", serves);
    let later = Replay::start(&set.place, &set.addr()).finish();
    assert_clean(&during);
    assert_clean(&later);
    let after = digits(&seqsvr_json(&["next", "7", "--addr", &set.addr()])["items"][0]["value"]);
    let skipped = after - before;
    assert!((MARGIN..2 * MARGIN).contains(&skipped), "{skipped}");
    let checked = [during, later].map(|report| report["allocations"].as_u64().unwrap());
    println!("{checked:?} numbers checked, uid 7 skipped {skipped}: 0 decreases, 0 duplicates");

    // The set is alive again, so another restore is refused.
    let data = set.path("late");
    let late = seqsvr(&["restore", "--from", &out, "--set", &set.file, "--id", "1", "--data", &data, "--yes"]);
    let text = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(late.status.code() == Some(1) && text.contains("is alive") && !Path::new(&data).exists(), "{text}");
}

/// Checks that wrong input is named, and that no file is written.
fn refuses_bad_input(set: &Set, left: &str, out: &str) {
    let damaged = set.path("damaged");
    copy(Path::new(left), Path::new(&damaged));
    fs::write(Path::new(&damaged).join("acknowledged"), [7; 8192]).unwrap();
    let missing = set.path("missing");
    for (args, code, expected) in [
        (&["--data", &missing, "--confirm", "im-a"][..], 2, "missing"),
        (&["--data", &damaged, "--confirm", "im-a"], 2, "acknowledged"),
        (&["--data", left, "--confirm", "im-b"], 2, "is not the name of the set"),
        (&["--data", left], 2, "pass --confirm im-a"),
        (&["--data", left, "--without", "a9", "--confirm", "im-a"], 2, "no allocator \"a9\""),
        (&["--from", &set.file, "--confirm", "im-a"], 2, "is no backup"),
    ] {
        let (found, _, text) = set.recover(&[args, &["--out", out]].concat());
        assert!(found == Some(code) && text.contains(expected), "{args:?}: {found:?} {text}");
        assert!(!Path::new(out).exists() && !Path::new(&missing).exists(), "{args:?} wrote something");
    }
}
