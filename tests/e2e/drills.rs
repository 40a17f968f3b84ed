//! Recovery from losses under load: restores from a backup, and old disks that are put back. One exact check spans the
//! seqs before and after: no seq is allocated twice, and none is lower than an earlier seq.
//!
//! `DRILL_RAISES` is the number of ceiling raises that an old backup lacks: 100,000 in `just drills`.

use std::fs;
use std::path::Path;
use std::process::Command;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, json, seqsvr, seqsvr_json};
use crate::load::Load;
use crate::recover::{Set, copy};
use crate::two_sets::{STORES, TwoSets};

/// The margin of a restore.
const MARGIN: u64 = 1 << 40;

/// Default number of raises that an old backup lacks.
const RAISES: u64 = 5_000;

/// Log entries that a copy of old directories lacks: more than the stores apply at their start.
const LACKS: u64 = 50;

/// The simulated age of an old backup.
const HOUR: u64 = 3_600;

pub(crate) fn serves(file: &str) -> Option<()> {
    seqsvr(&["status", "--set", file]).status.success().then_some(())
}

fn backup(file: &str, out: &str) {
    seqsvr_json(&["backup", "create", "--set", file, "--out", out]);
}

/// Restores all stores of a set; `data` names the directory of each.
fn restore(file: &str, backup: &str, count: &str, data: impl Fn(u64) -> String) {
    for id in STORES {
        let (data, id) = (data(id), id.to_string());
        seqsvr_json(&[
            "restore", "--from", backup, "--set", file, "--id", &id, "--data", &data, "--count", count, "--yes",
        ]);
    }
}

impl Set {
    fn new() -> Set {
        Set::with(|text| text)
    }

    /// Creates a set whose file is changed.
    fn with(change: impl Fn(String) -> String) -> Set {
        let place = Place::new();
        let file = place.set_file("three-node.toml");
        fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
        Set { file: file.display().to_string(), place }
    }

    /// Creates a set whose ceilings are raised often.
    pub(crate) fn small_steps() -> Set {
        Set::with(|text| text.replace("step = 10_000", "step = 100"))
    }

    pub(crate) fn stores(&self, dirs: &str) -> Vec<Server> {
        (1..=3).map(|id| self.store(id, &format!("{dirs}-{id}"))).collect()
    }

    fn addrs(&self) -> [String; 2] {
        [7400, 7401].map(|port| format!("http://{}:{port}", self.place.host))
    }

    /// Kills the stores and removes their directories.
    fn wipe(&self, stores: &mut [Server], dirs: &str) {
        stores.iter_mut().for_each(Server::kill);
        (1..=3).for_each(|id| fs::remove_dir_all(self.place.path(&format!("{dirs}-{id}"))).unwrap());
    }

    /// Copies the directories `first` of the stores, and puts the copies back once the stores have applied more
    /// entries. The allocators keep running.
    pub(crate) fn put_back_old_directories(&self, mut stores: Vec<Server>) -> Vec<Server> {
        let before = self.highest("applied_index");
        stores.iter_mut().for_each(Server::kill);
        let dir = |name: &str, id: u64| self.place.path(&format!("{name}-{id}"));
        STORES.iter().for_each(|id| copy(&dir("first", *id), &dir("snapshot", *id)));
        stores = self.stores("first");
        eventually("entries are applied that the copies lack", || {
            (self.highest("applied_index") > before + LACKS).then_some(())
        });
        self.wipe(&mut stores, "first");
        STORES.iter().for_each(|id| fs::rename(dir("snapshot", *id), dir("first", *id)).unwrap());
        self.stores("first")
    }

    fn restore(&self, backup: &str, count: &str, dirs: &str) -> Vec<Server> {
        restore(&self.file, backup, count, |id| self.path(&format!("{dirs}-{id}")));
        self.stores(dirs)
    }

