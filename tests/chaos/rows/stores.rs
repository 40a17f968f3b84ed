//! Members of the store that are killed, paused or cut off.

use std::time::{Duration, Instant};

use seq_testkit::eventually;

use crate::cluster::{Cluster, Shape};
use crate::machine::pause;
use crate::scene::Scene;

/// Length of a cut.
const CUT: Duration = Duration::from_secs(6);

pub(super) fn leader_kill() {
    leader_killed(2, Duration::from_secs(3));
}

pub(super) fn leader_kills() {
    leader_killed(24, Duration::from_secs(5));
}

fn leader_killed(kills: u32, every: Duration) {
    let mut scene = Scene::start(Shape::USUAL);
    let (mut led, mut away) = (Vec::new(), Vec::new());
    for _ in 0..kills {
        let next = Instant::now() + every;
        let leader = scene.cluster.wait_leader();
        let others: Vec<usize> = (0..scene.cluster.stores.len()).filter(|index| *index != leader).collect();
        let seen = scene.cluster.applied(&others);
        scene.cluster.stores[leader].kill();
        let since = Instant::now();
        eventually("another store leads", || scene.cluster.leader().filter(|now| *now != leader));
        led.push(since.elapsed());
        away.push(scene.writes_resume(&others, seen, since));
        scene.cluster.stores[leader].start();
        pause(next.saturating_duration_since(Instant::now()));
    }
    let show = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        let (middle, most) = (times[times.len() / 2].as_secs_f64(), times[times.len() - 1].as_secs_f64());
        format!("{middle:.2} s in the median and {most:.2} s at most")
    };
    println!("  {kills} kills: another store led after {}, writes resumed after {}", show(&mut led), show(&mut away));
    let (report, _) = scene.end("leader killed");
    assert!(report.failures.is_empty(), "no call fails for a store's leader: {:?}", report.failures);
}

