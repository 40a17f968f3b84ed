//! Alerts about the growth of ceilings and of a store's log.

use seq_testkit::eventually;

use super::{FILES, Scene, Setup};
use crate::cluster::{Server, seqsvr, seqsvr_json};

pub(super) const ALERTS_OF_HEADROOM: &[&str] = &["SeqsvrHeadroomLow"];
pub(super) const ALERTS_OF_RATES: &[&str] = &["SeqsvrRaisesTooFast"];
pub(super) const ALERTS_OF_SNAPSHOTS: &[&str] = &["SeqsvrSnapshotsStop"];

/// Count of the restore, which raises ceilings by 2^40 for each restore so far. 2^53 is 8,192 times 2^40, and the alert
/// begins at 7,168.
const COUNT: &str = "7500";

/// Largest advance. A ceiling rises by at most 2^38 at once, so half of this advance is refused after sixteen raises,
/// and takes four minutes.
const FAR: u64 = 1 << 40;

#[test]
#[ignore = "six minutes, with Prometheus; `just alerts`"]
fn alerts_of_headroom_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_HEADROOM, ..Setup::default() });
    let (backup, set) = (scene.place.path("set.backup").display().to_string(), scene.set.clone());
    seqsvr_json(&["backup", "create", "--set", &set, "--out", &backup]);
    scene.stage(
        "a set is restored with `--count 7500`",
        ALERTS_OF_HEADROOM,
        |scene| {
            scene.allocs.iter_mut().chain(&mut scene.stores).flatten().for_each(Server::kill);
            for store in 1..=3 {
                let (data, id) = (scene.data(store), store.to_string());
                std::fs::remove_dir_all(&data).unwrap();
                let data = data.display().to_string();
                let args = [
                    "restore", "--from", &backup, "--set", &set, "--id", &id, "--data", &data, "--count", COUNT,
                    "--yes",
                ];
                seqsvr_json(&args);
                scene.start_store(store);
            }
            (0..2).for_each(|alloc| scene.start_alloc(alloc, FILES));
        },
        |_| {},
    );
    scene.stays("SeqsvrHeadroomLow", "nothing lowers a ceiling");
    scene.print();
}

#[test]
#[ignore = "ten minutes, with Prometheus; `just alerts`"]
fn alerts_of_rates_fire_and_resolve() {
    let settings = format!("[alloc]\nmax_advance = {FAR}\n");
    let mut scene = Scene::start(&Setup { settings: &settings, alerts: ALERTS_OF_RATES, ..Setup::default() });
    let (addr, far) = (scene.addr(7400), (FAR / 2).to_string());
    scene.stage(
        "`alloc.max_advance` is 2^40, and a user is advanced by 2^39",
        ALERTS_OF_RATES,
        // A refused raise is retried after 16 s, and the advance ends if no call waits for it any more.
        |scene| {
            for _ in 0..4 {
                scene.poll();
                let args = ["advance", "1", &far, "--yes", "--addr", &addr, "--deadline-ms", "20000"];
                assert!(!seqsvr(&args).status.success(), "the advance takes minutes");
            }
        },
        |_| {},
    );
    scene.print();
}

#[test]
#[ignore = "half an hour, as root, with Prometheus; `just alerts`"]
fn alerts_of_snapshots_fire_and_resolve() {
    let store_settings = "[store]\nsnapshot_interval_entries = 10_000_000\n";
    let alerts = ALERTS_OF_SNAPSHOTS;
    let setup = Setup { disks: &[1, 2, 3], step: "1", store_settings, alerts, ..Setup::default() };
    let mut scene = Scene::start(&setup);
    // The store checks the interval when it applies later entries.
    let _load = scene.load("load", &["--rate", "20", "--uids", "10000000"]);
    let addr = scene.addr(7400);
    let calls = std::cell::Cell::new(None);
    scene.stage(
        "`store.snapshot_interval_entries` is 10,000,000, with a step of 1 and 500 calls a second for one user",
        alerts,
        // Each seq is an entry of the log, and the alert begins at 100,000 entries.
        |scene| calls.set(Some(scene.load("one", &["--endpoint", "sdk", "--rate", "500", "--uids", "1"]))),
        |scene| {
            drop(calls.take());
            std::fs::write(scene.place.path("stores.toml"), "").unwrap();
            for store in 1..=3 {
                scene.stores[store as usize - 1].take().unwrap().terminate();
                scene.start_store(store);
            }
            eventually("a number is allocated", || {
                scene.call(&["next", "1", "--addr", &addr]).status.success().then_some(())
            });
        },
    );
    scene.print();
}
