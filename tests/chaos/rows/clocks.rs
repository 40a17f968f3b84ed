//! Clocks of single processes that step or run at a wrong rate.
//!
//! Only the wall clock of a machine steps; a wrong rate affects all its clocks. Each row also pauses an allocator
//! around the end of its lease, because only then does a clock decide.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Shape};
use crate::machine::{faketime, pause};
use crate::node::Node;
use crate::scene::Scene;

/// Clock steps of an hour forward and back, and then backward and back.
const STEPS: [&str; 4] = ["+3600s", "+0s", "-3600s", "+0s"];

/// Clock rates that the margins of the lease allow.
const RATES: [&str; 2] = ["x1.1", "x0.9"];

/// Pauses of an allocator under each clock.
const PAUSES_MS: [u64; 4] = [1_700, 2_000, 2_300, 2_700];

pub(super) fn steps_alloc() {
    steps(|cluster| &mut cluster.allocs[..1]);
}

pub(super) fn steps_store() {
    steps(|cluster| &mut cluster.stores[..]);
}

pub(super) fn rates_alloc() {
    rates(|cluster| &mut cluster.allocs[..1]);
}

pub(super) fn rates_store() {
    rates(|cluster| &mut cluster.stores[..]);
}

fn steps(nodes: fn(&mut Cluster) -> &mut [Node]) {
    let mut cluster = Cluster::prepare(Shape::USUAL);
    let file = cluster.path("clock");
    let clock = WallClock::of(nodes(&mut cluster), file);
    cluster.start_all();
    assert!(nodes(&mut cluster).iter().all(|node| node.has_loaded("libfaketime")));
    let scene = Scene::of(cluster);
    for step in STEPS {
        clock.step(step);
        pause(Duration::from_secs(1));
        scene.load.wait_served();
        let victim = &scene.cluster.allocs[0];
        victim.freeze();
        // The clock also steps during the pause of the process.
        clock.step("+1800s");
        pause(Duration::from_millis(2_300));
        victim.thaw();
        scene.load.wait_served();
    }
    scene.end("clock steps");
}

fn rates(nodes: fn(&mut Cluster) -> &mut [Node]) {
    for rate in RATES {
        let mut cluster = Cluster::prepare(Shape::USUAL);
        for node in nodes(&mut cluster) {
            fake_clock(node);
            node.env("FAKETIME", format!("+0s {rate}"));
        }
        cluster.start_all();
        let node = nodes(&mut cluster)[0].addr.clone();
        let (began, uptime) = (Instant::now(), cluster.uptime(&node));
        let scene = Scene::of(cluster);
        for length in PAUSES_MS {
            scene.cluster.allocs[0].freeze();
            pause(Duration::from_millis(length));
            scene.cluster.allocs[0].thaw();
            scene.load.wait_served();
        }
        let ran = (scene.cluster.uptime(&node) - uptime).as_secs_f64() / began.elapsed().as_secs_f64();
        // The bound is half of the difference, because the queries take time.
        assert!((ran - 1.0).abs() > 0.05, "the clock ran at {ran:.3}, not at {rate}");
        scene.end(&format!("clocks at {rate}, seen at {ran:.3}"));
    }
}

/// The wall clock of some nodes, which steps while they run. Their monotonic clocks stay right.
pub(super) struct WallClock {
    file: PathBuf,
}

impl WallClock {
    /// Gives nodes that do not run yet a clock that is right and is set by a file.
    pub(super) fn of(nodes: &mut [Node], file: PathBuf) -> WallClock {
        for node in nodes {
            fake_clock(node);
            node.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            node.env("DONT_FAKE_MONOTONIC", "1");
            node.env("FAKETIME_NO_CACHE", "1");
            node.env("FAKETIME_TIMESTAMP_FILE", file.display().to_string());
        }
        let clock = WallClock { file };
        clock.step("+0s");
        clock
    }

    /// Sets the difference to the right time, as `-3600s`.
    pub(super) fn step(&self, difference: &str) {
        fs::write(&self.file, difference).unwrap();
    }
}

fn fake_clock(node: &mut Node) {
    node.env("LD_PRELOAD", faketime().expect("the row needs it").display().to_string());
}
