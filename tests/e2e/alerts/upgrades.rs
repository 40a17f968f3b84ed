//! Alerts about unfinished upgrades.

use std::path::PathBuf;

use seq_testkit::eventually;

use super::{FILES, Scene, Setup};
use crate::cluster::seqsvr;

pub(super) const ALERTS: &[&str] = &["SeqsvrMixedVersions", "SeqsvrUpgradeUnfinished"];

/// Shortened waits: the shipped rules wait for an hour and for three days.
const WAITS: &[(&str, &str)] = &[("SeqsvrMixedVersions", "10s"), ("SeqsvrUpgradeUnfinished", "10s")];

#[test]
#[ignore = "two minutes, with Prometheus and the release before; `just alerts`"]
fn alerts_of_upgrades_fire_and_resolve() {
    let before = PathBuf::from(std::env::var("SEQSVR_BEFORE").expect("SEQSVR_BEFORE is the release before"));
    let mut scene = Scene::start(&Setup { alerts: ALERTS, waits: WAITS, program: Some(before), ..Setup::default() });
    scene.program = env!("CARGO_BIN_EXE_seqsvr").into();
    scene.expect("all processes but store 3 are upgraded", &["SeqsvrMixedVersions"]);
    for store in 1..=2 {
        scene.stores[store as usize - 1].take().unwrap().terminate();
        scene.start_store(store);
    }
    for alloc in 0..2 {
        scene.allocs[alloc].take().unwrap().terminate();
        scene.start_alloc(alloc, FILES);
    }
    scene.fired(&["SeqsvrMixedVersions"]);

    scene.expect("every store is upgraded, and the format is not", &["SeqsvrUpgradeUnfinished"]);
    scene.stores[2].take().unwrap().terminate();
    scene.start_store(3);
    scene.ended(&["SeqsvrMixedVersions"]);
    scene.fired(&["SeqsvrUpgradeUnfinished"]);
    let set = scene.set.clone();
    eventually("the format is raised", || {
        seqsvr(&["store", "upgrade", "--set", &set, "--yes"]).status.success().then_some(())
    });
    scene.ended(&["SeqsvrUpgradeUnfinished"]);
    scene.print();
}
