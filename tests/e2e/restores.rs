//! Several restores of several sets: counts given by operators, a closed set, and a member that was restored from
//! another set file. These sequences of steps used to allocate seqs twice.

use std::fs;
use std::path::Path;
use std::process::Output;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, seqsvr, seqsvr_json};
use crate::two_sets::{STORES, SetServers, TwoSets};

/// Backs a set up.
pub(crate) fn backup(sets: &TwoSets, set: &str, name: &str) -> String {
    let out = sets.place.path(name).display().to_string();
    seqsvr_json(&["backup", "create", "--set", &sets.file(set).display().to_string(), "--out", &out]);
    out
}

/// Restores one store; `more` has the count, or is empty.
fn restore_one(sets: &TwoSets, set: &str, (backup, dirs): (&str, &str), id: u64, more: &[&str]) -> Output {
    let (file, data, id) = (sets.file(set).display().to_string(), sets.data(dirs, id), id.to_string());
    let args = ["restore", "--from", backup, "--set", &file, "--id", &id, "--data", &data, "-o", "json", "--yes"];
    seqsvr(&[&args[..], more].concat())
}

/// Restores all stores of a set, and returns the count of each store.
pub(crate) fn restore(sets: &TwoSets, set: &str, from: (&str, &str), more: &[&str]) -> Vec<u64> {
    let one = |id: u64| {
        let output = restore_one(sets, set, from, id, more);
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["count"].as_u64().unwrap()
    };
    STORES.map(one).into()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn kill(servers: &mut SetServers) {
    servers.stores.iter_mut().chain(&mut servers.allocs).for_each(Server::kill);
}

fn next(sets: &TwoSets, uid: u64) -> u64 {
    let uid = uid.to_string();
    let response = eventually("a number is allocated", || {
        let output = sets.place.seqsvr(&["next", &uid, "--addr", &sets.addr(7400), "-o", "json"]);
        output.status.success().then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap())
    });
    digits(&response["items"][0]["value"])
}

fn serves(sets: &TwoSets, set: &str) {
    let file = sets.file(set).display().to_string();
    eventually("the restored set serves", || seqsvr(&["status", "--set", &file]).status.success().then_some(()));
}

