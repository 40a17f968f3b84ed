//! Alerts about section writes, and about the memory of requests.

use super::{Scene, Setup};

pub(super) const ALERTS: &[&str] = &["SeqsvrSectionWritesFail", "SeqsvrRequestsOutOfMemory"];
pub(super) const ALERTS_OF_STEPS: &[&str] = &["SeqsvrSectionWritesFrequent"];

#[test]
#[ignore = "ten minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_writes_fire_and_resolve() {
    let settings = "[limits]\nmemory_mib = 128\n";
    let mut scene = Scene::start(&Setup { step: "10", settings, alerts: ALERTS, ..Setup::default() });
    let _one_user = scene.load("one", &["--endpoint", "sdk", "--rate", "500", "--uids", "1"]);
    scene.stage(
        "stores 2 and 3 are killed, under a load on one user",
        &["SeqsvrSectionWritesFail"],
        |scene| {
            (scene.stores[1], scene.stores[2]) = (None, None);
        },
        |scene| (2..=3).for_each(|store| scene.start_store(store)),
    );
    let load = std::cell::Cell::new(None);
    scene.stage(
        "512 calls for 10,000 users each at a time, at nodes with 128 MiB for requests",
        &["SeqsvrRequestsOutOfMemory"],
        |scene| {
            let batches = ["--endpoint", "many", "--batch", "10000", "--uids", "1000000"];
            let many = ["--concurrency", "512", "--connections", "64"];
            load.set(Some(scene.load("batches", &[&batches[..], &many].concat())));
        },
        |_| drop(load.take()),
    );
    scene.print();
}

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_small_steps_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { step: "10", alerts: ALERTS_OF_STEPS, ..Setup::default() });
    let load = std::cell::Cell::new(None);
    scene.stage(
        "a step of 10, and 500 calls a second for one user",
        &["SeqsvrSectionWritesFrequent"],
        |scene| load.set(Some(scene.load("one", &["--endpoint", "sdk", "--rate", "500", "--uids", "1"]))),
        |_| drop(load.take()),
    );
    scene.print();
}