    /// Returns the highest value of a key in the status of the stores; 0 if no store responds.
    fn highest(&self, key: &str) -> u64 {
        let output = seqsvr(&["status", "--set", &self.file, "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["stores"].as_array().into_iter().flatten().filter_map(|store| store[key].as_u64()).max().unwrap_or(0)
    }

    fn last(&self, uid: u64) -> u64 {
        let response = seqsvr_json(&["next", &uid.to_string(), "--addr", &self.addr()]);
        digits(&response["items"][0]["value"])
    }
}

/// The old allocators run through all restores; one is killed and started again during the first restore.
#[test]
fn a_backup_under_load_is_restored_again_while_processes_of_before_run() {
    let set = Set::new();
    let mut stores = set.stores("first");
    let mut allocs = ["a1", "a2"].map(|name| set.alloc(name));
    eventually("the set serves", || serves(&set.file));
    let load = Load::start(&set.place, &set.addrs());
    load.wait_replay();
    let out = set.path("set.backup");
    backup(&set.file, &out);
    load.wait_replay();
    let mut before = set.last(7);
    for (count, dirs, next) in [("1", "first", "second"), ("2", "second", "third")] {
        set.wipe(&mut stores, dirs);
        if count == "1" {
            allocs[1].kill();
        }
        stores = set.restore(&out, count, next);
        if count == "1" {
            allocs[1] = set.alloc("a2");
        }
        eventually("the restored set serves", || serves(&set.file));
        load.wait_replay();
        let after = set.last(7);
        // The margin is added to a ceiling of the backup, which is lower than `before` by the seqs that the load has
        // allocated since.
        assert!((MARGIN / 2..2 * MARGIN).contains(&(after - before)), "{after} after {before}");
        before = after;
    }
    assert_eq!(allocs[0].log().matches("this incarnation is over").count(), 2, "a1 has had both lineages");
    // The allocators know the count of the last restore even if all stores have forgotten it.
    set.wipe(&mut stores, "third");
    let data = set.path("fourth-1");
    let args = ["restore", "--from", &out, "--set", &set.file, "--id", "1", "--data", &data, "--count", "2", "--yes"];
    let refused = seqsvr(&args);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && text.contains("was used before") && text.contains("--count 3"),
        "{text}"
    );
    assert!(!Path::new(&data).exists(), "nothing is written");
    let _stores = set.restore(&out, "3", "fourth");
    eventually("the restored set serves", || serves(&set.file));
    println!("restored three times: {} numbers, 0 decreases, 0 duplicates", load.stop());
}

#[test]
fn a_backup_that_is_old_and_lacks_many_raises_is_enough() {
    let raises = std::env::var("DRILL_RAISES").map_or(RAISES, |raises| raises.parse().unwrap());
    // Almost every seq takes a raise.
    let set = Set::with(|text| text.replace("step = 10_000", "step = 1"));
    let mut stores = set.stores("first");
    let _allocs = ["a1", "a2"].map(|name| set.alloc(name));
    eventually("the set serves", || serves(&set.file));
    let load = Load::start(&set.place, &set.addrs());
    load.wait_replay();
    let out = set.path("set.backup");
    backup(&set.file, &out);
    let applied = || set.highest("raises_applied");
    let at_backup = applied();
    while applied() < at_backup + raises {
        load.wait_replay();
    }
    let lacks = applied() - at_backup;
    let before = set.last(7);
    set.wipe(&mut stores, "first");
    shows_its_age(&set, &out);
    let _stores = set.restore(&out, "1", "second");
    eventually("the restored set serves", || serves(&set.file));
    load.wait_replay();
    let after = set.last(7);
    assert!(after > before, "{after} after {before}");
    println!("a backup without {lacks} raises: {} numbers, 0 decreases, 0 duplicates", load.stop());
}

/// Checks that an hour later, the plan of a restore has the age of the backup, and the seqs that were probably
/// allocated since, by the backup's rate of raises.
fn shows_its_age(set: &Set, backup: &str) {
    let data = set.path("planned");
    let args = [
        "restore",
        "--from",
        backup,
        "--set",
        &set.file,
        "--id",
        "1",
        "--data",
        &data,
        "--count",
        "1",
        "--dry-run",
        "-o",
        "json",
    ];
    let output = Command::new("faketime").args(["-f", "+1h", env!("CARGO_BIN_EXE_seqsvr")]).args(args).output();
    let Ok(output) = output else {
        assert!(std::env::var_os("CI").is_none(), "faketime is not installed");
        return eprintln!("skipped: the age of a backup needs faketime");
    };
    let plan = json(&args, &output);
    let (age, rate) = (plan["age_s"].as_u64().unwrap(), plan["raises_per_second"].as_f64().unwrap());
    assert!((HOUR..HOUR + 600).contains(&age) && rate > 0.0, "{plan:#}");
    let since = digits(&plan["numbers_since"]) as f64;
    assert!((since - rate * age as f64).abs() <= 1.0 + rate && since < MARGIN as f64, "{plan:#}");
    assert!(!Path::new(&data).exists(), "nothing is written");
}

/// The other set continues to serve, and reports its sections to the restored set.
#[test]
fn one_set_of_two_is_restored_under_load() {
    let sets = TwoSets::new(10_000_000);
    let [mut a, _b] = sets.start();
    sets.split_for_good("5_000_000");
    let load = Load::start(&sets.place, &[7400, 7420].map(|port| sets.addr(port)));
    load.wait_replay();
    let (file, out) = (sets.file("a").display().to_string(), sets.place.path("a.backup").display().to_string());
    backup(&file, &out);
    load.wait_replay();
    let of_b = || {
        let output = seqsvr(&["next", "7_500_000".replace('_', "").as_str(), "--addr", &sets.addr(7420)]);
        assert!(output.status.success(), "the other set serves: {}", String::from_utf8_lossy(&output.stderr));
    };
    a.stores.iter_mut().for_each(Server::kill);
    STORES.iter().for_each(|id| fs::remove_dir_all(sets.data("a", *id)).unwrap());
    of_b();
    restore(&file, &out, "1", |id| sets.data("again", id));
    of_b();
    a.stores = sets.stores("a", "again");
    eventually("the restored set serves", || {
        of_b();
        serves(&file)
    });
    assert_eq!((sets.sections("im-a"), sets.sections("im-b")), (50, 50));
    load.wait_replay();
    println!("one set of two: {} numbers, 0 decreases, 0 duplicates", load.stop());
}

/// Snapshots of all virtual machines of the stores are put back, while the allocators keep running.
#[test]
fn old_directories_that_are_put_back_are_detected_and_recovered_from() {
    let set = Set::small_steps();
    let mut stores = set.stores("first");
    let mut allocs = ["a1", "a2"].map(|name| set.alloc(name));
    eventually("the set serves", || serves(&set.file));
    let load = Load::start(&set.place, &set.addrs());
    load.wait_replay();
    stores = set.put_back_old_directories(stores);
    let status = eventually("the rollback is detected", || {
        let output = seqsvr(&["status", "--set", &set.file, "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        let verdict = status["verdict"].as_str()?.to_owned();
        let is_named = verdict.starts_with("ROLLED BACK: a1, a2 serve nothing");
        (is_named && output.status.code() == Some(3)).then_some(status)
    });
    assert_eq!(status["sets"][0]["state"], "rolled_back", "{status:#}");
    // The store keeps the evidence, so allocators are refused after a restart of one of them, and then of all.
    for (alloc, name) in allocs.iter_mut().zip(["a1", "a2"]) {
        alloc.kill();
        *alloc = set.alloc(name);
        eventually("the allocator is refused", || {
            alloc.log().contains("committed entries of the store are gone").then_some(())
        });
        let refused = seqsvr(&["next", "7", "--addr", &set.addr(), "--deadline-ms", "1000"]);
        assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
    }

    // The recovery follows the hint of `status`: the stores are stopped, and neither they nor these allocators
    // continue.
    stores.iter_mut().for_each(Server::kill);
    let out = set.path("recovered.backup");
    let dirs = STORES.map(|id| set.path(&format!("first-{id}")));
    let data = dirs.iter().flat_map(|dir| ["--data", dir.as_str()]);
    let args = ["unsafe", "recover", "--set", &set.file, "--out", &out, "--confirm", "im-a", "--count", "1"];
    seqsvr_json(&args.into_iter().chain(data).collect::<Vec<_>>());
    let _stores = set.restore(&out, "1", "second");
    allocs.iter_mut().for_each(Server::kill);
    let _allocs = ["a1", "a2"].map(|name| set.alloc(name));
    eventually("the recovered set serves", || serves(&set.file));
    load.wait_replay();
    println!("old directories put back: {} numbers, 0 decreases, 0 duplicates", load.stop());
}
