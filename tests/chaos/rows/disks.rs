//! Disks of stores that are full, fail or hang.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use seq_testkit::eventually;

use crate::cluster::{Cluster, Shape};
use crate::machine::pause;
use crate::scene::Scene;

/// Signal of a process that aborts.
const SIGABRT: i32 = 6;

/// Delay of a hung sync: longer than any row.
const HANG: &str = "delay_enter=300000000";

pub(super) fn full() {
    let mut scene = Scene::start(Shape { small_disk: 48, ..Shape::USUAL });
    scene.cluster.disk.as_ref().unwrap().fill();
    let status = scene.cluster.stores[0].wait_exit();
    println!("  the store with the full disk ended: {status}");
    assert!(!status.success());
    assert!(scene.cluster.stores[0].log().contains("storage failed while"), "the log has the reason");
    let seen = scene.cluster.applied(&[1, 2]);
    scene.writes_resume(&[1, 2], seen, Instant::now());
    scene.cluster.disk.as_ref().unwrap().free();
    scene.cluster.stores[0].start();
    catches_up(&scene.cluster, 0);
    let (report, _) = scene.end("disk full");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

pub(super) fn sync_error() {
    let mut scene = Scene::start(Shape::USUAL);
    let leader = scene.cluster.wait_leader();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let seen = scene.cluster.applied(&others);
    let tracer = scene.cluster.stores[leader].trouble_syncs("error=EIO");
    let since = Instant::now();
    let status = scene.cluster.stores[leader].wait_exit();
    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
    assert!(scene.cluster.stores[leader].log().contains("storage failed while syncing"), "the log has the reason");
    let took = scene.writes_resume(&others, seen, since);
    println!("  the leader aborted; writes resumed after {:.2} s", took.as_secs_f64());
    drop(tracer);
    scene.cluster.stores[leader].start();
    catches_up(&scene.cluster, leader);
    let (report, _) = scene.end("sync error");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

pub(super) fn sync_hang() {
    let mut scene = Scene::start(Shape::USUAL);
    let leader = scene.cluster.wait_leader();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let seen = scene.cluster.applied(&others);
    let tracer = scene.cluster.stores[leader].trouble_syncs(HANG);
    let since = Instant::now();
    let took = scene.writes_resume(&others, seen, since);
    let led = eventually("another store leads", || scene.cluster.leader().filter(|now| *now != leader));
    let led_after = since.elapsed();
    let elsewhere = scene.writes_resume(&others, scene.cluster.applied(&others), since);
    println!(
        "  the followers' disks committed writes after {:.2} s; s{} led after {:.2} s, writes through it after {:.2} s",
        took.as_secs_f64(),
        led + 1,
        led_after.as_secs_f64(),
        elsewhere.as_secs_f64()
    );
    pause(Duration::from_secs(5));
    drop(tracer);
    if !scene.cluster.stores[leader].is_running() {
        scene.cluster.stores[leader].restart();
    }
    catches_up(&scene.cluster, leader);
    let (report, _) = scene.end("sync hang");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

/// Waits until a store has applied the entries that the other stores have applied at this time.
fn catches_up(cluster: &Cluster, store: usize) {
    let others: Vec<usize> = (0..cluster.stores.len()).filter(|index| *index != store).collect();
    let goal = cluster.applied(&others);
    eventually("the store catches up", || (cluster.applied(&[store]) >= goal).then_some(()));
}
