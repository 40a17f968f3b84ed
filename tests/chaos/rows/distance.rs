//! Distant stores, over links that lose packets.
//!
//! Packets are delayed and lost individually, so TCP retransmits as on a real path. docs/operations/nodes.md has the
//! promises under these faults, next to the preset; each bound here is such a promise, computed from the settings.

use std::time::Duration;

use crate::cluster::{Apart, Shape};
use crate::machine::pause;
use crate::scene::Scene;

/// Length of the load under each loss, and the length in the row that runs with all tests.
const UNDER_LOSS: Duration = Duration::from_secs(30);
const SHORTLY: Duration = Duration::from_secs(6);

/// Percentages of lost packets.
const LOSSES: [u32; 2] = [1, 5];

/// Maximum number of leadership changes under one loss.
const MAX_MOVES: u64 = 1;

/// The settings from which the promise is computed.
struct Times {
    election_max: Duration,
    lease_wait: Duration,
}

const DEFAULTS: Times = Times { election_max: Duration::from_millis(500), lease_wait: Duration::from_millis(2_500) };
const WAN: Times = Times { election_max: Duration::from_secs(3), lease_wait: Duration::from_secs(10) };

pub(super) fn shortly() {
    over(Apart { round_trip: Duration::from_millis(50), wan: false }, &DEFAULTS, &LOSSES[..1], SHORTLY);
}

pub(super) fn of_50_ms() {
    over(Apart { round_trip: Duration::from_millis(50), wan: false }, &DEFAULTS, &LOSSES, UNDER_LOSS);
}

pub(super) fn of_100_ms() {
    over(Apart { round_trip: Duration::from_millis(100), wan: true }, &WAN, &LOSSES, UNDER_LOSS);
}

pub(super) fn of_200_ms() {
    over(Apart { round_trip: Duration::from_millis(200), wan: true }, &WAN, &LOSSES, UNDER_LOSS);
}

fn over(apart: Apart, times: &Times, losses: &[u32], under_loss: Duration) {
    let scene = Scene::start(Shape { apart: Some(apart), ..Shape::USUAL });
    let cluster = &scene.cluster;
    let measured = cluster.store_status(&cluster.stores[cluster.wait_leader()]).expect("the leader responds");
    let trips = measured.members.iter().filter(|member| member.id != measured.id).map(|member| member.round_trip_us);
    let trips: Vec<Duration> = trips.map(Duration::from_micros).collect();
    assert!(trips.iter().all(|trip| *trip >= apart.round_trip), "the links are slow: {trips:?}");
    let mut broken = Vec::new();
    for &percent in losses {
        cluster.net.heal();
        cluster.lose_between_stores(percent);
        let (term, raises) = (cluster.term(), cluster.raises());
        scene.load.wait_served();
        scene.load.reset();
        pause(under_loss);
        // The packets are still lost here.
        scene.load.wait_served();
        let report = scene.load.report();
        let raises = cluster.raises().since(&raises);
        let lost = cluster.lost_between_stores();
        assert!(lost > 0, "packets are lost");
        let (moves, longest) = (cluster.term() - term, report.longest(0..cluster.shape.sections as usize));
        println!(
            "  round trip {:?}, {percent} % lost ({lost} packets): {} raises, {} ms in the mean, p50 within {} ms, p99 within {} ms; \
             leadership moved {moves} times; longest time without a response {:.2} s; {} calls, failed items {:?}",
            apart.round_trip,
            raises.count(),
            raises.mean().as_millis(),
            raises.within_ms(0.5),
            raises.within_ms(0.99),
            longest.as_secs_f64(),
            report.calls,
            report.failures,
        );
        assert!(raises.count() > 0, "ceilings are raised");
        if moves > MAX_MOVES || longest > (times.election_max + times.lease_wait) * 2 {
            broken.push(format!("{percent} % lost: {moves} moves, {longest:?} without a response"));
        }
    }
    cluster.net.heal();
    scene.end("stores far apart");
    assert!(broken.is_empty(), "the promised availability holds: {broken:?}");
}
