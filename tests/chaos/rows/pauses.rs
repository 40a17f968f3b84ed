//! Allocators that stand still: the operating system takes them away in the middle of anything, and gives them back.
//!
//! While a process stands still, requests gather in its sockets. When it goes on after its lease, it must not answer them
//! from sections that others have taken over.

use std::time::Duration;

use crate::cluster::Shape;
use crate::machine::pause;
use crate::scene::Scene;

/// Pauses around the edge of the lease of 2 s and of the 2.5 s after which sections go to others.
const EDGE_MS: std::ops::Range<u64> = 1_500..3_200;

/// How many of them.
const PAUSES: u32 = 500;

/// How long everybody runs between two pauses.
const BETWEEN: Duration = Duration::from_millis(300);

/// After so many pauses the numbers of the load are printed.
const TELL_EVERY: u32 = 50;

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
        // Enough for a renewal: a node that is frozen again at once would only go on with its last pause.
        pause(BETWEEN);
        if number % TELL_EVERY == 0 {
            let report = scene.load.report();
            report.print(&format!("{number} pauses"));
            report.assert_order();
        }
    }
    scene.end("all pauses");
}

/// Stops the allocator that owns most. It may have lost all of it when it goes on.
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
