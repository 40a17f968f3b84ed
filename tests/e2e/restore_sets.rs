//! One of two sets is restored from a backup made before a split, and then from a backup made before a merge, while an
//! old process still runs: the other set has the later changes, and every later seq is above every earlier seq.

use std::collections::BTreeMap;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Server, digits, seqsvr, seqsvr_json};
use crate::two_sets::{STORES, SetServers, TwoSets};

/// Two uids in sections that stay in the first set, and two in sections that migrate.
const UIDS: [u64; 4] = [7, 4_999_999, 5_000_000, 9_999_999];

/// Returns the next seq of each uid, once all uids are served; the sets are called in turn.
fn next(sets: &TwoSets) -> BTreeMap<u64, u64> {
    let next = |uid: u64, port: u16| {
        let args = ["next", &uid.to_string(), "--addr", &sets.addr(port), "--deadline-ms", "2000", "-o", "json"];
        let output = seqsvr(&args);
        let response: Option<Value> = output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap());
        response.map(|response| digits(&response["items"][0]["value"]))
    };
    let pairs = UIDS.into_iter().zip([7401, 7421].into_iter().cycle());
    pairs.map(|(uid, port)| (uid, eventually("a number is allocated", || next(uid, port)))).collect()
}

/// Allocates enough seqs of each uid that their ceilings are raised.
fn advance(sets: &TwoSets) {
    for uid in UIDS {
        let args = ["next", &uid.to_string(), "--count", "1000000", "--addr", &sets.addr(7400)];
        assert!(seqsvr(&args).status.success());
    }
}

fn assert_above(numbers: &BTreeMap<u64, u64>, before: &BTreeMap<u64, u64>) {
    for (uid, number) in numbers {
        assert!(number > &before[uid], "{number} of uid {uid} after {}", before[uid]);
    }
}

fn backup(sets: &TwoSets, name: &str) -> String {
    let out = sets.place.path(name).display().to_string();
    seqsvr_json(&["backup", "create", "--set", &sets.file("a").display().to_string(), "--out", &out]);
    out
}

/// Restores the first set; its first allocator continues as an old process.
fn restore(sets: &TwoSets, a: &mut SetServers, (backup, dirs, count): (&str, &str, &str)) {
    a.stores.iter_mut().for_each(Server::kill);
    a.allocs[1].kill();
    for id in STORES {
        let (file, data, id) = (sets.file("a").display().to_string(), sets.data(dirs, id), id.to_string());
        let args =
            ["restore", "--from", backup, "--set", &file, "--id", &id, "--data", &data, "--count", count, "--yes"];
        seqsvr_json(&args);
    }
    a.stores = sets.stores("a", dirs);
    a.allocs[1] = sets.alloc("a", "a2");
    // The old allocator serves until its lease ends, which is before the end of the quarantine.
    eventually("the restored set serves", || {
        let file = sets.file("a").display().to_string();
        seqsvr(&["status", "--set", &file]).status.success().then_some(())
    });
}

#[test]
fn a_set_is_restored_from_before_a_split_and_from_before_a_merge() {
    let sets = TwoSets::new(10_000_000);
    let [mut a, _b] = sets.start();
    next(&sets);
    let before_split = backup(&sets, "before-split.backup");
    advance(&sets);
    sets.split_for_good("5_000_000");
    advance(&sets);
    let highest = next(&sets);

    // In the backup, the first set has all sections, but the other set records half of them as its own.
    restore(&sets, &mut a, (&before_split, "restored", "1"));
    let numbers = next(&sets);
    assert_above(&numbers, &highest);
    assert_eq!((sets.sections("im-a"), sets.sections("im-b")), (50, 50));
    sets.wait_known();

    // In the backup, the other set has half of the sections, but its records hand them over since then.
    let before_merge = backup(&sets, "before-merge.backup");
    let merge = ["set", "merge", "im-b", "--into", "im-a", "--keep-open", "--yes", "--timeout-s", "120"];
    let merged = seqsvr(&[&merge[..], &["--addr", &sets.addr(7321)]].concat());
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    assert_eq!((sets.sections("im-a"), sets.sections("im-b")), (100, 0));
    advance(&sets);
    let highest = next(&sets);
    restore(&sets, &mut a, (&before_merge, "restored-again", "2"));
    let numbers = next(&sets);
    assert_above(&numbers, &highest);
    eventually("all sections are in the first set again", || (sets.sections("im-a") == 100).then_some(()));
    assert_above(&next(&sets), &numbers);

    eventually("a1 has had a session of each lineage", || {
        (a.allocs[0].log().matches("this incarnation is over").count() == 2).then_some(())
    });
}
