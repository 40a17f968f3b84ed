//! A set is backed up, lost, and restored from the backup: every later seq is above every seq before the loss, and an
//! old process allocates none of them. The set uses TLS: a restore numbers the allocators anew, and each allocator acts
//! for its own number only.

use std::collections::BTreeMap;
use std::path::Path;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits};

/// Uids of different sections.
const UIDS: [u64; 4] = [7, 150_000, 1_000_003, 1_999_999];

struct Set {
    place: Place,
    file: String,
}

impl Set {
    fn stores(&self, dirs: &str) -> Vec<Server> {
        let server = |id: u32| {
            let data = self.data(dirs, id);
            let name = format!("s{id}-{dirs}");
            self.place.server(&name, &["store", "--set", &self.file, "--id", &id.to_string(), "--data", &data])
        };
        (1..=3).map(server).collect()
    }

    fn data(&self, dirs: &str, id: u32) -> String {
        self.place.path(&format!("{dirs}-{id}")).display().to_string()
    }

    fn alloc(&self, name: &str) -> Server {
        self.place.server(name, &["alloc", "--set", &self.file, "--name", name, "--cores", "1"])
    }

    fn addr(&self) -> String {
        format!("https://{}:7400", self.place.host)
    }

    /// Returns the next seq of each uid, once all uids are served.
    fn next(&self) -> BTreeMap<u64, u64> {
        let next = |uid: u64| {
            let args = ["next", &uid.to_string(), "--addr", &self.addr(), "-o", "json"];
            let output = self.place.seqsvr_as("client/backend", &args);
            let response: Option<Value> =
                output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap());
            response.map(|response| digits(&response["items"][0]["value"]))
        };
        UIDS.map(|uid| (uid, eventually("a number is allocated", || next(uid)))).into()
    }

    fn restore(&self, backup: &Path, dirs: &str, count: &str) -> Value {
        let restored = [1, 2, 3].map(|id| {
            let (data, id) = (self.data(dirs, id), id.to_string());
            let backup = backup.display().to_string();
            let args = [
                "restore", "--from", &backup, "--set", &self.file, "--id", &id, "--data", &data, "--count", count,
                "--yes",
            ];
            self.place.seqsvr_json(&args)
        });
        assert!(restored.iter().all(|one| one["lineage"] == restored[0]["lineage"]), "{restored:?}");
        restored[0].clone()
    }
}

fn kill(servers: &mut [Server]) {
    servers.iter_mut().for_each(Server::kill);
}

fn assert_above(numbers: &BTreeMap<u64, u64>, before: &BTreeMap<u64, u64>) {
    for (uid, number) in numbers {
        assert!(number > &before[uid], "{number} of uid {uid} after {}", before[uid]);
    }
}

/// Checks that a directory of backups keeps the newest two, and that a damaged backup is named and stays.
fn keeps_the_newest(set: &Set, out: &str) {
    let dir = set.place.path("backups");
    std::fs::create_dir(&dir).unwrap();
    let shown = dir.display().to_string();
    let made = [(); 3].map(|()| {
        let args = ["backup", "create", "--set", &set.file, "--dir", &shown, "--keep", "2"];
        set.place.seqsvr_json(&args)["file"].as_str().unwrap().to_owned()
    });
    let listed = set.place.seqsvr_json(&["backup", "list", &shown]);
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| item["file"].as_str().unwrap()).collect();
    let newest = [&made[2], &made[1]].map(|file| Path::new(file).file_name().unwrap().to_str().unwrap());
    assert_eq!(names, newest, "{listed}");
    assert!(listed["items"][0]["age_s"].as_u64() < Some(3_600) && listed["items"][0]["set"] == "im-a", "{listed}");

    let mut bytes = std::fs::read(&made[1]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&made[1], bytes).unwrap();
    let checked = |args: &[&str]| {
        let output = set.place.seqsvr(args);
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, text) = checked(&["backup", "list", &shown]);
    assert!(code == Some(1) && text.contains("is damaged: its SHA-256"), "{text}");
    let (code, text) = checked(&["backup", "verify", out, &made[1], &made[2]]);
    assert!(code == Some(2) && text.matches(": intact").count() == 2 && text.contains("is damaged"), "{text}");
    let (code, text) = checked(&["backup", "create", "--set", &set.file, "--dir", &shown, "--keep", "1"]);
    assert!(code == Some(0) && text.contains(&format!("removed {}", made[2])), "{text}");
    assert!(Path::new(&made[1]).exists(), "a damaged one is not known to be of this set");
    let (code, text) = checked(&["backup", "create", "--set", &set.file, "--dir", "/no/such"]);
    assert!(code == Some(2) && text.contains("is not a directory") && text.contains("mkdir -p /no/such"), "{text}");
}

