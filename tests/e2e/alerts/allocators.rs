//! Alerts about allocators: sections without an owner, restarts, connections.

use std::time::{Duration, Instant};

use super::{Scene, Setup};
use crate::cluster::{eventually, seqsvr};

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_allocators_fire_and_resolve() {
    let mut scene = Scene::start(&Setup::default());
    scene.stage(
        "both allocators are stopped",
        &["SeqsvrSectionsUnserved"],
        |scene| {
            for alloc in &mut scene.allocs {
                alloc.take().unwrap().terminate();
            }
        },
        |scene| (0..2).for_each(|alloc| scene.start_alloc(alloc, 1 << 16)),
    );
    scene.stage(
        "allocator 1 is killed every five seconds",
        &["SeqsvrRestarts"],
        |scene| {
            for _ in 0..4 {
                scene.allocs[0] = None;
                scene.start_alloc(0, 1 << 16);
                let since = Instant::now();
                while since.elapsed() < Duration::from_secs(5) {
                    scene.poll();
                }
            }
        },
        |_| {},
    );
    scene.stage(
        "callers of allocator 1 open more connections than its files allow",
        &["SeqsvrConnectionsRefused"],
        |scene| {
            scene.allocs[0].take().unwrap().terminate();
            scene.start_alloc(0, 600);
            let addr = scene.addr(7400);
            let next = || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(());
            eventually("the allocator serves again", next);
            let args = ["bench", "--endpoint", "json", "--addr", &addr, "--concurrency", "900", "--rate", "900"];
            let callers = scene.place.server("callers", &[&args[..], &["--duration-s", "3000"]].concat());
            // In the place of a third allocator, which ends with the fault.
            scene.allocs.push(Some(callers));
        },
        |scene| {
            drop(scene.allocs.pop());
            scene.allocs[0].take().unwrap().terminate();
            scene.start_alloc(0, 1 << 16);
        },
    );
    scene.print();
}
