//! Allocators that should not be: a second one under a name, and one of another set.

use std::time::Duration;

use crate::cluster::Shape;
use crate::machine::{eventually, pause};
use crate::scene::Scene;

pub(super) fn twins() {
    let mut scene = Scene::start(Shape::USUAL);
    let mut twin = scene.cluster.stranger("twin", "a1", |cluster, ip| {
        cluster.set_file("chaos").replace(&cluster.allocs[0].host.ip.to_string(), ip)
    });
    twin.start();
    // Whoever registered last has the name; the sections of the other life are its no more.
    pause(Duration::from_secs(8));
    let both = twin.is_running() && scene.cluster.allocs[0].is_running();
    twin.kill();
    if !scene.cluster.allocs[0].is_running() {
        scene.cluster.allocs[0].restart();
    }
    println!("  both ran to the end: {both}");
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