/// C1: two sets, each restored twice from its first backup, and then both restored after the loss of all processes.
#[test]
fn restores_of_two_sets_from_the_same_backups_allocate_no_number_twice() {
    let sets = TwoSets::new(10_000_000);
    let [mut a, mut b] = sets.start();
    let (of_a, of_b) = (backup(&sets, "a", "a.backup"), backup(&sets, "b", "b.backup"));
    let mut last = next(&sets, 7);
    let above = |sets: &TwoSets, last: &mut u64| {
        for _ in 0..5 {
            let number = next(sets, 7);
            assert!(number > *last, "{number} after {last}");
            *last = number;
        }
    };
    // The other set's store knows the next count.
    kill(&mut b);
    assert_eq!(restore(&sets, "b", (&of_b, "b1"), &[]), [1, 1, 1]);
    b = SetServers { stores: sets.stores("b", "b1"), allocs: sets.allocs("b") };
    serves(&sets, "b");
    kill(&mut a);
    assert_eq!(restore(&sets, "a", (&of_a, "a1"), &[]), [2, 2, 2], "set im-b counts one");
    a = SetServers { stores: sets.stores("a", "a1"), allocs: sets.allocs("a") };
    serves(&sets, "a");
    above(&sets, &mut last);

    // The site is lost: no process responds, but the notes have both counts.
    kill(&mut a);
    kill(&mut b);
    let refused = restore_one(&sets, "b", (&of_b, "b2"), 1, &[]);
    assert!(refused.status.code() == Some(2) && text(&refused).contains("pass --count 3"), "{}", text(&refused));
    let refused = restore_one(&sets, "b", (&of_b, "b2"), 1, &["--count", "2"]);
    assert!(refused.status.code() == Some(1) && text(&refused).contains("was used before"), "{}", text(&refused));
    assert_eq!(restore(&sets, "b", (&of_b, "b2"), &["--count", "3"]), [3, 3, 3]);
    assert_eq!(restore(&sets, "a", (&of_a, "a2"), &["--count", "4"]), [4, 4, 4]);
    let mut b = SetServers { stores: sets.stores("b", "b2"), allocs: sets.allocs("b") };
    let mut a = SetServers { stores: sets.stores("a", "a2"), allocs: sets.allocs("a") };
    serves(&sets, "a");
    above(&sets, &mut last);

    // After the next loss, the operator of one set has a backup without notes.
    kill(&mut a);
    kill(&mut b);
    assert_eq!(restore(&sets, "b", (&of_b, "b3"), &["--count", "6"]), [6, 6, 6]);
    fs::create_dir(sets.place.path("elsewhere")).unwrap();
    let copy = sets.place.path("elsewhere/a.backup");
    fs::copy(&of_a, &copy).unwrap();
    assert_eq!(restore(&sets, "a", (&copy.display().to_string(), "a3"), &["--count", "5"]), [5, 5, 5]);
    let _b = SetServers { stores: sets.stores("b", "b3"), allocs: sets.allocs("b") };
    let _a = SetServers { stores: sets.stores("a", "a3"), allocs: sets.allocs("a") };
    serves(&sets, "a");
    above(&sets, &mut last);
    let file = sets.file("a").display().to_string();
    let status = String::from_utf8_lossy(&seqsvr(&["status", "--set", &file]).stdout).into_owned();
    // The count is above the other set's 6 if the facts of that set arrived before its response; that set has served
    // nothing under 6.
    let counts = [6, 7].map(|count| (count, format!("it began the lineage that counts {count} by itself")));
    let (count, _) = counts.iter().find(|(_, words)| status.contains(words)).unwrap_or_else(|| panic!("{status}"));
    assert!(status.contains(&format!("add {count} to")), "{status}");
    let audit = seqsvr_json(&["audit", "list", "--set", &file]).to_string();
    assert!(audit.contains(&format!("begin a lineage that counts {count} restores, after 5")), "{audit}");
    let metrics = crate::dev::get(&format!("{}:7311", sets.place.host), "/metrics");
    let begun = metrics.lines().find(|line| line.starts_with("seqsvr_set_lineage_begun{")).unwrap();
    assert!(begun.ends_with(&format!(" {count}")), "{begun}");
    let notes = fs::read_to_string(sets.place.path("two.restores")).unwrap();
    assert_eq!(notes.lines().filter(|line| line.contains("\"count\"")).count(), 15, "{notes}");
}

/// C2: a set is merged into another set and stopped, and the target set is restored from a backup before the merge.
#[test]
fn a_set_is_restored_from_before_another_one_was_merged_into_it_and_stopped() {
    let sets = TwoSets::new(10_000_000);
    let [mut a, mut b] = sets.start();
    sets.split_for_good("5_000_000");
    let before = backup(&sets, "a", "before.backup");
    let numbers = [7, 7_500_000].map(|uid| (uid, next(&sets, uid)));
    let merge = ["set", "merge", "im-b", "--into", "im-a", "--yes", "--timeout-s", "120"];
    let merged = seqsvr(&[&merge[..], &["--addr", &sets.addr(7321)]].concat());
    assert!(merged.status.success(), "{}", text(&merged));
    kill(&mut b);
    kill(&mut a);
    // No other set runs, and only the closed set has the records, so its store is started again.
    assert_eq!(restore(&sets, "a", (&before, "again"), &["--count", "1"]), [1, 1, 1]);
    let _a = SetServers { stores: sets.stores("a", "again"), allocs: sets.allocs("a") };
    let file = sets.file("a").display().to_string();
    eventually("the closed set is awaited", || {
        let output = seqsvr(&["status", "--set", &file]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code() == Some(3) && text.contains("\"im-b\" has not responded")).then_some(())
    });
    let _b = sets.stores("b", "b");
    serves(&sets, "a");
    for (uid, last) in numbers {
        let number = next(&sets, uid);
        assert!(number > last, "uid {uid}: {number} after {last}");
    }
    assert_eq!(sets.sections("im-a"), 100);
}

