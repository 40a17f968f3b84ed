//! Allocators that are killed, restarted or cut off.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use seq_testkit::eventually;

use crate::cluster::{ALLOC_PORT, Shape};
use crate::machine::pause;
use crate::scene::Scene;

/// Length of a cut: the lease expires, the sections get another owner, and the old owner stays cut off for a while.
const CUT: Duration = Duration::from_secs(6);

/// Time for a node to find that it cannot reach another node and to report it, and for that node to query the other
/// nodes.
const WITNESSED: Duration = Duration::from_secs(40);

/// The allocator under the faults.
const VICTIM: usize = 0;

pub(super) fn kill() {
    let mut scene = Scene::start(Shape::USUAL);
    let (sections, others) = split(&scene);
    scene.cluster.allocs[VICTIM].kill();
    // The process is gone but its host is up, so connections are refused.
    scene.load.wait_served();
    let report = scene.load.report();
    println!(
        "  its sections were without a response for {:.2} s, all others for {:.2} s",
        report.longest(sections).as_secs_f64(),
        report.longest(others).as_secs_f64()
    );
    scene.cluster.allocs[VICTIM].start();
    owns_again(&scene);
    scene.end("killed, and back");
}

pub(super) fn kill_and_restart() {
    let mut scene = Scene::start(Shape::USUAL);
    let (sections, _) = split(&scene);
    // The victim is restarted at once, as by a supervisor, or later; the time without a response must not exceed that
    // of a dead victim.
    for down in [0, 0, 200, 1_000, 2_200] {
        scene.cluster.allocs[VICTIM].kill();
        pause(Duration::from_millis(down));
        scene.cluster.allocs[VICTIM].start();
        scene.load.wait_served();
        owns_again(&scene);
    }
    let longest = scene.load.report().longest(sections).as_secs_f64();
    println!("  its sections were without a response for {longest:.2} s at the most");
    scene.end("five restarts");
}

pub(super) fn restart_in_turn() {
    let mut scene = Scene::start(Shape::USUAL);
    scene.load.seamless();
    for victim in 0..scene.cluster.allocs.len() {
        eventually("the victim owns sections", || (!scene.cluster.sections_of(victim).is_empty()).then_some(()));
        scene.cluster.allocs[victim].signal(Signal::TERM);
        let status = scene.cluster.allocs[victim].wait_exit();
        assert!(status.success(), "{status}");
        scene.cluster.allocs[victim].start();
    }
    eventually("the last one owns sections again", || {
        let last = scene.cluster.allocs.len() - 1;
        (!scene.cluster.sections_of(last).is_empty()).then_some(())
    });
    scene.end("each allocator restarted as planned");
}

pub(super) fn cut_from_store() {
    cut("cut from the store", |scene| {
        let cluster = &scene.cluster;
        cluster.stores.iter().for_each(|store| cluster.net.cut(&store.host, &cluster.allocs[VICTIM].host));
    });
}

pub(super) fn deaf_to_store() {
    cut("deaf to the store", |scene| {
        let cluster = &scene.cluster;
        cluster.stores.iter().for_each(|store| cluster.net.drop_packets(&store.host, &cluster.allocs[VICTIM].host));
    });
}

pub(super) fn mute_to_store() {
    cut("mute to the store", |scene| {
        let cluster = &scene.cluster;
        cluster.stores.iter().for_each(|store| cluster.net.drop_packets(&cluster.allocs[VICTIM].host, &store.host));
    });
}

pub(super) fn cut_from_peers() {
    cut("cut from its peers", |scene| {
        let cluster = &scene.cluster;
        let victim = &cluster.allocs[VICTIM].host;
        cluster.allocs.iter().skip(VICTIM + 1).for_each(|peer| cluster.net.cut(&peer.host, victim));
    });
}

/// A firewall drops packets from other hosts to the victim's port for callers. The victim, its lease and its link to
/// the store are healthy, and the callers of this row reach it, so it does not refuse their calls before the handover.
pub(super) fn behind_a_firewall() {
    let scene = Scene::start(Shape::USUAL);
    let (sections, _) = split(&scene);
    let (cluster, allocs) = (&scene.cluster, &scene.cluster.allocs);
    let drop_from = |from: usize| {
        cluster.net.refuse_connections(&allocs[from].host, &allocs[VICTIM].host, ALLOC_PORT);
    };
    // The report of one other node is not enough.
    drop_from(VICTIM + 1);
    pause(WITNESSED);
    assert_eq!(cluster.sections_of(VICTIM), sections, "two of three nodes reach the victim");
    let cut = Instant::now();
    allocs.iter().enumerate().skip(VICTIM + 2).for_each(|(from, _)| drop_from(from));
    eventually("the victim has handed over", || cluster.sections_of(VICTIM).is_empty().then_some(()));
    println!("  the victim had handed over after {:.1} s", cut.elapsed().as_secs_f64());
    let log = allocs[VICTIM].log();
    assert!(log.contains("do not reach its address for callers"), "{log}");
    cluster.net.heal();
    owns_again(&scene);
    scene.end("behind a firewall, and back");
}

pub(super) fn cut_from_leader() {
    cut("cut from the store's leader", |scene| {
        let cluster = &scene.cluster;
        let leader = cluster.wait_leader();
        cluster.net.cut(&cluster.stores[leader].host, &cluster.allocs[VICTIM].host);
    });
}

pub(super) fn cut_from_all() {
    cut("cut from all", |scene| {
        let cluster = &scene.cluster;
        let victim = &cluster.allocs[VICTIM].host;
        cluster.net.cut_in(victim);
        cluster.net.cut_out(victim);
    });
}

pub(super) fn deaf() {
    cut("deaf", |scene| scene.cluster.net.cut_in(&scene.cluster.allocs[VICTIM].host));
}

pub(super) fn mute() {
    cut("mute", |scene| scene.cluster.net.cut_out(&scene.cluster.allocs[VICTIM].host));
}

fn cut(what: &str, cut: impl FnOnce(&Scene)) {
    let scene = Scene::start(Shape::USUAL);
    let (sections, others) = split(&scene);
    cut(&scene);
    pause(CUT);
    // During the cut, the other allocators serve the victim's sections, or the victim does if it still can.
    scene.load.wait_served();
    let report = scene.load.report();
    println!(
        "  in more than {} s its sections were without a response for {:.2} s, all others for {:.2} s",
        CUT.as_secs(),
        report.longest(sections).as_secs_f64(),
        report.longest(others).as_secs_f64()
    );
    scene.cluster.net.heal();
    scene.end(what);
}

/// Returns the victim's sections, and all other sections.
fn split(scene: &Scene) -> (Vec<usize>, Vec<usize>) {
    let sections = scene.cluster.sections_of(VICTIM);
    assert!(!sections.is_empty(), "the victim owns something");
    let others = (0..scene.cluster.shape.sections as usize).filter(|section| !sections.contains(section)).collect();
    (sections, others)
}

fn owns_again(scene: &Scene) {
    eventually("the victim owns sections again", || (!scene.cluster.sections_of(VICTIM).is_empty()).then_some(()));
}
