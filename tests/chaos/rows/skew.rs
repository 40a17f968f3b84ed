//! Processes of one set with different lease settings.

use std::time::Duration;

use seq_testkit::eventually;

use crate::cluster::Shape;
use crate::machine::pause;
use crate::scene::Scene;

/// A lease that is only allowed with this wait of the store.
const LONG_LEASE: Duration = Duration::from_secs(8);
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Length of the cut of the allocator with the long lease: longer than the wait of all other processes.
const CUT: Duration = Duration::from_secs(7);

/// Maximum number of leaders to kill until the store with the long wait leads.
const MAX_KILLS: u32 = 8;

/// Time for an allocator to get sections, or to be refused.
const JOIN: Duration = Duration::from_secs(4);

/// Restarts one store and one allocator of a set with longer settings than the usual settings of the set. Both may be
/// refused or accepted, but no promise may break when another store leads.
pub(super) fn stores() {
    let mut scene = Scene::start(Shape::USUAL);
    let skewed = scene.cluster.skewed_settings(LONG_LEASE, LONG_WAIT);
    scene.cluster.stores[0].set_config(&skewed);
    scene.cluster.stores[0].restart();
    for _ in 0..MAX_KILLS {
        let leader = scene.cluster.wait_leader();
        if leader == 0 || !scene.cluster.stores[0].is_running() {
            break;
        }
        scene.cluster.stores[leader].kill();
        eventually("another store leads", || scene.cluster.leader().filter(|now| *now != leader));
        scene.cluster.stores[leader].start();
        pause(Duration::from_millis(500));
    }
    let leads = scene.cluster.leader() == Some(0);
    scene.cluster.allocs[0].set_config(&skewed);
    scene.cluster.allocs[0].restart();
    pause(JOIN);
    let owned = scene.cluster.sections_of(0).len();
    println!("  the store with the long wait leads: {leads}; the allocator with the long lease owns {owned} sections");
    // The next leader has the usual wait, and does not receive the renewals of the allocator, but callers reach the
    // allocator.
    scene.cluster.stores[0].kill();
    let cluster = &scene.cluster;
    cluster.stores.iter().for_each(|store| cluster.net.cut(&store.host, &cluster.allocs[0].host));
    pause(CUT);
    scene.load.wait_served();
    scene.cluster.net.heal();
    let usual = scene.cluster.settings();
    for node in [&mut scene.cluster.stores[0], &mut scene.cluster.allocs[0]] {
        node.set_config(&usual);
        node.restart();
    }
    scene.end("settings that differ");
}
