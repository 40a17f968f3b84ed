//! Time without a response for the sections on a lost host.
//!
//! The link is taken down and the process killed at once, so no connection is closed, and neither the store nor the
//! callers are notified.

use std::time::Duration;

use seq_testkit::eventually;

use crate::cluster::Shape;
use crate::rows::trials;
use crate::scene::Scene;

/// Default of `CHAOS_TRIALS`, the number of lost hosts.
const TRIALS: usize = 50;

pub(super) fn host_lost() {
    let trials = trials(TRIALS);
    let mut scene = Scene::start(Shape::USUAL);
    let (mut times, mut failed_elsewhere, mut failed_there) = (Vec::new(), 0, 0);
    for trial in 1..=trials {
        let victim = trial % scene.cluster.allocs.len();
        let sections = eventually("the victim owns sections again", || {
            Some(scene.cluster.sections_of(victim)).filter(|sections| !sections.is_empty())
        });
        scene.load.wait_served();
        scene.load.reset();
        let host = scene.cluster.allocs[victim].host.clone();
        scene.cluster.net.unplug(&host);
        scene.cluster.allocs[victim].kill();
        scene.load.wait_served();
        let report = scene.load.report();
        let time = report.longest(sections.iter().copied());
        let (mut there, mut elsewhere) = (0, 0);
        for (section, failed) in report.failed.iter().enumerate() {
            *if sections.contains(&section) { &mut there } else { &mut elsewhere } += failed;
        }
        println!(
            "  trial {trial}: {} sections without a response for {:.2} s, {there} failed items there, {elsewhere} elsewhere {:?}",
            sections.len(),
            time.as_secs_f64(),
            report.failures,
        );
        times.push(time);
        failed_there += there;
        failed_elsewhere += elsewhere;
        scene.cluster.net.plug(&host);
        scene.cluster.allocs[victim].start();
    }
    times.sort_unstable();
    let show = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    println!(
        "  {trials} losses of a host: longest time without a response min {}, median {}, max {}; failed items: {failed_there} of \
         its sections, {failed_elsewhere} of all others",
        show(times[0]),
        show(times[times.len() / 2]),
        show(times[times.len() - 1]),
    );
    scene.end("hosts lost");
}