/// A set in which one host restored its store with a set file that lists only this store, so that it serves alone.
pub(crate) struct RestoredOtherwise<'a> {
    place: &'a Place,
    pub(crate) file: String,
    alone: String,
}

impl RestoredOtherwise<'_> {
    /// Starts a restored store; store 1 is the store that was restored under another file.
    pub(crate) fn start(&self, id: u64) -> Server {
        let (name, file) = (format!("r{id}"), if id == 1 { &self.alone } else { &self.file });
        let (data, id) = (self.place.path(&name).display().to_string(), id.to_string());
        self.place.server(&name, &["store", "--set", file, "--id", &id, "--data", &data])
    }
}

/// Restores the stores of a set whose processes do not run.
pub(crate) fn restored_otherwise(place: &Place) -> RestoredOtherwise<'_> {
    let file = place.set_file("three-node.toml");
    let path = file.display().to_string();
    let mut first: Vec<Server> = (1..=3)
        .map(|id: u64| {
            let (id, data) = (id.to_string(), place.path(&format!("s{id}")).display().to_string());
            place.server(&format!("s{id}"), &["store", "--set", &path, "--id", &id, "--data", &data])
        })
        .collect();
    let out = place.path("set.backup").display().to_string();
    eventually("a backup is made", || {
        seqsvr(&["backup", "create", "--set", &path, "--out", &out]).status.success().then_some(())
    });
    first.iter_mut().for_each(Server::kill);
    let whole = fs::read_to_string(&file).unwrap();
    let second = whole.match_indices("[[store]]").nth(1).unwrap().0;
    let allocs = whole.find("[[alloc]]").unwrap();
    let alone = place.path("alone.toml");
    fs::write(&alone, format!("{}{}", &whole[..second], &whole[allocs..])).unwrap();
    let restore = |file: &Path, id: u64| {
        let (data, id) = (place.path(&format!("r{id}")).display().to_string(), id.to_string());
        let file = file.display().to_string();
        let args = ["restore", "--from", &out, "--set", &file, "--id", &id, "--data", &data, "--count", "1", "--yes"];
        seqsvr_json(&args)["content"].as_str().unwrap().to_owned()
    };
    let contents = [restore(&alone, 1), restore(&file, 2), restore(&file, 3)];
    assert!(contents[0] != contents[1] && contents[1] == contents[2], "{contents:?}");
    RestoredOtherwise { place, file: path, alone: alone.display().to_string() }
}

/// C4: one host restores its store with a set file that lists only this store, so that it serves alone.
#[test]
fn a_store_that_is_restored_otherwise_keeps_the_set_in_quarantine_and_is_named() {
    let place = Place::new();
    let set = restored_otherwise(&place);
    let path = &set.file;
    let mut other = set.start(1);
    let _others = [2, 3].map(|id| set.start(id));
    let verdict = || {
        let output = seqsvr(&["status", "--set", path]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    eventually("the difference is named", || {
        let (code, text) = verdict();
        (code == Some(3) && text.contains("SPLIT: stores")).then_some(())
    });
    let alloc = || place.server("a1", &["alloc", "--set", path, "--name", "a1", "--cores", "1"]);
    let mut one = alloc();
    let addr = format!("http://{}:7400", place.host);
    let next = || {
        eventually("a number is allocated", || {
            let output = seqsvr(&["next", "7", "--addr", &addr, "--deadline-ms", "1000", "-o", "json"]);
            let view = output.status.success().then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap())?;
            Some(digits(&view["items"][0]["value"]))
        })
    };
    let of_other = next();
    other.kill();
    one.kill();
    let _one = alloc();
    eventually("the others go on without it", || (!verdict().1.contains("SPLIT")).then_some(()));
    let number = next();
    assert!(number > of_other, "{number} after {of_other} of the store that served alone");
}
