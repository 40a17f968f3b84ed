//! Allocators that are stopped at any point and continued later, as an operating system may do.
//!
//! During a pause, requests accumulate in the sockets of the process. If it continues after its lease, it must not
//! serve them from sections that other allocators have taken over.

use std::time::Duration;

use crate::cluster::Shape;
use crate::machine::pause;
use crate::scene::Scene;

/// Pauses around the end of the lease, 2 s, and the reassignment of sections after 2.5 s.
const EDGE_MS: std::ops::Range<u64> = 1_500..3_200;

/// Number of pauses.
const PAUSES: u32 = 500;

/// Time between two pauses.
const BETWEEN: Duration = Duration::from_millis(300);

/// Pauses between two reports.
const REPORT_EVERY: u32 = 50;

pub(super) fn short() {
    pauses(&[Duration::from_millis(1_000), Duration::from_millis(2_200), Duration::from_millis(4_000)]);
}

pub(super) fn long() {
    pauses(&[Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)]);
}

fn pauses(lengths: &[Duration]) {
    let scene = Scene::start(Shape::USUAL);
    for length in lengths {
        freeze_busiest(&scene, *length);
        scene.load.wait_served();
    }
    scene.end("pauses");
}

pub(super) fn many() {
    let scene = Scene::start(Shape { allocs: 4, ..Shape::USUAL });
    for number in 1..=PAUSES {
        let length = Duration::from_millis(fastrand::u64(EDGE_MS));
        freeze(&scene, number as usize % scene.cluster.allocs.len(), length);
        // The time is long enough for a renewal: a node that is stopped again at once would only prolong its last
        // pause.
        pause(BETWEEN);
        if number % REPORT_EVERY == 0 {
            let report = scene.load.report();
            report.print(&format!("{number} pauses"));
            report.assert_order();
        }
    }
    scene.end("all pauses");
}

/// Stops the allocator that owns the most sections; it may have lost all of them when it continues.
fn freeze_busiest(scene: &Scene, length: Duration) {
    let cluster = &scene.cluster;
    let owners = cluster.owners();
    let owned = |index: &usize| owners.iter().filter(|owner| **owner == cluster.allocs[*index].name).count();
    let busiest = (0..cluster.allocs.len()).max_by_key(owned).expect("there are allocators");
    freeze(scene, busiest, length);
}

fn freeze(scene: &Scene, alloc: usize, length: Duration) {
    let alloc = &scene.cluster.allocs[alloc];
    alloc.freeze();
    pause(length);
    alloc.thaw();
}