pub(super) fn leader_sees_one() {
    let scene = Scene::start(Shape::USUAL);
    let (cluster, leader) = (&scene.cluster, scene.cluster.wait_leader());
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let seen = cluster.applied(&[leader, one, other]);
    cluster.net.cut(&cluster.stores[leader].host, &cluster.stores[other].host);
    let took = scene.writes_resume(&[leader, one], seen, Instant::now());
    println!("  writes resumed after {:.2} s", took.as_secs_f64());
    pause(CUT);
    cluster.net.heal();
    let (report, _) = scene.end("leader sees one follower");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

pub(super) fn leader_cut() {
    let scene = Scene::start(Shape::USUAL);
    let (cluster, leader) = (&scene.cluster, scene.cluster.wait_leader());
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let seen = cluster.applied(&others);
    for other in others {
        cluster.net.cut(&cluster.stores[leader].host, &cluster.stores[other].host);
    }
    let took = scene.writes_resume(&others, seen, Instant::now());
    println!("  writes resumed after {:.2} s", took.as_secs_f64());
    pause(CUT);
    cluster.net.heal();
    let (report, _) = scene.end("leader cut from the others");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

pub(super) fn leader_mute_to_allocs() {
    allocs_without_leader("no allocator receives from the leader, which lost a follower", |cluster, leader| {
        // One follower cannot forward, so the allocators have to find the other follower.
        cluster.net.cut(&cluster.stores[leader].host, &cluster.stores[(leader + 1) % 3].host);
        cluster.allocs.iter().for_each(|alloc| cluster.net.drop_packets(&cluster.stores[leader].host, &alloc.host));
    });
}

pub(super) fn leader_cut_from_allocs() {
    allocs_without_leader("the leader and all allocators are cut", |cluster, leader| {
        cluster.allocs.iter().for_each(|alloc| cluster.net.cut(&cluster.stores[leader].host, &alloc.host));
    });
}

/// The store works, but no allocator reaches its leader, so the followers forward.
fn allocs_without_leader(what: &str, cut: impl FnOnce(&Cluster, usize)) {
    let scene = Scene::start(Shape::USUAL);
    let (cluster, leader) = (&scene.cluster, scene.cluster.wait_leader());
    cut(cluster, leader);
    pause(CUT);
    // The cut lasts until here.
    scene.load.wait_served();
    let longest = scene.load.report().longest(0..cluster.shape.sections as usize);
    println!(
        "  in more than {} s the longest time without a response was {:.2} s",
        CUT.as_secs(),
        longest.as_secs_f64()
    );
    assert_eq!(cluster.wait_leader(), leader, "the leader of a majority stays");
    cluster.net.heal();
    scene.end(what);
    assert!(longest < CUT / 2, "served while cut: {longest:?}");
}

/// Time without a fault before it: a leader gives its leadership up only after twice the wait for a silent allocator.
const TENURE: Duration = Duration::from_secs(6);

pub(super) fn leader_deaf() {
    let scene = Scene::start(Shape::USUAL);
    let (cluster, leader) = (&scene.cluster, scene.cluster.wait_leader());
    pause(TENURE);
    assert_eq!(cluster.wait_leader(), leader, "nothing happened yet");
    scene.load.wait_served();
    scene.load.reset();
    cluster.deafen(leader);
    let since = Instant::now();
    let next = eventually("another store leads", || cluster.leader().filter(|now| *now != leader));
    let led = since.elapsed();
    scene.load.wait_served();
    let (served, term) = (since.elapsed(), cluster.term());
    pause(CUT);
    // The old leader still receives no requests, but neither leads again nor starts an election.
    scene.load.wait_served();
    assert_eq!((cluster.wait_leader(), cluster.term()), (next, term), "leadership moves once");
    let longest = scene.load.report().longest(0..cluster.shape.sections as usize);
    println!(
        "  another store led after {:.2} s, everything was served again after {:.2} s, the longest time without a response was {:.2} s",
        led.as_secs_f64(),
        served.as_secs_f64(),
        longest.as_secs_f64()
    );
    cluster.net.heal();
    scene.end("the leader is deaf to stores and allocators");
}

/// Time without a running allocator: several times the wait for a silent allocator.
const NO_ALLOCS: Duration = Duration::from_secs(15);

pub(super) fn allocs_all_silent() {
    let mut scene = Scene::start(Shape::USUAL);
    scene.cluster.wait_leader();
    for fault in ["are stopped", "are killed"] {
        pause(TENURE);
        let term = scene.cluster.term();
        match fault {
            "are stopped" => scene.cluster.allocs.iter().for_each(crate::node::Node::freeze),
            _ => scene.cluster.allocs.iter_mut().for_each(crate::node::Node::kill),
        }
        pause(NO_ALLOCS);
        let moved = scene.cluster.term() - term;
        println!("  all allocators {fault}: leadership moved {moved} times in {NO_ALLOCS:?}");
        assert!(moved <= 1, "leadership does not go round because no allocator runs: {moved}");
        match fault {
            "are stopped" => scene.cluster.allocs.iter().for_each(crate::node::Node::thaw),
            _ => scene.cluster.allocs.iter_mut().for_each(crate::node::Node::start),
        }
        scene.load.wait_served();
    }
    scene.end("no allocator runs");
}

pub(super) fn majority_lost() {
    let mut scene = Scene::start(Shape::USUAL);
    for store in &mut scene.cluster.stores[..2] {
        store.kill();
    }
    pause(CUT);
    for store in &mut scene.cluster.stores[..2] {
        store.start();
    }
    // No lease is renewed without a store: calls fail or wait, and succeed when the store is back.
    scene.end("two stores of three gone");
}

/// Pauses of the leader: shorter than an election, longer, and long enough that the leader needs a snapshot from the
/// other stores.
const LEADER_PAUSES_MS: [u64; 3] = [600, 2_500, 8_000];

pub(super) fn leader_pause() {
    let scene = Scene::start(Shape::USUAL);
    for length in LEADER_PAUSES_MS.map(Duration::from_millis) {
        let leader = scene.cluster.wait_leader();
        let others: Vec<usize> = (0..scene.cluster.stores.len()).filter(|index| *index != leader).collect();
        let (seen, since) = (scene.cluster.applied(&others), Instant::now());
        scene.cluster.stores[leader].freeze();
        pause(length);
        if length > Duration::from_secs(5) {
            let took = scene.writes_resume(&others, seen, since);
            println!("  writes resumed without the leader, seen after {:.2} s", took.as_secs_f64());
        }
        scene.cluster.stores[leader].thaw();
        scene.load.wait_served();
        catches_up(&scene, leader);
    }
    let (report, _) = scene.end("leader paused");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

pub(super) fn follower_pause() {
    let scene = Scene::start(Shape::USUAL);
    let leader = scene.cluster.wait_leader();
    let (follower, others) = ((leader + 1) % 3, [leader, (leader + 2) % 3]);
    let seen = scene.cluster.applied(&others);
    scene.cluster.stores[follower].freeze();
    pause(Duration::from_secs(8));
    scene.writes_resume(&others, seen, Instant::now());
    scene.cluster.stores[follower].thaw();
    catches_up(&scene, follower);
    let (report, _) = scene.end("follower paused");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

/// Waits until a store has applied the entries that the other stores have applied at this time.
fn catches_up(scene: &Scene, store: usize) {
    let others: Vec<usize> = (0..scene.cluster.stores.len()).filter(|index| *index != store).collect();
    let goal = scene.cluster.applied(&others);
    eventually("the store catches up", || (scene.cluster.applied(&[store]) >= goal).then_some(()));
}

/// Every order of three stores.
pub(super) const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Time between two starts: one member does not lead, and two members sometimes elect a leader.
const BETWEEN_STARTS: Duration = Duration::from_millis(400);

pub(super) fn start_in_every_order() {
    let mut scene = Scene::start(Shape::USUAL);
    for (order, number) in ORDERS.into_iter().zip(0..) {
        let cluster = &mut scene.cluster;
        cluster.stores.iter_mut().chain(&mut cluster.allocs).for_each(crate::node::Node::kill);
        let allocs_first = number % 2 == 0;
        if allocs_first {
            cluster.allocs.iter_mut().for_each(crate::node::Node::start);
        }
        for store in order {
            cluster.stores[store].start();
            pause(BETWEEN_STARTS);
        }
        if !allocs_first {
            cluster.allocs.iter_mut().rev().for_each(crate::node::Node::start);
        }
        scene.load.wait_served();
        pause(BETWEEN_STARTS);
    }
    scene.end("started in every order");
}
