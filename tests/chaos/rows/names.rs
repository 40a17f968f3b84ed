//! Misconfigured allocators: a second allocator with the same name, and an allocator of another set.

use std::time::Duration;

use rustix::process::Signal;
use seq_testkit::eventually;

use crate::cluster::Shape;
use crate::machine::pause;
use crate::scene::Scene;

/// The exit code of an AllocSvr whose name another process has taken.
pub(super) const EVICTED: i32 = 66;

pub(super) fn twins() {
    let mut scene = Scene::start(Shape::USUAL);
    let mut twin = scene.cluster.outsider("twin", "a1", |cluster, ip| {
        cluster.set_file("chaos").replace(&cluster.allocs[0].host.ip.to_string(), ip)
    });
    twin.start();
    // The newcomer waits while the holder of the name is alive, without an effect on callers.
    eventually("the newcomer is refused", || twin.log().contains("is alive").then_some(()));
    pause(Duration::from_secs(4));
    assert!(twin.is_running() && scene.cluster.allocs[0].is_running(), "both are running");
    let failed = scene.load.report().failures;
    assert!(failed.is_empty(), "{failed:?}");
    // The holder is stopped until the newcomer has taken the name, and exits once it continues.
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
    let mut other = scene.cluster.outsider("outsider", "b1", |cluster, ip| {
        let text = cluster.set_file("other").replace(&cluster.allocs[0].host.ip.to_string(), ip);
        text.replace("\"a1\"", "\"b1\"")
    });
    other.start();
    eventually("the outsider is refused by name", || {
        let log = other.log();
        (log.contains("other") && log.contains("chaos")).then_some(())
    });
    assert!(scene.cluster.owners().iter().all(|owner| owner != "b1"));
    let (report, _) = scene.end("an allocator of another set");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}