#[test]
fn numbers_after_a_restore_are_above_all_numbers_before() {
    let place = Place::new();
    let file = place.secure_set_file("three-node.toml").display().to_string();
    let (backup, set) = (place.path("set.backup"), Set { place, file });
    let mut stores = set.stores("first");
    let mut allocs = ["a1", "a2"].map(|name| set.alloc(name));
    set.next();
    let out = backup.display().to_string();
    let made = set.place.seqsvr_json(&["backup", "create", "--set", &set.file, "--out", &out]);
    assert_eq!((made["lineage"].as_str(), made["sections"].as_u64()), (Some("0"), Some(100)), "{made}");
    assert_eq!(set.place.seqsvr_json(&["backup", "show", &out]), made);
    assert_eq!(set.place.seqsvr(&["backup", "create", "--set", &set.file, "--out", &out]).status.code(), Some(2));
    keeps_the_newest(&set, &out);
    // The seqs rise above the ceilings in the backup.
    for uid in UIDS {
        let args = ["next", &uid.to_string(), "--count", "1000000", "--addr", &set.addr()];
        assert!(set.place.seqsvr_as("client/backend", &args).status.success());
    }
    let mut highest = set.next();

    // The second restore uses the same backup, as if it were the only remaining backup. In it, a1 is paused until a2 is
    // registered, which then has the former number of a1.
    for (dirs, count, is_paused) in [("second", "1", false), ("third", "2", true)] {
        kill(&mut stores);
        // a1 keeps running, and has later state than the backup.
        allocs[1].kill();
        let registrations = |alloc: &Server| alloc.log().matches("seq_alloc::session: registered").count();
        let before = registrations(&allocs[1]);
        if is_paused {
            allocs[0].freeze();
        }
        let restored = set.restore(&backup, dirs, count);
        assert_eq!(digits(&restored["lineage"]) >> 32, count.parse::<u64>().unwrap(), "{restored}");
        assert_eq!(restored["quarantined"], 100, "{restored}");
        stores = set.stores(dirs);
        allocs[1] = set.alloc("a2");
        if is_paused {
            eventually("a2 registers", || (registrations(&allocs[1]) > before).then_some(()));
            allocs[0].thaw();
        }
        // An a1 that was not paused may still serve under its old lease, which ends before the quarantine.
        let numbers = set.next();
        assert_above(&numbers, &highest);
        eventually("a1 has a session of the new lineage", || {
            let over = allocs[0].log().matches("this incarnation is over").count();
            (over.to_string() == count).then_some(())
        });
        eventually("the restored set serves", || {
            set.place.seqsvr(&["status", "--set", &set.file]).status.success().then_some(())
        });
        highest = set.next();
        assert_above(&highest, &numbers);
    }

    let (data, from) = (set.data("third", 1), ["restore", "--from", &out, "--set", &set.file, "--id", "1", "--data"]);
    let refused = set.place.seqsvr(&[&from[..], &[&set.data("fourth", 1), "--yes"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("set im-a is alive"), "{text}");
    let refused = set.place.seqsvr(&[&from[..], &[&data, "--offline", "--count", "9", "--yes"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("is not empty"), "{text}");
    kill(&mut stores);
    let refused = set.place.seqsvr(&[&from[..], &[&data, "--count", "3", "--yes"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("is not empty"), "{text}");
    let mut damaged = std::fs::read(&backup).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&backup, damaged).unwrap();
    let refused = set.place.seqsvr(&[&from[..], &[&set.data("fourth", 1)]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("is damaged"), "{text}");
}
