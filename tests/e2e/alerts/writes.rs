//! Alerts about section writes, and about requests that hold too much memory.

use super::{Scene, Setup};

#[test]
#[ignore = "half an hour, as root, with Prometheus; `just alerts`"]
fn alerts_of_writes_fire_and_resolve() {
    let settings = "[limits]\nmemory_mib = 4\n";
    let mut scene = Scene::start(&Setup { step: "10", settings, ..Setup::default() });
    let one_user = scene.load("one", &["--endpoint", "sdk", "--rate", "500", "--uids", "1"]);
    scene.stage(
        "stores 2 and 3 are killed, under a load on one user",
        &["SeqsvrSectionWritesFail"],
        |scene| {
            (scene.stores[1], scene.stores[2]) = (None, None);
        },
        |scene| (2..=3).for_each(|store| scene.start_store(store)),
    );
    scene.expect("a step of 10, and 500 calls a second for one user", &["SeqsvrSectionWritesFrequent"]);
    let load = std::cell::Cell::new(None);
    scene.stage(
        "64 callers of 10,000 users each at a node with 4 MiB for requests",
        &["SeqsvrRequestsOutOfMemory"],
        |scene| {
            let batches = ["--endpoint", "many", "--batch", "10000", "--uids", "1000000", "--concurrency", "64"];
            load.set(Some(scene.load("batches", &batches)));
        },
        |_| drop(load.take()),
    );
    scene.fired(&["SeqsvrSectionWritesFrequent"]);
    drop(one_user);
    scene.ended(&["SeqsvrSectionWritesFrequent"]);
    scene.print();
}
