//! Allocators that should not be: a second one under a name, and one of another set.

use std::time::Duration;

use rustix::process::Signal;

use crate::cluster::Shape;
use crate::machine::{eventually, pause};
use crate::scene::Scene;

/// The exit code of an AllocSvr whose name another process took.
const EVICTED: i32 = 66;

pub(super) fn twins() {
    let mut scene = Scene::start(Shape::USUAL);
    let mut twin = scene.cluster.stranger("twin", "a1", |cluster, ip| {
        cluster.set_file("chaos").replace(&cluster.allocs[0].host.ip.to_string(), ip)
    });
    twin.start();
    // The newcomer waits for the one that lives, and is felt by no caller.
    eventually("the newcomer is refused", || twin.log().contains("is alive").then_some(()));
    pause(Duration::from_secs(4));
    assert!(twin.is_running() && scene.cluster.allocs[0].is_running(), "both run");
    let failed = scene.load.report().failures;
    assert!(failed.is_empty(), "{failed:?}");
    // The one that has the name stands still until the newcomer has taken it, and ends when it goes on.
    scene.cluster.allocs[0].signal(Signal::STOP);
    eventually("the newcomer takes the name", || twin.log().contains("registered").then_some(()));
    scene.cluster.allocs[0].signal(Signal::CONT);
    let status = scene.cluster.allocs[0].wait_exit();
    assert_eq!(status.code(), Some(EVICTED), "{status}");
    twin.kill();
    scene.cluster.allocs[0].start();
    scene.end("two of one name");
}

pub(super) fn another_set() {
    let mut scene = Scene::start(Shape::USUAL);
    let mut stranger = scene.cluster.stranger("stranger", "b1", |cluster, ip| {
        let text = cluster.set_file("other").replace(&cluster.allocs[0].host.ip.to_string(), ip);
        text.replace("\"a1\"", "\"b1\"")
    });
    stranger.start();
    eventually("it is refused by name", || {
        let log = stranger.log();
        (log.contains("other") && log.contains("chaos")).then_some(())
    });
    assert!(scene.cluster.owners().iter().all(|owner| owner != "b1"));
    let (report, _) = scene.end("an allocator of another set");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}
